//! The proxy before a real server. What was applied is told by counters, read past the proxy.

mod actions;
mod blocks;
mod keys;
mod link;
mod noop;
mod steps;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rl_lab::wire::proxy::{Options, Proxy};
use rl_lab::wire::resp::{Decoder, Frame, Limits, Nil, encode_command};

use crate::ground::Ground;

/// A server, a proxy before it, and a connection past it.
struct Scene {
    ground: Ground,
    proxy: Proxy,
    direct: Caller,
}

impl Scene {
    /// `None` where there is no redis-server.
    async fn start(test: &str) -> Option<Self> {
        let ground = Ground::start(test).await?;
        let proxy = Proxy::start(Options::before(ground.address)).unwrap();
        let direct = Caller::connect(ground.address);
        Some(Self { ground, proxy, direct })
    }

    fn caller(&self) -> Caller {
        Caller::connect(self.proxy.address())
    }

    /// What a counter stands at.
    fn count(&mut self, key: &str) -> i64 {
        match self.direct.ask(&format!("GET {key}")) {
            Frame::Bulk(text) => String::from_utf8(text).unwrap().parse().unwrap(),
            Frame::Nil(_) => 0,
            other => panic!("{other:?}"),
        }
    }

    async fn end(self) {
        drop(self.proxy);
        self.ground.end().await;
    }
}

/// A client that knows nothing but the protocol.
struct Caller {
    stream: TcpStream,
    decoder: Decoder,
}

impl Caller {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        // A test that waits for what never comes fails instead of hanging.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { stream, decoder: Decoder::new(Limits::default()) }
    }

    fn send(&mut self, command: &str) {
        self.send_all(&[command]);
    }

    /// As one pipeline, in one piece.
    fn send_all(&mut self, commands: &[&str]) {
        let mut bytes = Vec::new();
        for command in commands {
            encode_command(&command.split(' ').collect::<Vec<_>>(), &mut bytes);
        }
        self.stream.write_all(&bytes).unwrap();
    }

    fn hear(&mut self) -> Frame {
        self.next().expect("the connection was closed")
    }

    /// `None` if the connection was closed, in whatever way.
    fn next(&mut self) -> Option<Frame> {
        let mut piece = [0; 4096];
        loop {
            if let Some((frame, _)) = self.decoder.next().unwrap() {
                return Some(frame);
            }
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(n) => self.decoder.feed(&piece[..n]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn ask(&mut self, command: &str) -> Frame {
        self.send(command);
        self.hear()
    }

    #[track_caller]
    fn is_cut(&mut self) {
        assert_eq!(self.next(), None);
    }

    /// The next reply is that to this: there is none before it.
    #[track_caller]
    fn heard_nothing(&mut self) {
        assert_eq!(self.ask("ECHO nothing"), Frame::Bulk(b"nothing".to_vec()));
    }
}

fn int(n: i64) -> Frame {
    Frame::Int(n)
}

fn ok() -> Frame {
    Frame::Simple(b"OK".to_vec())
}

fn nil() -> Frame {
    Frame::Nil(Nil::Bulk)
}
