//! A clock of a server's own, by a library that is loaded into it before all others (`clock.c`).
//!
//! It is built with the lab, where there is a C compiler for Linux, and carried in the binary. Whether it
//! has taken is not assumed: a server that is linked statically loads none, so its TIME is looked at.

use std::net::SocketAddr;

use super::probe;
use crate::ports::backend::{BackendError, ServerSpec};
use crate::ports::clock;

static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));
/// Why the library is empty.
static WHY_NOT: &str = include_str!(concat!(env!("OUT_DIR"), "/clock.txt"));

/// The library's name in a server's folder.
pub const FILE: &str = "rl-lab-clock.so";
/// Where it reads how many milliseconds the clock is ahead.
pub const VARIABLE: &str = "RL_LAB_CLOCK_MS";

/// The most a clock may differ from what it was set to: the way to the server and back, on a busy machine.
const TOLERANCE_US: i64 = 1_000_000;

pub fn library() -> Result<&'static [u8], BackendError> {
    if LIBRARY.is_empty() {
        return Err(BackendError::Unsupported(format!(
            "a server's clock cannot be set apart: the library for it was not built with this rl-lab: {WHY_NOT}"
        )));
    }
    Ok(LIBRARY)
}

/// Whether the server's clock is where it was asked to be.
pub async fn verify(spec: &ServerSpec, address: SocketAddr) -> Result<(), BackendError> {
    let Some(clock) = spec.clock else { return Ok(()) };
    let unsupported = |why: String| {
        let server = &spec.name;
        BackendError::Unsupported(format!("the clock of server '{server}' cannot be set {clock}: {why}"))
    };
    let told = probe::time(address).await.map_err(unsupported)?;
    let off = told - clock::system().wall_us();
    if (off - clock.millis() * 1000).abs() <= TOLERANCE_US {
        return Ok(());
    }
    let off = off as f64 / 1e6;
    Err(unsupported(format!(
        "its TIME is off by {off:.1} s; a program that is linked statically does not load the library for it"
    )))
}
