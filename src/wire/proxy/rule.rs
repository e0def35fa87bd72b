//! What a rule looks for and what it does.

use std::time::Duration;

use super::glob;

/// What is to happen to a command.
///
/// A reply that is lost, or a command that is swallowed, stays missing: TCP cannot lose part of a
/// stream, so a client that goes on to use the connection takes the next reply for the missing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Pass,
    /// Goes on after this long, and what comes behind it on the connection with it. Whole milliseconds.
    Delay(Duration),
    /// Waits until it is released, and what comes behind it on the connection with it.
    Hold,
    /// Never reaches the store and is never answered; the connection stays.
    Drop,
    /// What came before is answered, then the connection is closed; the store never sees the command.
    CutBefore,
    /// The store answers; the connection is closed before the caller hears it.
    CutAfter,
    /// The store answers, and the caller never hears it; the connection stays.
    LoseReply,
    /// The store gets it twice, one behind the other; the caller hears the first reply.
    Duplicate,
}

/// Which commands a rule is about. What is `None` does not matter.
///
/// The commands of a handshake ([`is_handshake`](super::is_handshake)) are matched by their name alone.
/// Commands that MULTI queues are no steps of their own: only a rule that says `nth` matches one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Match {
    /// The connection's number, from 1 in the order in which they were accepted.
    pub connection: Option<u64>,
    /// The number of the command on its connection, from 1, the handshake left out.
    pub nth: Option<u32>,
    /// The command's name, with its subcommand where there is a space (`SCRIPT LOAD`), in any case.
    /// `MULTI` stands for the whole block: it is held, dropped or cut before its first command, and
    /// duplicated or cut after the reply of EXEC.
    pub name: Option<String>,
    /// A pattern as in Redis' KEYS that one of the command's keys matches; of EXEC, one of the block's.
    pub key: Option<Vec<u8>>,
    /// How often the rule matches; then it is there but matches no more.
    pub times: Option<u32>,
}

impl Match {
    /// Every command outside of handshakes.
    pub fn any() -> Self {
        Self::default()
    }

    /// Commands of this name.
    pub fn name(name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..Self::default() }
    }

    /// The n-th command of every connection.
    pub fn nth(n: u32) -> Self {
        Self { nth: Some(n), ..Self::default() }
    }

    #[must_use]
    pub fn on(self, connection: u64) -> Self {
        Self { connection: Some(connection), ..self }
    }

    #[must_use]
    pub fn key(self, pattern: &str) -> Self {
        Self { key: Some(pattern.as_bytes().to_vec()), ..self }
    }

    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }

    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }

    pub fn then(self, action: Action) -> Rule {
        Rule { on: self, action }
    }
}

/// Which commands, and what happens to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub on: Match,
    pub action: Action,
}

/// Whether one of a command's keys is wanted.
pub type AnyKey<'a> = dyn Fn(&dyn Fn(&[u8]) -> bool) -> bool + 'a;

/// A command as rules see it.
pub struct Subject<'a> {
    pub connection: u64,
    /// `None` for a handshake.
    pub n: Option<u32>,
    pub queued: bool,
    pub args: &'a [Vec<u8>],
    /// Asked for only by rules that name a key.
    pub any_key: &'a AnyKey<'a>,
}

impl Match {
    pub(super) fn fits(&self, subject: &Subject) -> bool {
        let by_name = self.name.as_deref().map(|name| is_named(subject.args, name));
        (subject.n.is_some() || by_name.is_some())
            && (!subject.queued || self.nth.is_some())
            && by_name != Some(false)
            && self.connection.is_none_or(|c| c == subject.connection)
            && self.nth.is_none_or(|n| Some(n) == subject.n)
            && self.key.as_ref().is_none_or(|pattern| (subject.any_key)(&|key| glob::matches(pattern, key)))
    }
}

/// Whether the command has this name, which may be one of two words.
pub fn is_named(args: &[Vec<u8>], name: &str) -> bool {
    let mut words = name.split_ascii_whitespace();
    let mut same = |at: usize| match (words.next(), args.get(at)) {
        (Some(word), Some(arg)) => arg.eq_ignore_ascii_case(word.as_bytes()),
        (None, _) => at > 0,
        (Some(_), None) => false,
    };
    same(0) && same(1)
}
