//! An idle proxy is a no-op: the same bytes sent to the same server give the same bytes, with it and
//! without it.

use std::io::{Read, Write};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use super::*;

fn args(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|arg| arg.as_bytes().to_vec()).collect()
}

fn command(args: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_command(args, &mut bytes);
    bytes
}

const FIXED: &[&str] = &[
    "INCR n",
    "GET n",
    "DEL n",
    "GET none",
    "LPUSH l a",
    "LRANGE l 0 -1",
    "INCR l",
    "HSET h f v",
    "HGETALL h",
    "ZADD z 1.5 m",
    "ZRANGE z 0 -1 WITHSCORES",
    "ZSCORE z m",
    "MGET n l none",
    "PING",
    "PING text",
    "ECHO text",
    "CLIENT SETNAME me",
    "CLIENT GETNAME",
    "CLIENT REPLY SKIP",
    "CLIENT REPLY OFF",
    "CLIENT REPLY ON",
    "SELECT 1",
    "SELECT 99",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH n",
    "RESET",
    "SUBSCRIBE a b",
    "UNSUBSCRIBE",
    "PSUBSCRIBE a*",
    "PUBLISH a hello",
    "COMMAND COUNT",
    "GET",
    "NOTHING x y",
    "OBJECT ENCODING n",
    "BLPOP l 0.01",
    "COMMAND INFO get set",
];

const SCRIPTS: &[&str] = &[
    "return 1",
    "return {1, {2, 'a'}, false, 'b\\r\\n'}",
    "return redis.error_reply('MY error')",
    "return redis.status_reply('FINE')",
    "return redis.call('INCR', KEYS[1])",
    "redis.call('INCR', KEYS[1]); return redis.call('NOTHING')",
    "error('x')",
    "return string.rep('x', 100000)",
    "redis.setresp(3); return redis.call('HGETALL', 'h')",
    "return {double=1.5}",
    "redis.setresp(3); return {map={a=1}}",
    "return {set={a=true}}",
    "return {big_number='12345678901234567890'}",
    "return {verbatim_string={format='txt', string='hi'}}",
    "this is no Lua",
];

fn binary() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => vec(any::<u8>(), 0..200),
        1 => Just(b"\r\n$-1\r\n*2\r\n".to_vec()),
        1 => (1usize..300_000, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
    ]
}

fn step() -> impl Strategy<Value = Vec<u8>> {
    let keys = || select(&["n", "l", "h", "z", "s"][..]);
    let set = (keys(), binary()).prop_map(|(key, value)| command(&[b"SET".to_vec(), key.into(), value]));
    let append =
        (keys(), binary()).prop_map(|(key, value)| command(&[b"APPEND".to_vec(), key.into(), value]));
    let eval = (select(SCRIPTS), keys())
        .prop_map(|(script, key)| command(&[b"EVAL".to_vec(), script.into(), b"1".to_vec(), key.into()]));
    let inline = select(&["INCR n\r\n", "ECHO \"a\\x00b\"\n", "\r\n", "*0\r\n", "GET 'n'  \r\n"][..]);
    prop_oneof![
        12 => select(FIXED).prop_map(|line| command(&args(line))),
        3 => set,
        2 => append,
        4 => eval,
        2 => keys().prop_map(|key| command(&[b"GET".to_vec(), key.into()])),
        1 => vec(binary(), 1..4).prop_map(|args| command(&args)),
        1 => inline.prop_map(|line| line.as_bytes().to_vec()),
    ]
}

/// How it ends: in order, or with bytes that a server hangs up on.
fn ending() -> impl Strategy<Value = Vec<u8>> {
    let garbage = ["*1\r\n:1\r\n", "*-1\r\n*x\r\n", "*1\r\n$-5\r\n", "GET \"a\r\n", "*1\r\n$9999999999\r\n"];
    prop_oneof![
        6 => Just(command(&args("QUIT"))),
        1 => select(garbage.to_vec()).prop_map(|garbage| garbage.as_bytes().to_vec()),
    ]
}

