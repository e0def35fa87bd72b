//! PostgreSQL on this host: where its programs are, who may run them, and a data folder to copy for each server.
//!
//! Making one takes a second, so it is made once for a run. As root the server refuses to run: it runs as
//! `postgres` where there is such a user, else as `nobody`, in a folder that belongs to that user.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::journal::Journal;
use super::processes;
use super::{binary, last_words, spawner};
use crate::ports::backend::{BackendError, DATABASE_USER};

/// A PostgreSQL that can be started here.
pub struct Installed {
    pub program: PathBuf,
    pub version: String,
    pub because: String,
    account: Option<Account>,
    /// A data folder in which nothing was done yet.
    template: PathBuf,
}

/// Somebody the server may run as.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Account {
    uid: u32,
    gid: u32,
}

/// Names the server program, where it is not to be looked for.
const VARIABLE: &str = "RL_LAB_POSTGRES";
/// Where Debian keeps the programs of each version, none of them on PATH.
const DEBIAN: &str = "/usr/lib/postgresql";
/// Between two looks at `initdb`.
const POLL: Duration = Duration::from_millis(5);
const READY_WITHIN: Duration = Duration::from_secs(60);

impl Installed {
    /// Finds the programs and makes the template below the run's folder, which others than its owner may then
    /// pass through, if the server runs as one of them.
    pub async fn prepare(folder: &Path, journal: &Arc<Journal>) -> Result<Self, BackendError> {
        let (program, version, because) = find().await?;
        let account = account().map_err(BackendError::Missing)?;
        let template = folder.join("initdb");
        let failed = |why: String| BackendError::StartFailed { server: "postgres".to_owned(), why };
        if let Some(account) = &account {
            passable(folder.parent().unwrap_or(folder), account)?;
            let open = chown(folder, None, Some(account.gid))
                .and_then(|()| std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o710)));
            open.map_err(|e| failed(format!("cannot open {} to its user: {e}", folder.display())))?;
        }
        let installed = Self { program, version, because, account, template };
        installed.make_template(journal).await.map_err(failed)?;
        Ok(installed)
    }

    async fn make_template(&self, journal: &Arc<Journal>) -> Result<(), String> {
        let initdb = self.program.with_file_name("initdb");
        self.own_folder(&self.template).map_err(|e| format!("{}: {e}", self.template.display()))?;
        let mut command = self.command(&initdb);
        command.arg("-D").arg(&self.template).args([
            &format!("--username={DATABASE_USER}"),
            "--auth=trust",
            // It is copied, and the copy is what has to last.
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C",
            // A sixteenth of the default is a sixteenth of what is copied.
            "--wal-segsize=1",
            "--no-instructions",
        ]);
        let log = self.template.with_extension("log");
        let (out, err) = File::create(&log)
            .and_then(|file| Ok((file.try_clone()?, file)))
            .map_err(|e| format!("{}: {e}", log.display()))?;
        // What it starts names the folder nowhere else.
        command.env(processes::MARK, &self.template);
        command.current_dir(&self.template).stdin(Stdio::null()).stdout(out).stderr(err);
        let mut running = spawner::spawn(command, Arc::clone(journal)).await.map_err(|e| e.to_string())?;
        let ended = async {
            loop {
                match running.ended() {
                    Ok(Some(status)) => return Ok(status),
                    Ok(None) => tokio::time::sleep(POLL).await,
                    Err(error) => return Err(error.to_string()),
                }
            }
        };
        let late = |_| format!("initdb is not done after {READY_WITHIN:?}");
        let status = tokio::time::timeout(READY_WITHIN, ended).await.map_err(late)??;
        let words = || last_words(&String::from_utf8_lossy(&std::fs::read(&log).unwrap_or_default()));
        if status.success() { Ok(()) } else { Err(format!("initdb ended with {status}{}", words())) }
    }

    /// The program, as the user who may run it.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Some(account) = &self.account {
            command.uid(account.uid).gid(account.gid);
        }
        command
    }

    /// A folder that is the server's alone.
    fn own_folder(&self, folder: &Path) -> std::io::Result<()> {
        DirBuilder::new().mode(0o700).create(folder)?;
        self.give(folder)
    }

    fn give(&self, path: &Path) -> std::io::Result<()> {
        match &self.account {
            Some(account) => chown(path, Some(account.uid), Some(account.gid)),
            None => Ok(()),
        }
    }

    /// A copy of the template at this place.
    pub fn copy_template(&self, to: &Path) -> std::io::Result<()> {
        self.copy(&self.template, to)
    }

    fn copy(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        self.own_folder(to)?;
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            let place = to.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                self.copy(&entry.path(), &place)?;
            } else {
                std::fs::copy(entry.path(), &place)?;
                self.give(&place)?;
            }
        }
        Ok(())
    }
}

