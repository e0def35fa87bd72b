//! What the user changed of a scenario.

use std::num::NonZeroU32;

use crate::model::scenario::{LimiterRef, RequirePlan, Scenario, Setup};
use crate::model::units::{Limit, Window};

/// What the user changed. `None` leaves the scenario's own value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    pub limiters: Vec<LimiterRef>,
    /// What is put around them, and how they talk to the store, instead of what the scenario has.
    pub policy: Option<LimiterRef>,
    pub client: Option<String>,
    /// Variations to run instead of all.
    pub variations: Vec<String>,
    pub limit: Option<Limit>,
    pub window: Option<Window>,
    pub requests: Option<NonZeroU32>,
    pub connections: Option<NonZeroU32>,
    pub in_flight: Option<NonZeroU32>,
    pub nodes: Option<NonZeroU32>,
    pub rounds: Option<NonZeroU32>,
    pub preset: Option<u64>,
    pub cold_pool: bool,
    /// What is needed instead of what the scenario requires; of a file, which the command that repeats it reads again.
    pub require: Option<RequirePlan>,
    /// Judge every verdict by itself, whatever the scenario expects.
    pub strict: bool,
}

impl Overrides {
    /// Whether anything but the choice of limiters and how verdicts are weighed is changed.
    pub fn changes_the_experiment(&self) -> bool {
        let chosen = Self {
            limiters: self.limiters.clone(),
            policy: self.policy.clone(),
            client: self.client.clone(),
            strict: self.strict,
            require: self.require.clone(),
            ..Self::default()
        };
        *self != chosen
    }

    pub(super) fn apply(&self, scenario: &mut Scenario) {
        let setup = self.on(Setup::of(scenario));
        (scenario.limit, scenario.workload) = (setup.limit, setup.workload);
        if scenario.require.is_some() && self.require.is_some() {
            scenario.require.clone_from(&self.require);
        }
    }

    /// What a cell is driven with, with these changes: they come after a variation's own.
    pub(super) fn on(&self, mut setup: Setup) -> Setup {
        fn set<T: Copy>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        set(&mut setup.limit.limit, self.limit);
        set(&mut setup.limit.window, self.window);
        let w = &mut setup.workload;
        w.requests = self.requests.or(w.requests);
        set(&mut w.connections, self.connections);
        set(&mut w.in_flight, self.in_flight);
        set(&mut w.nodes, self.nodes);
        set(&mut w.rounds, self.rounds);
        set(&mut w.preset, self.preset);
        w.cold_pool |= self.cold_pool;
        setup
    }

    /// The flags that make these changes again, `--limiters` left out.
    pub(super) fn to_args(&self) -> Vec<String> {
        let pairs: [(&str, Option<String>); 8] = [
            ("--limit", self.limit.map(|v| v.to_string())),
            ("--window", self.window.map(|v| v.to_string())),
            ("--requests", self.requests.map(|v| v.to_string())),
            ("--connections", self.connections.map(|v| v.to_string())),
            ("--in-flight", self.in_flight.map(|v| v.to_string())),
            ("--nodes", self.nodes.map(|v| v.to_string())),
            ("--rounds", self.rounds.map(|v| v.to_string())),
            ("--preset", self.preset.map(|v| v.to_string())),
        ];
        let mut args: Vec<String> = pairs
            .into_iter()
            .filter_map(|(flag, value)| value.map(|v| [flag.to_owned(), v]))
            .flatten()
            .collect();
        for (flag, given) in [("--cold-pool", self.cold_pool), ("--strict", self.strict)] {
            if given {
                args.push(flag.to_owned());
            }
        }
        args
    }
}
