//! The lab from outside: one binary for all integration tests, so that they link once.

mod backends;
mod checkers;
mod errors;
mod layers;
mod lifecycle;
mod limiters;
mod race;
mod support;
