//! Which servers a scenario runs on, as the file writes it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::offset::Offset;
use crate::model::units::Span;

/// `[topology]`. What a kind does not know is refused by that kind, see `ports::topology::Topology::check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyPlan {
    #[serde(default = "single")]
    pub kind: String,
    /// Servers that share the slots of a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primaries: Option<u32>,
    /// Replicas of each primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// What a round trip to another region takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart: Option<Span>,
    /// After how long a silent server counts as down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_after: Option<Span>,
    /// How far the clock of every server is off, unless it is a replica's and that is given too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Offset>,
    /// How far the clock of a replica is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_clock: Option<Offset>,
    /// Server configuration, as `redis.conf` names it.
    #[serde(default)]
    pub config: BTreeMap<String, String>,
}

impl Default for TopologyPlan {
    fn default() -> Self {
        Self {
            kind: single(),
            primaries: None,
            replicas: None,
            apart: None,
            down_after: None,
            clock: None,
            replica_clock: None,
            config: BTreeMap::new(),
        }
    }
}

fn single() -> String {
    "single".to_owned()
}

impl TopologyPlan {
    /// The fields that are given, beside kind and configuration.
    pub fn given(&self) -> Vec<&'static str> {
        let fields = [
            ("primaries", self.primaries.is_some()),
            ("replicas", self.replicas.is_some()),
            ("apart", self.apart.is_some()),
            ("down_after", self.down_after.is_some()),
            ("clock", self.clock.is_some()),
            ("replica_clock", self.replica_clock.is_some()),
        ];
        fields.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }

    /// The clock of a server that is no replica.
    pub fn primary_clock(&self) -> Option<Offset> {
        self.clock
    }

    /// The clock of a replica.
    pub fn clock_of_replicas(&self) -> Option<Offset> {
        self.replica_clock.or(self.clock)
    }
}
