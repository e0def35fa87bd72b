//! The lab from outside: one binary for all integration tests, so that they link once.

mod backends;
mod errors;
mod layers;
mod lifecycle;
mod race;
mod support;
