//! The rules in force, in the order in which they were installed; the first that matches decides.
//!
//! Deciding and changing take the same lock. A rule whose installation has returned is therefore in
//! force for every command that is decided later, and so for every command that is sent later; one whose
//! removal has returned decides none.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use super::rule::{Action, Rule, Subject};
use super::transcript::CommandId;

/// A command that waits for its release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub id: CommandId,
    pub args: Vec<Vec<u8>>,
}

struct Waiting {
    held: Held,
    /// Gone if the connection is.
    release: oneshot::Sender<Action>,
}

struct Installed {
    number: u64,
    rule: Rule,
    hits: u32,
    waiting: VecDeque<Waiting>,
}

impl Installed {
    fn prune(&mut self) -> &mut VecDeque<Waiting> {
        self.waiting.retain(|w| !w.release.is_closed());
        &mut self.waiting
    }
}

#[derive(Default)]
struct Book {
    rules: Vec<Installed>,
    installed: u64,
}

#[derive(Default)]
pub struct Rules {
    book: Mutex<Book>,
    /// Something was hit or released.
    changed: Notify,
}

/// What the first matching rule says.
pub enum Verdict {
    Now(Action),
    /// Held until it is said what to do with it; [`Action::Pass`] if nobody will.
    Later(oneshot::Receiver<Action>),
}

pub struct Decision {
    pub verdict: Verdict,
    /// It was matched by its name.
    pub named: bool,
}

impl Rules {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn install(self: &Arc<Self>, rule: Rule) -> RuleHandle {
        let mut book = self.book();
        book.installed += 1;
        let number = book.installed;
        book.rules.push(Installed { number, rule, hits: 0, waiting: VecDeque::new() });
        RuleHandle { rules: Arc::clone(self), number, kept: false }
    }

    /// `None` if no rule matches.
    pub fn decide(&self, subject: &Subject, id: CommandId) -> Option<Decision> {
        let mut book = self.book();
        let rule = book
            .rules
            .iter_mut()
            .find(|r| r.rule.on.times.is_none_or(|times| r.hits < times) && r.rule.on.fits(subject))?;
        rule.hits += 1;
        let named = rule.rule.on.name.is_some();
        let verdict = match rule.rule.action {
            Action::Hold => {
                let (release, released) = oneshot::channel();
                let held = Held { id, args: subject.args.to_vec() };
                rule.prune().push_back(Waiting { held, release });
                Verdict::Later(released)
            }
            action => Verdict::Now(action),
        };
        drop(book);
        self.changed.notify_waiters();
        Some(Decision { verdict, named })
    }
}

/// A rule that is in force. Dropping it removes it.
#[must_use = "a rule is removed when its handle is dropped"]
pub struct RuleHandle {
    rules: Arc<Rules>,
    number: u64,
    kept: bool,
}

impl RuleHandle {
    fn with<T>(&self, look: impl FnOnce(&mut Installed) -> T) -> Option<T> {
        self.rules.book().rules.iter_mut().find(|r| r.number == self.number).map(look)
    }

    /// How many commands it has matched.
    pub fn hits(&self) -> u32 {
        self.with(|r| r.hits).unwrap_or(0)
    }

    /// The commands that it holds, longest first.
    pub fn held(&self) -> Vec<Held> {
        self.with(|r| r.prune().iter().map(|w| w.held.clone()).collect()).unwrap_or_default()
    }

    /// Lets the command go that has been held longest, and says which it was. It may still be dropped,
    /// cut or duplicated; to hold it again is to let it pass.
    pub fn release_one(&self, action: Action) -> Option<Held> {
        loop {
            let waiting = self.with(|r| r.waiting.pop_front()).flatten()?;
            // A connection that is gone takes no release; the next one in line gets it.
            if waiting.release.send(action).is_ok() {
                self.rules.changed.notify_waiters();
                return Some(waiting.held);
            }
        }
    }

    /// Lets everything pass that is held now, and says how many that were. What comes later is held.
    pub fn release(&self) -> usize {
        let waiting = self.with(|r| std::mem::take(&mut r.waiting)).unwrap_or_default();
        let released = waiting.into_iter().filter_map(|w| w.release.send(Action::Pass).ok()).count();
        self.rules.changed.notify_waiters();
        released
    }

    /// Takes the rule out; what it holds passes. When this returns, it decides nothing any more.
    pub fn remove(self) {}

    /// Leaves the rule in force for as long as the proxy runs.
    pub fn keep(mut self) {
        self.kept = true;
    }

    /// Returns when it has matched so many commands in all.
    pub async fn wait_hit(&self, times: u32) {
        self.wait(|rule| rule.hits >= times).await;
    }

    /// Returns when it holds so many commands at a time.
    pub async fn wait_held(&self, count: usize) {
        self.wait(|rule| rule.prune().len() >= count).await;
    }

    async fn wait(&self, mut reached: impl FnMut(&mut Installed) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.rules.changed.notified());
            // From here on a change is not missed.
            changed.as_mut().enable();
            if self.with(&mut reached).unwrap_or(true) {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for RuleHandle {
    fn drop(&mut self) {
        if !self.kept {
            // What it holds passes, as its senders go.
            self.rules.book().rules.retain(|r| r.number != self.number);
            self.rules.changed.notify_waiters();
        }
    }
}
