//! Which command a rule strikes: numbers, names, keys, connections, how often; and from when on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rl_lab::clients::{self, Access};
use rl_lab::ports::route::Configured;
use rl_lab::ports::store::Command;
use rl_lab::wire::proxy::{Action, CommandId, Effects, Kept, Match};

use super::*;

#[tokio::test]
async fn no_command_sent_after_an_install_or_a_removal_escapes_it() {
    let Some(mut scene) = Scene::start("wire-acknowledged").await else { return };
    let stop = Arc::new(AtomicBool::new(false));
    let others = [scene.caller(), scene.caller()].map(|mut other| {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                other.ask("INCR others");
            }
        })
    });
    let mut caller = scene.caller();
    for n in 1..=1000 {
        let rule = scene.proxy.install(Match::name("INCR").key("x").then(Action::Drop));
        caller.send("INCR x");
        rule.wait_hit(1).await;
        rule.remove();
        // Its own number, and no reply to x before it.
        assert_eq!(caller.ask("INCR y"), int(n));
    }
    stop.store(true, Ordering::Relaxed);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!((scene.count("x"), scene.count("y")), (0, 1000));
    assert!(scene.count("others") > 0);
    scene.end().await;
}

#[tokio::test]
async fn the_nth_command_is_the_nth_without_the_handshake() {
    let Some(mut scene) = Scene::start("wire-nth").await else { return };
    let rule = scene.proxy.install(Match::nth(2).then(Action::CutAfter));
    for _ in 0..2 {
        let mut caller = scene.caller();
        for handshake in ["PING", "CLIENT SETNAME a", "SELECT 0", "HELLO 2", "COMMAND COUNT"] {
            caller.ask(handshake);
        }
        caller.send_all(&["INCR x", "INCR y", "INCR z"]);
        caller.hear();
        caller.is_cut();
    }
    assert_eq!((scene.count("x"), scene.count("y"), scene.count("z")), (2, 2, 0));
    assert_eq!(rule.hits(), 2);
    scene.end().await;
}

#[tokio::test]
async fn rules_match_by_connection_by_number_of_times_and_by_pattern() {
    let Some(mut scene) = Scene::start("wire-match").await else { return };
    let (mut first, mut second) = (scene.caller(), scene.caller());
    // Accepted in the order in which they connected.
    assert_eq!((first.ask("PING"), second.ask("PING")), (first.ask("PING"), second.ask("PING")));
    assert_eq!(scene.proxy.connections(), [1, 2]);
    let second_alone = scene.proxy.install(Match::name("incr").on(2).once().then(Action::Drop));
    let evals = scene.proxy.install(Match::any().key("rl:*:42").then(Action::Duplicate));
    let pings = scene.proxy.install(Match::name("client setname").then(Action::Drop));
    assert_eq!(first.ask("INCR x"), int(1));
    second.send("INCR x");
    second.heard_nothing();
    assert_eq!(second.ask("INCR x"), int(2));
    assert_eq!(second_alone.hits(), 1);
    let script = "return(redis.call('INCR',KEYS[2]))";
    assert_eq!(first.ask(&format!("EVAL {script} 2 a rl:user:42 1")), int(1));
    assert_eq!(first.ask(&format!("EVAL {script} 2 a rl:user:43 rl:user:42")), int(1));
    assert_eq!((scene.count("rl:user:42"), scene.count("rl:user:43")), (2, 1));
    assert_eq!(evals.hits(), 1);
    first.send("CLIENT SETNAME a");
    first.heard_nothing();
    assert_eq!(first.ask("CLIENT GETNAME"), nil());
    assert_eq!(pings.hits(), 1);
    scene.end().await;
}

#[tokio::test]
async fn redis_rs_connects_through_the_proxy_and_counts_from_its_own_first_command() {
    let Some(mut scene) = Scene::start("wire-redis-rs").await else { return };
    let _rule = scene.proxy.install(Match::nth(3).then(Action::Duplicate));
    let route = Configured::at(scene.proxy.address());
    let access = Access { route, seeds: Vec::new(), connections: 1, hook: None, user: None, dial: None };
    let store = (clients::find(clients::DEFAULT).unwrap().connect)(access);
    for n in [1, 2, 3, 5] {
        assert_eq!(store.command(Command::new("INCR").arg("x")).await.unwrap().int(), Some(n));
    }
    let client = redis::Client::open(format!("redis://{}/?protocol=resp3", scene.proxy.address())).unwrap();
    let mut resp3 = client.get_multiplexed_async_connection().await.unwrap();
    for n in [1, 2, 3, 5] {
        let got: i64 = redis::cmd("INCR").arg("y").query_async(&mut resp3).await.unwrap();
        assert_eq!(got, n);
    }
    assert_eq!((scene.count("x"), scene.count("y")), (5, 5));
    scene.end().await;
}

#[tokio::test]
async fn a_transcript_says_what_was_said_and_what_came_between() {
    let Some(scene) = Scene::start("wire-transcript").await else { return };
    let _rule = scene.proxy.install(Match::name("INCR").key("cut").then(Action::CutAfter));
    let mut caller = scene.caller();
    for command in ["PING", "INCR rl-lab:x", "LPUSH rl-lab:x a", "GET none"] {
        caller.ask(command);
    }
    caller.send("BLPOP never 0");
    let mut second = scene.caller();
    second.send("INCR cut");
    second.is_cut();
    let lines: Vec<String> = scene.proxy.transcripts().iter().map(ToString::to_string).collect();
    let expected = "1  PING  → PONG
1  INCR rl-lab:x  → (integer) 1
1  LPUSH rl-lab:x a  → (error) WRONGTYPE Operation against a key holding the wrong kind of value
1  GET none  → (nil)
1  BLPOP never 0  → no answer
2  INCR cut  → (integer) 1  [cut before the reply]";
    assert_eq!(lines.join("\n"), expected);
    let ns: Vec<_> = scene.proxy.transcript(1).iter().map(|entry| entry.n).collect();
    assert_eq!(ns, [None, Some(1), Some(2), Some(3), Some(4)]);
    let effects = |seq| scene.proxy.effects(CommandId { connection: 1, seq });
    let times = Effects::Times;
    assert_eq!([effects(2), effects(3), effects(4)], [Some(times(1)), Some(times(0)), Some(times(1))]);
    assert_eq!([effects(5), effects(6)], [Some(Effects::Unknown), None]);
    scene.end().await;
}

#[tokio::test]
async fn a_transcript_keeps_the_latest_and_no_more_than_it_was_told_to() {
    let Some(ground) = Ground::start("wire-kept").await else { return };
    let mut options = Options::before(ground.address);
    options.kept = Kept { commands: 3, bytes: 8, closed: 4 };
    let proxy = Proxy::start(options).unwrap();
    for _ in 0..40 {
        let mut caller = Caller::connect(proxy.address());
        for command in ["SET k 0123456789", "GET k", "INCR n", "GET n"] {
            caller.ask(command);
        }
    }
    let last = proxy.transcript(40);
    assert_eq!(last.iter().map(|entry| entry.id.seq).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(last[0].to_string(), "40  GET k  → (17 bytes)");
    assert!(proxy.transcripts().len() <= 3 * 40 && proxy.transcript(1).is_empty());
    let mut caller = Caller::connect(proxy.address());
    caller.ask("SET k 0123456789");
    assert_eq!(proxy.transcript(41)[0].args[2], "01234567…".as_bytes());
    drop(proxy);
    ground.end().await;
}
