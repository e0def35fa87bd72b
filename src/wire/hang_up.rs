//! Ends sockets themselves, not only the proxy's handles of them.
//!
//! While a child is being spawned it holds copies of all handles of this process, until it is executed.
//! A socket that is merely closed meanwhile goes on listening, or keeps its peer waiting, and a fault that
//! was acknowledged would not be there yet.

use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;

/// A socket that hangs up when it is dropped.
pub struct HangUp<S: AsRawFd> {
    socket: S,
    on_drop: bool,
}

impl<S: AsRawFd> HangUp<S> {
    pub fn new(socket: S) -> Self {
        Self { socket, on_drop: true }
    }

    /// Only closes it: a reset is sent by closing.
    pub fn close(mut self) {
        self.on_drop = false;
    }
}

impl<S: AsRawFd> Deref for HangUp<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.socket
    }
}

impl<S: AsRawFd> DerefMut for HangUp<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.socket
    }
}

impl<S: AsRawFd> Drop for HangUp<S> {
    fn drop(&mut self) {
        if !self.on_drop {
            return;
        }
        // What is not connected any more has hung up already, and where a listener cannot be ended like
        // this it ends when it is closed.
        // SAFETY: shutdown(2) touches no memory, and the handle is open as long as its owner is there.
        let _ = unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
    }
}
