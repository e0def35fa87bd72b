//! Each action, by what the store was seen to apply and the caller to hear, beside a command that the
//! rule is not about.

use std::time::Duration;

use rl_lab::wire::proxy::{Action, CommandId, Effects, Match, Options};

use super::*;

/// The rule is about one key, and one command on it.
fn on_x(action: Action) -> rl_lab::wire::proxy::Rule {
    Match::name("INCR").key("x").then(action)
}

impl Scene {
    /// What the proxy knows of the n-th command of a connection without a handshake.
    fn effects(&self, connection: u64, seq: u64) -> Option<Effects> {
        self.proxy.effects(CommandId { connection, seq })
    }

    /// Another key on the same connection is untouched by the rule.
    fn control(&mut self, caller: &mut Caller) {
        let before = self.count("control");
        assert_eq!(caller.ask("INCR control"), int(before + 1));
        assert_eq!(self.count("control"), before + 1);
    }
}

#[tokio::test]
async fn pass_lets_through_and_keeps_later_rules_from_deciding() {
    let Some(mut scene) = Scene::start("wire-pass").await else { return };
    let pass = scene.proxy.install(on_x(Action::Pass));
    let drop = scene.proxy.install(Match::name("INCR").key("[xy]").then(Action::Drop));
    let mut caller = scene.caller();
    scene.control(&mut caller);
    assert_eq!(caller.ask("INCR x"), int(1));
    caller.send("INCR y");
    caller.heard_nothing();
    assert_eq!((scene.count("x"), scene.count("y")), (1, 0));
    assert_eq!((pass.hits(), drop.hits()), (1, 1));
    scene.end().await;
}

#[tokio::test]
async fn a_delayed_command_is_late_and_so_is_what_is_behind_it() {
    let Some(mut scene) = Scene::start("wire-delay").await else { return };
    let span = Duration::from_millis(80);
    let rule = scene.proxy.install(on_x(Action::Delay(span)));
    let mut caller = scene.caller();
    scene.control(&mut caller);
    assert_eq!(rule.hits(), 0);
    let clock = Options::before(scene.ground.address).clock;
    caller.send_all(&["INCR before", "INCR x", "INCR after"]);
    assert_eq!([caller.hear(), caller.hear(), caller.hear()], [int(1), int(1), int(1)]);
    assert!(u128::from(clock()) >= span.as_nanos(), "never earlier than that");
    assert_eq!(rule.hits(), 1);
    assert_eq!(scene.effects(1, 3), Some(Effects::Times(1)));
    scene.end().await;
}

#[tokio::test]
async fn a_held_command_waits_for_its_release_and_what_came_before_it_does_not() {
    let Some(mut scene) = Scene::start("wire-hold").await else { return };
    let rule = scene.proxy.install(on_x(Action::Hold));
    let (mut caller, mut other) = (scene.caller(), scene.caller());
    caller.send_all(&["INCR before", "INCR x", "INCR after"]);
    assert_eq!(caller.hear(), int(1));
    rule.wait_held(1).await;
    scene.control(&mut other);
    assert_eq!((scene.count("x"), scene.count("after")), (0, 0));
    assert_eq!(scene.effects(1, 2), Some(Effects::Times(0)));
    assert_eq!(rule.held()[0].args, [b"INCR".to_vec(), b"x".to_vec()]);
    assert_eq!(rule.release(), 1);
    assert_eq!([caller.hear(), caller.hear()], [int(1), int(1)]);
    assert_eq!((scene.count("x"), scene.count("after")), (1, 1));
    assert_eq!(rule.release(), 0);
    scene.end().await;
}

#[tokio::test]
async fn a_rule_that_is_removed_lets_go_what_it_holds() {
    let Some(mut scene) = Scene::start("wire-hold-removed").await else { return };
    let rule = scene.proxy.install(on_x(Action::Hold));
    let mut caller = scene.caller();
    caller.send("INCR x");
    rule.wait_held(1).await;
    assert_eq!(scene.count("x"), 0);
    rule.remove();
    assert_eq!(caller.hear(), int(1));
    assert_eq!(caller.ask("INCR x"), int(2));
    scene.end().await;
}

