//! Who the app servers of a round are: how many at which time, how much of the traffic each gets, and what is
//! rolled out to them meanwhile.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{LimiterRef, Shape, WorkloadPlan};
use crate::model::units::{Limit, NodeId, Span};

/// `[[workload.scale]]`: from then on there are so many app servers. Those that come are new; those that go get no
/// more calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedScale {
    /// From the beginning of the round.
    pub at: Span,
    pub nodes: NonZeroU32,
}

/// `[[workload.deploy]]`: from then on app servers run another version of the limiter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedDeploy {
    /// From the beginning of the round.
    pub at: Span,
    /// The app servers it is rolled out to; all where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<u16>>,
    /// What the new version puts before each key: another key format.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key_prefix: String,
    /// The new version's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The new version's limiter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limiter: Option<LimiterRef>,
    /// For so long the new version asks the old one's key as well, and admits what both admit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub both_for: Option<Span>,
}

impl PlannedDeploy {
    pub fn is_for(&self, node: u16) -> bool {
        self.nodes.as_ref().is_none_or(|nodes| nodes.contains(&node))
    }

    pub fn validate(&self, nodes: u32) -> Result<(), String> {
        let named = self.nodes.as_deref().unwrap_or_default();
        if self.nodes.is_some() && named.is_empty() {
            return Err("a deploy to no node changes nothing: leave nodes out for all of them".to_owned());
        }
        if let Some((_, node)) = named.iter().enumerate().find(|(n, node)| named[..*n].contains(node)) {
            return Err(format!("a deploy names node {node} twice"));
        }
        if let Some(node) = named.iter().find(|n| u32::from(**n) >= nodes) {
            return Err(format!("a deploy goes to node {node}, and there are {nodes} from 0 on"));
        }
        if self.key_prefix.is_empty() && self.limit.is_none() && self.limiter.is_none() {
            return Err("a deploy changes something: key_prefix, limit or limiter".to_owned());
        }
        if self.both_for.is_some() && self.key_prefix.is_empty() {
            return Err("both_for needs key_prefix: with one key there is nothing else to ask".to_owned());
        }
        Ok(())
    }

    /// `keys begin with "v2:" on nodes 0 and 1 from 30s on, the old ones asked as well for 60s`.
    pub fn in_words(&self) -> String {
        let mut parts = Vec::new();
        if let Some(limiter) = &self.limiter {
            parts.push(limiter.to_string());
        }
        if let Some(limit) = self.limit {
            parts.push(format!("limit {limit}"));
        }
        if !self.key_prefix.is_empty() {
            parts.push(format!("keys begin with \"{}\"", self.key_prefix));
        }
        let nodes: Vec<String> = self.nodes.iter().flatten().map(ToString::to_string).collect();
        let on = match nodes.as_slice() {
            [] => "every node".to_owned(),
            [one] => format!("node {one}"),
            [rest @ .., last] => format!("nodes {} and {last}", rest.join(", ")),
        };
        let both = self.both_for.map(|span| format!(", the old ones asked as well for {span}"));
        format!("{} on {on} from {} on{}", parts.join(", "), self.at, both.unwrap_or_default())
    }
}

/// Deals calls out to the app servers, in turn or by their shares.
pub struct Deal<'a> {
    plan: &'a WorkloadPlan,
    nodes: u32,
    given: Vec<u64>,
}

impl<'a> Deal<'a> {
    pub fn new(plan: &'a WorkloadPlan) -> Self {
        Self { plan, nodes: 0, given: Vec::new() }
    }

    /// The node of the next call, which is made so many ns after the beginning of the round; and how many nodes
    /// there are from now on, if that is new.
    pub fn next(&mut self, after: i64) -> (NodeId, Option<u32>) {
        let nodes = self.plan.nodes_at(after);
        let new = (nodes != self.nodes).then_some(nodes);
        if new.is_some() {
            // Whoever comes late is not to catch up.
            (self.nodes, self.given) = (nodes, vec![0; nodes as usize]);
        }
        let share = |n: usize| u64::from(self.plan.shares.get(n).copied().unwrap_or(1));
        let due = |n: &usize| {
            // The one furthest behind its share: (given + 1) / share, as fractions over a common denominator.
            let (given, share) = (self.given[*n] + 1, share(*n));
            (u128::from(given) << 64) / u128::from(share.max(1))
        };
        let has = |n: &usize| share(*n) > 0;
        let node = (0..self.given.len()).filter(has).min_by_key(due).unwrap_or(0);
        self.given[node] += 1;
        (NodeId(u16::try_from(node).expect("at most 1,000 nodes")), new.filter(|_| after > 0))
    }
}

impl WorkloadPlan {
    /// How many app servers there are so many ns after the beginning of the round.
    pub fn nodes_at(&self, after: i64) -> u32 {
        let come = self.scales.iter().rev().find(|s| s.at.nanos() <= after);
        come.map_or(self.nodes, |s| s.nodes).get()
    }

    /// The most there are at any time.
    pub fn most_nodes(&self) -> u32 {
        self.scales.iter().map(|s| s.nodes.get()).fold(self.nodes.get(), u32::max)
    }

