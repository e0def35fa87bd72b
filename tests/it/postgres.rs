//! Limiters that keep their counters in rows of a real PostgreSQL: the server as the lab starts, breaks and removes
//! it, the limiter call by call, and what the scenarios come to.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use rl_lab::backends::journal::{self, Header, Journal};
use rl_lab::backends::{self, gc, postgres};
use rl_lab::clients::postgres_rows::Rows;
use rl_lab::clients::{self, Access};
use rl_lab::limiters::postgres_row::{SPEC, TABLES};
use rl_lab::limiters::{self};
use rl_lab::model::units::{Cost, NodeId};
use rl_lab::model::verdict::{Standing, Verdict};
use rl_lab::ports::backend::{Backend, BackendOptions, Server, ServerProgram, ServerSpec};
use rl_lab::ports::clock;
use rl_lab::ports::limiter::{Build, Fleet, Limiter};
use rl_lab::ports::route::Configured;

use crate::ground::{LIMIT, Variant};
use crate::support::{Lab, cell, check, run_id, until, usable};

/// Whether containers can be made of one.
async fn there_is_an_image() -> bool {
    if !usable("docker").await {
        return false;
    }
    let docker = bollard::Docker::connect_with_defaults().unwrap();
    let options = bollard::query_parameters::ListImagesOptionsBuilder::new().build();
    let images = docker.list_images(Some(options)).await.unwrap();
    if images.iter().flat_map(|image| &image.repo_tags).any(|tag| tag.starts_with("rl-lab-postgres:")) {
        return true;
    }
    let required = std::env::var_os("RL_LAB_REQUIRE_ENGINES").is_some_and(|v| v == "1");
    assert!(!required, "an image of PostgreSQL is required: scripts/build-image --postgres makes one");
    println!("skipped: there is no image of a PostgreSQL");
    false
}

/// Whether there is a PostgreSQL to start beside a Redis; skipped where there is none, unless this is where all
/// must be.
async fn there_is_one() -> bool {
    let why = match postgres::find().await {
        Ok(_) => return usable("local").await,
        Err(why) => why,
    };
    let required = std::env::var_os("RL_LAB_REQUIRE_ENGINES").is_some_and(|v| v == "1");
    assert!(!required, "PostgreSQL is required: {why}");
    println!("skipped: {why}");
    false
}

/// A lab whose temporary folder others can get to: as root, the server runs as another user.
fn lab() -> Lab {
    let lab = Lab::new();
    std::fs::set_permissions(lab.path(""), std::fs::Permissions::from_mode(0o711)).unwrap();
    lab
}

/// The processes of a run's servers: by their data folder, or by the title that the children have.
fn processes_of(run: &str) -> Vec<String> {
    let named = format!("rl-lab-{run}");
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = entries.map(|e| std::fs::read(e.path().join("cmdline")).unwrap_or_default());
    let lines = lines.map(|l| String::from_utf8_lossy(&l).replace('\0', " "));
    lines
        .filter(|l| l.contains(&format!("{named}/")) || l.starts_with(&format!("postgres: {named}: ")))
        .collect()
}

/// The segments of shared memory that the kernel keeps for users of this name, in use or not.
fn segments() -> Vec<String> {
    let told = std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    told.lines().skip(1).map(str::to_owned).collect()
}

fn left_by(pid_file: &str) -> bool {
    let id = pid_file.lines().nth(6).and_then(|l| l.split_whitespace().nth(1)).unwrap();
    segments().iter().any(|line| line.split_whitespace().nth(1) == Some(id))
}

/// A server of the test's own.
struct Own {
    run: String,
    state: tempfile::TempDir,
    backend: Arc<dyn Backend>,
    server: Arc<dyn Server>,
}

impl Own {
    async fn start(test: &str, dead: bool) -> Self {
        Self::start_on("local", test, dead).await
    }

    async fn start_on(backend: &str, test: &str, dead: bool) -> Self {
        let run = format!("it-{}-{test}", std::process::id());
        let state = tempfile::tempdir().unwrap();
        let journal = if dead {
            // No process ever has this pid: it is above the kernel's limit.
            let header =
                Header { run: run.clone(), pid: 99_999_999, pid_start: Some(1), boot: None, started_us: 0 };
            Journal::begin(state.path(), &header).unwrap()
        } else {
            Journal::open_in(state.path(), &run).unwrap()
        };
        let options = BackendOptions::default();
        let backend = backends::open(backend, &options, Arc::new(journal), &mut |_| ()).await.unwrap();
        let program = ServerProgram::Postgres;
        let spec = ServerSpec { name: "rows".to_owned(), program, ..Default::default() };
        let server = backend.start(spec).await.unwrap();
        let own = Self { run, state, backend, server };
        own.rows().await.make(TABLES).await.unwrap();
        own
    }

