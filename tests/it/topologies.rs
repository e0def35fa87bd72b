//! Servers behind servers, on both grounds: links that are held and cut, failovers, slots, clocks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redis::{FromRedisValue, RedisResult};
use rl_lab::backends::journal::{Header, Journal};
use rl_lab::backends::{self, gc, probe};
use rl_lab::clients::patient::Patient;
use rl_lab::model::scenario::TopologyPlan;
use rl_lab::ports::backend::{Backend, BackendError, BackendOptions, Server, ServerSpec};
use rl_lab::ports::clock;
use rl_lab::ports::topology::{Deployment, Entry};
use rl_lab::runner::drive;
use rl_lab::topologies;

use crate::support::{engine_traces, on_both};

/// A run of the test's own, and what is deployed in it.
struct Ground {
    run: String,
    state: tempfile::TempDir,
    backend: Arc<dyn Backend>,
}

impl Ground {
    async fn open(backend: &str, test: &str) -> Self {
        Self::begin(backend, test, |state, run| Journal::open_in(state, run).unwrap()).await
    }

    async fn begin(
        backend: &str,
        test: &str,
        journal: impl FnOnce(&std::path::Path, &str) -> Journal,
    ) -> Self {
        let state = tempfile::tempdir().unwrap();
        let run = format!("it-{}-{test}-{backend}", std::process::id());
        let journal = Arc::new(journal(state.path(), &run));
        let options = BackendOptions::default();
        let backend = backends::open(backend, &options, journal, &mut |_| ()).await.unwrap();
        Self { run, state, backend }
    }

    async fn deploy(&self, toml: &str) -> Deployment {
        self.deploy_as(toml, "t").await
    }

    async fn deploy_as(&self, toml: &str, name: &str) -> Deployment {
        let plan: TopologyPlan = toml::from_str(toml).unwrap();
        let kind = topologies::find(&plan.kind).unwrap();
        kind.check(&plan).unwrap();
        let start = clock::system().wall_us();
        let deployment = kind.deploy(&*self.backend, name, &plan).await.unwrap();
        let took = clock::system().wall_us() - start;
        println!("{} on {}: ready in {} ms", toml.lines().next().unwrap(), self.run, took / 1_000);
        deployment
    }
}

/// A test that fails leaves nothing either.
impl Drop for Ground {
    fn drop(&mut self) {
        let backend = Arc::clone(&self.backend);
        let runtime = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| runtime.block_on(backend.shutdown())).unwrap();
    }
}

async fn ask<T: FromRedisValue>(address: SocketAddr, command: &str) -> RedisResult<T> {
    let mut words = command.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    for word in words {
        command.arg(word);
    }
    command.query_async(&mut Patient::connect(address).await?).await
}

async fn text(address: SocketAddr, command: &str) -> String {
    ask(address, command).await.unwrap()
}

/// Waits for a state that the servers tell.
async fn until(what: &str, mut state: impl AsyncFnMut() -> bool) {
    for _ in 0..3000 {
        if state().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what}: not within a minute");
}

async fn count(address: SocketAddr, n: usize) {
    let mut admin = drive::admin(address).await.unwrap();
    for _ in 0..n {
        redis::cmd("INCR").arg("count").query_async::<()>(&mut admin).await.unwrap();
    }
}

async fn counted(address: SocketAddr) -> i64 {
    ask::<Option<i64>>(address, "GET count").await.unwrap().unwrap_or(0)
}

/// How many replicas have acknowledged one more write within a moment: WAIT is about its own connection's.
async fn counted_and_waited(primary: SocketAddr, replicas: usize) -> usize {
    let mut admin = Patient::connect(primary).await.unwrap();
    redis::cmd("INCR").arg("count").query_async::<()>(&mut admin).await.unwrap();
    redis::cmd("WAIT").arg(replicas).arg(200).query_async(&mut admin).await.unwrap()
}

/// How long the primary has not heard of its replica, in seconds; `None` if it knows of none.
async fn lag(primary: SocketAddr) -> Option<u64> {
    let info = text(primary, "INFO replication").await;
    info.split_once("lag=")?.1.split(['\r', ',']).next()?.parse().ok()
}

