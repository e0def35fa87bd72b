//! Why a command did not do what it was asked, in words and, for a reader of JSON, as a report.

use super::{output, project};
use crate::model::report::{self, Honesty, Report};
use crate::model::units::Seed;
use crate::model::verdict::Verdict;
use crate::runner::exit::Exit;

/// The exit code it means, and what to say.
#[derive(Debug)]
pub struct Refusal {
    pub exit: Exit,
    pub message: String,
    /// The seed of the run that did not come about, if it had one.
    pub seed: Option<Seed>,
}

impl Refusal {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), seed: None }
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub fn environment(message: impl Into<String>) -> Self {
        Self::new(Exit::Environment, message)
    }

    #[must_use]
    pub fn of(self, seed: Seed) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// A reader of JSON gets one document, whatever happens.
    pub fn print_json(&self) {
        if output::printed_anything() || !wants_json(&words()) {
            return;
        }
        let report = Report {
            schema: report::SCHEMA,
            passed: false,
            verdict: Verdict::Unknown,
            exit: self.exit.code(),
            finished: false,
            error: Some(self.message.clone()),
            run: String::new(),
            lab: env!("CARGO_PKG_VERSION").to_owned(),
            started: String::new(),
            seed: self.seed.unwrap_or(Seed(0)),
            command: command_line(self.seed),
            out: None,
            honesty: Honesty::default(),
            scenarios: Vec::new(),
            cells: Vec::new(),
            matrix: None,
            claims: None,
            gate: None,
        };
        // Where not even stdout can be written to, stderr and the exit code have said it.
        let _ = output::report(&report, "json");
    }
}

/// Whether JSON was asked for, on a command line that may be too wrong to be parsed.
fn wants_json(words: &[String]) -> bool {
    let glued = words.iter().any(|w| ["--format=json", "-f=json", "-fjson"].contains(&w.as_str()));
    glued || words.windows(2).any(|w| (w[0] == "--format" || w[0] == "-f") && w[1] == "json")
}

/// What the lab was called with. Not every file name is UTF-8.
fn words() -> Vec<String> {
    std::env::args_os().skip(1).map(|w| w.to_string_lossy().into_owned()).collect()
}

/// The command as it was given, with the seed it ran with: repeating it repeats the run.
pub fn command_line(seed: Option<Seed>) -> Vec<String> {
    let mut words = words();
    words.insert(0, "rl-lab".to_owned());
    if let Some(seed) = seed
        && !words.iter().any(|w| w == "--seed" || w.starts_with("--seed="))
    {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    if seed.is_some() {
        words.extend(project::missing_words());
        add_environment(&mut words, |name| std::env::var(name).ok());
    }
    words
}

/// What the environment says of the servers, as flags: whoever repeats the command may have another one.
fn add_environment(words: &mut Vec<String>, of: impl Fn(&str) -> Option<String>) {
    for flag in ["--backend", "--server", "--image", "--redis-server"] {
        let name = format!("RL_LAB_{}", flag.trim_start_matches('-').replace('-', "_").to_uppercase());
        let given =
            words.iter().any(|w| w == flag || w.strip_prefix(flag).is_some_and(|w| w.starts_with('=')));
        if let Some(value) = of(&name).filter(|value| !given && !value.is_empty()) {
            words.extend([flag.to_owned(), value]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_environment_says_of_the_servers_is_part_of_the_command() {
        let told = |text: &str| {
            let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            add_environment(&mut words, |name| match name {
                "RL_LAB_BACKEND" => Some("local".to_owned()),
                "RL_LAB_REDIS_SERVER" => Some("/opt/r".to_owned()),
                _ => None,
            });
            words.join(" ")
        };
        assert_eq!(told("rl-lab race"), "rl-lab race --backend local --redis-server /opt/r");
        assert_eq!(
            told("rl-lab race --backend=docker"),
            "rl-lab race --backend=docker --redis-server /opt/r"
        );
    }

    #[test]
    fn json_is_seen_on_a_command_line_that_clap_would_refuse() {
        let wants = |text: &str| wants_json(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for text in ["race --format json --nonsense", "x -f json", "x -fjson", "--format=json"] {
            assert!(wants(text), "{text}");
        }
        assert!(!wants("race --format table json") && !wants("run json"));
    }
}
