//! `rl-lab`: a chaos and correctness lab for rate limiters.
//!
//! Five floors; a module imports only floors below its own (a test reads the imports):
//!
//! | floor | modules | what lives there |
//! |---|---|---|
//! | 0 | [`model`] | pure data and arithmetic: units, contracts, ops, histories, verdicts, scenarios |
//! | 1 | [`ports`] | one trait per file: limiter, store, backend, topology, link, workload, checker, format, clock |
//! | 1 | [`wire`] | RESP2 and RESP3, and a proxy that can interfere at a step of the protocol |
//! | 2 | [`limiters`] [`clients`] [`backends`] [`topologies`] [`workloads`] [`checkers`] [`formats`] | one family each; they never import each other |
//! | 3 | [`runner`] | the only place where families meet: plan, stage, drive, judge, store |
//! | 4 | [`cli`] | clap, printing and exit codes |

// Both panic where nobody reads: `cli::output` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod backends;
pub mod checkers;
pub mod cli;
pub mod clients;
pub mod explorer;
pub mod formats;
pub mod limiters;
pub mod model;
pub mod ports;
pub mod runner;
pub mod topologies;
pub mod wire;
pub mod workloads;