on_both! {
    a_link_holds_behind_exactly_the_nth_write_and_the_replica_stays_there
    a_held_link_outlives_its_connection
    a_cut_link_is_noticed_at_once_and_mended
    a_late_link_brings_everything
    a_killed_primary_takes_with_it_what_was_held
    a_frozen_primary_is_replaced_by_what_a_held_link_let_through
    slots_are_shared_and_keys_of_several_are_refused
    every_primary_of_a_cluster_has_its_replica
    a_clock_of_a_servers_own_is_off_as_much_as_it_should
    a_promoted_replica_tells_another_time
    an_address_stays_the_same_through_death
    what_a_killed_lab_left_frozen_is_removed
}

mod cases {
    use super::*;

    pub async fn a_link_holds_behind_exactly_the_nth_write_and_the_replica_stays_there(backend: &str) {
        let ground = Ground::open(backend, "hold").await;
        let lab = ground.deploy("kind = 'replica'").await;
        let (primary, replica, link) = (lab.primary.address(), lab.replicas[0].address(), &lab.links[0]);
        assert_eq!(lab.entry, Entry::Direct(primary));
        let before = link.passed();
        link.hold_after(40, Some("incr"));
        assert!(!link.is_holding());
        text(primary, "SET other 1").await;
        count(primary, 100).await;
        until("the writes are held", async || link.held() == 60).await;
        assert_eq!((link.is_holding(), link.passed() - before), (true, 41));
        until("what was passed on has arrived", async || counted(replica).await == 40).await;
        assert_eq!(counted_and_waited(primary, 1).await, 0);
        until("it still says that it is there", async || lag(primary).await.is_some_and(|s| s <= 1)).await;
        assert!(text(replica, "INFO replication").await.contains("master_link_status:up"));
        // So a primary that wants a replica to be there finds nothing wrong.
        ask::<()>(primary, "CONFIG SET min-replicas-to-write 1").await.unwrap();
        count(primary, 1).await;
        text(replica, "REPLICAOF NO ONE").await;
        assert_eq!(counted(replica).await, 40);
        count(replica, 60).await;
        assert_eq!(counted(replica).await, 100, "60 are granted again");
    }

    pub async fn a_held_link_outlives_its_connection(backend: &str) {
        let ground = Ground::open(backend, "outlives").await;
        let lab = ground.deploy("kind = 'replica'\nconfig = { repl-timeout = '2' }").await;
        let (primary, replica, link) = (lab.primary.address(), lab.replicas[0].address(), &lab.links[0]);
        // A block goes on as a whole.
        link.hold_after(2, None);
        let script = "redis.call('INCR',KEYS[1])redis.call('INCR',KEYS[1])return(redis.call('INCR',KEYS[1]))";
        assert_eq!(ask::<i64>(primary, &format!("EVAL {script} 1 count")).await.unwrap(), 3);
        count(primary, 10).await;
        until("the writes are held", async || link.held() == 10).await;
        until("the replica gives its connection up", async || {
            text(replica, "INFO replication").await.contains("master_link_status:down")
        })
        .await;
        until("nothing waits for it", async || link.held() == 0).await;
        assert_eq!(counted(replica).await, 3);
        link.release();
        until("it has caught up", async || counted(replica).await == 13).await;
    }

    pub async fn a_cut_link_is_noticed_at_once_and_mended(backend: &str) {
        let ground = Ground::open(backend, "cut").await;
        let lab = ground.deploy("kind = 'replica'\nreplicas = 2").await;
        let (primary, link) = (lab.primary.address(), &lab.links[0]);
        link.cut().unwrap();
        count(primary, 5).await;
        until("the primary has one replica left", async || {
            text(primary, "INFO replication").await.contains("connected_slaves:1")
        })
        .await;
        assert_eq!(counted_and_waited(primary, 2).await, 1);
        until("the other has it all", async || counted(lab.replicas[1].address()).await == 6).await;
        assert_eq!(counted(lab.replicas[0].address()).await, 0);
        lab.links[1].cut().unwrap();
        until("the primary has none", async || lag(primary).await.is_none()).await;
        assert_eq!(counted_and_waited(primary, 1).await, 0);
        ask::<()>(primary, "CONFIG SET min-replicas-to-write 1").await.unwrap();
        let refused = ask::<i64>(primary, "INCR count").await.unwrap_err();
        assert_eq!(refused.code(), Some("NOREPLICAS"), "{refused}");
        for (link, replica) in lab.links.iter().zip(&lab.replicas) {
            link.mend().unwrap();
            until("it has caught up", async || counted(replica.address()).await == 7).await;
        }
        until("writes are taken", async || ask::<i64>(primary, "INCR count").await.is_ok()).await;
    }

