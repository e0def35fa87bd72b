//! stdout and stderr, and how they are to be written to.

use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::formats;
use crate::model::report::Report;
use crate::model::verdict::Verdict;
use crate::ports::format::Look;

static PRINTED: AtomicBool = AtomicBool::new(false);

/// Whether stdout was written to.
pub fn printed_anything() -> bool {
    PRINTED.load(Ordering::Relaxed)
}

/// Writes to stdout. A reader that has gone away (`| head`) is no error.
pub fn print(text: &str) -> Result<(), String> {
    let mut stdout = std::io::stdout().lock();
    PRINTED.store(true, Ordering::Relaxed);
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write to stdout: {error}"))
        }
        _ => Ok(()),
    }
}

/// Writes a line to stderr. Nobody may be there to read it, and the run goes on all the same.
pub fn tell(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints a report in one of the formats.
pub fn report(report: &Report, format: &str) -> Result<(), String> {
    let format = formats::find(format).ok_or_else(|| format!("no format '{format}'"))?;
    print(&format.render(report, look())?)
}

/// A verdict as a table shows it.
pub fn label(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "PASS",
        Verdict::Fail => "FAIL",
        other => other.name(),
    }
}

/// What the terminal behind stdout can do.
pub fn look() -> Look {
    let terminal = std::io::stdout().is_terminal();
    Look { color: terminal && color_wanted(), width: if terminal { Some(columns()) } else { None } }
}

fn color_wanted() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// Columns of the terminal; 100 where it does not say. `COLUMNS` wins.
fn columns() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    told.or_else(terminal_columns).unwrap_or(100).max(40)
}

fn terminal_columns() -> Option<usize> {
    // SAFETY: a winsize is plain integers, for which zero is a value.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: TIOCGWINSZ writes a winsize through the pointer, which is to one of this frame.
    let failed = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) } != 0;
    (!failed && size.ws_col > 0).then_some(usize::from(size.ws_col))
}
