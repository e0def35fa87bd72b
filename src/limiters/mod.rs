//! The limiters, one file each with its script beside it. A new one is a file and its line in
//! [`ALL`]; `rl-lab list`, the help, the README's table and the conformance tests read it.

mod common;
pub mod cost_based;
pub mod fixed_window_lua;
pub mod fixed_window_numbered;
pub mod gcra_lua;
pub mod get_then_incr;
pub mod in_memory;
pub mod incr_expire_pipeline;
pub mod incr_then_expire;
pub mod laravel;
pub mod laravel_throttle_redis;
pub mod leaky_bucket_lua;
pub mod multi_incr_expire_nx;
pub mod set_nx_then_incr;
pub mod sliding_counter_lua;
pub mod sliding_log_lua;
pub mod sliding_log_pipeline;
pub mod sliding_log_time_argv;
pub mod token_bucket_lua;
pub mod token_bucket_read_write;

use crate::model::names;
use crate::ports::limiter::Spec;

/// Every limiter, in the order of the catalogue.
pub static ALL: &[&Spec] = &[
    &get_then_incr::SPEC,
    &incr_then_expire::SPEC,
    &incr_expire_pipeline::SPEC,
    &multi_incr_expire_nx::SPEC,
    &set_nx_then_incr::SPEC,
    &fixed_window_lua::SPEC,
    &fixed_window_numbered::SPEC,
    &sliding_log_lua::SPEC,
    &sliding_log_pipeline::SPEC,
    &sliding_counter_lua::SPEC,
    &gcra_lua::SPEC,
    &token_bucket_lua::SPEC,
    &token_bucket_read_write::SPEC,
    &leaky_bucket_lua::SPEC,
    &laravel::THROTTLE,
    &laravel_throttle_redis::SPEC,
    &laravel::ATTEMPT,
    &in_memory::SPEC,
    &cost_based::SPEC,
    &sliding_log_time_argv::SPEC,
];

/// Finds a limiter by name or catalogue number; the error names the nearest one.
pub fn find(name: &str) -> Result<&'static Spec, String> {
    let found = ALL.iter().find(|s| s.name == name || s.id.eq_ignore_ascii_case(name));
    found.copied().ok_or_else(|| {
        let known: Vec<&str> = ALL.iter().map(|s| s.name).collect();
        names::unknown("limiter", name, &known)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_catalogue_numbers_are_unique() {
        for (i, a) in ALL.iter().enumerate() {
            for b in &ALL[i + 1..] {
                assert!(a.name != b.name && a.id != b.id, "{} {}", a.name, b.name);
            }
        }
    }

    #[test]
    fn a_limiter_is_found_by_name_and_by_number() {
        assert_eq!(find("fixed-window-lua").unwrap().id, "L06");
        assert_eq!(find("l06").unwrap().name, "fixed-window-lua");
        assert!(find("fixed-windw-lua").err().unwrap().contains("did you mean 'fixed-window-lua'"));
    }
}
