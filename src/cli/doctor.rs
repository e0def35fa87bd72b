//! `rl-lab doctor`: whether this machine can run the lab, and what to do where it cannot.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgMatches, Command};
use serde_json::json;

use super::{Answer, Refusal, args, output, project, settings};
use crate::backends::builds::Survey;
use crate::backends::{self, journal};
use crate::ports::backend::BackendOptions;
use crate::runner::exit::Exit;

pub fn command() -> Command {
    Command::new("doctor")
        .about("Say whether this machine can run the lab, and what to do where it cannot")
        .arg(args::out())
        .arg(
            Arg::new("image")
                .long("image")
                .env("RL_LAB_IMAGE")
                .value_name("NAME[:TAG]")
                .help("Image of the docker backend"),
        )
        .arg(
            Arg::new("redis-server")
                .long("redis-server")
                .env("RL_LAB_REDIS_SERVER")
                .value_name("PATH")
                .help("Server binary of the local backend"),
        )
        .arg(args::format(&["table", "json"]))
}

/// One line of the diagnosis.
struct Line {
    name: String,
    fine: bool,
    detail: String,
    advice: Option<String>,
}

pub fn main(matches: &ArgMatches) -> Answer {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Refusal::environment(e.to_string()))?;
    let file = project::settings();
    let options = BackendOptions {
        image: matches.get_one::<String>("image").cloned().or(file.image),
        redis_server: matches.get_one::<String>("redis-server").map(Into::into).or(file.redis_server),
        ..BackendOptions::default()
    };
    let survey = runtime.block_on(backends::survey(&options));
    let usable = survey.iter().any(|s| s.usable);
    let mut lines: Vec<Line> = survey
        .into_iter()
        .map(|s| Line {
            name: format!("backend {}", s.name),
            fine: s.usable,
            detail: s.detail,
            advice: s.advice,
        })
        .collect();
    lines.extend(runtime.block_on(backends::survey_builds()).into_iter().map(server));
    lines.push(writable("results", &settings::out(matches), "name another folder with --out"));
    lines.push(writable("journal", &journal::state_folder(), "name another folder with RL_LAB_STATE_DIR"));
    let writable = lines.iter().rev().take(2).all(|l| l.fine);
    lines.push(leftovers(&runtime));
    lines.push(machine());
    let text = if matches.get_one::<String>("format").is_some_and(|f| f == "json") {
        let entries: Vec<_> = lines
            .iter()
            .map(|l| json!({"name": l.name, "fine": l.fine, "detail": l.detail, "advice": l.advice}))
            .collect();
        format!("{:#}\n", json!({"usable": usable && writable, "checks": entries}))
    } else {
        table(&lines)
    };
    output::print(&text).map_err(Refusal::environment)?;
    if usable && writable { Ok(Exit::Ok) } else { Ok(Exit::Environment) }
}

/// A server that `--server` names, or PostgreSQL. One that is not there keeps nothing else from running.
fn server(survey: Survey) -> Line {
    let Survey { name, program, image } = survey;
    let image = image.unwrap_or_else(|| Err(String::new()));
    let missing = [program.as_ref().err(), image.as_ref().err()].into_iter().flatten();
    let advice: Vec<&str> = missing.filter_map(|why| Some(why.split_once("; ")?.1)).collect();
    let detail = match (&program, &image) {
        (Ok(program), Ok(image)) => format!("local {program}, docker {image}"),
        (Ok(program), Err(_)) => format!("local {program}, no image"),
        (Err(_), Ok(image)) => format!("docker {image}, no program"),
        (Err(_), Err(_)) => "not there".to_owned(),
    };
    Line {
        name,
        fine: program.is_ok() || image.is_ok(),
        detail,
        advice: (!advice.is_empty()).then(|| advice.join(", ")),
    }
}

fn table(lines: &[Line]) -> String {
    let width = lines.iter().map(|l| l.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for l in lines {
        let _ = writeln!(text, "{} {:width$}  {}", if l.fine { "ok" } else { "--" }, l.name, l.detail);
        if let Some(advice) = &l.advice {
            let _ = writeln!(text, "   {:width$}  → {advice}", "");
        }
    }
    text
}

/// Whether files can be made there, by making one. The folder is taken away again if it is new.
fn writable(name: &str, folder: &Path, advice: &str) -> Line {
    let existed = folder.exists();
    let probe = folder.join(format!(".rl-lab-doctor-{}", std::process::id()));
    let tried = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&probe, b""));
    let _ = std::fs::remove_file(&probe);
    if !existed {
        let _ = std::fs::remove_dir(folder);
    }
    let (fine, detail) = match tried {
        Ok(()) => (true, format!("{} is writable", folder.display())),
        Err(error) => (false, format!("{}: {error}", folder.display())),
    };
    Line { name: name.to_owned(), fine, detail, advice: (!fine).then(|| advice.to_owned()) }
}

fn leftovers(runtime: &tokio::runtime::Runtime) -> Line {
    let found = runtime.block_on(backends::gc::gc(true, None));
    let dead = found.removed.len() + found.left.len();
    let detail = match (dead, found.alive.len()) {
        (0, 0) => "nothing".to_owned(),
        (0, n) => format!("nothing; {n} runs are going on"),
        (n, _) => format!("{n} things of runs that were killed"),
    };
    Line {
        name: "left over".to_owned(),
        fine: dead == 0,
        detail,
        advice: (dead > 0).then(|| "rl-lab gc removes them".to_owned()),
    }
}

fn machine() -> Line {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Line {
        name: "machine".to_owned(),
        fine: true,
        detail: format!("{cores} cores, {} {}", std::env::consts::OS, std::env::consts::ARCH),
        advice: (cores < 2).then(|| "with one core, load and server take turns: leaks show less".to_owned()),
    }
}