    /// When the last call of a round is planned, where that is certain.
    fn last_call(&self) -> Option<Span> {
        if self.shape == Shape::Sequence {
            return Span::from_millis(self.last_call_ms()).ok();
        }
        let every = self.every.filter(|_| matches!(self.shape, Shape::Steady | Shape::Open))?;
        Span::from_millis(every.millis().saturating_mul(self.requests().saturating_sub(1))).ok()
    }

    /// What is planned for after the last call meets none, and shows nothing.
    pub(super) fn meets_a_call(&self, name: &str, at: Span) -> Result<(), String> {
        match self.last_call() {
            Some(last) if at > last => {
                Err(format!("{name} at {at} changes nothing: the last call is planned for {last}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether what is said of the app servers fits together.
    pub(super) fn fleet_fits(&self) -> Result<(), String> {
        if !self.scales.is_sorted_by_key(|s| s.at) {
            return Err("scale: the times follow each other".to_owned());
        }
        if !self.shares.is_empty() && self.shares.len() != self.most_nodes() as usize {
            return Err(format!(
                "shares has {} numbers, one for each node, and there are {} nodes",
                self.shares.len(),
                self.most_nodes()
            ));
        }
        let smallest = self.scales.iter().map(|s| s.nodes.get()).fold(self.nodes.get(), u32::min) as usize;
        if !self.shares.is_empty() && self.shares.iter().take(smallest).all(|s| *s == 0) {
            return Err(
                "shares: of the nodes that are there at any time one gets some of the traffic at least"
                    .to_owned(),
            );
        }
        let scales = self.scales.iter().map(|s| ("scale", s.at));
        let deploys = self.deploys.iter().map(|d| ("deploy", d.at));
        scales.chain(deploys).try_for_each(|(name, at)| self.meets_a_call(name, at))?;
        self.deploys.iter().try_for_each(|d| d.validate(self.most_nodes()))
    }

    /// What is said of the app servers beside their number at first.
    pub(super) fn fleet_in_words(&self) -> String {
        let mut words = String::new();
        if !self.shares.is_empty() {
            let shares: Vec<String> = self.shares.iter().map(ToString::to_string).collect();
            words += &format!(", shares {}", shares.join(":"));
        }
        for scale in &self.scales {
            words += &format!(", {} nodes from {} on", scale.nodes, scale.at);
        }
        for deploy in &self.deploys {
            words += &format!(", {}", deploy.in_words());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(more: &str) -> WorkloadPlan {
        let text = format!(
            "shape = \"steady\"\nrequests = 99\nevery = \"1s\"\nconnections = 99\nin_flight = 1\n{more}"
        );
        toml::from_str(&text).unwrap()
    }

    fn dealt(plan: &WorkloadPlan, calls: i64) -> Vec<u16> {
        let mut deal = Deal::new(plan);
        (0..calls).map(|n| deal.next(n * 1_000_000_000).0.0).collect()
    }

    #[test]
    fn calls_go_to_the_nodes_in_turn_or_by_their_shares() {
        assert_eq!(dealt(&plan("nodes = 3"), 5), [0, 1, 2, 0, 1]);
        let skewed = dealt(&plan("nodes = 3\nshares = [4, 1, 1]"), 600);
        let of = |node| skewed.iter().filter(|n| **n == node).count();
        assert_eq!([of(0), of(1), of(2)], [400, 100, 100]);
        let every: Vec<_> = skewed.chunks(6).collect();
        assert!(every.iter().all(|six| six.iter().filter(|n| **n == 0).count() == 4), "spread evenly");
    }

    #[test]
    fn nodes_that_come_take_part_and_do_not_catch_up() {
        let scaled = plan("nodes = 1\n[[scale]]\nat = \"3s\"\nnodes = 2\n[[scale]]\nat = \"7s\"\nnodes = 1");
        assert_eq!(dealt(&scaled, 9), [0, 0, 0, 0, 1, 0, 1, 0, 0]);
        let told: Vec<_> = {
            let mut deal = Deal::new(&scaled);
            (0..9).filter_map(|n| deal.next(n * 1_000_000_000).1).collect()
        };
        assert_eq!(told, [2, 1]);
        assert_eq!(scaled.most_nodes(), 2);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (more, what) in [
            ("nodes = 2\nshares = [1]", "2 nodes"),
            ("nodes = 2\nshares = [0, 0]", "one gets some"),
            ("nodes = 1\nshares = [0, 1]\n[[scale]]\nat = \"1s\"\nnodes = 2", "one gets some"),
            ("[[scale]]\nat = \"2s\"\nnodes = 2\n[[scale]]\nat = \"1s\"\nnodes = 3", "follow"),
            ("[[deploy]]\nat = \"2s\"\nnodes = [1]\nlimit = 3", "node 1"),
            ("[[deploy]]\nat = \"2s\"\nnodes = []\nlimit = 3", "leave nodes out"),
            ("[[deploy]]\nat = \"2s\"\nnodes = [0, 0]\nlimit = 3", "node 0 twice"),
            ("[[deploy]]\nat = \"2s\"", "changes something"),
            ("[[scale]]\nat = \"99s\"\nnodes = 2", "the last call is planned for 98s"),
            ("[[deploy]]\nat = \"2s\"\nlimit = 3\nboth_for = \"1s\"", "key_prefix"),
        ] {
            let refused = plan(more).validate().unwrap_err();
            assert!(refused.contains(what), "{refused}");
        }
    }
}
