//! Ctrl-C, SIGTERM and SIGHUP: the first one ends the run in good order, a second one at once.

use tokio::signal::unix::{SignalKind, signal};

use super::output;
use crate::runner::record::Stop;

/// Listens until the process ends.
pub fn listen(stop: &Stop) -> std::io::Result<()> {
    let mut streams = Vec::new();
    for (kind, code) in
        [(SignalKind::interrupt(), 130), (SignalKind::terminate(), 143), (SignalKind::hangup(), 129)]
    {
        streams.push((signal(kind)?, code));
    }
    for (mut stream, code) in streams {
        let stop = stop.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                if stop.stopped() {
                    give_up(code);
                }
                output::tell("\nstopping: servers go down and results are kept; once more ends at once");
                stop.now(code);
            }
        });
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "asked for twice: the user will not wait for clean-up")]
fn give_up(code: u8) -> ! {
    output::tell("ended without clean-up; run `rl-lab gc`");
    std::process::exit(i32::from(code))
}
