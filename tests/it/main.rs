//! The lab from outside: one binary for all integration tests, so that they link once.

mod backends;
mod checkers;
mod completions;
mod docs;
mod errors;
mod evidence;
mod ground;
mod imports;
mod layers;
mod lifecycle;
mod limiters;
mod login_guard;
mod models;
mod race;
mod sessions;
mod several_keys;
mod steady;
mod support;
