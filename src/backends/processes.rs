//! What the operating system knows about processes: enough to tell a process of ours from a
//! stranger that was given the same pid.
//!
//! On Linux a pid is told apart by its start time; elsewhere only by its command line.

use std::path::Path;

/// When the process started, in clock ticks since boot (field 22 of `/proc/<pid>/stat`). `None`
/// off Linux or when there is no such process.
pub fn start_time(pid: u32) -> Option<u64> {
    stat_field(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?, 22)?.parse().ok()
}

/// A field of a `stat` line, counted from 1 as proc(5) does. The second, the name, may hold blanks
/// and parentheses, so everything is counted from its last parenthesis.
fn stat_field(stat: &str, number: usize) -> Option<&str> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number.checked_sub(3)?)
}

/// Whether the process runs and is the one that started then. A zombie does not run: it may stay
/// for ever where nothing reaps it, as in a container without an init.
pub fn runs(pid: u32, start: Option<u64>) -> bool {
    if !cfg!(target_os = "linux") {
        return signal(pid, 0).is_ok();
    }
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let dead = matches!(stat_field(&stat, 3), None | Some("Z" | "X"));
    let same = start.is_none_or(|s| stat_field(&stat, 22).and_then(|f| f.parse().ok()) == Some(s));
    !dead && same
}

/// Whether the process was sent a SIGKILL and is on its way out: it still runs, for some
/// milliseconds, and makes nothing any more. Nobody tells off Linux.
pub fn is_being_killed(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| kill_is_pending(&status))
}

/// The kernel leaves the signal among those that are pending for the whole process until it is gone.
fn kill_is_pending(status: &str) -> bool {
    let pending = |line: &str| {
        let mask = line.strip_prefix("ShdPnd:").or_else(|| line.strip_prefix("SigPnd:"))?;
        Some(u64::from_str_radix(mask.trim(), 16).ok()? & (1 << (libc::SIGKILL - 1)) != 0)
    };
    status.lines().filter_map(pending).any(|kill| kill)
}

/// Whether every thread of the process is stopped. `None` off Linux, where nobody tells.
pub fn stopped(pid: u32) -> Option<bool> {
    let mut states = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten().map(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat_field(&stat, 3).map(str::to_owned)
    });
    Some(states.all(|state| state.as_deref() == Some("T")))
}

/// Identifies the boot, because start times are counted from it.
pub fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// The variable by which programs of somebody else's, and what they start, are known to be of a run.
pub const MARK: &str = "RL_LAB_RUN_DIR";

/// Whether the process is a server that was started in this folder or below: its command line says so
/// (`--dir`, or the `-D` and the titles of PostgreSQL), or its environment. A shell that looks at the folder does
/// not match, nor an editor.
pub fn serves_in(pid: u32, folder: &Path) -> bool {
    let words = command_line(pid);
    let named = dir_argument(&words).or_else(|| marked(pid));
    named.is_some_and(|dir| Path::new(&dir).starts_with(folder)) || titled(&words, folder)
}

/// Whether it is a child of a PostgreSQL server of this folder: those write their title over their command line
/// and their environment, and have sessions of their own, so that nothing but the cluster's name is left of where
/// they belong.
fn titled(words: &[String], folder: &Path) -> bool {
    let of = |cluster: &str| folder.file_name().is_some_and(|name| name == cluster);
    let title = words.first().and_then(|title| title.strip_prefix("postgres: ")?.split_once(": "));
    title.is_some_and(|(cluster, _)| of(cluster))
}

/// What the environment it was started with says; nobody tells off Linux.
fn marked(pid: u32) -> Option<String> {
    let raw = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mark = format!("{MARK}=");
    let told = raw.split(|b| *b == 0).find_map(|v| v.strip_prefix(mark.as_bytes()))?;
    Some(String::from_utf8_lossy(told).into_owned())
}

/// All servers that were started in this folder or below.
pub fn all_serving_in(folder: &Path) -> Vec<u32> {
    every_pid().into_iter().filter(|&pid| runs(pid, None) && serves_in(pid, folder)).collect()
}

fn dir_argument(args: &[String]) -> Option<String> {
    let at = args.iter().position(|a| a == "--dir" || a == "-D")?;
    args.get(at + 1).cloned()
}

/// The processes that this one started, and what those started, as far as they still are its descendants: whose
/// parent has died belongs to somebody else.
pub fn descendants(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> =
        every_pid().into_iter().filter_map(|child| Some((child, parent(child)?))).collect();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(of) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, parent)| *parent == of).map(|(child, _)| *child));
        next += 1;
    }
    found.split_off(1)
}