/// The server program, its version, and where it was found.
pub async fn find() -> Result<(PathBuf, String, String), BackendError> {
    let advice = format!(
        "install PostgreSQL (`scripts/setup postgres` on Debian), or name its server with {VARIABLE}=PATH"
    );
    let missing = |why: String| BackendError::Missing(format!("{why}; {advice}"));
    let named = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let (path, by) = match named {
        Some(path) => (path, format!("named by {VARIABLE}")),
        None => match binary::on_path(Path::new("postgres")) {
            Some(path) => (path, "on PATH".to_owned()),
            None => {
                (newest(Path::new(DEBIAN)).ok_or_else(|| missing(NOWHERE.to_owned()))?, "Debian's".to_owned())
            }
        },
    };
    // Beside it are the other programs, and not beside a link to it.
    let path = path.canonicalize().map_err(|e| missing(format!("{}: {e}", path.display())))?;
    let said =
        binary::first_words(&path).await.map_err(|why| missing(format!("{}: {why}", path.display())))?;
    let Some(version) = version_in(&said) else {
        return Err(missing(format!("{}: its --version does not read like PostgreSQL's", path.display())));
    };
    if !path.with_file_name("initdb").is_file() {
        return Err(missing(format!("there is no initdb beside {}", path.display())));
    }
    let because = format!("{}, {by}", path.display());
    Ok((path, version, because))
}

const NOWHERE: &str = "there is no PostgreSQL server on PATH, nor where Debian keeps it";

fn newest(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let version = |e: &std::fs::DirEntry| e.file_name().to_str()?.parse::<u32>().ok();
    let found = entries.filter_map(|e| Some((version(&e)?, e.path().join("bin/postgres"))));
    found.filter(|(_, program)| program.is_file()).max().map(|(_, program)| program)
}

/// The version in `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn version_in(words: &str) -> Option<String> {
    let (_, rest) = words.split_once("(PostgreSQL) ")?;
    rest.split_whitespace().next().map(str::to_owned)
}

