//! How fast schedules are run: what holding a client at each command adds to a round trip, as a multiple of
//! a bare one measured in the same run, and how long whole searches take.
//!
//! `make bench`, or `cargo bench --bench explorer`. Exits 1 if a bound is missed.

#![expect(clippy::disallowed_methods, reason = "a bench measures time, and its exit code is its answer")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rl_lab::backends::{self, journal::Journal};
use rl_lab::clients;
use rl_lab::explorer::World;
use rl_lab::explorer::search::{Options, Searched, search};
use rl_lab::limiters;
use rl_lab::model::scenario::LimiterRef;
use rl_lab::model::schedule::Budget;
use rl_lab::model::units::{Limit, Window};
use rl_lab::ports::backend::{BackendOptions, ServerSpec};
use rl_lab::ports::limiter::Settings;
use rl_lab::runner::explore::cores;
use rl_lab::runner::explore::world::{RedisWorld, Subject};

/// A step of a schedule against a bare round trip.
const MOST_RATIO: f64 = 2.5;
/// Whole schedules of GET; INCR by three clients, on one server.
const LEAST_SCHEDULES: f64 = 2_500.0;
/// A sliding log of four commands per decision, four clients, every order.
const LONGEST: Duration = Duration::from_secs(2);
/// In turns, and the best counts: whatever else runs on the machine only ever adds.
const TURNS: usize = 20;

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let journal = Arc::new(Journal::open_in(folder.path(), "bench-explorer").expect("a journal"));
    let kept = runtime.block_on(async {
        let backend = backends::open("local", &BackendOptions::default(), journal, &mut |_| ()).await?;
        let core = cores::usable().first().copied();
        let config = core.map(|c| ("server_cpulist".to_owned(), c.to_string())).into_iter().collect();
        let server = backend
            .start(ServerSpec { name: "explorer".to_owned(), config, ..ServerSpec::default() })
            .await?;
        let address = server.address();
        // A search has a runtime of its own.
        let kept = std::thread::spawn(move || {
            // The bare round trip is measured where the search runs: beside the server.
            core.into_iter().for_each(cores::stay_on);
            measure(address, core)
        })
        .join()
        .expect("the bench does not break");
        backend.shutdown().await?;
        Ok::<_, rl_lab::ports::backend::BackendError>(kept)
    });
    match kept {
        Ok(kept) => std::process::exit(i32::from(!kept)),
        Err(error) => println!("explorer: cannot be measured here: {error}"),
    }
    std::process::exit(1);
}

fn measure(server: SocketAddr, core: Option<usize>) -> bool {
    let mut bare = TcpStream::connect(server).expect("the server is there");
    bare.set_nodelay(true).expect("a socket of our own");
    let mut world = world(server, core, "get-then-incr:expire=no");
    let asked = budget(3);
    let (mut trips, mut steps, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS {
        trips.push(trip(&mut bare));
        let began = Instant::now();
        let found = every(&mut world, asked, false);
        let took = began.elapsed().as_secs_f64();
        assert_eq!(found.schedules, 66, "GET; INCR by three clients");
        steps.push(step(&mut world));
        rates.push(found.schedules as f64 / took);
    }
    let least = |of: &[f64]| of.iter().copied().fold(f64::MAX, f64::min);
    let (trip, step) = (least(&trips), least(&steps));
    let rate = rates.iter().copied().fold(0.0, f64::max);
    let mut kept = tell(
        "a client's command against a bare round trip",
        step / trip,
        step / trip <= MOST_RATIO,
        MOST_RATIO,
    );
    println!("  {step:.1} µs against {trip:.1} µs");
    kept &= tell("schedules per second and server", rate, rate >= LEAST_SCHEDULES, LEAST_SCHEDULES);
    let mut log = self::world(server, core, "sliding-log-pipeline");
    let began = Instant::now();
    let found = every(&mut log, budget(4), true);
    let took = began.elapsed();
    assert!(found.complete, "{found:?}");
    println!("  {} states, {} schedules, {} steps", found.states, found.schedules, found.steps);
    let (took, most) = (took.as_secs_f64(), LONGEST.as_secs_f64());
    kept & tell("seconds for a sliding log, four clients, complete", took, took <= most, most)
}

fn tell(what: &str, figure: f64, kept: bool, bound: f64) -> bool {
    println!("{what}: {figure:.2} (bound {bound}) {}", if kept { "ok" } else { "MISSED" });
    kept
}

fn budget(clients: u8) -> Budget {
    Budget { clients, requests: 1, crashes: 0, ticks: 0, losses: 0, flushes: 0, pauses: 0 }
}

fn world(address: SocketAddr, core: Option<usize>, limiter: &str) -> RedisWorld {
    let wanted: LimiterRef = limiter.parse().expect("a limiter");
    let spec = limiters::find(&wanted.name).expect("it is in the list");
    let (limit, window) = (Limit::new(1).expect("1"), Window::from_millis(60_000).expect("a minute"));
    let params: BTreeMap<String, String> = wanted.params;
    let settings = Settings::new(spec, limit, window, &params).expect("it takes them");
    let profile = clients::find(clients::DEFAULT).expect("the default");
    RedisWorld::new(&Subject { spec, settings, profile, address, core, workers: None })
        .expect("the server is there")
}

fn every(world: &mut RedisWorld, asked: Budget, reduce: bool) -> Searched {
    world.allow(asked);
    let mut worlds: Vec<&mut dyn World> = vec![world];
    search(&mut worlds, Options { reduce, stop: &|| false, found: &|_, _| {} })
}

/// A client's command in µs, from being let through to being held at the next one: the mean of a hundred
/// schedules. Putting the world back and judging the end are not of it.
fn step(world: &mut RedisWorld) -> f64 {
    const SCHEDULES: u32 = 100;
    let (mut took, mut commands) = (Duration::ZERO, 0);
    for _ in 0..SCHEDULES {
        world.reset().expect("the server is there");
        while let Some(next) = world.enabled().first().copied() {
            let began = Instant::now();
            world.step(next).expect("the client goes on");
            took += began.elapsed();
            commands += 1;
        }
    }
    took.as_secs_f64() / f64::from(commands) * 1e6
}

/// A bare round trip in µs: the mean of a hundred.
fn trip(stream: &mut TcpStream) -> f64 {
    const ROUNDS: u32 = 100;
    let mut reply = [0; 5];
    let began = Instant::now();
    for _ in 0..ROUNDS {
        stream.write_all(b"*2\r\n$3\r\nGET\r\n$4\r\nnone\r\n").expect("the server reads");
        stream.read_exact(&mut reply).expect("the server answers");
    }
    began.elapsed().as_secs_f64() / f64::from(ROUNDS) * 1e6
}
