//! Schedules: in which order the commands of several clients reach the store, and what goes wrong on
//! the way. A schedule prints as one line of words and is read back from it.
//!
//! Clients are called `a`, `b`, `c`, …: `a` lets the next command of client a through and hands it the
//! reply; `a.` lets it begin its call, read its clock, and holds it before its first command; `a-` kills it before the
//! command reaches the store, `a+` after the store applied it and before the reply comes back; `a~` loses
//! the reply and the connection, and the client lives on. `tick` lets time pass until the next key has
//! expired; `flush` makes the server forget its scripts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One thing that happens. Clients count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The client's next command is applied and answered.
    Go(u8),
    /// The client begins its call: it has read its clock, and its first command has not left yet.
    Begin(u8),
    /// The client dies; its command never reaches the store.
    DieBefore(u8),
    /// The client dies once the store has applied its command.
    DieAfter(u8),
    /// The store applies the command; reply and connection are lost.
    LoseReply(u8),
    /// Time passes until the next key is due; the clocks of the clients follow.
    Tick,
    /// The server forgets its scripts.
    Flush,
}

/// The most clients a schedule can name.
pub const MOST_CLIENTS: u8 = 26;

impl Step {
    /// The client it is about.
    pub fn client(self) -> Option<u8> {
        match self {
            Self::Go(c) | Self::Begin(c) | Self::DieBefore(c) | Self::DieAfter(c) | Self::LoseReply(c) => {
                Some(c)
            }
            Self::Tick | Self::Flush => None,
        }
    }

    /// Two bytes that no other step has.
    pub fn code(self) -> [u8; 2] {
        let kind = match self {
            Self::Go(_) => b'g',
            Self::Begin(_) => b'.',
            Self::DieBefore(_) => b'-',
            Self::DieAfter(_) => b'+',
            Self::LoseReply(_) => b'~',
            Self::Tick => b't',
            Self::Flush => b'f',
        };
        [kind, self.client().unwrap_or(0)]
    }

    /// Whether it takes something out of a budget.
    pub fn is_fault(self) -> bool {
        !matches!(self, Self::Go(_))
    }

    /// The same step of another client.
    #[must_use]
    pub fn of(self, client: u8) -> Self {
        match self {
            Self::Go(_) => Self::Go(client),
            Self::Begin(_) => Self::Begin(client),
            Self::DieBefore(_) => Self::DieBefore(client),
            Self::DieAfter(_) => Self::DieAfter(client),
            Self::LoseReply(_) => Self::LoseReply(client),
            other => other,
        }
    }
}

/// The letter of a client.
pub fn letter(client: u8) -> char {
    char::from(b'a' + client.min(MOST_CLIENTS - 1))
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Go(c) => write!(f, "{}", letter(c)),
            Self::Begin(c) => write!(f, "{}.", letter(c)),
            Self::DieBefore(c) => write!(f, "{}-", letter(c)),
            Self::DieAfter(c) => write!(f, "{}+", letter(c)),
            Self::LoseReply(c) => write!(f, "{}~", letter(c)),
            Self::Tick => f.write_str("tick"),
            Self::Flush => f.write_str("flush"),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let what =
            || format!("'{text}' is no step: a, a., a-, a+, a~ (any client from a to z), tick or flush");
        match text {
            "tick" => return Ok(Self::Tick),
            "flush" => return Ok(Self::Flush),
            _ => {}
        }
        let mut chars = text.chars();
        let client = chars.next().filter(char::is_ascii_lowercase).ok_or_else(what)?;
        let client = client as u8 - b'a';
        match chars.as_str() {
            "" => Ok(Self::Go(client)),
            "." => Ok(Self::Begin(client)),
            "-" => Ok(Self::DieBefore(client)),
            "+" => Ok(Self::DieAfter(client)),
            "~" => Ok(Self::LoseReply(client)),
            _ => Err(what()),
        }
    }
}

/// Steps in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Schedule(pub Vec<Step>);

