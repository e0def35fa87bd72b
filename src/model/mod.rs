//! Floor 0: pure data and arithmetic. No async, no I/O, no clock.

pub mod algorithms;
pub mod bounds;
pub mod contract;
pub mod ending;
pub mod figures;
pub mod groups;
pub mod history;
pub mod http;
pub mod indexed;
pub mod linear;
pub mod matrix;
pub mod metrics;
pub mod names;
pub mod offset;
pub mod op;
pub mod order;
pub mod phases;
pub mod protocol;
pub mod random;
pub mod report;
pub mod room;
pub mod scenario;
pub mod schedule;
pub mod slot;
pub mod units;
pub mod verdict;
