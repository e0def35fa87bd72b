//! The table of keys against what a server says of its own commands.

use rl_lab::wire::keys::{keys_of, known};

use super::*;

/// A call of each kind of command, with every place for a key filled.
const CALLS: &[&str] = &[
    "EVAL s 2 a b c",
    "EVALSHA s 0 a",
    "EVAL_RO s 1 a b",
    "EVALSHA_RO s 1 a b",
    "FCALL f 2 a b c",
    "FCALL_RO f 1 a b",
    "MGET a b c",
    "MSET a 1 b 2",
    "MSETNX a 1 b 2",
    "DEL a b",
    "UNLINK a b",
    "EXISTS a b",
    "TOUCH a b",
    "WATCH a b",
    "BITFIELD a GET u8 0",
    "BITOP AND d a b",
    "BLPOP a b 0",
    "BZPOPMIN a b 0",
    "BLMPOP 0 2 a b LEFT",
    "BZMPOP 0 2 a b MIN",
    "LMPOP 2 a b LEFT",
    "ZMPOP 2 a b MIN",
    "SINTERCARD 2 a b LIMIT 1",
    "ZINTERCARD 2 a b LIMIT 1",
    "ZDIFF 2 a b",
    "ZUNION 2 a b WITHSCORES",
    "ZUNIONSTORE d 2 a b WEIGHTS 1 2",
    "ZINTERSTORE d 2 a b",
    "ZDIFFSTORE d 2 a b",
    "SDIFFSTORE d a b",
    "SORT a BY w GET g STORE d",
    "SORT a",
    "SORT_RO a BY w",
    "GEORADIUS a 0 0 1 m STORE d",
    "GEORADIUSBYMEMBER a m 1 m",
    "GEOSEARCHSTORE d a FROMMEMBER m BYRADIUS 1 m",
    "XREAD COUNT 1 STREAMS a b 0 0",
    "XREADGROUP GROUP g c STREAMS a b > >",
    "XGROUP CREATE a g 0",
    "XINFO STREAM a",
    "OBJECT ENCODING a",
    "MEMORY USAGE a",
    "COPY a b",
    "RENAME a b",
    "LCS a b",
    "LMOVE a b LEFT RIGHT",
    "RPOPLPUSH a b",
    "SMOVE a b m",
    "ZRANGESTORE d a 0 -1",
    "MIGRATE h 1 a 0 9",
    "PFCOUNT a b",
    "PFMERGE d a b",
];

fn args(call: &str) -> Vec<Vec<u8>> {
    call.split(' ').map(|arg| arg.as_bytes().to_vec()).collect()
}

/// What `COMMAND GETKEYS` says. Refusals are no keys: commands without any, and those it does not know.
fn server_says(direct: &mut Caller, call: &str) -> Option<Vec<Vec<u8>>> {
    match direct.ask(&format!("COMMAND GETKEYS {call}")) {
        Frame::Array(keys) => Some(
            keys.into_iter()
                .map(|key| if let Frame::Bulk(key) = key { key } else { panic!("{key:?}") })
                .collect(),
        ),
        Frame::Error(text) => {
            let text = String::from_utf8(text).unwrap();
            (!text.contains("Invalid command specified")).then(Vec::new)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn keys_are_where_the_server_says_they_are() {
    let Some(mut scene) = Scene::start("wire-keys").await else { return };
    let mut compared = 0;
    // Commands of one key or of keys alone are called like this; the others by the list.
    let simple = known().filter(|name| !CALLS.iter().any(|call| call.starts_with(&name.replace('|', " "))));
    let simple: Vec<String> = simple.map(|name| format!("{} a 1 1 1 1", name.replace('|', " "))).collect();
    for call in CALLS.iter().copied().chain(simple.iter().map(String::as_str)) {
        for cut in [call.to_owned(), call.rsplit_once(' ').unwrap().0.to_owned()] {
            let Some(expected) = server_says(&mut scene.direct, &cut) else { continue };
            // A refused call has the wrong number of arguments; the table does not count them.
            if expected.is_empty() && !cut.contains(" 0 ") {
                continue;
            }
            assert_eq!(keys_of(&args(&cut)), expected, "{cut}");
            compared += 1;
        }
    }
    assert!(compared > 150, "only {compared} calls were compared");
    scene.end().await;
}

/// Every command of the server that has keys is in the table, apart from channels and internals.
#[tokio::test]
async fn no_command_with_keys_is_missing() {
    let Some(mut scene) = Scene::start("wire-keys-known").await else { return };
    let Frame::Array(commands) = scene.direct.ask("COMMAND") else { panic!("no list of commands") };
    let mut seen = 0;
    for command in &commands {
        let Frame::Array(fields) = command else { panic!("{command:?}") };
        let (Frame::Bulk(name), Frame::Int(first)) = (&fields[0], &fields[3]) else { panic!("{fields:?}") };
        let name = String::from_utf8(name.to_ascii_uppercase()).unwrap();
        let channel_or_internal =
            ["SSUBSCRIBE", "SUNSUBSCRIBE", "SPUBLISH", "RESTORE-ASKING", "PFDEBUG"].contains(&name.as_str());
        if *first > 0 && !channel_or_internal {
            assert!(known().any(|k| k == name), "{name} has keys");
            seen += 1;
        }
    }
    assert!(seen > 150, "only {seen} commands have keys");
    scene.end().await;
}
