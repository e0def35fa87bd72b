//! What the calls of a foreign history mean, by the object they were made to.

use std::collections::HashMap;

use serde_json::Value;

use super::events::{BadInput, Op};
use crate::model::contract::Denials;
use crate::model::linear::{counter, register};
use crate::model::units::Limit;

/// The object that a history was recorded of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// `read`, `write` with a value, and `cas` with `[from, to]`. Nothing is written at first: a read of
    /// it answers null.
    Register,
    /// One window of a limiter: `acquire`, asked with the cost (null is 1) and answered with true or
    /// false.
    FixedWindow { limit: Limit, denials: Denials },
}

fn bad<T>(line: usize, why: String) -> Result<T, BadInput> {
    Err(BadInput { line, why })
}

/// The values of registers, told apart by number.
#[derive(Debug, Default)]
pub struct Values(HashMap<String, register::Value>);

impl Values {
    fn number(&mut self, value: &Value) -> register::Value {
        if value.is_null() {
            return register::UNWRITTEN;
        }
        let next = register::Value::try_from(self.0.len() + 1).expect("fewer than 2^32 values");
        *self.0.entry(value.to_string()).or_insert(next)
    }

    /// `None` for a read that nobody was told the answer of: it changes nothing.
    pub fn register(&mut self, op: &Op) -> Result<Option<register::Call>, BadInput> {
        match op.f.as_str() {
            "read" => Ok(op.told.as_ref().map(|told| register::Call::Read(self.number(told)))),
            "write" => Ok(Some(register::Call::Write(self.number(&op.asked)))),
            "cas" => match op.asked.as_array().map(Vec::as_slice) {
                Some([from, to]) => Ok(Some(register::Call::Cas(self.number(from), self.number(to)))),
                _ => bad(op.line, format!("'cas' has the value [from, to], not {}", op.asked)),
            },
            other => bad(op.line, format!("a register knows read, write and cas, not '{other}'")),
        }
    }
}

pub fn counter(op: &Op) -> Result<Option<counter::Call>, BadInput> {
    if op.f != "acquire" {
        return bad(op.line, format!("a fixed window knows acquire, not '{}'", op.f));
    }
    let cost = match &op.asked {
        Value::Null => 1,
        asked => match asked.as_u64().and_then(|c| u32::try_from(c).ok()).filter(|c| *c > 0) {
            Some(cost) => cost,
            None => {
                return bad(op.line, format!("a cost is a whole number from 1 to {}, not {asked}", u32::MAX));
            }
        },
    };
    let allowed = match &op.told {
        None => None,
        Some(Value::Bool(allowed)) => Some(*allowed),
        Some(other) => {
            let line = op.end_line.unwrap_or(op.line);
            return bad(line, format!("'acquire' is answered with true or false, not {other}"));
        }
    };
    Ok(Some(counter::Call { cost, allowed }))
}
