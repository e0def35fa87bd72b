//! Faults of the link as a whole, and how either side's end is passed on.

use std::net::Shutdown;
use std::time::Duration;

use rl_lab::wire::proxy::{Action, CommandId, Effects, Interference, Latency, Match, Options};

use super::*;

#[tokio::test]
async fn a_black_hole_swallows_both_directions_and_closes_nothing() {
    let Some(mut scene) = Scene::start("wire-black-hole").await else { return };
    let mut caller = scene.caller();
    assert_eq!(caller.ask("INCR x"), int(1));
    // On its way back when the hole opens: applied, and never heard of.
    caller.send("BLPOP list 0");
    let blocked = || scene.proxy.transcript(1).get(1).map(drop);
    crate::support::until("the command at the proxy", blocked).await;
    let waiting = |direct: &mut Caller| match direct.ask("CLIENT LIST") {
        Frame::Bulk(text) => String::from_utf8_lossy(&text).contains("cmd=blpop").then_some(()),
        other => panic!("{other:?}"),
    };
    crate::support::until("the command at the store", || waiting(&mut scene.direct)).await;
    scene.proxy.black_hole(true);
    assert_eq!(scene.direct.ask("LPUSH list a"), int(1));
    scene.proxy.wait_answered(CommandId { connection: 1, seq: 2 }).await;
    assert_eq!(scene.direct.ask("LLEN list"), int(0));
    // Sent into the hole, by an old connection and by a new one.
    let mut fresh = scene.caller();
    caller.send("INCR x");
    fresh.send("INCR x");
    let swallowed = || (scene.proxy.transcripts().len() == 4).then_some(());
    crate::support::until("both commands", swallowed).await;
    assert_eq!(scene.count("x"), 1);
    let entries = scene.proxy.transcripts();
    assert!(entries[1..].iter().all(|entry| entry.interference == Interference::BlackHole), "{entries:?}");
    let effects: Vec<_> = entries.iter().map(|entry| entry.effects).collect();
    assert_eq!(effects, [1, 1, 0, 0].map(Effects::Times));
    scene.proxy.black_hole(false);
    for mut caller in [caller, fresh] {
        caller.heard_nothing();
    }
    scene.end().await;
}

#[tokio::test]
async fn the_end_of_a_stream_does_not_come_through_a_black_hole() {
    let Some(mut scene) = Scene::start("wire-black-hole-end").await else { return };
    let mut caller = scene.caller();
    caller.ask("CLIENT SETNAME leaves");
    scene.proxy.black_hole(true);
    drop(caller);
    // Another connection through the same proxy is read later than the end of the first.
    let named = |direct: &mut Caller| match direct.ask("CLIENT LIST") {
        Frame::Bulk(text) => String::from_utf8_lossy(&text).contains("name=leaves"),
        other => panic!("{other:?}"),
    };
    let mut other = scene.caller();
    other.send("INCR x");
    crate::support::until("the other", || (scene.proxy.transcripts().len() == 2).then_some(())).await;
    assert!(named(&mut scene.direct), "the store has not heard of it");
    scene.proxy.black_hole(false);
    crate::support::until("the end", || (!named(&mut scene.direct)).then_some(())).await;
    scene.end().await;
}

