//! Removes what runs left behind: everything their journals name, and nothing else.
//!
//! Called by `rl-lab gc` for runs whose lab is dead, and at the end of every run for itself, where
//! it verifies that an orderly shutdown left nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::engine;
use super::journal::{self, Contents, Header, Journal, Made};
use super::{postgres, processes};
use crate::ports::BoxFuture;

/// What a clean-up did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GcReport {
    /// What was removed, or would be in a dry run.
    pub removed: Vec<String>,
    /// What could not be removed, with the reason. Its journal stays.
    pub left: Vec<String>,
    /// Runs whose lab still lives. Untouched.
    pub alive: Vec<String>,
}

/// Cleans up after dead runs, or after one of them.
pub fn gc(dry_run: bool, only: Option<&str>) -> BoxFuture<'_, GcReport> {
    Box::pin(async move { clean(&journal::state_folder(), dry_run, only).await })
}

/// The same in a state folder of the caller's choice.
pub fn gc_in<'a>(state: &'a Path, dry_run: bool, only: Option<&'a str>) -> BoxFuture<'a, GcReport> {
    Box::pin(clean(state, dry_run, only))
}

async fn clean(state: &Path, dry_run: bool, only: Option<&str>) -> GcReport {
    let mut report = GcReport::default();
    for path in journal::all_in(state) {
        let run = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if only.is_some_and(|wanted| wanted != run) {
            continue;
        }
        let Some(contents) = journal::read(&path) else {
            let why = "its first line cannot be read; remove it by hand if no rl-lab runs";
            report.left.push(format!("journal {}: {why}", path.display()));
            continue;
        };
        if lives_on(&contents.header).await {
            report.alive.push(run);
            continue;
        }
        if !dry_run {
            let_the_engine_finish(&path, &contents).await;
        }
        let mut sweep = Sweep { run, dry_run, report: GcReport::default() };
        sweep.everything(&contents).await;
        if sweep.report.left.is_empty() && !dry_run {
            // Another gc may have been faster.
            let _ = std::fs::remove_file(&path);
        }
        report.removed.append(&mut sweep.report.removed);
        report.left.append(&mut sweep.report.left);
    }
    report
}

/// What a lab was making when it was killed can appear a moment later, when gc would have found
/// nothing and forgotten it. This is how long a machine is given to be done with what was entered last; an
/// engine that was busy with many containers was seen to make a network after two seconds.
async fn let_the_engine_finish(journal: &Path, contents: &Contents) {
    let of_an_engine = |made: &Made| matches!(made, Made::Network { .. } | Made::Container { .. });
    let settled = Duration::from_secs(if contents.made.iter().any(of_an_engine) { 5 } else { 2 });
    let written = std::fs::metadata(journal).and_then(|m| m.modified());
    // A time in the future, by a clock that was set, counts as just now.
    let age = written.map_or(settled, |at| at.elapsed().unwrap_or_default());
    tokio::time::sleep(settled.saturating_sub(age)).await;
}

/// Removes what the journal's own run made, although its lab lives.
pub fn sweep(journal: &Journal) -> BoxFuture<'_, GcReport> {
    Box::pin(async move {
        let report = GcReport::default();
        let mut sweep = Sweep { run: journal.run().to_owned(), dry_run: false, report };
        match journal::read(journal.path()) {
            Some(contents) => sweep.everything(&contents).await,
            // Closed already: an earlier sweep found everything gone.
            None if !journal.path().exists() => {}
            None => {
                sweep.report.left.push(format!("journal {}: it cannot be read", journal.path().display()))
            }
        }
        sweep.report
    })
}

/// Whether the lab that wrote this still runs.
fn lives(header: &Header) -> bool {
    same_boot(header) && processes::runs(header.pid, header.pid_start)
}

/// The same, when a lab that was just killed has been waited for: `kill -9` comes back before its
/// process is gone, and a gc right after it would take the run for a living one.
async fn lives_on(header: &Header) -> bool {
    if lives(header) && processes::is_being_killed(header.pid) {
        gone(header.pid).await;
    }
    lives(header)
}

fn same_boot(header: &Header) -> bool {
    header.boot.is_none() || header.boot == processes::boot_id()
}

/// The folder a run's local servers live in, the only one a clean-up may remove.
pub fn run_folder(run: &str) -> PathBuf {
    std::env::temp_dir().join(format!("rl-lab-{run}"))
}

struct Sweep {
    run: String,
    dry_run: bool,
    report: GcReport,
}

