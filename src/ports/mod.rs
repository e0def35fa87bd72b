//! Floor 1: one trait per file. A family on floor 2 implements one of them; the runner puts the
//! families together.

pub mod backend;
pub mod checker;
pub mod clock;
pub mod database;
pub mod dial;
pub mod fault;
pub mod format;
pub mod limiter;
pub mod link;
pub mod policy;
pub mod route;
pub mod store;
pub mod topology;
pub mod workload;

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
