//! The link port: the stream of writes from a primary to one replica, and what can be done to it.

use std::time::Duration;

use super::backend::BackendError;

/// The way to one replica, whoever its primary is at the moment. It outlives connections: a replica that
/// connects anew finds the link as it was left.
///
/// *Writes* are the commands of the stream that change data. SELECT, PING, REPLCONF, PUBLISH and the
/// MULTI and EXEC around a block count as none, and a block goes on as a whole. What comes as a snapshot,
/// when a replica begins or has missed too much, is not counted.
///
/// Every call is in force when it returns: no write goes on that it forbids.
pub trait Link: Send + Sync {
    /// Holds the stream behind the n-th write from now on that is called `named`, or the n-th of any
    /// name: that write goes on, nothing after it. In a block it is the block's end that is waited for.
    /// With 0 it holds at once. Takes the place of an earlier one.
    ///
    /// What the replica says goes on: it still acknowledges what it has, so the primary sees a replica
    /// that is there and late. A replica that connects while its link is held waits for the answer to its
    /// request: it gave its connection up because nothing came on it (`repl-timeout`, a minute).
    fn hold_after(&self, writes: u64, named: Option<&str>);

    /// Holds the stream where it is.
    fn hold_now(&self) {
        self.hold_after(0, None);
    }

    /// Lets go what is held, in its order, and forgets a hold that is still to come.
    fn release(&self);

    /// Closes the connections, and every new one, until [`Self::mend`]. Both sides notice at once.
    fn cut(&self) -> Result<(), BackendError>;
    fn mend(&self) -> Result<(), BackendError>;

    /// Makes what is sent to the replica from now on so much later, or not any more.
    fn delay(&self, by: Option<Duration>);

    /// Writes that were passed on so far.
    fn passed(&self) -> u64;

    /// Writes that the primary has sent and that were not passed on: held, or delayed. When the connection
    /// ends they are none any more; the next one brings them again.
    fn held(&self) -> u64;

    /// Whether the stream is held right now.
    fn is_holding(&self) -> bool;
}
