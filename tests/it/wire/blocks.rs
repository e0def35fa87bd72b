//! MULTI … EXEC: a block is one step.

use rl_lab::wire::proxy::{Action, CommandId, Effects, Match};

use super::*;

const BLOCK: [&str; 4] = ["MULTI", "INCR x", "INCR y", "EXEC"];

impl Scene {
    fn block_effects(&self, connection: u64) -> Vec<Effects> {
        let effects = |seq| self.proxy.effects(CommandId { connection, seq }).unwrap();
        (2..=4).map(effects).collect()
    }
}

fn queued() -> Frame {
    Frame::Simple(b"QUEUED".to_vec())
}

#[tokio::test]
async fn a_block_that_no_rule_is_about_passes_and_its_effects_are_those_of_exec() {
    let Some(mut scene) = Scene::start("wire-block").await else { return };
    // Queued commands are no steps: a rule for their name leaves them alone.
    let rule = scene.proxy.install(Match::name("INCR").then(Action::Drop));
    let mut caller = scene.caller();
    caller.send_all(&BLOCK);
    let heard = [caller.hear(), caller.hear(), caller.hear(), caller.hear()];
    assert_eq!(heard, [ok(), queued(), queued(), Frame::Array(vec![int(1), int(1)])]);
    assert_eq!(rule.hits(), 0);
    assert_eq!(scene.block_effects(1), [Effects::Times(1); 3]);
    caller.send("INCR x");
    caller.heard_nothing();
    assert_eq!((rule.hits(), scene.count("x")), (1, 1));
    scene.end().await;
}

#[tokio::test]
async fn effects_of_a_block_that_was_not_applied_are_none() {
    let Some(mut scene) = Scene::start("wire-block-effects").await else { return };
    let none = [Effects::Times(0); 2];
    // Discarded.
    let mut caller = scene.caller();
    caller.send_all(&["MULTI", "INCR x", "INCR y", "DISCARD", "ECHO end"]);
    (0..5).for_each(|_| drop(caller.hear()));
    assert_eq!(scene.block_effects(1)[..2], none);
    // Refused, as one of its commands is none.
    let mut caller = scene.caller();
    caller.send_all(&["MULTI", "INCR x", "NONE", "EXEC"]);
    (0..4).for_each(|_| drop(caller.hear()));
    assert_eq!(scene.block_effects(2), [Effects::Times(0); 3]);
    // A watched key was touched.
    let mut caller = scene.caller();
    caller.ask("WATCH w");
    scene.direct.ask("INCR w");
    caller.send_all(&["MULTI", "INCR x", "EXEC"]);
    (0..3).for_each(|_| drop(caller.hear()));
    assert_eq!(scene.block_effects(3)[1..], none);
    // Closed before EXEC.
    let mut caller = scene.caller();
    caller.send_all(&["MULTI", "INCR x", "INCR y", "QUIT"]);
    while caller.next().is_some() {}
    let closed = || (!scene.proxy.connections().contains(&4)).then_some(());
    crate::support::until("the end of the connection", closed).await;
    assert_eq!(scene.block_effects(4)[..2], none);
    // One of two was refused when it ran.
    scene.direct.ask("LPUSH list a");
    let mut caller = scene.caller();
    caller.send_all(&["MULTI", "INCR list", "INCR y", "EXEC"]);
    (0..4).for_each(|_| drop(caller.hear()));
    assert_eq!(scene.block_effects(5), [0, 1, 1].map(Effects::Times));
    assert_eq!((scene.count("x"), scene.count("y")), (0, 1));
    scene.end().await;
}

#[tokio::test]
async fn rules_for_exec_strike_between_queueing_and_applying() {
    let Some(mut scene) = Scene::start("wire-exec").await else { return };
    for (action, applied) in [(Action::CutBefore, 0), (Action::CutAfter, 1), (Action::LoseReply, 1)] {
        scene.direct.ask("FLUSHALL");
        let rule = scene.proxy.install(Match::name("EXEC").key("y").then(action));
        let mut caller = scene.caller();
        caller.send_all(&["MULTI", "INCR z", "EXEC"]);
        (0..3).for_each(|_| drop(caller.hear()));
        assert_eq!((rule.hits(), scene.count("z")), (0, 1), "another key's block");
        let mut caller = scene.caller();
        caller.send_all(&BLOCK);
        assert_eq!([caller.hear(), caller.hear(), caller.hear()], [ok(), queued(), queued()]);
        if action == Action::LoseReply {
            caller.heard_nothing()
        } else {
            caller.is_cut()
        }
        assert_eq!((scene.count("x"), scene.count("y")), (applied, applied), "{action:?}");
    }
    scene.end().await;
}

#[tokio::test]
async fn a_rule_named_multi_is_about_the_whole_block() {
    let Some(mut scene) = Scene::start("wire-multi").await else { return };
    for (action, applied, heard) in [
        (Action::CutBefore, 0, 0),
        (Action::Drop, 0, 0),
        (Action::CutAfter, 1, 3),
        (Action::LoseReply, 1, 3),
        (Action::Duplicate, 2, 4),
        (Action::Pass, 1, 4),
    ] {
        scene.direct.ask("FLUSHALL");
        let rule = scene.proxy.install(Match::name("MULTI").then(action));
        let mut caller = scene.caller();
        assert_eq!(caller.ask("INCR control"), int(1));
        caller.send_all(&BLOCK);
        (0..heard).for_each(|_| drop(caller.hear()));
        if matches!(action, Action::CutBefore | Action::CutAfter) {
            caller.is_cut();
        } else {
            caller.heard_nothing();
        }
        assert_eq!((scene.count("x"), scene.count("y")), (applied, applied), "{action:?}");
        let connection = *scene.proxy.transcripts().iter().map(|e| e.id.connection).max().as_ref().unwrap();
        let effects = |seq| scene.proxy.effects(CommandId { connection, seq }).unwrap();
        if action != Action::CutBefore {
            let times = Effects::Times(u8::try_from(applied).unwrap());
            assert_eq!([effects(3), effects(4), effects(5)], [times; 3], "{action:?}");
        }
        assert_eq!(rule.hits(), 1);
    }
    scene.end().await;
}

#[tokio::test]
async fn a_block_is_held_before_its_first_command() {
    let Some(mut scene) = Scene::start("wire-multi-hold").await else { return };
    let rule = scene.proxy.install(Match::name("MULTI").then(Action::Hold));
    let mut caller = scene.caller();
    caller.send_all(&BLOCK);
    rule.wait_held(1).await;
    assert_eq!(scene.count("x"), 0);
    rule.release();
    (0..4).for_each(|_| drop(caller.hear()));
    assert_eq!(scene.count("x"), 1);
    scene.end().await;
}

#[tokio::test]
async fn a_number_strikes_inside_a_block_too() {
    let Some(mut scene) = Scene::start("wire-multi-nth").await else { return };
    let rule = scene.proxy.install(Match::nth(3).then(Action::CutAfter));
    let mut caller = scene.caller();
    caller.send_all(&BLOCK);
    assert_eq!([caller.hear(), caller.hear()], [ok(), queued()]);
    caller.is_cut();
    assert_eq!((rule.hits(), scene.count("x")), (1, 0));
    scene.end().await;
}
