//! A world in memory to try the search on: clients that read a counter, compare, and write it.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Broken, Ending, Print, Trouble, World};
use crate::model::schedule::Step;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum At {
    Start,
    Read(u64),
    Admitted,
    Denied,
}

/// `GET; compare with the limit; INCR`, by `n` clients, one call each.
pub struct Toy {
    limit: u64,
    clients: Vec<At>,
    counter: u64,
    trace: Vec<(Step, u64)>,
    resets: u64,
    moody: bool,
    stalls_every: Option<u64>,
    ends: u64,
}

impl Toy {
    pub const CHECK: &'static str = "never-over-limit";

    pub fn counters(clients: usize, limit: u64) -> Self {
        Self {
            limit,
            clients: vec![At::Start; clients],
            counter: 0,
            trace: Vec::new(),
            resets: 0,
            moody: false,
            stalls_every: None,
            ends: 0,
        }
    }

    /// What a client reads depends on how often the world was reset.
    pub fn moody(self) -> Self {
        Self { moody: true, ..self }
    }

    /// Stalls at each n-th end.
    pub fn stalling(self, n: u64) -> Self {
        Self { stalls_every: Some(n), ..self }
    }

    fn hash(of: impl Hash) -> Print {
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, &of).hash(&mut hasher);
            u128::from(hasher.finish())
        };
        half(0) << 64 | half(1)
    }
}

impl World for Toy {
    fn reset(&mut self) -> Result<(), Trouble> {
        self.clients.fill(At::Start);
        self.counter = 0;
        self.trace.clear();
        self.resets += 1;
        Ok(())
    }

    fn enabled(&self) -> Vec<Step> {
        let busy = |at: &At| matches!(at, At::Start | At::Read(_));
        (0..).zip(&self.clients).filter(|(_, at)| busy(at)).map(|(c, _)| Step::Go(c)).collect()
    }

    fn open(&self) -> Vec<Step> {
        let open = |at: &At| matches!(at, At::Read(_));
        (0..).zip(&self.clients).filter(|(_, at)| open(at)).map(|(c, _)| Step::Go(c)).collect()
    }

    fn step(&mut self, step: Step) -> Result<(), Trouble> {
        let client = usize::from(step.client().unwrap());
        let moody = u64::from(self.moody && self.resets.is_multiple_of(2));
        self.clients[client] = match self.clients[client] {
            At::Start if self.counter >= self.limit => At::Denied,
            At::Start => At::Read(self.counter + moody),
            _ => {
                self.counter += 1;
                At::Admitted
            }
        };
        self.trace.push((step, self.counter + moody));
        Ok(())
    }

    fn state(&mut self) -> Result<Print, Trouble> {
        let mut clients = self.clients.clone();
        clients.sort_unstable();
        Ok(Self::hash((clients, self.counter)))
    }

    fn trace(&self) -> Print {
        Self::hash(&self.trace)
    }

    fn end(&mut self) -> Result<Ending, Trouble> {
        self.ends += 1;
        if self.stalls_every.is_some_and(|n| self.ends.is_multiple_of(n)) {
            return Err(Trouble::Stalled("for the test".to_owned()));
        }
        let admitted = self.clients.iter().filter(|c| **c == At::Admitted).count() as u64;
        let over = admitted > self.limit;
        let witness = format!("{admitted} admitted at limit {}", self.limit);
        let broken = over.then_some(Broken { check: Self::CHECK, witness }).into_iter().collect();
        Ok(Ending { state: self.state()?, broken })
    }
}
