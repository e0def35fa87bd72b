//! The explorer on a real server: whom it convicts, whom it clears, and that leaving out what was seen
//! leaves out nothing.

mod commands;
mod planted;

use std::collections::BTreeMap;

use rl_lab::clients;
use rl_lab::explorer::World;
use rl_lab::limiters;
use rl_lab::model::scenario::LimiterRef;
use rl_lab::model::schedule::{Budget, Schedule};
use rl_lab::model::units::{Limit, Seed, Window};
use rl_lab::ports::limiter::{Settings, Spec};
use rl_lab::runner::explore::world::{RedisWorld, Subject};
use rl_lab::runner::explore::{Explored, Hunt, REPLAYS, explore};

use crate::ground::Ground;

fn budget(clients: u8, requests: u8, crashes: u8, ticks: u8) -> Budget {
    Budget { clients, requests, crashes, ticks, losses: 0, flushes: 0, pauses: 0 }
}

fn subject(ground: &Ground, limiter: &str, limit: u64) -> Subject {
    let wanted: LimiterRef = limiter.parse().unwrap();
    let wanted = limiters::resolve(&wanted).unwrap();
    of_spec(ground, limiters::find(&wanted.name).unwrap(), &wanted.params, limit)
}

fn of_spec(ground: &Ground, spec: &'static Spec, params: &BTreeMap<String, String>, limit: u64) -> Subject {
    let (limit, window) = (Limit::new(limit).unwrap(), Window::from_millis(60_000).unwrap());
    let settings = Settings::new(spec, limit, window, params).unwrap();
    Subject {
        spec,
        settings,
        profile: clients::find(clients::DEFAULT).unwrap(),
        address: ground.address,
        core: None,
        workers: None,
    }
}

fn explored(subject: Subject, budget: Budget, reduce: bool) -> Explored {
    let never = || false;
    let hunt = Hunt {
        subjects: vec![subject],
        budget,
        reduce,
        seed: Seed(1),
        spent: &never,
        spent_altogether: &never,
        progress: &|_| {},
    };
    explore(&hunt).unwrap()
}

async fn on_ground(test: &str, work: impl FnOnce(&Ground) + Send) {
    if let Some(ground) = Ground::start(&format!("explore-{test}")).await {
        // A search has runtimes of its own, which cannot be begun inside another one's.
        tokio::task::block_in_place(|| {
            std::thread::scope(|scope| scope.spawn(|| work(&ground)).join().unwrap());
        });
        ground.end().await;
    }
}

