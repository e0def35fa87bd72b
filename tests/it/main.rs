//! The lab from outside: one binary for all integration tests, so that they link once.

mod backends;
mod checkers;
mod completions;
mod docs;
mod errors;
mod evidence;
mod figures;
mod ground;
mod imports;
mod layers;
mod lifecycle;
mod limiters;
mod models;
mod polling;
mod race;
mod scenes;
mod support;
