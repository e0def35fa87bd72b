//! The limiters, one file each with its script beside it. A new one is a file and its line in
//! [`ALL`], or in [`IN_ROWS`] where its store is no Redis; `rl-lab list`, the help, the README's table and the
//! conformance tests read them.

pub mod async_count_flag;
pub mod atomic_throttle;
mod background;
mod common;
pub mod cost_based;
pub mod exceeded_cache;
pub mod external;
pub mod fixed_window_lua;
pub mod fixed_window_numbered;
pub mod foreign;
pub mod gcra_lua;
pub mod get_then_incr;
pub mod in_memory;
pub mod incr_expire_pipeline;
pub mod incr_then_expire;
pub mod laravel;
pub mod laravel_throttle_redis;
pub mod leaky_bucket_lua;
pub mod local_budget_lua;
pub mod local_sync;
pub mod local_then_global;
pub mod login_guard;
pub mod multi_incr_expire_nx;
pub mod multi_limit;
pub mod policies;
pub mod postgres_row;
pub mod quota_by_period;
pub mod regional;
pub mod set_nx_then_incr;
pub mod sharded_counter;
pub mod sliding_counter_lua;
pub mod sliding_log_lua;
pub mod sliding_log_pipeline;
pub mod sliding_log_time_argv;
pub mod static_split;
pub mod token_bucket_lua;
pub mod token_bucket_read_write;
pub mod token_reservation;
pub mod two_key_bucket;
pub mod watch_multi_bucket;

use crate::model::scenario::LimiterRef;
use crate::ports::limiter::Spec;

/// Every limiter whose store is a Redis, or none, in the order of the catalogue.
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
    &atomic_throttle::SPEC,
    &in_memory::SPEC,
    &static_split::SPEC,
    &local_sync::SPEC,
    &local_budget_lua::SPEC,
    &token_reservation::SPEC,
    &sharded_counter::SPEC,
    &multi_limit::SPEC,
    &cost_based::SPEC,
    &login_guard::SPEC,
    &quota_by_period::SPEC,
    &watch_multi_bucket::SPEC,
    &exceeded_cache::SPEC,
    &async_count_flag::SPEC,
    &local_then_global::SPEC,
    &sliding_log_time_argv::SPEC,
    &two_key_bucket::SPEC,
    &regional::SPEC,
];

/// Every limiter that keeps its counters in rows of a database. What runs all limiters runs on machines without one,
/// so these are apart: they stand in the scenarios that name them.
pub static IN_ROWS: &[&Spec] = &[&postgres_row::SPEC];

/// All of both, in the order of the catalogue.
pub fn catalogue() -> Vec<&'static Spec> {
    let mut all: Vec<&Spec> = ALL.iter().chain(IN_ROWS).copied().collect();
    all.sort_by_key(|s| s.id);
    all
}

/// A catalogue number that is a limiter with some of its parameters set.
#[derive(Debug)]
pub struct Alias {
    pub id: &'static str,
    pub of: &'static Spec,
    pub params: &'static [(&'static str, &'static str)],
    pub summary: &'static str,
    pub known: &'static str,
}

/// Numbers that are no limiter of their own.
pub static ALIASES: &[Alias] = &[Alias {
    id: "L09",
    of: &sliding_log_lua::SPEC,
    params: &[("clock", "server")],
    summary: "sliding log: a sorted set of admitted calls by the store's clock, one script",
    known: "exact, whatever the clocks of the app servers say",
}];

impl Alias {
    /// The limiter and its parameters, as a scenario writes them.
    pub fn limiter(&self) -> LimiterRef {
        let params = self.params.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        LimiterRef { name: self.of.name.to_owned(), params: params.collect() }
    }
}

/// A reference by name or catalogue number as one by name, with the parameters that the number implies.
pub fn resolve(wanted: &LimiterRef) -> Result<LimiterRef, String> {
    let Some(alias) = ALIASES.iter().find(|p| p.id.eq_ignore_ascii_case(&wanted.name)) else {
        return Ok(LimiterRef { name: find(&wanted.name)?.name.to_owned(), params: wanted.params.clone() });
    };
    let mut limiter = alias.limiter();
    for (name, value) in &wanted.params {
        let implied = limiter.params.insert(name.clone(), value.clone());
        if implied.is_some_and(|v| v != *value) {
            return Err(format!("{} is {}: it leaves no choice of '{name}'", alias.id, alias.limiter()));
        }
    }
    Ok(limiter)
}

/// Finds a limiter by name or catalogue number; the error names the nearest one. A number of
/// [`ALIASES`] is none: [`resolve`] knows them.
pub fn find(name: &str) -> Result<&'static Spec, String> {
    let found = ALL.iter().chain(IN_ROWS).find(|s| s.name == name || s.id.eq_ignore_ascii_case(name));
    found.copied().map_or_else(|| foreign::find(name), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_catalogue_numbers_are_unique() {
        let all = catalogue();
        for (i, a) in all.iter().enumerate() {
            for b in &all[i + 1..] {
                assert!(a.name != b.name && a.id != b.id, "{} {}", a.name, b.name);
            }
            assert!(ALIASES.iter().all(|p| p.id != a.id), "{}", a.id);
        }
    }

    #[test]
    fn limiters_stand_in_the_order_of_the_catalogue() {
        assert!(ALL.is_sorted_by_key(|s| s.id));
    }

    #[test]
    fn a_number_may_be_a_limiter_with_parameters() {
        let resolved = |text: &str| resolve(&text.parse().unwrap()).map(|l| l.to_string());
        assert_eq!(resolved("L09").unwrap(), "sliding-log-lua:clock=server");
        assert_eq!(resolved("l09:clock=server").unwrap(), "sliding-log-lua:clock=server");
        assert_eq!(resolved("L12:burst=3").unwrap(), "gcra-lua:burst=3");
        assert!(resolved("L09:clock=app").unwrap_err().contains("leaves no choice of 'clock'"));
        assert!(resolved("L99").is_err());
    }

    #[test]
    fn a_limiter_is_found_by_name_and_by_number() {
        assert_eq!(find("fixed-window-lua").unwrap().id, "L06");
        assert_eq!(find("l06").unwrap().name, "fixed-window-lua");
        assert!(find("fixed-windw-lua").err().unwrap().contains("did you mean 'fixed-window-lua'"));
    }
}
