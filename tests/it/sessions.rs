//! Connections that one call has for itself, and the bucket that needs them.

use std::sync::Arc;

use rl_lab::clients::at_step::AtStep;
use rl_lab::clients::{self, Access};
use rl_lab::model::op::Outcome;
use rl_lab::model::units::Cost;
use rl_lab::ports::clock;
use rl_lab::ports::route::Configured;
use rl_lab::ports::store::{Call, Command, Reply, Session, StepAction, Store, StoreError, as_call};

use crate::ground::{Ground, Variant};

fn command(text: &str) -> Command {
    let (name, args) = text.split_once(' ').unwrap_or((text, ""));
    args.split(' ').filter(|a| !a.is_empty()).fold(Command::new(name), |c, arg| c.arg(arg))
}

fn store(ground: &Ground, connections: usize) -> Arc<dyn Store> {
    let route = Configured::at(ground.address);
    let access = Access { route, seeds: Vec::new(), connections, hook: None, user: None, dial: None };
    (clients::find(clients::DEFAULT).unwrap().connect)(access)
}

async fn connected(session: &mut Box<dyn Session + '_>) -> i64 {
    session.command(command("CLIENT ID")).await.unwrap().expect_int().unwrap()
}

#[tokio::test]
async fn a_transaction_applies_only_if_what_the_session_watches_was_not_touched() {
    let Some(ground) = Ground::start("watch").await else { return };
    let store = store(&ground, 2);
    let before = store.traffic();
    let mut session = store.session().await.unwrap();
    for touched in [false, true] {
        let watch = vec![command("WATCH seen"), command("GET seen")];
        session.pipeline(watch).await.unwrap();
        if touched {
            store.command(command("INCR seen")).await.unwrap();
        }
        let replies = session.transaction(vec![command("SET seen 7"), command("INCR other")]).await.unwrap();
        let applied = vec![Reply::Text("OK".to_owned()), Reply::Int(1)];
        assert_eq!(replies, (!touched).then_some(applied));
    }
    assert_eq!(store.command(command("GET seen")).await.unwrap().int(), Some(8));
    assert_eq!(store.command(command("GET other")).await.unwrap().int(), Some(1), "nothing of the second");
    let after = store.traffic();
    // Two pipelines of 2 and two transactions of 2 + 2; an INCR and two GETs.
    assert_eq!((after.round_trips - before.round_trips, after.commands - before.commands), (7, 15));
    ground.end().await;
}

/// A client waits 500 ms for an answer. That is its own business in a round, and nobody's before one: what
/// keeps the server busy then makes no run fail.
#[tokio::test]
async fn before_a_round_a_busy_server_is_waited_for_and_in_it_no_longer_than_the_client_does() {
    let Some(ground) = Ground::start("busy").await else { return };
    let store = store(&ground, 2);
    let client = redis::Client::open(format!("redis://{}/", ground.address)).unwrap();
    let mut other = client.get_multiplexed_async_connection().await.unwrap();
    let mut busy = async || {
        redis::cmd("CLIENT").arg("PAUSE").arg(1500).exec_async(&mut other).await.unwrap();
    };
    busy().await;
    store.warm_up().await.expect("it is waited for");
    busy().await;
    let answer = store.command(command("PING")).await;
    assert!(matches!(answer, Err(StoreError::NoAnswer(_))), "{answer:?}");
    ground.end().await;
}

#[tokio::test]
async fn a_session_is_one_calls_alone_until_it_is_dropped() {
    let Some(ground) = Ground::start("alone").await else { return };
    let store = store(&ground, 2);
    let (mut a, mut b) = (store.session().await.unwrap(), store.session().await.unwrap());
    let (first, second) = (connected(&mut a).await, connected(&mut b).await);
    let shared = store.command(command("CLIENT ID")).await.unwrap().expect_int().unwrap();
    assert!(first != second && ![first, second].contains(&shared));
    // Both are out: a third one waits until one comes back, and gets that one.
    let mut third = std::pin::pin!(store.session());
    assert!(futures_util::poll!(third.as_mut()).is_pending());
    drop(b);
    assert_eq!(connected(&mut third.await.unwrap()).await, second);
    ground.end().await;
}

#[tokio::test]
async fn a_connection_that_still_watches_or_owes_an_answer_goes_to_nobody() {
    let Some(mut ground) = Ground::start("unclean").await else { return };
    let store = store(&ground, 1);
    let mut session = store.session().await.unwrap();
    let watched_on = connected(&mut session).await;
    session.command(command("WATCH k")).await.unwrap();
    drop(session);
    store.command(command("INCR k")).await.unwrap();
    let mut session = store.session().await.unwrap();
    let next = connected(&mut session).await;
    assert_ne!(next, watched_on);
    assert!(session.transaction(vec![command("INCR k")]).await.unwrap().is_some(), "it watches nothing");

    // Watched and let go of, it is as good as new.
    for end in ["UNWATCH", "GET k"] {
        session.command(command("WATCH k")).await.unwrap();
        session.command(command(end)).await.unwrap();
        drop(session);
        session = store.session().await.unwrap();
        assert_eq!(connected(&mut session).await == next, end == "UNWATCH", "{end}");
    }

    // A call that is dropped while its command is under way.
    let waiting_on = connected(&mut session).await;
    {
        let mut blocked = std::pin::pin!(session.command(command("BLPOP nothing 0")));
        let mut turns = 0;
        while ground.ask::<String>("CLIENT LIST").await.lines().all(|l| !l.contains("cmd=blpop")) {
            assert!(futures_util::poll!(blocked.as_mut()).is_pending());
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            turns += 1;
            assert!(turns < 400, "it answers nothing for as long as a response may take");
        }
    }
    drop(session);
    let mut session = store.session().await.unwrap();
    assert_ne!(connected(&mut session).await, waiting_on);
    drop(session);
    ground.end().await;
}