/// Counted by hand for two clients: GET and INCR of each whole (2), or both GETs first (2 orders of the
/// GETs, 2 of the INCRs). With an expiry behind the first INCR twice as many: where both get in, the
/// PEXPIRE of the first comes before or after the INCR of the second, and with a single one it has one
/// more place.
#[tokio::test(flavor = "multi_thread")]
async fn without_reduction_there_are_as_many_schedules_as_were_counted() {
    on_ground("counted", |ground| {
        for (limiter, counts) in
            [("get-then-incr:expire=no", [6, 66, 1176]), ("get-then-incr:expire=yes", [12, 198, 4704])]
        {
            for (clients, count) in (2..).zip(counts) {
                let found = explored(subject(ground, limiter, 1), budget(clients, 1, 0, 0), false);
                let last = &found.levels.last().unwrap().searched;
                assert_eq!((last.schedules, last.complete), (count, true), "{limiter}, {clients} clients");
                assert!(found.broken.contains_key("never-over-limit"));
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn known_faults_are_convicted_by_two_clients_with_the_shortest_schedule() {
    // Limiter, limit, calls of each client, what breaks, and in how many steps.
    let known = [
        ("get-then-incr:expire=no", 1, 1, "never-over-limit", 4),
        ("incr-then-expire", 1, 1, "recovers", 1),
        ("incr-then-expire", 1, 1, "every-key-expires", 1),
        ("set-nx-then-incr", 1, 1, "every-key-expires", 3),
        ("token-bucket-read-write", 1, 1, "never-over-limit", 4),
        ("laravel-throttle", 1, 1, "never-over-limit", 8),
        ("laravel-throttle-redis", 1, 1, "never-over-limit", 4),
        ("token-reservation", 1, 2, "never-over-limit", 6),
        ("sharded-counter:ttl=script", 1, 1, "never-over-limit", 4),
        ("sliding-log-time-argv", 2, 1, "never-over-limit", 2),
    ];
    on_ground("convicted", |ground| {
        for (limiter, limit, requests, check, steps) in known {
            let found = explored(subject(ground, limiter, limit), budget(2, requests, 1, 1), true);
            let counterexample = found.broken.get(check);
            let counterexample = counterexample.unwrap_or_else(|| panic!("{limiter}: {check} holds"));
            let schedule = &counterexample.schedule;
            assert_eq!(schedule.0.len(), steps, "{limiter}: {schedule}");
            assert_eq!(counterexample.confirmed, REPLAYS, "{limiter}: {schedule}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exact_limiters_are_certified_for_three_clients_a_crash_and_a_tick() {
    let exact = [
        "multi-incr-expire-nx",
        "fixed-window-lua",
        "local-budget-lua",
        "gcra-lua:clock=app",
        "token-bucket-lua:clock=app",
    ];
    on_ground("certified", |ground| {
        for limiter in exact {
            for limit in [1, 2] {
                let asked = budget(3, 1, 1, 1);
                let found = explored(subject(ground, limiter, limit), asked, true);
                assert!(found.broken.is_empty(), "{limiter}: {:?}", found.broken.keys());
                assert!(found.complete(asked), "{limiter}: {:?}", found.inconclusive);
            }
        }
    })
    .await;
}

/// A process that was frozen for longer than its keys live comes back with the time it read before.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_between_the_clock_and_the_command_convicts_who_goes_by_the_apps_clock() {
    on_ground("pauses", |ground| {
        let asked = Budget { pauses: 1, ..budget(2, 1, 0, 1) };
        for (limiter, breaks) in
            [("token-bucket-lua:clock=app", true), ("gcra-lua:clock=app", true), ("fixed-window-lua", false)]
        {
            let found = explored(subject(ground, limiter, 1), asked, true);
            assert_eq!(found.broken.contains_key("never-over-limit"), breaks, "{limiter}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_runs_on_is_never_certified() {
    on_ground("server-time", |ground| {
        let asked = budget(2, 1, 0, 0);
        for limiter in
            ["sliding-log-lua:clock=server", "gcra-lua:clock=server", "token-bucket-lua:clock=server"]
        {
            let found = explored(subject(ground, limiter, 1), asked, true);
            assert!(found.not_applicable.is_some_and(|why| why.contains("server's clock")), "{limiter}");
        }
        // TIME as a command can be answered; what holds then holds for that clock.
        let found = explored(subject(ground, "sliding-log-time-argv", 1), asked, true);
        assert!(found.inconclusive.is_some_and(|why| why.contains("time-canonicalised")));
        let found = explored(subject(ground, "in-memory", 1), asked, true);
        assert!(found.not_applicable.is_some_and(|why| why.contains("asks no store")));
        let found = explored(subject(ground, "async-count-flag", 1), asked, true);
        assert!(found.not_applicable.is_some_and(|why| why.contains("behind its calls")));
    })
    .await;
}

/// The reduced search against every schedule: the same properties break, and the same states are ends.
#[tokio::test(flavor = "multi_thread")]
async fn leaving_out_what_was_seen_leaves_out_nothing() {
    // Of the long ones only what ends within some seconds.
    let long = ["laravel-throttle", "laravel-attempt"];
    on_ground("reduction", |ground| {
        for spec in limiters::ALL {
            let heavy = long.contains(&spec.name);
            let two = if heavy { budget(2, 1, 0, 1) } else { budget(2, 1, 1, 1) };
            let three = budget(3, 1, 0, 0);
            let slow = ["laravel-throttle", "laravel-attempt", "sliding-log-pipeline", "watch-multi-bucket"];
            for asked in [two, three] {
                if asked == three && slow.contains(&spec.name) {
                    continue;
                }
                let search = |reduce| {
                    let found = explored(subject(ground, spec.name, 1), asked, reduce);
                    let ends = found.levels.iter().map(|l| l.searched.endings.clone()).collect::<Vec<_>>();
                    (found.broken.into_keys().collect::<Vec<_>>(), ends, found.inconclusive)
                };
                assert_eq!(search(true), search(false), "{} within {}", spec.name, asked.in_words());
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_servers_see_what_one_sees() {
    on_ground("one", |first| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let Some(second) = runtime.block_on(Ground::start("explore-two")) else { return };
        let asked = budget(2, 1, 1, 1);
        let never = || false;
        let search = |subjects: Vec<Subject>| {
            let hunt = Hunt {
                subjects,
                budget: asked,
                reduce: true,
                seed: Seed(1),
                spent: &never,
                spent_altogether: &never,
                progress: &|_| {},
            };
            let found = explore(&hunt).unwrap();
            let levels = found.levels.iter().map(|l| (l.searched.states, l.searched.endings.clone()));
            let broken: Vec<_> = found.broken.values().map(|c| (c.check, c.schedule.size())).collect();
            (levels.collect::<Vec<_>>(), broken)
        };
        let of = |ground: &Ground| subject(ground, "token-bucket-read-write", 1);
        assert_eq!(search(vec![of(first)]), search(vec![of(first), of(&second)]));
        runtime.block_on(second.end());
    })
    .await;
}

/// Whether what is watched was touched is kept by the server and told by no reply: whoever began to watch
/// before a write is in another state than who began after it, although both were told the same.
#[tokio::test(flavor = "multi_thread")]
async fn who_watched_before_a_write_is_told_apart_from_who_watches_since() {
    on_ground("watchers", |ground| {
        let mut world = RedisWorld::new(&subject(ground, "watch-multi-bucket", 2)).unwrap();
        world.allow(budget(2, 1, 0, 0));
        let mut after = |schedule: &str| {
            world.reset().unwrap();
            for step in schedule.parse::<Schedule>().unwrap().0 {
                world.step(step).unwrap();
            }
            let state = world.state().unwrap();
            (state, world.open())
        };
        // WATCH, HMGET and EXEC of b; a watches before the EXEC, or after it, and reads after it.
        let (before, since) = (after("b b a b a"), after("b b b a a"));
        assert_eq!((before.1.len(), &before.1), (1, &since.1), "both times a is held before its EXEC");
        assert_ne!(before.0, since.0);
        assert_eq!(after("b b a b a").0, before.0);
    })
    .await;
}

/// A search that is cut short says so, and by how much random schedules would have missed.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_that_did_not_end_certifies_nothing() {
    on_ground("cut", |ground| {
        let (asked, calls) = (budget(3, 2, 1, 1), std::sync::atomic::AtomicU32::new(0));
        let after = |n: u32| calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= n;
        let hunt = Hunt {
            subjects: vec![subject(ground, "sliding-log-lua", 1)],
            budget: asked,
            reduce: true,
            seed: Seed(1),
            spent: &|| after(40),
            spent_altogether: &|| after(100),
            progress: &|_| {},
        };
        let found = explore(&hunt).unwrap();
        assert!(!found.complete(asked) && found.broken.is_empty());
        let sample = found.sample.unwrap();
        assert!(sample.schedules > 10 && (0.0..1.0).contains(&sample.missed_at_most), "{sample:?}");
    })
    .await;
}
