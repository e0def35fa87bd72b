//! From text to calls: events, and the two of them that are one call.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use serde_json::{Map, Value};

use crate::model::units::Nanos;

/// What is wrong with a history, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct BadInput {
    pub line: usize,
    pub why: String,
}

fn bad<T>(line: usize, why: impl Into<String>) -> Result<T, BadInput> {
    Err(BadInput { line, why: why.into() })
}

/// A call that was not certainly without effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    pub process: String,
    pub key: Option<String>,
    pub f: String,
    /// As asked, and as answered if it was.
    pub asked: Value,
    pub told: Option<Value>,
    pub invoke: Nanos,
    /// `None` if nobody knows whether it took effect.
    pub complete: Option<Nanos>,
    /// Where it begins, and where it ends if it does.
    pub line: usize,
    pub end_line: Option<usize>,
}

impl fmt::Display for Op {
    /// `write 3 of process 2 (lines 4 to 9)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = if self.asked.is_null() { String::new() } else { format!(" {}", self.asked) };
        let told = match &self.told {
            Some(told) if *told != self.asked => format!(" → {told}"),
            _ => String::new(),
        };
        write!(f, "{}{asked}{told} of process {} ", self.f, self.process)?;
        match (self.end_line, self.complete) {
            (Some(end), Some(_)) => write!(f, "(lines {} to {end})", self.line),
            (Some(end), None) => write!(f, "(lines {} and {end}, without an answer)", self.line),
            (None, _) => write!(f, "(line {}, without an end)", self.line),
        }
    }
}

/// A history that another tool recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Foreign {
    /// In order of invocation.
    ops: Vec<Op>,
}

struct Event {
    line: usize,
    process: String,
    kind: Kind,
    f: String,
    value: Value,
    time: Option<i64>,
    key: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Invoke,
    Ok,
    Fail,
    Info,
}

impl Foreign {
    pub fn read(text: &str) -> Result<Self, BadInput> {
        let mut events = Vec::new();
        for (line, object) in objects(text)? {
            events.extend(event(line, &object)?);
        }
        // Times for all or for none: without any, the order of the events is the time.
        let timed = events.iter().filter(|e| e.time.is_some()).count();
        if let Some(event) = events.iter().find(|e| e.time.is_none()).filter(|_| timed > 0) {
            return bad(event.line, "an event without a time, where others have one");
        }
        pair(events)
    }

    /// The calls of each key, keys in order.
    pub fn by_key(&self) -> impl Iterator<Item = (Option<&str>, Vec<&Op>)> {
        let mut keys: BTreeMap<Option<&str>, Vec<&Op>> = Default::default();
        for op in &self.ops {
            keys.entry(op.key.as_deref()).or_default().push(op);
        }
        keys.into_iter()
    }
}

/// An object, and the line it stands on.
type Numbered = (usize, Map<String, Value>);

/// The objects of the text with the lines they begin on: those of one array, or one after the other.
fn objects(text: &str) -> Result<Vec<Numbered>, BadInput> {
    let mut found = Vec::new();
    let (mut line, mut at) = (1, 0);
    let (mut array, mut ended, mut comma) = (false, false, true);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'\n' => line += 1,
            b' ' | b'\t' | b'\r' => {}
            _ if ended => return bad(line, "text after the end of the array"),
            b'[' if !array && found.is_empty() => array = true,
            b']' if array && (!comma || found.is_empty()) => ended = true,
            b',' if array && !comma => comma = true,
            b'{' if comma || !array => {
                let mut stream = serde_json::Deserializer::from_str(&text[at..]).into_iter();
                let object = match stream.next() {
                    Some(Ok(object)) => object,
                    Some(Err(e)) if e.is_eof() => return bad(line, "the object that begins here has no end"),
                    Some(Err(e)) => return bad(line + e.line() - 1, told_without_place(&e)),
                    None => return bad(line, "no object"),
                };
                found.push((line, object));
                let length = stream.byte_offset();
                line += text[at..at + length].matches('\n').count();
                at += length;
                comma = false;
                continue;
            }
            _ => {
                let wanted = if array { "an array of events" } else { "an event, or an array of them" };
                return bad(line, format!("not {wanted}, as JSON objects"));
            }
        }
        at += 1;
    }
    if array && !ended {
        return bad(line, "the array has no end");
    }
    Ok(found)
}

