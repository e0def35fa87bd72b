//! The policy port: what decides where a limiter cannot.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::clock::Clock;
use super::limiter::{Limiter, Param, read_params};
use crate::model::contract::Contract;
use crate::model::units::{Limit, Window, parse_millis};

/// A policy as the catalogue lists it. One `static` per file under `limiters/policies/`.
#[derive(Debug)]
pub struct PolicySpec {
    /// Catalogue number, such as `P1`.
    pub id: &'static str,
    pub name: &'static str,
    /// One line: what the caller gets.
    pub summary: &'static str,
    pub params: &'static [Param],
    /// What it makes of the limiter's contract.
    pub contract: fn(&PolicySettings, &Terms, Contract) -> Contract,
    pub wrap: fn(Wrap) -> Arc<dyn Limiter>,
}

/// What the limiter is held to, and on how many app servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    pub limit: Limit,
    pub window: Window,
    pub nodes: NonZeroU32,
}

/// What a policy is put around.
pub struct Wrap {
    pub inner: Arc<dyn Limiter>,
    pub settings: PolicySettings,
    pub terms: Terms,
    pub clock: Arc<dyn Clock>,
}

/// A policy's parameters, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySettings(BTreeMap<&'static str, String>);

impl PolicySettings {
    pub fn new(spec: &PolicySpec, given: &BTreeMap<String, String>) -> Result<Self, String> {
        read_params(&format!("policy '{}'", spec.name), spec.params, given).map(Self)
    }

    pub fn param(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// A span, unless it was left empty.
    pub fn span_if_given(&self, name: &str) -> Option<std::time::Duration> {
        parse_millis(self.param(name), name).ok().map(std::time::Duration::from_millis)
    }

    pub fn count(&self, name: &str) -> u64 {
        self.param(name).parse().unwrap_or(1)
    }

    /// A count as a limit, unless it was left empty.
    pub fn limit_if_given(&self, name: &str) -> Option<Limit> {
        self.param(name).parse().ok()
    }
}
