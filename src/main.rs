//! The `rl-lab` command: parse, call, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    rl_lab::cli::main()
}
