//! A thread that takes connections: accepts, refuses, cuts.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use super::hang_up::HangUp;

/// What the thread is asked to do. It acknowledges when it is done.
pub enum Order {
    Refuse(bool, mpsc::Sender<io::Result<()>>),
    /// Acknowledged with the number of connections that were cut.
    CutAll(mpsc::Sender<usize>),
}

const BACKLOG: u32 = 1024;

struct Door {
    address: SocketAddr,
    /// Bound and never listening: while connections are refused, the port stays the proxy's.
    _reserved: TcpSocket,
    listener: Option<HangUp<TcpListener>>,
}

fn socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    #[cfg(unix)]
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

impl Door {
    fn open(address: SocketAddr) -> io::Result<Self> {
        let reserved = socket(address)?;
        let address = reserved.local_addr()?;
        let listener = Some(HangUp::new(socket(address)?.listen(BACKLOG)?));
        Ok(Self { address, _reserved: reserved, listener })
    }

    fn refuse(&mut self, on: bool) -> io::Result<()> {
        if on {
            self.listener = None;
        } else if self.listener.is_none() {
            self.listener = Some(HangUp::new(socket(self.address)?.listen(BACKLOG)?));
        }
        Ok(())
    }

    async fn accept(&self) -> HangUp<TcpStream> {
        loop {
            match &self.listener {
                None => std::future::pending().await,
                Some(listener) => match listener.accept().await {
                    Ok((stream, _)) => return HangUp::new(stream),
                    // No descriptors left, or a client that is gone again: others may do better later.
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
                },
            }
        }
    }
}

/// Serves each connection, numbered from 1, until nobody can send orders any more.
pub async fn run<F: Future<Output = ()> + Send + 'static>(
    bind: SocketAddr,
    mut serve: impl FnMut(u64, HangUp<TcpStream>) -> F,
    mut orders: UnboundedReceiver<Order>,
    started: mpsc::Sender<io::Result<SocketAddr>>,
) {
    let mut door = match Door::open(bind) {
        Ok(door) => door,
        Err(error) => return drop(started.send(Err(error))),
    };
    // Whoever gave the order and does not wait for its end loses only the acknowledgement.
    let _ = started.send(Ok(door.address));
    let mut connections = JoinSet::new();
    let mut accepted = 0;
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                None => break,
                Some(Order::Refuse(on, done)) => drop(done.send(door.refuse(on))),
                Some(Order::CutAll(done)) => {
                    // Those that have ended by themselves are not cut.
                    while connections.try_join_next().is_some() {}
                    let cut = connections.len();
                    connections.shutdown().await;
                    let _ = done.send(cut);
                }
            },
            client = door.accept() => {
                accepted += 1;
                connections.spawn(serve(accepted, client));
            }
            Some(_) = connections.join_next() => {}
        }
    }
    connections.shutdown().await;
}
