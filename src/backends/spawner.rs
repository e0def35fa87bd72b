//! Starts server processes, from one thread that never ends.
//!
//! The kernel can end a child together with its parent, but takes the parent to be the *thread*
//! that forked: from a pool thread, which ends when it was idle for ten seconds, the server would
//! die in mid-run.

use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::{Arc, LazyLock, mpsc};

use tokio::sync::oneshot;

use super::journal::{Journal, Made};
use super::processes;
use crate::ports::backend::BackendError;

/// A child in its own process group, killed and reaped when dropped.
pub struct Running {
    child: Child,
}

struct Job {
    command: Command,
    journal: Arc<Journal>,
    reply: oneshot::Sender<Result<Running, BackendError>>,
}

static SPAWNER: LazyLock<mpsc::Sender<Job>> = LazyLock::new(|| {
    let (jobs, inbox) = mpsc::channel::<Job>();
    let work = move || {
        for Job { command, journal, reply } in inbox {
            // If nobody waits any more, this drops the child and with it ends it.
            let _ = reply.send(spawn_here(command, &journal));
        }
    };
    // Should the thread not start, the jobs' replies are dropped and say so.
    let _ = std::thread::Builder::new().name("rl-lab-spawner".to_owned()).spawn(work);
    jobs
});

/// Starts a server and writes its pid into the journal.
pub async fn spawn(command: Command, journal: Arc<Journal>) -> Result<Running, BackendError> {
    let (reply, answer) = oneshot::channel();
    let failed =
        |why: &str| BackendError::Engine { what: "starting a process".to_owned(), why: why.to_owned() };
    SPAWNER.send(Job { command, journal, reply }).map_err(|_| failed("the spawner thread is gone"))?;
    answer.await.map_err(|_| failed("the spawner thread is gone"))?
}

fn spawn_here(mut command: Command, journal: &Journal) -> Result<Running, BackendError> {
    // A group of its own, or Ctrl-C in the terminal ends the server before the lab knows why.
    command.process_group(0);
    end_with_parent(&mut command);
    let child = command.spawn().map_err(|error| BackendError::Engine {
        what: format!("starting {}", command.get_program().display()),
        why: error.to_string(),
    })?;
    let running = Running { child };
    journal.note(&Made::Process { pid: running.pid(), start: processes::start_time(running.pid()) })?;
    Ok(running)
}

#[cfg(target_os = "linux")]
fn end_with_parent(command: &mut Command) {
    let lab = std::process::id();
    let arrange = move || {
        // SAFETY: both calls are async-signal-safe and take integers only.
        let (set, parent) = unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), libc::getppid()) };
        if set != 0 {
            return Err(std::io::Error::last_os_error());
        }
        // The lab may have died between the fork and the arrangement, which then never fires.
        if u32::try_from(parent) != Ok(lab) {
            return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing, takes no locks and makes only the two calls above.
    unsafe { command.pre_exec(arrange) };
}

/// Elsewhere there is no such arrangement, and gc ends what a killed lab leaves.
#[cfg(not(target_os = "linux"))]
fn end_with_parent(_: &mut Command) {}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The lab's ends of its pipes, where it was given them and nobody took them yet.
    pub fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>) {
        (self.child.stdin.take(), self.child.stdout.take())
    }

    /// How it ended, if it has. Reaps it.
    pub fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Ends it and everything it started, and reaps it.
    pub fn end(&mut self) -> std::io::Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        // Not reaped yet, so the pid, and the group it leads, are still its own.
        processes::signal_group(self.pid(), libc::SIGKILL)?;
        // Dead in less than a millisecond, stopped or not.
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_dropped_child_is_dead_and_reaped() {
        let state = tempfile::tempdir().unwrap();
        let journal = Arc::new(Journal::open_in(state.path(), "spawner-test").unwrap());
        let mut command = Command::new("sleep");
        command.arg("60");
        let child = spawn(command, Arc::clone(&journal)).await.unwrap();
        let pid = child.pid();
        let start = processes::start_time(pid);
        assert!(processes::runs(pid, start));
        assert_eq!(journal.made(), [Made::Process { pid, start }]);
        drop(child);
        assert!(processes::signal(pid, 0).is_err(), "neither alive nor a zombie");
    }
}