impl Schedule {
    /// How often the word passes from one client to another.
    pub fn switches(&self) -> usize {
        let clients: Vec<u8> = self.0.iter().filter_map(|s| s.client()).collect();
        clients.windows(2).filter(|w| w[0] != w[1]).count()
    }

    pub fn faults(&self) -> usize {
        self.0.iter().filter(|s| s.is_fault()).count()
    }

    /// Smaller is easier to read: fewer faults, fewer steps, fewer switches.
    pub fn size(&self) -> (usize, usize, usize) {
        (self.faults(), self.0.len(), self.switches())
    }

    /// The same with clients named in the order of their first step.
    #[must_use]
    pub fn renamed(&self) -> Self {
        let mut order: Vec<u8> = Vec::new();
        let mut name = |client: u8| {
            let at = order.iter().position(|c| *c == client).unwrap_or_else(|| {
                order.push(client);
                order.len() - 1
            });
            u8::try_from(at).unwrap_or(MOST_CLIENTS - 1)
        };
        Self(self.0.iter().map(|s| s.client().map_or(*s, |c| s.of(name(c)))).collect())
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            let gap = if i == 0 { "" } else { " " };
            write!(f, "{gap}{step}")?;
        }
        Ok(())
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split_whitespace().map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl Serialize for Schedule {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What a search goes through: every schedule within these numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    pub clients: u8,
    /// Calls of each client.
    pub requests: u8,
    /// Clients that may die.
    pub crashes: u8,
    /// Times that time may pass.
    pub ticks: u8,
    /// Replies that may be lost.
    pub losses: u8,
    /// Times the server may forget its scripts.
    pub flushes: u8,
    /// Clients that may be held between reading their clock and sending their first command.
    #[serde(default)]
    pub pauses: u8,
}

impl Budget {
    /// `3 clients, 1 call each, ≤ 1 crash, ≤ 1 tick`.
    pub fn in_words(&self) -> String {
        let count = |n: u8, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
        let mut words = vec![
            count(self.clients, "client", "clients"),
            format!("{} each", count(self.requests, "call", "calls")),
        ];
        for (n, one, many) in [
            (self.crashes, "crash", "crashes"),
            (self.ticks, "tick", "ticks"),
            (self.losses, "lost reply", "lost replies"),
            (self.flushes, "script flush", "script flushes"),
            (self.pauses, "pause before a first command", "pauses before first commands"),
        ] {
            if n > 0 {
                words.push(format!("≤ {}", count(n, one, many)));
            }
        }
        words.join(", ")
    }

    pub fn faults(&self) -> u32 {
        let all = [self.crashes, self.ticks, self.losses, self.flushes, self.pauses];
        all.into_iter().map(u32::from).sum()
    }

    #[must_use]
    pub fn without_faults(self) -> Self {
        Self { crashes: 0, ticks: 0, losses: 0, flushes: 0, pauses: 0, ..self }
    }

    #[must_use]
    pub fn with_clients(self, clients: u8) -> Self {
        Self { clients, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read_back_from_what_it_prints() {
        let text = "a b. a+ tick b~ flush b c-";
        let schedule: Schedule = text.parse().unwrap();
        assert_eq!(schedule.to_string(), text);
        assert_eq!(schedule.size(), (6, 8, 4));
        let error = "a ab".parse::<Schedule>().unwrap_err();
        assert!(error.contains("'ab' is no step"), "{error}");
        assert!("A".parse::<Step>().is_err() && "".parse::<Step>().is_err());
    }

    #[test]
    fn clients_are_renamed_in_the_order_in_which_they_come() {
        let schedule: Schedule = "c a tick c- b".parse().unwrap();
        assert_eq!(schedule.renamed().to_string(), "a b tick a- c");
    }

    #[test]
    fn a_budget_names_only_what_it_allows() {
        let budget =
            Budget { clients: 3, requests: 1, crashes: 1, ticks: 0, losses: 2, flushes: 0, pauses: 0 };
        assert_eq!(budget.in_words(), "3 clients, 1 call each, ≤ 1 crash, ≤ 2 lost replies");
        assert_eq!((budget.faults(), budget.without_faults().faults()), (3, 0));
    }
}
