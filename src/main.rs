//! The `rl-lab` command: parse, call, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Ok(file) = std::env::var("RL_LAB_CONFIG") {
        let path = std::path::PathBuf::from(&file);
        let text = std::fs::read_to_string(&path).unwrap();
        let config = rl_lab::model::config::Config::parse(&path, &text).unwrap();
        rl_lab::limiters::foreign::install(&config).unwrap();
    }
    rl_lab::cli::main()
}
