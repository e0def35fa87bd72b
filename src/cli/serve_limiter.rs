//! `rl-lab serve-limiter NAME`: one app server as a process, asked over stdin and stdout.

use std::io::BufWriter;

use clap::{Arg, ArgMatches, Command};

use super::{Answer, Refusal, output};
use crate::clients;
use crate::model::scenario::LimiterRef;
use crate::runner::exit::Exit;
use crate::runner::serve::{self, Ended, Served};

pub fn command() -> Command {
    Command::new("serve-limiter")
        .about("Serve a limiter over stdin and stdout, one JSON object a line")
        .long_about(
            "Serve a limiter as one app server: requests are read from stdin and answered on stdout, one JSON \
             object a line, many at a time, each answered when it is decided. The first line says where the \
             store is and what the limit is; docs/protocol.md describes them all. It ends with its stdin.",
        )
        .after_help("Exit codes: 0 its stdin ended · 2 usage, a hello it cannot follow, or a line that is no request")
        .arg(
            Arg::new("limiter")
                .value_name("NAME[:PARAM=VALUE,…]")
                .required(true)
                .value_parser(|text: &str| text.parse::<LimiterRef>())
                .help("Which limiter; see `rl-lab list limiters`"),
        )
        .arg(
            Arg::new("policy")
                .long("policy")
                .value_name("NAME[:PARAM=VALUE,…]")
                .value_parser(|text: &str| text.parse::<LimiterRef>())
                .help("What decides where the limiter cannot; see `rl-lab list policies`"),
        )
        .arg(
            Arg::new("client")
                .long("client")
                .value_name("NAME")
                .default_value(clients::DEFAULT)
                .help("How it talks to the store; see `rl-lab list clients`"),
        )
        .arg(
            Arg::new("dir")
                .long("dir")
                .value_name("FOLDER")
                .hide(true)
                .help("Folder of the run that it belongs to: `rl-lab gc` knows it by that"),
        )
}

pub fn main(matches: &ArgMatches) -> Answer {
    let served = Served {
        limiter: matches.get_one("limiter").cloned().expect("it is required"),
        policy: matches.get_one("policy").cloned(),
        client: matches.get_one::<String>("client").cloned().unwrap_or_default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Refusal::environment(format!("cannot start the runtime: {e}")))?;
    let input = std::io::stdin();
    let outcome = runtime.block_on(serve::serve(&served, input, BufWriter::new(std::io::stdout())));
    match outcome {
        Ok(Ended::Finished) => Ok(Exit::Ok),
        // Said on stdout, where who asked looks.
        Ok(Ended::NotReady(why) | Ended::Lost(why)) => {
            output::tell(&format!("rl-lab: {why}"));
            Ok(Exit::Usage)
        }
        Err(error) => Err(Refusal::environment(format!("cannot write to stdout: {error}"))),
    }
}
