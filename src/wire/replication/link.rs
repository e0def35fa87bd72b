//! The state of the way to one replica: what is to be done with its stream, whichever connection it uses.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::stream::Piece;

/// Closing a connection takes as long as its task takes to be scheduled.
const CLOSES_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct State {
    hold: Option<Hold>,
    cut: bool,
    delay: Option<Duration>,
    passed: u64,
    waiting: u64,
    connections: usize,
}

#[derive(Debug)]
struct Hold {
    /// So many more writes go on.
    left: u64,
    named: Option<Vec<u8>>,
}

impl State {
    fn holds(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.left == 0)
    }
}

/// What becomes of a piece of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Goes,
    Waits,
    /// The connection is to be closed.
    Lost,
}

/// A link and its controls. Everything is in force when the call returns: what goes on is decided under the
/// same lock.
pub struct Link {
    state: Mutex<State>,
    closed: Condvar,
    changes: watch::Sender<u64>,
}

impl Default for Link {
    fn default() -> Self {
        Self { state: Mutex::default(), closed: Condvar::new(), changes: watch::Sender::new(0) }
    }
}

impl Link {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let outcome = change(&mut self.state());
        self.changes.send_modify(|n| *n += 1);
        outcome
    }

    /// Holds the stream behind the n-th write from now on, of this name or of any. In a block it is the
    /// block's end that is waited for.
    pub fn hold_after(&self, writes: u64, named: Option<&str>) {
        let named = named.map(|name| name.to_ascii_uppercase().into_bytes());
        self.change(|state| state.hold = Some(Hold { left: writes, named }));
    }

    /// Lets go what is held, and forgets a hold that is still to come.
    pub fn release(&self) {
        self.change(|state| state.hold = None);
    }

    /// Closes the connections, and every new one until [`Self::mend`]. None is open when this returns.
    pub fn cut(&self) -> io::Result<()> {
        self.change(|state| state.cut = true);
        let open = |state: &mut State| state.connections > 0 && state.cut;
        let waited = self.closed.wait_timeout_while(self.state(), CLOSES_WITHIN, open);
        if waited.unwrap_or_else(PoisonError::into_inner).1.timed_out() {
            Err(io::ErrorKind::TimedOut.into())
        } else {
            Ok(())
        }
    }

    pub fn mend(&self) {
        self.change(|state| state.cut = false);
    }

    /// Makes what arrives from now on so much later.
    pub fn delay(&self, by: Option<Duration>) {
        self.change(|state| state.delay = by.filter(|by| !by.is_zero()));
    }

    /// Writes that went on.
    pub fn passed(&self) -> u64 {
        self.state().passed
    }

    /// Writes that arrived and have not gone on.
    pub fn waiting(&self) -> u64 {
        self.state().waiting
    }

    pub fn is_holding(&self) -> bool {
        self.state().holds()
    }

    pub(super) fn is_cut(&self) -> bool {
        self.state().cut
    }

    pub(super) fn delay_now(&self) -> Option<Duration> {
        self.state().delay
    }

    /// Told of every change from now on.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns when the condition holds; it is looked at anew after each change.
    pub(super) async fn until(&self, fulfilled: impl Fn(&Self) -> bool) {
        let mut changes = self.changes();
        while !fulfilled(self) {
            // The sender is ours, so this does not end otherwise.
            let _ = changes.changed().await;
        }
    }

    pub(super) fn arrived(&self, piece: &Piece) {
        self.state().waiting += piece.writes.len() as u64;
    }

    /// Decides, and counts what goes.
    pub(super) fn fate(&self, piece: &Piece) -> Fate {
        let mut state = self.state();
        if state.cut {
            return Fate::Lost;
        }
        if state.holds() {
            return Fate::Waits;
        }
        let writes = piece.writes.len() as u64;
        state.passed += writes;
        state.waiting -= writes;
        if let Some(hold) = &mut state.hold {
            let counts = |name: &&Vec<u8>| hold.named.as_ref().is_none_or(|named| named == *name);
            let matching = piece.writes.iter().filter(counts).count() as u64;
            hold.left = hold.left.saturating_sub(matching);
        }
        Fate::Goes
    }

    /// What arrived on a connection that is closed comes again on the next one.
    pub(super) fn forget(&self, writes: u64) {
        self.state().waiting -= writes;
    }
}

/// A connection of a link.
pub struct Member<'a>(&'a Link);

impl<'a> Member<'a> {
    /// `None` if the link is cut.
    pub fn join(link: &'a Link) -> Option<Self> {
        let mut state = link.state();
        if state.cut {
            return None;
        }
        state.connections += 1;
        Some(Self(link))
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.0.state().connections -= 1;
        self.0.closed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(writes: &[&str]) -> Piece {
        Piece { bytes: Vec::new(), writes: writes.iter().map(|w| w.as_bytes().to_vec()).collect() }
    }

    fn pass(link: &Link, writes: &[&str]) -> Fate {
        let piece = piece(writes);
        link.arrived(&piece);
        link.fate(&piece)
    }

    #[test]
    fn the_nth_write_goes_on_and_nothing_after_it() {
        let link = Link::default();
        link.hold_after(2, Some("incr"));
        let sent = [&["INCR"][..], &["SET"], &[], &["INCR"], &[], &["SET"]];
        let fates: Vec<Fate> = sent.iter().map(|writes| pass(&link, writes)).collect();
        use Fate::{Goes, Waits};
        assert_eq!(fates, [Goes, Goes, Goes, Goes, Waits, Waits]);
        assert_eq!((link.passed(), link.waiting(), link.is_holding()), (3, 1, true));
        link.release();
        assert_eq!((link.fate(&piece(&["SET"])), link.passed(), link.waiting()), (Goes, 4, 0));
    }

    #[test]
    fn a_block_goes_on_as_a_whole() {
        let link = Link::default();
        link.hold_after(2, None);
        assert_eq!(pass(&link, &["INCR", "PEXPIREAT", "INCR"]), Fate::Goes);
        assert_eq!((link.passed(), pass(&link, &["INCR"])), (3, Fate::Waits));
    }

    #[test]
    fn a_link_that_is_cut_takes_nobody_until_it_is_mended() {
        let link = Link::default();
        let member = Member::join(&link).unwrap();
        std::thread::scope(|threads| {
            let cut = threads.spawn(|| link.cut());
            while !link.is_cut() {
                std::thread::yield_now();
            }
            assert_eq!(pass(&link, &["INCR"]), Fate::Lost);
            drop(member);
            cut.join().unwrap().unwrap();
        });
        assert!(Member::join(&link).is_none());
        link.mend();
        assert!(Member::join(&link).is_some());
    }
}
