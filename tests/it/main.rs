//! One integration binary: real servers, the real command.

mod backends;
mod docs;
