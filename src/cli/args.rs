//! Arguments that several commands take, spelled once.

use clap::Arg;

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