    pub async fn a_late_link_brings_everything(backend: &str) {
        let ground = Ground::open(backend, "late").await;
        let lab = ground.deploy("kind = 'replica'").await;
        let (primary, replica, link) = (lab.primary.address(), lab.replicas[0].address(), &lab.links[0]);
        let before = link.passed();
        link.delay(Some(Duration::from_secs(1)));
        count(primary, 20).await;
        until("they are on their way", async || link.held() > 0).await;
        assert_eq!(counted(replica).await, 0);
        link.delay(None);
        count(primary, 20).await;
        until("they have arrived", async || counted(replica).await == 40).await;
        assert_eq!((link.passed() - before, link.held()), (40, 0));
        link.hold_now();
        count(primary, 1).await;
        until("it is held", async || link.held() == 1).await;
        link.release();
        until("it has arrived", async || counted(replica).await == 41).await;
    }

    /// Where the sentinels send clients.
    async fn found(lab: &Deployment) -> Vec<SocketAddr> {
        let Entry::Sentinel { master, sentinels } = &lab.entry else { panic!("{:?}", lab.entry) };
        let mut found = Vec::new();
        for sentinel in sentinels {
            let command = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {master}");
            let (ip, port): (String, u16) = ask(*sentinel, &command).await.unwrap();
            found.push(SocketAddr::new(ip.parse().unwrap(), port));
        }
        found
    }

    /// For how many milliseconds every sentinel has known the first replica as one.
    async fn watched_for(lab: &Deployment) -> u64 {
        let mut least = u64::MAX;
        for sentinel in &lab.sentinels {
            let known: Vec<std::collections::BTreeMap<String, String>> =
                ask(sentinel.address(), "SENTINEL REPLICAS main").await.unwrap();
            least = least.min(known[0]["role-reported-time"].parse().unwrap());
        }
        least
    }

    /// The address that all sentinels give, once it is another one, and that takes writes.
    async fn promoted(lab: &Deployment, before: SocketAddr) -> SocketAddr {
        let mut after = before;
        until("another primary", async || {
            let told = found(lab).await;
            after = told[0];
            let agreed = told.iter().all(|address| *address == after && *address != before);
            agreed && text(after, "INFO replication").await.contains("role:master")
        })
        .await;
        after
    }

    pub async fn a_killed_primary_takes_with_it_what_was_held(backend: &str) {
        let ground = Ground::open(backend, "failover").await;
        let lab = ground.deploy("kind = 'sentinel'").await;
        assert_eq!((lab.replicas.len(), lab.sentinels.len(), lab.servers.len()), (2, 3, 6));
        let before = found(&lab).await[0];
        assert_ne!(before, lab.primary.address(), "clients take the way that sentinels know");
        for link in &lab.links {
            link.hold_after(40, Some("INCR"));
        }
        count(before, 100).await;
        for link in &lab.links {
            until("the writes are held", async || link.held() >= 60).await;
        }
        for replica in &lab.replicas {
            until("40 have arrived", async || counted(replica.address()).await == 40).await;
        }
        lab.primary.kill().await.unwrap();
        let after = promoted(&lab, before).await;
        assert_eq!(counted(after).await, 40);
        lab.links.iter().for_each(|link| link.release());
        count(after, 1).await;
        for replica in &lab.replicas {
            until("both agree", async || counted(replica.address()).await == 41).await;
        }
    }

    pub async fn a_frozen_primary_is_replaced_by_what_a_held_link_let_through(backend: &str) {
        let ground = Ground::open(backend, "frozen").await;
        let lab = ground.deploy("kind = 'sentinel'\nreplicas = 1").await;
        let before = found(&lab).await[0];
        count(before, 7).await;
        until("it has arrived", async || counted(lab.replicas[0].address()).await == 7).await;
        // Sentinels look every ten seconds whom a replica follows, and leave a held link alone.
        lab.links[0].hold_after(3, None);
        count(before, 5).await;
        until("the sentinels have looked again", async || watched_for(&lab).await > 11_000).await;
        assert_eq!((found(&lab).await[0], lab.links[0].held() >= 2), (before, true));
        lab.primary.pause().await.unwrap();
        let after = promoted(&lab, before).await;
        assert_eq!(counted(after).await, 10);
        count(after, 1).await;
    }