impl Sweep {
    async fn everything(&mut self, contents: &Contents) {
        // Processes first: a living server would write into its folder while that is removed.
        if same_boot(&contents.header) {
            self.processes(&contents.made).await;
        }
        for made in &contents.made {
            if let Made::Folder { path } = made {
                self.folder(path);
            }
        }
        self.engines(&contents.made).await;
    }

    async fn processes(&mut self, made: &[Made]) {
        let folder = run_folder(&self.run);
        let journalled = made.iter().filter_map(|m| match m {
            Made::Process { pid, start } if processes::runs(*pid, *start) => Some(*pid),
            _ => None,
        });
        // A process that was spawned and not yet journalled names the folder all the same. Pids
        // that are named by the journal alone are not believed: see `serves_in`.
        let mut ours: BTreeSet<u32> = journalled.filter(|pid| processes::serves_in(*pid, &folder)).collect();
        if made.iter().any(|m| matches!(m, Made::Folder { .. })) {
            ours.extend(processes::all_serving_in(&folder));
        }
        for pid in ours {
            let what = format!("process {pid} of run {}", self.run);
            if self.dry_run {
                self.report.removed.push(what);
                continue;
            }
            // The group holds what a wrapper script started; a process without one gets its own signal.
            let _ = processes::signal_group(pid, libc::SIGKILL);
            let _ = processes::signal(pid, libc::SIGKILL);
            if gone(pid).await {
                self.report.removed.push(what);
            } else {
                self.report.left.push(format!("{what}: it survives SIGKILL"));
            }
        }
    }

    fn folder(&mut self, path: &Path) {
        let what = format!("folder {}", path.display());
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => return self.report.left.push(format!("{what}: {error}")),
            Ok(about) if !about.is_dir() || path != run_folder(&self.run) => {
                let why =
                    "it is not a lab folder in the temp folder; if it is one, set TMPDIR as in that run";
                return self.report.left.push(format!("{what}: {why}"));
            }
            Ok(_) => {}
        }
        if !self.dry_run {
            postgres::release_memory_below(path);
        }
        match if self.dry_run { Ok(()) } else { std::fs::remove_dir_all(path) } {
            Ok(()) => self.report.removed.push(what),
            Err(error) => self.report.left.push(format!("{what}: {error}")),
        }
    }

    async fn engines(&mut self, made: &[Made]) {
        let hosts: BTreeSet<&str> = made.iter().filter_map(docker_host).collect();
        for host in hosts {
            let of_host = |m: &&Made| docker_host(m) == Some(host);
            let mut containers = BTreeSet::new();
            let mut networks = BTreeSet::new();
            for made in made.iter().filter(of_host) {
                match made {
                    Made::Container { name, .. } => containers.insert(name.clone()),
                    Made::Network { name, .. } => networks.insert(name.clone()),
                    _ => false,
                };
            }
            match engine::connect(host).await {
                Ok(engine) => {
                    let swept = engine.sweep(&self.run, containers, networks, self.dry_run).await;
                    self.report.removed.extend(swept.removed);
                    self.report.left.extend(swept.left);
                }
                Err(why) => {
                    let names = containers.iter().chain(&networks).cloned().collect::<Vec<_>>().join(", ");
                    self.report.left.push(format!("{names}: the Docker engine does not answer: {why}"));
                }
            }
        }
    }
}

fn docker_host(made: &Made) -> Option<&str> {
    match made {
        Made::Network { docker_host, .. } | Made::Container { docker_host, .. } => Some(docker_host),
        _ => None,
    }
}

/// Waits until the process is gone: a kill is not done when the signal is sent.
async fn gone(pid: u32) -> bool {
    for _ in 0..1000 {
        if !processes::runs(pid, None) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(pid: u32, pid_start: Option<u64>, boot: Option<String>) -> Header {
        Header { run: "gc-test".into(), pid, pid_start, boot, started_us: 0 }
    }

    #[test]
    fn a_lab_lives_only_as_itself() {
        let me = std::process::id();
        let start = processes::start_time(me);
        assert!(lives(&header(me, start, processes::boot_id())));
        if let Some(start) = start {
            assert!(!lives(&header(me, Some(start + 1), processes::boot_id())), "a later process");
            assert!(!lives(&header(me, Some(start), Some("another boot".into()))), "before a reboot");
        }
    }

    #[test]
    fn a_folder_elsewhere_is_never_removed() {
        let elsewhere = tempfile::tempdir().unwrap();
        let mut sweep = Sweep { run: "gc-test".into(), dry_run: false, report: GcReport::default() };
        sweep.folder(elsewhere.path());
        assert!(elsewhere.path().exists());
        assert_eq!((sweep.report.removed.len(), sweep.report.left.len()), (0, 1));
    }
}
