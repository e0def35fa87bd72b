//! Ports for servers on the loopback address.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// How often to pick another port when somebody was faster than the server.
pub const ATTEMPTS: u32 = 8;

/// Below the range from which clients are given theirs: inside it, a client that keeps reconnecting
/// to a killed server is sooner or later given the server's own port, connects to itself, and keeps
/// the server from coming back. A cluster's bus, 10,000 higher, stays below that range too.
const FIRST: u32 = 20_000;
const COUNT: u32 = 2_700;

/// A port nobody listens on at the moment. The last attempt takes any, also from the clients' range.
pub fn free(attempt: u32) -> Option<u16> {
    let low = candidates().find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    low.filter(|_| attempt < ATTEMPTS).or_else(|| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        Some(listener.local_addr().ok()?.port())
    })
}

/// All ports of the range, from one on that this process has not used yet. Labs side by side begin
/// far apart.
fn candidates() -> impl Iterator<Item = u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let base = std::process::id().wrapping_mul(97);
    (0..COUNT).filter_map(move |_| {
        let n = base.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        u16::try_from(FIRST + n % COUNT).ok()
    })
}

/// Whether a server that ended did so because somebody had its port.
pub fn was_taken(log: &str) -> bool {
    log.contains("Address already in use")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_low_and_not_handed_out_twice_in_a_row() {
        let (a, b) = (free(1).unwrap(), free(1).unwrap());
        assert_ne!(a, b);
        for port in [a, b] {
            assert!((20_000..22_700).contains(&port), "{port}");
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        }
        assert!(free(ATTEMPTS).is_some());
    }
}