    pub async fn slots_are_shared_and_keys_of_several_are_refused(backend: &str) {
        let ground = Ground::open(backend, "slots").await;
        let (lab, one) = tokio::join!(
            ground.deploy("kind = 'cluster'"),
            ground.deploy_as("kind = 'cluster'\nprimaries = 1", "one")
        );
        let Entry::Cluster { seeds } = &lab.entry else { panic!("{:?}", lab.entry) };
        assert_eq!((seeds.len(), lab.servers.len(), lab.replicas.len()), (3, 3, 0));
        for (key, slot) in
            [("rl:user:42:minute", 1339), ("rl:user:42:day", 2278), ("rl:{user:42}:day", 15880)]
        {
            assert_eq!(ask::<i64>(seeds[0], &format!("CLUSTER KEYSLOT {key}")).await.unwrap(), slot);
        }
        let apart = "MGET rl:user:42:minute rl:user:42:day";
        assert_eq!(ask::<()>(seeds[0], apart).await.unwrap_err().code(), Some("CROSSSLOT"));
        let moved = ask::<()>(seeds[0], "MGET rl:{user:42}:minute rl:{user:42}:day").await.unwrap_err();
        let (to, slot) = moved.redirect_node().unwrap();
        assert_eq!((to.parse(), slot), (Ok(seeds[2]), 15880), "{moved}");
        ask::<()>(seeds[2], "MGET rl:{user:42}:minute rl:{user:42}:day").await.unwrap();
        assert_eq!(ask::<()>(one.primary.address(), apart).await.unwrap_err().code(), Some("CROSSSLOT"));
        ask::<()>(one.primary.address(), "MGET rl:{user:42}:minute rl:{user:42}:day").await.unwrap();
    }

    pub async fn every_primary_of_a_cluster_has_its_replica(backend: &str) {
        let ground = Ground::open(backend, "six").await;
        let lab = ground.deploy("kind = 'cluster'\nreplicas = 1").await;
        assert_eq!((lab.servers.len(), lab.replicas.len()), (6, 3));
        ask::<()>(lab.servers[2].address(), "SET rl:{user:42}:day 5").await.unwrap();
        let replica = lab.replicas[2].address();
        until("its replica has it", async || ask::<i64>(replica, "DBSIZE").await.unwrap() == 1).await;
    }

    pub async fn a_clock_of_a_servers_own_is_off_as_much_as_it_should(backend: &str) {
        let ground = Ground::open(backend, "clock").await;
        let (ahead, behind) = tokio::join!(
            ground.deploy_as("kind = 'single'\nclock = '+70s'", "ahead"),
            ground.deploy_as("kind = 'single'\nclock = '-70s'", "behind")
        );
        for (server, seconds) in [(ahead.primary, 70), (behind.primary, -70)] {
            let off = async || probe::time(server.address()).await.unwrap() - clock::system().wall_us();
            let off_before = off().await;
            assert!((off_before - seconds * 1_000_000).abs() < 1_000_000, "{off_before}");
            // Expiry goes by the same clock: neither at once nor seventy seconds late.
            text(server.address(), "SET long 1 PX 50000").await;
            let left: i64 = ask(server.address(), "PTTL long").await.unwrap();
            assert!((1..=50_000).contains(&left), "{left}");
            text(server.address(), "SET short 1 PX 50").await;
            until("it expires", async || {
                ask::<Option<i64>>(server.address(), "GET short").await.unwrap().is_none()
            })
            .await;
            server.kill().await.unwrap();
            server.restart().await.unwrap();
            assert!((off().await - seconds * 1_000_000).abs() < 1_000_000, "after a restart");
        }
    }

    pub async fn a_promoted_replica_tells_another_time(backend: &str) {
        let ground = Ground::open(backend, "clocks").await;
        let lab = ground.deploy("kind = 'replica'\nreplica_clock = '+70s'").await;
        let (primary, replica) = (lab.primary.address(), lab.replicas[0].address());
        let apart = probe::time(replica).await.unwrap() - probe::time(primary).await.unwrap();
        assert!((apart - 70_000_000).abs() < 1_000_000, "{apart}");
        text(primary, "SET count 9 EX 60").await;
        text(primary, "SET marker 1").await;
        until("it has arrived", async || ask::<Option<i64>>(replica, "GET marker").await.unwrap().is_some())
            .await;
        text(replica, "REPLICAOF NO ONE").await;
        // From 7.0 on times of expiry travel as such: for the replica they are over.
        let version = drive::server_info(&mut drive::admin(replica).await.unwrap()).await.unwrap().version;
        if !version.starts_with("6.") {
            assert_eq!(counted(replica).await, 0);
        }
    }