fn parent(pid: u32) -> Option<u32> {
    if cfg!(target_os = "linux") {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        return stat_field(&stat, 4)?.parse().ok();
    }
    ps(&["-o", "ppid=", "-p", &pid.to_string()]).trim().parse().ok()
}

fn command_line(pid: u32) -> Vec<String> {
    if cfg!(target_os = "linux") {
        let raw = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        return raw.split(|b| *b == 0).map(|a| String::from_utf8_lossy(a).into_owned()).collect();
    }
    ps(&["-o", "args=", "-p", &pid.to_string()]).split_whitespace().map(str::to_owned).collect()
}

fn every_pid() -> Vec<u32> {
    if !cfg!(target_os = "linux") {
        return ps(&["-axo", "pid="]).split_whitespace().filter_map(|p| p.parse().ok()).collect();
    }
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

fn ps(args: &[&str]) -> String {
    let output = std::process::Command::new("ps").args(args).output();
    output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default()
}

/// Sends a signal to one process; 0 only asks whether it could be sent.
pub fn signal(pid: u32, signal: i32) -> std::io::Result<()> {
    send(i64::from(pid), signal)
}

/// Sends a signal to the group that the process leads.
pub fn signal_group(pid: u32, signal: i32) -> std::io::Result<()> {
    send(-i64::from(pid), signal)
}

fn send(target: i64, signal: i32) -> std::io::Result<()> {
    // 0 and -1 address the lab's own group and everything there is.
    let target = libc::pid_t::try_from(target).ok().filter(|t| *t > 1 || *t < -1);
    let Some(target) = target else { return Err(std::io::ErrorKind::InvalidInput.into()) };
    // SAFETY: kill(2) takes two integers and touches no memory of ours.
    if unsafe { libc::kill(target, signal) } == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_shifts_no_field() {
        let stat = "7 (a) (b c) S 1 7 7 0 -1 4 5 6 7 8 9 10 11 12 13 20 0 1 4242 99";
        assert_eq!(stat_field(stat, 3), Some("S"));
        assert_eq!(stat_field(stat, 22), Some("4242"));
        assert_eq!(stat_field("garbage", 3), None);
    }

    #[test]
    fn we_run_and_nobody_with_our_pid_started_earlier() {
        let me = std::process::id();
        assert!(runs(me, start_time(me)));
        if let Some(start) = start_time(me) {
            assert!(!runs(me, Some(start - 1)));
        }
    }

    #[test]
    fn a_kill_is_told_from_other_signals_that_wait() {
        let status = |own: &str, shared: &str| {
            format!(
                "Name:\tSigPnd:\nState:\tR (running)\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\t00000100\n"
            )
        };
        assert!(kill_is_pending(&status("0000000000000000", "0000000000000100")));
        assert!(kill_is_pending(&status("0000000000000100", "0000000000000000")));
        assert!(
            !kill_is_pending(&status("0000000000000000", "0000000000004000")),
            "a SIGTERM that is blocked"
        );
        assert!(!is_being_killed(std::process::id()));
    }

    #[test]
    fn only_the_dir_argument_makes_a_server_ours() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            dir_argument(&words("redis-server --dir /t/rl-lab-a/p")).as_deref(),
            Some("/t/rl-lab-a/p")
        );
        assert_eq!(dir_argument(&words("tail -f /t/rl-lab-a/p/server.log")), None);
        assert!(!Path::new("/t/rl-lab-ab/p").starts_with("/t/rl-lab-a"));
    }

    #[test]
    fn a_child_of_a_database_is_known_by_its_title() {
        let words = |title: &str| vec![title.to_owned(), String::new()];
        let folder = Path::new("/t/rl-lab-a");
        assert!(titled(&words("postgres: rl-lab-a: checkpointer "), folder));
        assert!(!titled(&words("postgres: rl-lab-ab: checkpointer "), folder));
        assert!(!titled(&words("postgres: checkpointer "), folder));
        let begun = ["/usr/bin/postgres", "-D", "/t/rl-lab-a/s0/data"].map(str::to_owned);
        assert_eq!(dir_argument(&begun).as_deref(), Some("/t/rl-lab-a/s0/data"));
    }

    #[test]
    fn descendants_are_found_through_their_parents() {
        let mut shell = std::process::Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let found = loop {
            let found = descendants(shell.id());
            if !found.is_empty() {
                break found;
            }
            std::thread::yield_now();
        };
        assert!(descendants(std::process::id()).contains(&found[0]), "a grandchild");
        assert!(signal(found[0], libc::SIGKILL).is_ok());
        shell.wait().unwrap();
    }

    #[test]
    fn a_signal_never_reaches_everybody() {
        assert!(signal(0, 0).is_err() && signal(1, 0).is_err());
        assert!(signal_group(0, 0).is_err() && signal_group(1, 0).is_err());
    }
}
