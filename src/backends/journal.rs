//! The journal: what a run is about to make, written down before it is made.
//!
//! One file per run, `journal/<run>.jsonl` in the state folder. It outlives a SIGKILL, so `rl-lab
//! gc` knows what to remove; the run's own end reads it too, so both ways out are one path.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedRwLockReadGuard, RwLock};

use super::{arguments, processes};
use crate::ports::backend::BackendError;
use crate::ports::clock;

/// The first line: whose run it is, so that gc can tell a dead lab from a living one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub run: String,
    pub pid: u32,
    /// Tells the lab from a later process with its pid. `None` off Linux.
    pub pid_start: Option<u64>,
    /// Pids and start times mean nothing after a reboot.
    pub boot: Option<String>,
    /// Microseconds since the Unix epoch.
    pub started_us: i64,
}

/// A thing a run makes outside of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "made", rename_all = "kebab-case")]
pub enum Made {
    Network {
        name: String,
        docker_host: String,
    },
    Container {
        name: String,
        docker_host: String,
    },
    Folder {
        path: PathBuf,
    },
    /// Noted right after the spawn; the folder before it, which the process names as its `--dir`.
    Process {
        pid: u32,
        start: Option<u64>,
    },
}

/// A run's journal while the run lasts.
pub struct Journal {
    run: String,
    path: PathBuf,
    /// `None` once closed.
    file: Mutex<Option<File>>,
    /// Read while something is being made, written to wait for the last of it.
    making: Arc<RwLock<()>>,
}

impl Journal {
    /// Begins the journal of a run in the state folder.
    pub fn open(run: &str) -> Result<Self, BackendError> {
        Self::open_in(&state_folder(), run)
    }

    /// Begins it in a state folder of the caller's choice.
    pub fn open_in(state: &Path, run: &str) -> Result<Self, BackendError> {
        let pid = std::process::id();
        let header = Header {
            run: run.to_owned(),
            pid,
            pid_start: processes::start_time(pid),
            boot: processes::boot_id(),
            started_us: clock::system().wall_us(),
        };
        Self::begin(state, &header)
    }

    /// Begins a journal under another lab's name. For tests of gc, which need a run whose lab is dead.
    pub fn begin(state: &Path, header: &Header) -> Result<Self, BackendError> {
        let run = header.run.as_str();
        arguments::check_name("run", run).map_err(BackendError::Missing)?;
        let folder = state.join(FOLDER);
        let path = folder.join(format!("{run}.jsonl"));
        let create = || {
            std::fs::create_dir_all(&folder)?;
            // Under its final name the file always has its first line: gc may read at any moment.
            let draft = folder.join(format!("{run}.new"));
            let mut file = File::create(&draft)?;
            file.write_all(line(header)?.as_bytes())?;
            std::fs::hard_link(&draft, &path).and(std::fs::remove_file(&draft))?;
            Ok(file)
        };
        let file = create().map_err(|error: std::io::Error| {
            BackendError::Missing(format!(
                "cannot begin the journal {}: {error}; set RL_LAB_STATE_DIR to a folder that can be written",
                path.display()
            ))
        })?;
        Ok(Self { run: run.to_owned(), path, file: Mutex::new(Some(file)), making: Arc::default() })
    }

    pub fn run(&self) -> &str {
        &self.run
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes down what is about to be made. If this fails, do not make it.
    pub fn note(&self, made: &Made) -> Result<(), BackendError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = match file.as_mut() {
            Some(file) => line(made).and_then(|text| file.write_all(text.as_bytes())),
            None => Err(std::io::Error::other("it is closed, the run is over")),
        };
        let what = || format!("cannot write to the journal {}", self.path.display());
        written.map_err(|error| BackendError::Engine { what: what(), why: error.to_string() })
    }

    /// Held while something is made that an engine may finish when nobody waits any more. Take it
    /// before the work becomes a task of its own: clean-up begins when the last one is let go.
    pub async fn making(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.making).read_owned().await
    }

    /// Completes when nothing is being made.
    pub async fn settled(&self) {
        drop(self.making.write().await);
    }

    /// Everything noted so far.
    pub fn made(&self) -> Vec<Made> {
        read(&self.path).map(|contents| contents.made).unwrap_or_default()
    }

    /// Everything is cleaned up: removes the file. Safe to call twice.
    pub fn close(&self) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // One that cannot be removed is found, and emptied again, by gc.
        let _ = std::fs::remove_file(&self.path);
    }
}

