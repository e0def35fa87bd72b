//! Arguments that several commands take, spelled once, and what they run on.

use clap::{Arg, ArgMatches};

use super::Refusal;
use crate::clients;
use crate::model::scenario::LimiterRef;
use crate::runner::serve::Served;

/// `--out`: where the results of runs are.
pub fn out() -> Arg {
    Arg::new("out")
        .long("out")
        .short('o')
        .env("RL_LAB_OUT")
        .default_value("out")
        .value_name("FOLDER")
        .help("Folder with the results of runs")
}

/// `--format`, with what this command can print; the first is the default.
pub fn format(values: &'static [&'static str]) -> Arg {
    Arg::new("format")
        .long("format")
        .short('f')
        .value_parser(clap::builder::PossibleValuesParser::new(values))
        .default_value(values[0])
        .help("What is printed")
}

/// What is served: a limiter, what is around it, and how it talks to the store.
pub fn served() -> [Arg; 3] {
    let named = |text: &str| text.parse::<LimiterRef>();
    [
        Arg::new("limiter")
            .value_name("NAME[:PARAM=VALUE,…]")
            .required(true)
            .value_parser(named)
            .help("Which limiter; see `rl-lab list limiters`"),
        Arg::new("policy")
            .long("policy")
            .value_name("NAME[:PARAM=VALUE,…]")
            .value_parser(named)
            .help("What decides where the limiter cannot; see `rl-lab list policies`"),
        Arg::new("client")
            .long("client")
            .value_name("NAME")
            .default_value(clients::DEFAULT)
            .help("How it talks to the store; see `rl-lab list clients`"),
    ]
}

/// The values of [`served`].
pub fn read_served(matches: &ArgMatches) -> Served {
    Served {
        limiter: matches.get_one("limiter").cloned().expect("it is required"),
        policy: matches.get_one("policy").cloned(),
        client: matches.get_one::<String>("client").cloned().unwrap_or_default(),
    }
}

/// A runtime of one thread.
pub fn runtime() -> Result<tokio::runtime::Runtime, Refusal> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|e| Refusal::environment(format!("cannot start the runtime: {e}")))
}
