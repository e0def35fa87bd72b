//! The explorer on a real server: whom it convicts, whom it clears, and how often it looks.

use std::collections::BTreeMap;

use rl_lab::clients;
use rl_lab::limiters;
use rl_lab::model::scenario::LimiterRef;
use rl_lab::model::schedule::Budget;
use rl_lab::model::units::{Limit, Seed, Window};
use rl_lab::ports::limiter::Settings;
use rl_lab::runner::explore::world::Subject;
use rl_lab::runner::explore::{Explored, Hunt, explore};

use crate::ground::Ground;

fn budget(clients: u8, crashes: u8, ticks: u8) -> Budget {
    Budget { clients, requests: 1, crashes, ticks, losses: 0, flushes: 0, pauses: 0 }
}

fn subject(ground: &Ground, limiter: &str, limit: u64) -> Subject {
    let wanted: LimiterRef = limiter.parse().unwrap();
    let wanted = limiters::resolve(&wanted).unwrap();
    let spec = limiters::find(&wanted.name).unwrap();
    let params: BTreeMap<String, String> = wanted.params.clone();
    let (limit, window) = (Limit::new(limit).unwrap(), Window::from_millis(60_000).unwrap());
    let settings = Settings::new(spec, limit, window, &params).unwrap();
    let profile = clients::find(clients::DEFAULT).unwrap();
    Subject { spec, settings, profile, address: ground.address }
}

fn hunted(subject: Subject, budget: Budget, reduce: bool) -> Explored {
    let hunt = Hunt {
        subjects: vec![subject],
        budget,
        reduce,
        seed: Seed(1),
        spent: &|| false,
        spent_altogether: &|| false,
        progress: &|_| {},
    };
    explore(&hunt).unwrap()
}

async fn on_ground(test: &str, work: impl FnOnce(&Ground) + Send) {
    if let Some(ground) = Ground::start(test).await {
        tokio::task::block_in_place(|| work(&ground));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn print_it() {
    on_ground("print", |ground| {
        for limiter in std::env::var("LIMITERS").unwrap().split(',') {
            let began = std::time::Instant::now();
            let b = std::env::var("BUDGET").unwrap_or("2,0,0".to_owned());
            let b: Vec<u8> = b.split(',').map(|x| x.parse().unwrap()).collect();
            let reduce = std::env::var("FULL").is_err();
            let explored = hunted(subject(ground, limiter, 1), budget(b[0], b[1], b[2]), reduce);
            println!(
                "== {limiter} {:?} n/a {:?} inconclusive {:?} complete {}",
                began.elapsed(),
                explored.not_applicable,
                explored.inconclusive,
                explored.complete(budget(b[0], b[1], b[2]))
            );
            for level in &explored.levels {
                let s = &level.searched;
                println!(
                    "  {}: {} schedules, {} states, {} pruned, {} steps, {} ends {:?}",
                    level.budget.in_words(),
                    s.schedules,
                    s.states,
                    s.pruned,
                    s.steps,
                    s.endings.len(),
                    s.trouble
                );
            }
            for c in explored.broken.values() {
                println!(
                    "  {}: {} [{}] confirmed {} between {:?}",
                    c.check, c.witness, c.schedule, c.confirmed, c.story.between
                );
                println!("{}", c.story.side_by_side());
            }
        }
    })
    .await;
}