    async fn rows(&self) -> Rows {
        Rows::connect(self.server.address()).await.unwrap()
    }

    fn limiter(&self, variant: &Variant) -> Arc<dyn Limiter> {
        let access = Access {
            route: Configured::at(self.server.address()),
            seeds: Vec::new(),
            connections: 2,
            hook: None,
            user: None,
            dial: None,
        };
        let client = clients::find(clients::DEFAULT_ROWS).unwrap();
        let statements = variant.spec.statements(&variant.settings);
        (variant.spec.build)(Build {
            settings: variant.settings.clone(),
            store: (client.connect)(access.clone()),
            database: Some((client.rows.unwrap())(access, statements)),
            others: Vec::new(),
            clock: clock::system(),
            node: NodeId(0),
            version: 0,
            fleet: Fleet::of(1),
        })
    }

    fn folder(&self) -> PathBuf {
        gc::run_folder(&self.run)
    }

    async fn end(self) {
        self.backend.shutdown().await.unwrap();
        assert_eq!(processes_of(&self.run), Vec::<String>::new());
        assert!(!self.folder().exists() && journal::all_in(self.state.path()).is_empty());
    }
}

fn forms() -> Vec<Variant> {
    let of = |params: &[(&str, &str)]| Variant::new(&SPEC, LIMIT, params);
    vec![
        of(&[]),
        of(&[("table", "unlogged")]),
        of(&[("form", "for-update")]),
        of(&[("form", "read-then-write")]),
        of(&[("sweep", "1h")]),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_call_after_the_other_every_form_admits_its_limit_and_no_more() {
    if !there_is_one().await {
        return;
    }
    let own = Own::start("rows-exact", false).await;
    for variant in forms() {
        let limiter = own.limiter(&variant);
        let key = format!("exact:{}", variant.label);
        for n in 1..=LIMIT {
            let decision = limiter.acquire(&key, Cost::ONE).await.unwrap();
            assert_eq!((decision.allowed, decision.remaining), (true, Some(LIMIT - n)), "{key}");
        }
        let refused = limiter.acquire(&key, Cost::ONE).await.unwrap();
        assert_eq!((refused.allowed, refused.remaining), (false, Some(0)), "{key}");
        let window = variant.settings.window.duration();
        assert!(refused.retry_after.is_some_and(|wait| wait <= window), "{key}: {refused:?}");
        let never =
            limiter.acquire(&format!("{key}:big"), Cost::new(LIMIT as u32 + 1).unwrap()).await.unwrap();
        assert_eq!((never.allowed, never.retry_after), (false, None), "{key}");

        let preset = format!("{key}:preset");
        limiter.preset(&preset, LIMIT - 1).await.unwrap();
        assert!(limiter.acquire(&preset, Cost::ONE).await.unwrap().allowed);
        assert!(!limiter.acquire(&preset, Cost::ONE).await.unwrap().allowed, "{key}");

        // Its window is over: the same row counts anew.
        let rows = own.rows().await;
        let table = SPEC.table(&variant.settings).unwrap();
        rows.age(table, &key, i64::try_from(window.as_millis()).unwrap()).await.unwrap();
        assert!(limiter.acquire(&key, Cost::ONE).await.unwrap().allowed, "{key}");
        let row = rows.look(table, &key).await.unwrap().unwrap();
        assert!(row.count == 1 && row.left_ms > 0, "{key}: {row:?}");
    }
    own.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sweeps_removes_what_is_over_and_nothing_else() {
    if !there_is_one().await {
        return;
    }
    let own = Own::start("rows-swept", false).await;
    let rows = own.rows().await;
    let (sweeps, does_not) =
        (Variant::new(&SPEC, LIMIT, &[("sweep", "20ms")]), Variant::new(&SPEC, LIMIT, &[]));
    let table = SPEC.table(&sweeps.settings).unwrap();
    for (variant, left) in [(&does_not, vec!["swept:new", "swept:old"]), (&sweeps, vec!["swept:new"])] {
        let limiter = own.limiter(variant);
        for key in ["swept:new", "swept:old"] {
            limiter.acquire(key, Cost::ONE).await.unwrap();
        }
        rows.age(table, "swept:old", i64::try_from(variant.settings.window.millis()).unwrap()).await.unwrap();
        limiter.settle().await;
        assert_eq!(rows.keys(table, "swept:").await.unwrap(), left, "{}", variant.label);
    }
    own.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_freezes_dies_and_returns_with_what_was_on_disk() {
    if !there_is_one().await {
        return;
    }
    freezes_dies_and_returns("local").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_in_a_container_freezes_dies_and_returns_with_what_was_on_disk() {
    if there_is_an_image().await {
        freezes_dies_and_returns("docker").await;
    }
}

async fn freezes_dies_and_returns(backend: &str) {
    let own = Own::start_on(backend, &format!("rows-lives-{backend}"), false).await;
    let address = own.server.address();
    let (logged, unlogged) =
        (Variant::new(&SPEC, LIMIT, &[]), Variant::new(&SPEC, LIMIT, &[("table", "unlogged")]));
    for variant in [&logged, &unlogged] {
        own.limiter(variant).acquire("kept", Cost::ONE).await.unwrap();
    }

    own.server.pause().await.unwrap();
    let limiter = own.limiter(&logged);
    let mut waiting = Box::pin(limiter.acquire("kept", Cost::ONE));
    assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
    assert!(backends::probe::lets_in(address).await.is_err(), "it accepts, and says nothing");
    own.server.resume().await.unwrap();
    assert!(waiting.await.unwrap().allowed, "what was asked meanwhile is answered");

    own.server.kill().await.unwrap();
    assert!(backends::probe::lets_in(address).await.is_err());
    assert_eq!(processes_of(&own.run), Vec::<String>::new(), "the children died with it");
    if backend == "local" {
        // Where the address went with the server, connecting takes as long as it takes.
        let error = own.limiter(&logged).acquire("kept", Cost::ONE).await.unwrap_err();
        assert!(matches!(error, rl_lab::ports::store::StoreError::NotConnected(_)), "{error:?}");
    }
    own.server.restart().await.unwrap();
    assert_eq!(own.server.address(), address);
    let rows = own.rows().await;
    let found = |variant: &Variant| SPEC.table(&variant.settings).unwrap();
    assert_eq!(rows.look(found(&logged), "kept").await.unwrap().unwrap().count, 2, "a committed count");
    assert_eq!(rows.look(found(&unlogged), "kept").await.unwrap(), None, "what was not on disk");
    own.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gc_removes_a_frozen_server_of_a_dead_run_with_what_the_kernel_kept() {
    if !there_is_one().await {
        return;
    }
    let Own { run, state, backend, server } = Own::start("rows-dead", true).await;
    let pid_file = gc::run_folder(&run).join("rows/data/postmaster.pid");
    let told = std::fs::read_to_string(pid_file).unwrap();
    // The children of a server that stands still do not notice that it dies.
    server.pause().await.unwrap();
    std::mem::forget((server, backend));
    assert!(processes_of(&run).len() >= 4, "{:?}", processes_of(&run));
    assert!(left_by(&told));

    let done = gc::gc_in(state.path(), false, None).await;
    assert!(done.left.is_empty() && done.removed.len() >= 5, "{done:?}");
    assert_eq!(processes_of(&run), Vec::<String>::new());
    assert!(!gc::run_folder(&run).exists() && !left_by(&told));
    assert_eq!(gc::gc_in(state.path(), false, None).await, gc::GcReport::default());
}

#[tokio::test]
async fn a_lab_that_is_killed_leaves_nothing_after_gc() {
    if !there_is_one().await {
        return;
    }
    let lab = lab();
    let args = ["postgres", "--backend", "local", "--limiters", "postgres-row", "--rounds", "10000"];
    let mut living = lab.start(&args);
    let calls = |folder: &PathBuf| {
        let text = std::fs::read_to_string(folder.join("history.jsonl")).unwrap_or_default();
        text.contains(r#""type":"ok""#)
    };
    let folder = until("calls in the history", || {
        let found = lab.runs().into_iter().find(calls);
        (found.is_some() || !living.is_running()).then_some(found)
    });
    let folder = folder.await.unwrap_or_else(|| panic!("it ended by itself"));
    living.signal(libc::SIGKILL);
    let run = run_id(&folder);
    let done = lab.run(&["gc"]).exits(0);
    assert!(done.stdout.contains(&run), "{done:?}");
    drop(living);
    assert_eq!(processes_of(&run), Vec::<String>::new());
    lab.assert_nothing_is_left("local").await;
}

#[tokio::test]
async fn without_a_postgres_its_scenarios_say_so_and_the_others_run() {
    if !usable("local").await {
        return;
    }
    let lab = lab().env("RL_LAB_POSTGRES", "/nonexistent/postgres");
    let done = lab.run(&["postgres", "--backend", "local"]).exits(3);
    let done = done.says(&["/nonexistent/postgres", "scripts/setup postgres"]);
    assert!(!done.stdout.contains("PASS"), "{done:?}");
    lab.run(&["race", "--backend", "local", "--limiters", "fixed-window-lua", "--rounds", "1"]).exits(0);
    lab.assert_nothing_is_left("local").await;
}

#[tokio::test]
async fn a_race_convicts_who_reads_without_a_lock_and_clears_the_rest() {
    if there_is_one().await {
        races_as_known("local").await;
    }
}

#[tokio::test]
async fn a_race_in_containers_comes_to_the_same() {
    if there_is_an_image().await {
        races_as_known("docker").await;
    }
}

#[tokio::test]
async fn a_limit_on_disk_outlives_the_server_and_one_in_memory_is_granted_twice() {
    if !there_is_one().await {
        return;
    }
    let lab = lab();
    let args = ["postgres-outage", "--backend", "local", "--variation", "death", "--format", "json"];
    let report = lab.run(&args).exits(0).report();
    let admitted = |limiter: &str| {
        let cells = report.cells.iter().filter(|c| c.limiter == limiter);
        cells.map(|c| c.rounds[0].admitted).collect::<Vec<_>>()
    };
    assert_eq!(admitted("postgres-row"), [40; 3]);
    assert_eq!(admitted("postgres-row:form=for-update"), [40]);
    assert_eq!(admitted("postgres-row:table=unlogged"), [80]);
    assert_eq!(admitted("fixed-window-lua"), [80]);
    lab.assert_nothing_is_left("local").await;
}

async fn races_as_known(backend: &str) {
    let lab = lab();
    let report = lab.run(&["postgres", "--backend", backend, "--format", "json"]).exits(0).report();
    let admitted =
        |limiter: &str| cell(&report, limiter).rounds.iter().map(|r| r.admitted).collect::<Vec<_>>();
    for exact in ["postgres-row", "postgres-row:table=unlogged", "postgres-row:form=for-update"] {
        assert_eq!(admitted(exact), [10; 5], "{exact}");
        assert_eq!(check(cell(&report, exact), "every-key-expires").verdict, Verdict::Fail);
    }
    assert!(admitted("postgres-row:form=read-then-write").iter().all(|n| *n > 10));
    for one in report.cells.iter().flat_map(|c| &c.checks) {
        assert_eq!(one.outcome, Standing::AsExpected, "{one:?}");
    }
    let servers: Vec<&str> = report.cells.iter().map(|c| c.server_flavour.as_str()).collect();
    assert!(servers.contains(&"postgresql") && servers.contains(&"redis"), "{servers:?}");
    lab.assert_nothing_is_left(backend).await;
}

#[tokio::test]
async fn a_crash_leaves_the_row_as_before_the_call_or_as_after_it() {
    if !there_is_one().await {
        return;
    }
    let lab = lab();
    let chosen = "postgres-row,postgres-row:form=for-update,postgres-row:form=read-then-write";
    let args = ["postgres-crash", "--backend", "local", "--limiters", chosen, "--format", "json"];
    let report = lab.run(&args).exits(0).report();
    for one in &report.cells {
        assert_eq!(check(one, "recovers").verdict, Verdict::Pass, "{}", one.limiter);
        for round in &one.rounds {
            let crash = round.crash.as_ref().unwrap();
            let (_, step) = crash.died.split_once(", step ").unwrap();
            let last = step.split_once(" of ").is_some_and(|(step, of)| step == of);
            let applied = last && crash.died.starts_with("after ");
            let expected = if applied { "user = 1 (" } else { "no key" };
            assert!(crash.left.starts_with(expected), "{} {crash:?}", one.limiter);
        }
    }
    assert_eq!(
        cell(&report, "postgres-row:form=for-update").rounds.len(),
        12,
        "six steps, before and after each"
    );
    lab.assert_nothing_is_left("local").await;
}

#[test]
fn what_asks_no_redis_is_neither_searched_nor_served_as_a_process() {
    let lab = Lab::new();
    lab.run(&["explore", "postgres-row"]).exits(2).says(&["asks no Redis"]);
    let how = ["--redis", "redis://127.0.0.1:1", "--limit", "1", "--window", "1s"];
    lab.run(&[&["serve-http", "postgres-row"], how.as_slice()].concat()).exits(2).says(&["asks no Redis"]);
    let wrong = lab.run(&["race", "--limiters", "postgres-row", "--client", "fail-fast"]).exits(2);
    wrong.says(&["postgres-pool"]);
    assert!(limiters::ALL.iter().all(|s| !s.is_in_rows()), "a machine without one runs everything else");
}