/// Sends the session in pieces and hears it to its end. RESP3 begins with a HELLO, whose reply holds the
/// number of the connection and is left out.
///
/// RESET comes before the ending: a server that was told not to reply has no reply after which to hang up.
/// And the ending comes when all else was heard: a server that hangs up with something unread resets.
fn session(
    address: std::net::SocketAddr,
    resp3: bool,
    steps: &[u8],
    cuts: &[usize],
    ending: &[u8],
) -> Vec<u8> {
    const LAST: &str = "the last of the session";
    let mut caller = Caller::connect(address);
    if resp3 {
        assert!(matches!(caller.ask("HELLO 3"), Frame::Map(_)));
    }
    let last = command(&[b"ECHO".to_vec(), LAST.into()]);
    let bytes = [steps, &command(&args("RESET")), &last].concat();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    let mut hearing = caller.stream.try_clone().unwrap();
    let heard = std::thread::spawn(move || {
        let (mut heard, mut piece) = (Vec::new(), vec![0; 1 << 16]);
        while !heard.ends_with(format!("{LAST}\r\n").as_bytes()) {
            let read = hearing.read(&mut piece);
            match read.unwrap_or_else(|error| panic!("{error} after {}", heard.escape_ascii())) {
                0 => panic!("closed too early: {}", heard.escape_ascii()),
                n => heard.extend_from_slice(&piece[..n]),
            }
        }
        heard
    });
    for piece in cuts.windows(2) {
        caller.stream.write_all(&bytes[piece[0]..piece[1]]).unwrap();
    }
    let mut heard = heard.join().unwrap();
    caller.stream.write_all(ending).unwrap();
    caller.stream.read_to_end(&mut heard).unwrap();
    heard
}

#[tokio::test]
async fn an_idle_proxy_changes_no_byte() {
    let Some(scene) = Scene::start("wire-noop").await else { return };
    let (direct, proxied) = (scene.ground.address, scene.proxy.address());
    let admin = std::cell::RefCell::new(scene.direct);
    let given = (any::<bool>(), vec(step(), 0..60), ending(), vec(any::<usize>(), 0..20));
    // A session that stalls takes a minute to fail: few tries to make it smaller.
    let config = Config { cases: 200, failure_persistence: None, max_shrink_iters: 8, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let heard_bytes = std::cell::Cell::new(0);
    runner
        .run(&given, |(resp3, steps, ending, cuts)| {
            let bytes = steps.concat();
            let run = |address| {
                for command in ["FLUSHALL", "SCRIPT FLUSH"] {
                    assert_eq!(admin.borrow_mut().ask(command), ok());
                }
                session(address, resp3, &bytes, &cuts, &ending)
            };
            let (without, with) = (run(direct), run(proxied));
            heard_bytes.set(heard_bytes.get() + without.len());
            prop_assert!(
                without == with,
                "{} {}\n\nwithout:\n{}\n\nwith:\n{}",
                bytes.escape_ascii(),
                ending.escape_ascii(),
                without.escape_ascii(),
                with.escape_ascii()
            );
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(heard_bytes.get() > 100_000, "only {} bytes were compared", heard_bytes.get());
    drop(scene.proxy);
    scene.ground.end().await;
}

/// What others publish, in both protocols, and what MONITOR tells.
#[tokio::test]
async fn messages_come_through_as_they_are() {
    let Some(mut scene) = Scene::start("wire-noop-pubsub").await else { return };
    let mut heard = Vec::new();
    for hello in ["HELLO 2", "HELLO 3"] {
        for address in [scene.ground.address, scene.proxy.address()] {
            let mut caller = Caller::connect(address);
            caller.ask(hello);
            let mut frames = vec![caller.ask("SUBSCRIBE news")];
            for n in 0..100 {
                let text = format!("PUBLISH news {n}{}", "x".repeat(n * 100));
                assert_eq!(scene.direct.ask(&text), int(1));
                frames.push(caller.hear());
            }
            frames.push(caller.ask("PING"));
            frames.push(caller.ask("UNSUBSCRIBE"));
            frames.push(caller.ask("INCR n"));
            frames.pop();
            heard.push(frames);
        }
    }
    assert!(heard[0] == heard[1] && heard[2] == heard[3] && heard[0] != heard[2]);
    let mut monitor = scene.caller();
    assert_eq!(monitor.ask("MONITOR"), ok());
    scene.direct.ask("INCR watched");
    let Frame::Simple(line) = monitor.hear() else { panic!("no line") };
    assert!(String::from_utf8_lossy(&line).ends_with("\"INCR\" \"watched\""));
    scene.end().await;
}

/// A giant pipeline whose caller reads nothing until all of it is sent.
#[tokio::test]
async fn a_pipeline_larger_than_every_buffer_does_not_stall() {
    let Some(mut scene) = Scene::start("wire-noop-pipeline").await else { return };
    let value = "v".repeat(1000);
    scene.direct.ask(&format!("SET v {value}"));
    let mut caller = scene.caller();
    let mut sending = caller.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let bytes = command(&args("GET v")).repeat(50_000);
        sending.write_all(&bytes).unwrap();
    });
    sender.join().unwrap();
    (0..50_000).for_each(|_| assert_eq!(caller.hear(), Frame::Bulk(value.clone().into_bytes())));
    scene.end().await;
}
