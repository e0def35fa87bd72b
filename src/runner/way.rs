//! The clients' way to a server, where it leads through the lab.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::ports::backend::BackendError;
use crate::ports::fault::Way;
use crate::wire::proxy::{Action, Latency, Match, Options, Proxy, RuleHandle};

pub struct Proxied {
    proxy: Proxy,
    /// What keeps everything back while it is there.
    hole: Mutex<Option<RuleHandle>>,
    /// What cuts connections before the reply.
    losing: Mutex<Option<RuleHandle>>,
}

impl Proxied {
    pub fn before(server: SocketAddr) -> Result<Self, BackendError> {
        let proxy = Proxy::start(Options::before(server)).map_err(failed)?;
        Ok(Self { proxy, hole: Mutex::new(None), losing: Mutex::new(None) })
    }
}

impl Proxied {
    /// Puts a rule about every command in the place of the one before.
    fn rule(&self, place: &Mutex<Option<RuleHandle>>, action: Option<Action>) {
        let rule = action.map(|action| self.proxy.install(Match::any().then(action)));
        let before = std::mem::replace(&mut *place.lock().unwrap_or_else(PoisonError::into_inner), rule);
        if let Some(rule) = before {
            rule.remove();
        }
    }
}

fn failed(error: std::io::Error) -> BackendError {
    BackendError::Engine { what: "the lab's proxy".to_owned(), why: error.to_string() }
}

impl Way for Proxied {
    fn address(&self) -> SocketAddr {
        self.proxy.address()
    }

    /// By keeping commands back: TCP sends again what was lost, so it arrives when the hole closes. A proxy that
    /// swallowed it would leave a connection on which each reply belongs to the command before.
    fn black_hole(&self, on: bool) {
        self.rule(&self.hole, on.then_some(Action::Hold));
    }

    fn lose_replies(&self, on: bool) {
        self.rule(&self.losing, on.then_some(Action::CutAfter));
    }

    fn delay(&self, by: Option<Duration>) {
        self.proxy.latency(by.map(|least| Latency { least, ..Latency::default() }));
    }

    fn refuse(&self, on: bool) -> Result<(), BackendError> {
        self.proxy.refuse(on).map_err(failed)?;
        if on {
            self.proxy.cut_all().map_err(failed)?;
        }
        Ok(())
    }
}