#[tokio::test]
async fn each_exchange_of_a_session_is_a_step_and_a_dead_node_sends_nothing_on_it() {
    let Some(mut ground) = Ground::start("session-steps").await else { return };
    let variant = Variant::of("watch-multi-bucket", 5, &[]);
    // Read, and then dead before the write.
    let dies = AtStep { op: Some(0), index: 2, after: false, action: StepAction::Die }.shared();
    let limiter = variant.build(ground.store(Some(dies)), clock::system());
    for (op, trips) in [(0, 2), (1, 1)] {
        let (answer, trace) = as_call(Call::new(op, 0), limiter.acquire("steps", Cost::ONE)).await;
        assert_eq!((answer, trace.trips), (Err(StoreError::NodeDied), trips), "call {op}");
    }
    assert_eq!(ground.pttl("steps").await, -2, "nothing was written");

    let fails = AtStep {
        op: None,
        index: 2,
        after: true,
        action: StepAction::Fail(StoreError::NoAnswer("x".into())),
    };
    let limiter = variant.build(ground.store(Some(fails.shared())), clock::system());
    let (answer, _) = as_call(Call::new(0, 0), limiter.acquire("steps", Cost::ONE)).await;
    assert_eq!(answer, Err(StoreError::NoAnswer("x".into())));
    assert!(ground.pttl("steps").await > 0, "written, and the caller does not know");
    ground.end().await;
}

/// Somebody touches the key between each read and the write after it.
struct Meddler(Arc<dyn Store>);

impl rl_lab::ports::store::StepHook for Meddler {
    fn before<'a>(
        &'a self,
        step: &'a rl_lab::ports::store::Step,
    ) -> rl_lab::ports::BoxFuture<'a, StepAction> {
        Box::pin(async move {
            if step.command == "MULTI" {
                self.0.command(command("HSET meddled x 1")).await.unwrap();
            }
            StepAction::Go
        })
    }

    fn after<'a>(&'a self, _: &'a rl_lab::ports::store::Step) -> rl_lab::ports::BoxFuture<'a, StepAction> {
        Box::pin(std::future::ready(StepAction::Go))
    }
}

#[tokio::test]
async fn who_never_wins_gets_an_error_and_no_decision() {
    let Some(mut ground) = Ground::start("retries").await else { return };
    let variant = Variant::of("watch-multi-bucket", 5, &[("retries", "7")]);
    let meddler = Arc::new(Meddler(ground.store(None)));
    let limiter = variant.build(ground.store(Some(meddler)), clock::system());
    let (answer, trace) = as_call(Call::new(0, 0), limiter.acquire("meddled", Cost::ONE)).await;
    let Err(StoreError::Refused(why)) = answer else { panic!("{answer:?}") };
    assert!(why.contains("7 times in a row"), "{why}");
    // Seven reads and seven attempts to write; each meddling is the hook's, in the same call.
    assert_eq!(trace.trips, 21);
    assert_eq!(ground.ask::<i64>("HLEN meddled").await, 1, "only the meddler wrote");
    // Nobody meddles with a refusal, which writes nothing.
    let refused = limiter.acquire("meddled", Cost::new(6).unwrap()).await.unwrap();
    assert!(!refused.allowed);
    ground.end().await;
}

/// 200 calls in flight over 20 connections, on two nodes: exactly the capacity, every time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_watched_bucket_is_exact_under_a_race() {
    let Some(ground) = Ground::start("watch-race").await else { return };
    let capacity = 25;
    let variant = Variant::of("watch-multi-bucket", capacity, &[]);
    let nodes = [(); 2].map(|()| variant.build(store(&ground, 10), clock::system()));
    for round in 0..5 {
        let key = format!("watch-race:{round}");
        let calls = (0..200).map(|n| {
            let (limiter, key) = (Arc::clone(&nodes[n % 2]), key.clone());
            tokio::spawn(async move {
                let call = Call::new(n as u32, (n / 2) as u32);
                as_call(call, limiter.acquire(&key, Cost::ONE)).await
            })
        });
        let (mut admitted, mut most_trips) = (0, 0);
        for call in futures_util::future::join_all(calls).await {
            let (answer, trace) = call.unwrap();
            admitted += u64::from(answer.unwrap().allowed);
            most_trips = most_trips.max(trace.trips);
        }
        assert_eq!(admitted, capacity, "round {round}");
        assert!(most_trips > 2, "round {round}: nobody had to try again, so there was no race");
    }
    ground.end().await;
}

/// What the lab itself says of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_race_is_no_admission_in_the_history() {
    let Some(ground) = Ground::start("watch-history").await else { return };
    let fails = StepAction::Fail(StoreError::Refused("x".into()));
    let hook = AtStep { op: None, index: 2, after: false, action: fails }.shared();
    let cell = crate::checkers::drive_one_call(ground.address, "watch-multi-bucket", Some(hook)).await;
    // It read, so something was sent: what became of it is not known for certain.
    assert_eq!(cell.rounds[0].count(Outcome::Unknown), 1);
    ground.end().await;
}
