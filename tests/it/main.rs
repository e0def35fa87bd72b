//! The lab from outside: one binary for all integration tests, so that they link once.

mod backends;
mod checkers;
mod completions;
mod docs;
mod errors;
mod evidence;
mod explore;
mod figures;
mod ground;
mod imports;
mod layers;
mod lifecycle;
mod limiters;
mod linearizable;
mod login_guard;
mod matrix;
mod models;
mod mutants;
mod polling;
mod race;
mod refusals;
mod scenes;
mod sessions;
mod several_keys;
mod support;
mod wire;
