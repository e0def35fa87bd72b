//! One value that is read, written, and compared and set: the object of most recorded histories.

use super::Sequential;

/// Values are told apart and nothing else, so each is a number; 0 is what nobody has written.
pub type Value = u32;

pub const UNWRITTEN: Value = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    Read(Value),
    Write(Value),
    /// Found the first and left the second. One that found something else changed nothing, and is no
    /// call at all.
    Cas(Value, Value),
}

#[derive(Debug, Clone, Copy)]
pub struct Register;

impl Sequential for Register {
    type State = Value;
    type Call = Call;

    fn start(&self) -> Value {
        UNWRITTEN
    }

    fn apply(&self, state: &Value, call: &Call) -> Option<Value> {
        match *call {
            Call::Read(seen) => (seen == *state).then_some(seen),
            Call::Write(value) => Some(value),
            Call::Cas(from, to) => (from == *state).then_some(to),
        }
    }
}
