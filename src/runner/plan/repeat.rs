//! The command that shows one cell of a plan again.

use super::{CellPlan, Plan};
use crate::ports::backend::BackendOptions;

/// What a command has to say of where it runs, so that whoever repeats it runs the same.
#[derive(Debug, Clone, Default)]
pub struct Ground {
    /// As far as no file says it.
    pub options: BackendOptions,
    /// `--config FILE`, where that is not found by itself.
    pub config: Vec<String>,
}

impl Plan {
    /// The command that shows one cell of this plan again.
    pub fn replay(&self, cell: &CellPlan, backend: &str, ground: &Ground) -> String {
        let mut words = vec!["rl-lab".to_owned()];
        words.extend(self.call.iter().cloned());
        words.extend(ground.config.iter().cloned());
        words.extend(["--backend".to_owned(), backend.to_owned()]);
        // Another server would be another experiment.
        let path = ground.options.redis_server.as_ref().map(|p| p.display().to_string());
        let image = ground.options.image.clone().filter(|_| backend == "docker");
        let server = ground.options.server.map(|build| build.name.to_owned());
        let named = |value: Option<String>| value.filter(|_| server.is_none());
        let path = path.filter(|_| backend == "local");
        for (flag, value) in
            [("--server", server.clone()), ("--image", named(image)), ("--redis-server", named(path))]
        {
            words.extend(value.into_iter().flat_map(|v| [flag.to_owned(), v]));
        }
        words.extend(["--limiters".to_owned(), cell.limiter.to_string()]);
        let policy = cell.policy.as_ref().map(|p| p.policy.to_string());
        let client = cell.client_named.then(|| cell.client.name.to_owned());
        for (flag, value) in [("--policy", policy), ("--client", client)] {
            words.extend(value.into_iter().flat_map(|v| [flag.to_owned(), v]));
        }
        words.extend(cell.variation.iter().flat_map(|v| ["--variation".to_owned(), v.clone()]));
        shell_words(&words)
    }
}

/// Words as a shell takes them.
pub fn shell_words(words: &[String]) -> String {
    let plain = |w: &String| {
        !w.is_empty() && w.chars().all(|c| c.is_ascii_alphanumeric() || "-_=:,./@%+".contains(c))
    };
    let quote = |w: &String| if plain(w) { w.clone() } else { format!("'{}'", w.replace('\'', r"'\''")) };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;
    use crate::model::units::Limit;
    use crate::runner::scenarios;

    fn race(changes: &Overrides) -> Result<Plan, String> {
        plan(scenarios::find("race").unwrap(), changes, Seed(1))
    }

    #[test]
    fn the_command_that_repeats_a_cell_names_the_server_it_ran_on() {
        let plan = race(&Overrides::default()).unwrap();
        let options = |config: Vec<String>| Ground {
            config,
            options: BackendOptions {
                image: Some("redis:7".to_owned()),
                redis_server: Some("/opt/redis-server".into()),
                ..BackendOptions::default()
            },
        };
        let culprit = plan.cells.iter().find(|c| c.limiter.name == "get-then-incr").unwrap();
        let docker = plan.replay(culprit, "docker", &options(Vec::new()));
        assert!(docker.contains(" --image redis:7 ") && !docker.contains("--redis-server"), "{docker}");
        let local =
            plan.replay(culprit, "local", &options(vec!["--config".to_owned(), "../x.toml".to_owned()]));
        assert!(
            local.contains(" --redis-server /opt/redis-server ")
                && !local.contains("--image")
                && local.contains(" --config ../x.toml "),
            "{local}"
        );
    }

    #[test]
    fn the_command_that_repeats_a_cell_carries_every_change() {
        let changes = Overrides { preset: Some(998), limit: Limit::new(1000).ok(), ..Overrides::default() };
        let plan = race(&changes).unwrap();
        let culprit = plan.cells.iter().find(|c| c.limiter.name == "get-then-incr").unwrap();
        assert_eq!(
            plan.replay(culprit, "local", &Ground::default()),
            "rl-lab race --limit 1000 --preset 998 --seed 1 --backend local --limiters get-then-incr"
        );
    }
}