#[tokio::test]
async fn refused_connections_are_new_ones_and_the_port_stays_the_proxys() {
    let Some(scene) = Scene::start("wire-refuse").await else { return };
    let mut caller = scene.caller();
    caller.ask("PING");
    for n in 1..=50 {
        scene.proxy.refuse(true).unwrap();
        let error = TcpStream::connect(scene.proxy.address()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        assert_eq!(caller.ask("INCR x"), int(2 * n - 1));
        scene.proxy.refuse(false).unwrap();
        assert_eq!(scene.caller().ask("INCR x"), int(2 * n));
    }
    scene.end().await;
}

#[tokio::test]
async fn cut_all_leaves_no_connection_and_takes_new_ones() {
    let Some(mut scene) = Scene::start("wire-cut-all").await else { return };
    let _rule = scene.proxy.install(Match::name("INCR").key("held").then(Action::Hold));
    let mut callers: Vec<Caller> = (0..5).map(|_| scene.caller()).collect();
    callers.iter_mut().for_each(|caller| drop(caller.ask("INCR x")));
    callers[0].send("INCR held");
    _rule.wait_held(1).await;
    assert_eq!(scene.proxy.cut_all().unwrap(), 5);
    assert_eq!(scene.proxy.connections(), Vec::<u64>::new());
    callers.iter_mut().for_each(Caller::is_cut);
    assert_eq!((_rule.held(), _rule.release()), (vec![], 0));
    assert_eq!(scene.caller().ask("INCR x"), int(6));
    assert_eq!(scene.count("held"), 0);
    scene.end().await;
}

#[tokio::test]
async fn latency_delays_a_pipeline_once() {
    let Some(scene) = Scene::start("wire-latency").await else { return };
    let least = Duration::from_millis(30);
    let mut caller = scene.caller();
    caller.ask("PING");
    scene.proxy.latency(Some(Latency { least, jitter: Duration::from_millis(5), seed: 1 }));
    let clock = Options::before(scene.ground.address).clock;
    let pipeline = ["INCR x"; 100];
    caller.send_all(&pipeline);
    (1..=100).for_each(|n| assert_eq!(caller.hear(), int(n)));
    let took = u128::from(clock());
    assert!(took >= least.as_nanos(), "never earlier");
    // One by one they would take three seconds; this is no measurement, but tells the two apart.
    assert!(took < 20 * least.as_nanos(), "{took} ns");
    scene.proxy.latency(None);
    assert_eq!(caller.ask("INCR x"), int(101));
    scene.end().await;
}

#[tokio::test]
async fn what_was_sent_before_the_end_of_the_stream_is_applied_and_answered() {
    let Some(mut scene) = Scene::start("wire-half-close").await else { return };
    let mut caller = scene.caller();
    caller.send_all(&["INCR x"; 100]);
    caller.stream.shutdown(Shutdown::Write).unwrap();
    let mut heard = 0;
    while caller.next().is_some() {
        heard += 1;
    }
    assert_eq!((heard, scene.count("x")), (100, 100));
    scene.end().await;
}

/// Leaves with a reset instead of an end.
fn reset(stream: TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = libc::socklen_t::try_from(size_of_val(&linger)).unwrap();
    let socket = std::os::fd::AsRawFd::as_raw_fd(&stream);
    // SAFETY: the pointer is to a linger of this frame, and its size is given.
    let set = unsafe {
        libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), size)
    };
    assert_eq!(set, 0);
}

/// Seen from the socket that takes the place of the store: a server does not tell which of them it was.
#[test]
fn a_reset_is_passed_on_as_a_reset_and_an_end_as_an_end() {
    let store = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start(Options::before(store.local_addr().unwrap())).unwrap();
    let pair = || (Caller::connect(proxy.address()).stream, store.accept().unwrap().0);
    let seen = |mut stream: TcpStream| stream.read(&mut [0; 16]).map_err(|error| error.kind());
    let was_reset = Err(std::io::ErrorKind::ConnectionReset);
    for _ in 0..20 {
        let (caller, server) = pair();
        drop(caller);
        assert_eq!(seen(server), Ok(0));
        let (caller, server) = pair();
        reset(caller);
        assert_eq!(seen(server), was_reset);
        let (caller, server) = pair();
        drop(server);
        assert_eq!(seen(caller), Ok(0));
        let (caller, server) = pair();
        reset(server);
        assert_eq!(seen(caller), was_reset);
    }
}

#[tokio::test]
async fn what_a_store_closes_is_closed_for_the_caller() {
    let Some(mut scene) = Scene::start("wire-store-closes").await else { return };
    let mut caller = scene.caller();
    let Frame::Int(id) = caller.ask("CLIENT ID") else { panic!("no id") };
    assert_eq!(scene.direct.ask(&format!("CLIENT KILL ID {id}")), int(1));
    caller.is_cut();
    scene.end().await;
}

#[tokio::test]
async fn a_server_that_is_gone_closes_what_is_accepted() {
    let Some(scene) = Scene::start("wire-no-server").await else { return };
    let Scene { ground, proxy, direct } = scene;
    drop(direct);
    ground.end().await;
    Caller::connect(proxy.address()).is_cut();
}

#[tokio::test]
async fn a_dropped_proxy_has_closed_everything() {
    let Some(scene) = Scene::start("wire-dropped").await else { return };
    let rule = scene.proxy.install(Match::name("INCR").then(Action::Hold));
    let (mut idle, mut held) = (scene.caller(), scene.caller());
    idle.ask("PING");
    held.send("INCR x");
    rule.wait_held(1).await;
    let Scene { ground, proxy, mut direct } = scene;
    let address = proxy.address();
    drop(proxy);
    idle.is_cut();
    held.is_cut();
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(direct.ask("GET x"), nil());
    // A handle that outlives its proxy does nothing.
    assert_eq!((rule.held(), rule.release()), (vec![], 0));
    rule.remove();
    ground.end().await;
}
