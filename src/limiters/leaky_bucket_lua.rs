//! A leaky bucket used as a meter, in one script: each call pours its cost in, time lets it leak,
//! and what would overflow is refused.
//!
//! The mirror of a token bucket, with the same bound: what is full here is empty there. It shapes
//! nothing; "even outflow" would need a queue.

use std::sync::{Arc, LazyLock};

use super::common;
use super::token_bucket_lua::{self as bucket, ScriptedBucket};
use crate::ports::limiter::Spec;
use crate::ports::store::Script;

pub static SPEC: Spec = Spec {
    id: "L15",
    name: "leaky-bucket-lua",
    summary: "leaky bucket as a meter: one script leaks, pours and refuses what overflows",
    sends: "EVALSHA; 1 round trip",
    known: "exact; never more than capacity plus leak",
    params: &[common::CLOCK, bucket::CAPACITY],
    foreign: None,
    needs_server: None,
    check: bucket::check,
    contract: bucket::contract,
    build: |build| Arc::new(ScriptedBucket::new(build, &SCRIPT, |capacity, used| used.min(capacity))),
};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("leaky_bucket.lua")));
