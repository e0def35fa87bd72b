//! `rl-lab serve-limiter NAME`: one app server as a process, asked over stdin and stdout.

use std::io::BufWriter;

use clap::{Arg, ArgMatches, Command};

use super::{Answer, Refusal, args, output};
use crate::runner::exit::Exit;
use crate::runner::serve::{self, Ended};

pub fn command() -> Command {
    Command::new("serve-limiter")
        .about("Serve a limiter over stdin and stdout, one JSON object a line")
        .long_about(
            "Serve a limiter as one app server: requests are read from stdin and answered on stdout, one JSON \
             object a line, many at a time, each answered when it is decided. The first line says where the \
             store is and what the limit is; docs/protocol.md describes them all. It ends with its stdin.",
        )
        .after_help("Exit codes: 0 its stdin ended · 2 usage, a hello it cannot follow, or a line that is no request")
        .args(args::served())
        .arg(
            Arg::new("dir")
                .long("dir")
                .value_name("FOLDER")
                .hide(true)
                .help("Folder of the run that it belongs to: `rl-lab gc` knows it by that"),
        )
}

pub fn main(matches: &ArgMatches) -> Answer {
    let served = args::read_served(matches);
    let runtime = args::runtime()?;
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