#[tokio::test]
async fn a_held_command_may_be_let_go_into_another_action() {
    let Some(mut scene) = Scene::start("wire-hold-then").await else { return };
    let rule = scene.proxy.install(on_x(Action::Hold));
    let mut callers: Vec<Caller> = (0..4).map(|_| scene.caller()).collect();
    let actions = [Action::Pass, Action::CutBefore, Action::CutAfter, Action::Duplicate];
    for (caller, n) in callers.iter_mut().zip(1..) {
        caller.send("INCR x");
        rule.wait_held(n).await;
    }
    for (action, connection) in actions.into_iter().zip(1..) {
        let released = rule.release_one(action).unwrap();
        assert_eq!(released.id, CommandId { connection, seq: 1 });
        scene.proxy.wait_answered(released.id).await;
    }
    assert_eq!(rule.release_one(Action::Pass), None);
    assert_eq!(callers[0].hear(), int(1));
    callers[1].is_cut();
    callers[2].is_cut();
    assert_eq!(callers[3].hear(), int(3));
    callers[3].heard_nothing();
    assert_eq!(scene.count("x"), 4);
    let effects: Vec<_> = (1..=4).map(|connection| scene.effects(connection, 1).unwrap()).collect();
    assert_eq!(effects, [1, 0, 1, 2].map(Effects::Times));
    scene.end().await;
}

#[tokio::test]
async fn a_dropped_command_is_neither_applied_nor_answered() {
    let Some(mut scene) = Scene::start("wire-drop").await else { return };
    let _rule = scene.proxy.install(on_x(Action::Drop));
    let mut caller = scene.caller();
    scene.control(&mut caller);
    caller.send("INCR x");
    caller.heard_nothing();
    assert_eq!(scene.count("x"), 0);
    assert_eq!(scene.effects(1, 2), Some(Effects::Times(0)));
    scene.end().await;
}

#[tokio::test]
async fn cut_before_answers_what_came_before_and_the_store_never_sees_the_rest() {
    let Some(mut scene) = Scene::start("wire-cut-before").await else { return };
    let _rule = scene.proxy.install(on_x(Action::CutBefore));
    let mut caller = scene.caller();
    scene.control(&mut caller);
    caller.send_all(&["INCR before", "INCR before", "INCR x", "INCR after"]);
    assert_eq!([caller.hear(), caller.hear()], [int(1), int(2)]);
    caller.is_cut();
    assert_eq!((scene.count("before"), scene.count("x"), scene.count("after")), (2, 0, 0));
    assert_eq!(scene.effects(1, 4), Some(Effects::Times(0)));
    // And at once where nothing came before.
    let mut caller = scene.caller();
    caller.send("INCR x");
    caller.is_cut();
    assert_eq!(scene.count("x"), 0);
    scene.end().await;
}

#[tokio::test]
async fn cut_after_applies_the_command_and_its_caller_never_hears_of_it() {
    let Some(mut scene) = Scene::start("wire-cut-after").await else { return };
    let _rule = scene.proxy.install(on_x(Action::CutAfter));
    let mut caller = scene.caller();
    scene.control(&mut caller);
    caller.send_all(&["INCR before", "INCR x", "INCR after"]);
    assert_eq!(caller.hear(), int(1));
    caller.is_cut();
    assert_eq!((scene.count("before"), scene.count("x"), scene.count("after")), (1, 1, 0));
    assert_eq!(scene.effects(1, 3), Some(Effects::Times(1)));
    scene.end().await;
}

#[tokio::test]
async fn a_lost_reply_is_of_an_applied_command_and_the_connection_stays() {
    let Some(mut scene) = Scene::start("wire-lose").await else { return };
    let _rule = scene.proxy.install(on_x(Action::LoseReply));
    let mut caller = scene.caller();
    scene.control(&mut caller);
    caller.send("INCR x");
    caller.heard_nothing();
    assert_eq!(scene.count("x"), 1);
    assert_eq!(scene.effects(1, 2), Some(Effects::Times(1)));
    scene.end().await;
}

#[tokio::test]
async fn a_duplicate_is_applied_twice_and_answered_once() {
    let Some(mut scene) = Scene::start("wire-duplicate").await else { return };
    let _rule = scene.proxy.install(on_x(Action::Duplicate));
    let mut caller = scene.caller();
    scene.control(&mut caller);
    assert_eq!(caller.ask("INCR x"), int(1));
    caller.heard_nothing();
    assert_eq!(scene.count("x"), 2);
    assert_eq!(scene.effects(1, 2), Some(Effects::Times(2)));
    scene.end().await;
}
