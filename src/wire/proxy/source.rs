//! One direction of a connection, read through the latency of the link.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::tcp::ReadHalf;
use tokio::time::Sleep;

use super::link::Link;

pub const PIECE: usize = 16 << 10;
/// Pieces that may be on their way at a time; a sender that is faster waits, as with a full window.
const ON_THEIR_WAY: usize = 1024;

struct Late {
    due: Pin<Box<Sleep>>,
    piece: io::Result<Vec<u8>>,
}

pub struct Source<'a> {
    from: ReadHalf<'a>,
    link: &'a Link,
    buffer: Vec<u8>,
    late: VecDeque<Late>,
    /// The end was read, and is on its way or was given out.
    ended: bool,
}

impl<'a> Source<'a> {
    pub fn new(from: ReadHalf<'a>, link: &'a Link) -> Self {
        Self { from, link, buffer: vec![0; PIECE], late: VecDeque::new(), ended: false }
    }

    /// The next piece, empty at the end of the stream. Several may be on their way: a pipeline is late
    /// once, not once for each of its commands.
    pub async fn read(&mut self) -> io::Result<&[u8]> {
        while self.late.is_empty() {
            let read = self.from.read(&mut self.buffer).await;
            match self.link.delay() {
                None => return read.map(|n| &self.buffer[..n]),
                Some(delay) => self.put_off(read, delay),
            }
        }
        loop {
            let more = !self.ended && self.late.len() < ON_THEIR_WAY;
            let first = &mut self.late[0];
            tokio::select! {
                biased;
                () = first.due.as_mut() => break,
                read = self.from.read(&mut self.buffer), if more => {
                    let delay = self.link.delay().unwrap_or_default();
                    self.put_off(read, delay);
                }
            }
        }
        let piece = self.late.pop_front().map_or(Ok(Vec::new()), |late| late.piece)?;
        self.buffer[..piece.len()].copy_from_slice(&piece);
        Ok(&self.buffer[..piece.len()])
    }

    fn put_off(&mut self, read: io::Result<usize>, delay: Duration) {
        self.ended = !matches!(read, Ok(1..));
        let piece = read.map(|n| self.buffer[..n].to_vec());
        self.late.push_back(Late { due: Box::pin(tokio::time::sleep(delay)), piece });
    }
}