    pub async fn an_address_stays_the_same_through_death(backend: &str) {
        let ground = Ground::open(backend, "stays").await;
        let start = async |name: &str| {
            let spec = ServerSpec { name: name.to_owned(), ..ServerSpec::default() };
            ground.backend.start(spec).await.unwrap()
        };
        let first = start("first").await;
        let address = first.address();
        first.kill().await.unwrap();
        let second = start("second").await;
        assert_ne!(second.address(), address, "it is taken although nobody is there");
        first.restart().await.unwrap();
        assert_eq!(first.address(), address);
        vanishes_and_comes_back(&*first).await;
        assert_eq!(first.address(), address);
    }

    async fn vanishes_and_comes_back(server: &dyn Server) {
        if !server.can_isolate() {
            let refused = server.isolate().await.unwrap_err();
            assert!(matches!(refused, BackendError::Unsupported(_)), "{refused}");
            return server.rejoin().await.unwrap();
        }
        let address = server.address();
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        server.isolate().await.unwrap();
        // The network says nothing, not even that there is nobody.
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"INCR count\r\n").await.unwrap();
        let mut answer = [0; 4];
        let mut reading = Box::pin(tokio::io::AsyncReadExt::read_exact(&mut stream, &mut answer));
        let silence = tokio::time::timeout(Duration::from_secs(1), &mut reading).await;
        assert!(silence.is_err(), "{silence:?}");
        server.rejoin().await.unwrap();
        server.rejoin().await.unwrap();
        reading.await.unwrap();
        assert_eq!((&answer, counted(address).await), (b":1\r\n", 1));
    }

    pub async fn what_a_killed_lab_left_frozen_is_removed(backend: &str) {
        let dead = |state: &std::path::Path, run: &str| {
            let (pid, pid_start) = (99_999_999, Some(1));
            let header = Header { run: run.to_owned(), pid, pid_start, boot: None, started_us: 0 };
            Journal::begin(state, &header).unwrap()
        };
        let ground = Ground::begin(backend, "thawed", dead).await;
        let servers: Vec<_> =
            futures_util::future::join_all(["frozen", "vanished"].map(async |name: &str| {
                let spec = ServerSpec { name: name.to_owned(), ..ServerSpec::default() };
                ground.backend.start(spec).await.unwrap()
            }))
            .await;
        servers[0].pause().await.unwrap();
        if servers[1].can_isolate() {
            servers[1].isolate().await.unwrap();
        }
        let done = gc::gc_in(ground.state.path(), false, None).await;
        assert!(done.left.is_empty() && done.removed.len() >= 2, "{done:?}");
        if backend == "docker" {
            assert_eq!(engine_traces(&ground.run).await, Vec::<String>::new());
        }
        assert!(!gc::run_folder(&ground.run).exists());
    }
}

#[tokio::test]
async fn a_topology_says_what_it_cannot_be() {
    for (toml, why) in [
        ("kind = 'single'\nreplicas = 1", "no replicas"),
        ("kind = 'replica'\nreplicas = 0", "from 1 to 8"),
        ("kind = 'replica'\ndown_after = '1s'", "no down_after"),
        ("kind = 'sentinel'\ndown_after = '0s'", "at least 1ms"),
        ("kind = 'cluster'\nprimaries = 2", "a majority"),
        ("kind = 'cluster'\nreplicas = 2", "has 1 of replicas or 0"),
        ("kind = 'replica'\nconfig = { Replica-Announce-Port = '1' }", "'Replica-Announce-Port'"),
        ("kind = 'cluster'\nconfig = { cluster-enabled = 'no' }", "'cluster-enabled'"),
    ] {
        let plan: TopologyPlan = toml::from_str(toml).unwrap();
        let refused = topologies::find(&plan.kind).unwrap().check(&plan).unwrap_err();
        assert!(refused.contains(why), "{toml}: {refused}");
    }
}