const FOLDER: &str = "journal";

fn line(value: &impl Serialize) -> std::io::Result<String> {
    Ok(serde_json::to_string(value)? + "\n")
}

/// A journal as it was found.
#[derive(Debug, PartialEq, Eq)]
pub struct Contents {
    pub header: Header,
    pub made: Vec<Made>,
}

/// Reads a journal. `None` if its first line cannot be read: then nobody knows whose it is.
pub fn read(path: &Path) -> Option<Contents> {
    parse(&String::from_utf8_lossy(&std::fs::read(path).ok()?))
}

/// A line that was cut by a crash, or that another version wrote, is skipped: what it names was
/// either never made or carries the run's label.
fn parse(text: &str) -> Option<Contents> {
    let mut lines = text.lines();
    let header = serde_json::from_str(lines.next()?).ok()?;
    Some(Contents { header, made: lines.filter_map(|l| serde_json::from_str(l).ok()).collect() })
}

/// The journals in a state folder, by name.
pub fn all_in(state: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(state.join(FOLDER)).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> =
        entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|x| x == "jsonl")).collect();
    paths.sort();
    paths
}

/// `RL_LAB_STATE_DIR`, else the user's state folder, else one in the temp folder.
pub fn state_folder() -> PathBuf {
    // SAFETY: getuid(2) cannot fail and touches no memory of ours.
    let uid = unsafe { libc::getuid() };
    state_from(|name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from), uid)
}

fn state_from(variable: impl Fn(&str) -> Option<PathBuf>, uid: u32) -> PathBuf {
    variable("RL_LAB_STATE_DIR")
        .or_else(|| Some(variable("XDG_STATE_HOME")?.join("rl-lab")))
        .or_else(|| Some(variable("HOME")?.join(".local/state/rl-lab")))
        .unwrap_or_else(|| std::env::temp_dir().join(format!("rl-lab-state-{uid}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_last_line_hides_nothing() {
        let text = concat!(
            r#"{"run":"r1","pid":7,"pid_start":42,"boot":null,"started_us":1}"#,
            "\n",
            r#"{"made":"network","name":"rl-lab-r1","docker_host":"unix:///d.sock"}"#,
            "\n{\"made\":\"from a later version\"}\n",
            r#"{"made":"process","pid":9,"start":null}"#,
            "\n{\"made\":\"contai"
        );
        let contents = parse(text).unwrap();
        assert_eq!((contents.header.run.as_str(), contents.header.pid_start), ("r1", Some(42)));
        let network = Made::Network { name: "rl-lab-r1".into(), docker_host: "unix:///d.sock".into() };
        assert_eq!(contents.made, [network, Made::Process { pid: 9, start: None }]);
    }

    #[test]
    fn a_file_without_a_header_is_nobodys() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("{\"made\":\"process\",\"pid\":9,\"start\":null}\n"), None);
    }

    #[test]
    fn the_state_folder_has_three_fallbacks() {
        let with = |names: &'static [&str]| {
            state_from(move |n| names.contains(&n).then(|| PathBuf::from(format!("/{n}"))), 5)
        };
        assert_eq!(with(&["RL_LAB_STATE_DIR", "HOME"]), Path::new("/RL_LAB_STATE_DIR"));
        assert_eq!(with(&["XDG_STATE_HOME", "HOME"]), Path::new("/XDG_STATE_HOME/rl-lab"));
        assert_eq!(with(&["HOME"]), Path::new("/HOME/.local/state/rl-lab"));
        assert_eq!(with(&[]), std::env::temp_dir().join("rl-lab-state-5"));
    }

    #[test]
    fn a_run_has_one_journal_and_leaves_none() {
        let state = tempfile::tempdir().unwrap();
        let journal = Journal::open_in(state.path(), "r1").unwrap();
        assert!(Journal::open_in(state.path(), "r1").is_err());
        let made = Made::Process { pid: 9, start: Some(1) };
        journal.note(&made).unwrap();
        assert_eq!(journal.made(), std::slice::from_ref(&made));
        assert_eq!(all_in(state.path()), [journal.path().to_owned()]);
        journal.close();
        journal.close();
        assert!(journal.note(&made).is_err() && all_in(state.path()).is_empty());
    }
}