/// Who the server runs as, where that cannot be whoever runs the lab.
fn account() -> Result<Option<Account>, String> {
    // SAFETY: geteuid(2) cannot fail and touches no memory of ours.
    if unsafe { libc::geteuid() } != 0 {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    ["postgres", "nobody"].iter().find_map(|name| entry(&users, name)).map(Some).ok_or_else(|| {
        "PostgreSQL does not run as root, and there is neither a user 'postgres' nor 'nobody'; \
         run the lab as another user"
            .to_owned()
    })
}

/// Whether somebody else can get there.
fn passable(folder: &Path, account: &Account) -> Result<(), BackendError> {
    let closed = folder.ancestors().find(|folder| {
        folder.metadata().is_ok_and(|about| {
            let bit = match (about.uid() == account.uid, about.gid() == account.gid) {
                (true, _) => 0o100,
                (false, true) => 0o010,
                (false, false) => 0o001,
            };
            about.mode() & bit == 0
        })
    });
    closed.map_or(Ok(()), |closed| {
        Err(BackendError::Missing(format!(
            "PostgreSQL does not run as root, and whom it runs as cannot pass through {}; set TMPDIR to a folder \
             that everybody can get to, or run the lab as another user",
            closed.display()
        )))
    })
}

fn entry(users: &str, name: &str) -> Option<Account> {
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some(Account { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
}

/// Removes what a server that was killed left in the kernel: a segment of shared memory by which it would have
/// known that somebody else works on its data. Its number stands in the data folder.
pub fn release_memory(data: &Path) {
    let Ok(told) = std::fs::read_to_string(data.join("postmaster.pid")) else { return };
    let Some(id) = segment(&told) else { return };
    // SAFETY: shmctl(2) writes to the one structure that it is given, and removes nothing that is in use.
    unsafe {
        let mut about: libc::shmid_ds = std::mem::zeroed();
        if libc::shmctl(id, libc::IPC_STAT, &raw mut about) == 0 && about.shm_nattch == 0 {
            libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
        }
    }
}

/// The second number of the seventh line.
fn segment(told: &str) -> Option<i32> {
    told.lines().nth(6)?.split_whitespace().nth(1)?.parse().ok()
}

/// The same for all servers of a run's folder.
pub fn release_memory_below(folder: &Path) {
    for server in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        release_memory(&server.path().join(DATA));
    }
}

/// A server's data, in its own folder.
pub const DATA: &str = "data";

/// Whether this process runs, whoever it belongs to.
pub async fn gone(pids: &[u32]) -> bool {
    for _ in 0..2_500 {
        if !pids.iter().any(|pid| processes::runs(*pid, None)) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version_and_nothing_of_another_program() {
        let said = "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n";
        assert_eq!(version_in(said).as_deref(), Some("15.18"));
        assert_eq!(version_in("Redis server v=7.0.15 sha=0:0"), None);
    }

    #[test]
    fn the_newest_of_several_versions_is_taken_by_number() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(newest(folder.path()), None);
        for version in ["9", "15", "none"] {
            let programs = folder.path().join(version).join("bin");
            std::fs::create_dir_all(&programs).unwrap();
            std::fs::write(programs.join("postgres"), []).unwrap();
        }
        std::fs::create_dir_all(folder.path().join("16/bin")).unwrap();
        assert_eq!(newest(folder.path()), Some(folder.path().join("15/bin/postgres")));
    }

    #[test]
    fn a_user_is_found_by_the_whole_name() {
        let users =
            "root:x:0:0::/root:/bin/sh\npostgresql:x:7:8::/:/bin/sh\nnobody:x:65534:65533::/:/bin/sh\n";
        assert_eq!(entry(users, "postgres"), None);
        assert_eq!(entry(users, "nobody"), Some(Account { uid: 65_534, gid: 65_533 }));
    }

    #[test]
    fn a_folder_that_is_closed_to_others_is_named() {
        let home = tempfile::tempdir().unwrap();
        let inner = home.path().join("tmp");
        std::fs::create_dir(&inner).unwrap();
        // Whatever the umask says.
        for (folder, mode) in [(home.path(), 0o700), (&inner, 0o755)] {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let other = Account { uid: u32::MAX - 1, gid: u32::MAX - 1 };
        let why = passable(&inner, &other).unwrap_err().to_string();
        assert!(why.contains(&format!("{};", home.path().display())) && why.contains("TMPDIR"), "{why}");
        std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        let why = passable(&inner, &other).err().map(|why| why.to_string());
        let own = format!("{};", home.path().display());
        assert!(why.is_none_or(|why| !why.contains(&own)), "now it is not this one");
    }

    #[test]
    fn the_segment_is_read_from_its_line_only() {
        let told = "30105\n/t/data\n1796132288\n21999\n\n127.0.0.1\n 10248492         4\nready   \n";
        assert_eq!(segment(told), Some(4));
        assert_eq!(segment("30105\n/t/data\n"), None);
    }
}