/// serde_json counts lines from where it began to read.
fn told_without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// Without the colon of an EDN keyword.
fn plain(text: &str) -> &str {
    text.strip_prefix(':').unwrap_or(text)
}

/// `None` for what a tool did to the system under test: that is no call.
fn event(line: usize, object: &Map<String, Value>) -> Result<Option<Event>, BadInput> {
    let field = |name: &str| object.iter().find(|(k, _)| plain(k) == name).map(|(_, v)| v);
    let text = |name: &str| match field(name) {
        Some(Value::String(text)) => Ok(plain(text).to_owned()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(other) => bad(line, format!("'{name}' is a name or a number, not {other}")),
        None => bad(line, format!("an event without '{name}'")),
    };
    let process = text("process")?;
    if process == "nemesis" {
        return Ok(None);
    }
    let kind = match text("type")?.as_str() {
        "invoke" => Kind::Invoke,
        "ok" => Kind::Ok,
        "fail" => Kind::Fail,
        "info" => Kind::Info,
        other => return bad(line, format!("'type' is invoke, ok, fail or info, not '{other}'")),
    };
    let time = match field("time") {
        None | Some(Value::Null) => None,
        Some(time) => match time.as_i64() {
            Some(ns) => Some(ns),
            None => return bad(line, format!("'time' is a whole number of nanoseconds, not {time}")),
        },
    };
    let key = match field("key") {
        None | Some(Value::Null) => None,
        Some(Value::String(key)) => Some(plain(key).to_owned()),
        Some(other) => Some(other.to_string()),
    };
    let value = field("value").cloned().unwrap_or(Value::Null);
    Ok(Some(Event { line, process, kind, f: text("f")?, value, time, key }))
}

/// A process makes one call at a time: its next event ends the call that it began.
fn pair(events: Vec<Event>) -> Result<Foreign, BadInput> {
    let mut ops: Vec<Op> = Vec::new();
    let mut open: HashMap<String, usize> = HashMap::new();
    // By the event that begins them: a whole history may be on one line.
    let mut without_effect = HashSet::new();
    for (n, event) in events.into_iter().enumerate() {
        let Event { line, process, kind, f, value, time, key } = event;
        let at = Nanos(time.unwrap_or(n as i64));
        if kind == Kind::Invoke {
            if let Some(before) = open.insert(process.clone(), ops.len()) {
                let since = ops[before].line;
                return bad(
                    line,
                    format!("process {process} begins a call and that of line {since} is open"),
                );
            }
            let (asked, told, complete, end_line) = (value, None, None, None);
            ops.push(Op { process, key, f, asked, told, invoke: at, complete, line, end_line });
            continue;
        }
        let Some(begun) = open.remove(&process) else {
            return bad(line, format!("process {process} ends a call that it did not begin"));
        };
        let op = &mut ops[begun];
        if op.f != f {
            return bad(
                line,
                format!("process {process} ends '{f}', and began '{}' on line {}", op.f, op.line),
            );
        }
        if key.is_some() && key != op.key {
            return bad(
                line,
                format!("process {process} ends its call on another key than on line {}", op.line),
            );
        }
        if at < op.invoke {
            return bad(line, format!("an end before its beginning on line {}", op.line));
        }
        op.end_line = Some(line);
        match kind {
            Kind::Ok => (op.complete, op.told) = (Some(at), Some(value)),
            Kind::Fail => {
                without_effect.insert(begun);
            }
            Kind::Info | Kind::Invoke => {}
        }
    }
    let mut at = 0..;
    ops.retain(|_| at.next().is_some_and(|at| !without_effect.contains(&at)));
    ops.sort_by_key(|op| op.invoke);
    Ok(Foreign { ops })
}
