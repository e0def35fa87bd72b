//! The search through all schedules: which client's command comes next, who dies, when time passes.
//!
//! It knows nothing of limiters or servers, only of a [`World`] that can be put back to its beginning,
//! moved by one [`Step`], and asked for the state it is in. The search is stateless: a world cannot
//! be copied, so every branch is run from the beginning.

pub mod levels;
pub mod pct;
pub mod search;
pub mod shrink;

#[cfg(test)]
pub mod toy;

use crate::model::schedule::Step;

/// A fingerprint of 128 bits. Two states are taken for the same if theirs are: among a million states
/// the chance that any two collide is below 10⁻²⁶.
pub type Print = u128;

/// What is explored.
pub trait World: Send {
    /// Back to the beginning.
    fn reset(&mut self) -> Result<(), Trouble>;

    /// What may happen next, always in the same order. Empty where everybody is done.
    fn enabled(&self) -> Vec<Step>;

    /// As [`World::enabled`], and of steps that differ only in the name of the client one.
    fn distinct(&self) -> Vec<Step> {
        self.enabled()
    }

    /// The steps that bring calls to an end which have begun; nothing else is worth doing once the
    /// rest of a schedule was cut away.
    fn open(&self) -> Vec<Step>;

    /// Does an enabled step.
    fn step(&mut self, step: Step) -> Result<(), Trouble>;

    /// Everything that the future depends on, up to the names of the clients.
    fn state(&mut self) -> Result<Print, Trouble>;

    /// Everything seen since the beginning, exactly: whoever goes the same way must see the same.
    fn trace(&self) -> Print;

    /// Judges the state at which a schedule has ended. The world needs a reset afterwards.
    fn end(&mut self) -> Result<Ending, Trouble>;
}

/// How a schedule ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Outcomes and keys, up to the names of the clients.
    pub state: Print,
    pub broken: Vec<Broken>,
}

/// A property that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub check: &'static str,
    /// What happened, in words.
    pub witness: String,
}

/// Why a schedule says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It took too long to be what it stands for. It may be run again: it is the same schedule.
    Stalled(String),
    /// The same steps did not lead to the same place: this is no world that can be enumerated.
    Nondeterministic(String),
    /// This world cannot be told exactly, however often it is run.
    Unfit(String),
    /// The ground is gone: the server, or the lab.
    Lost(String),
}

/// Goes the given way, leaving out what is not enabled, then brings what has begun to its end. Answers
/// with the way gone.
pub fn follow(world: &mut dyn World, steps: &[Step]) -> Result<(Vec<Step>, Ending), Trouble> {
    world.reset()?;
    let mut gone = Vec::new();
    for step in steps {
        if world.enabled().contains(step) {
            world.step(*step)?;
            gone.push(*step);
        }
    }
    while let Some(step) = world.open().first().copied() {
        world.step(step)?;
        gone.push(step);
    }
    let ending = world.end()?;
    Ok((gone, ending))
}

/// [`follow`], and again where it stalled.
pub fn follow_patiently(world: &mut dyn World, steps: &[Step]) -> Result<(Vec<Step>, Ending), Trouble> {
    let mut tries = 0;
    loop {
        match follow(world, steps) {
            Err(Trouble::Stalled(_)) if tries < PATIENCE => tries += 1,
            other => return other,
        }
    }
}

/// How often a schedule that stalled is begun again. It is no second chance for a verdict: a stalled
/// schedule has none.
pub const PATIENCE: u32 = 10;
