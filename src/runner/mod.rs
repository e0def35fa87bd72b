//! Floor 3: the only place where the families meet. plan → stage → drive → judge → store.

mod acts;
mod app;
pub mod analyze;
pub mod claims;
mod deploy;
pub mod drive;
pub mod execute;
pub mod exit;
pub mod explore;
mod faults;
mod fronts;
pub mod headers;
pub mod judge;
pub mod linearizable;
pub mod matrix;
mod nodes;
pub mod out;
pub mod plan;
mod reach;
pub mod record;
pub mod scenarios;
pub mod serve;
pub mod serve_http;
pub mod stage;
mod stats;
mod timeline;
mod way;
