//! `rl-lab config`: what `rl-lab.toml` and everybody else say, and the schema of the file.

use std::fmt::Write as _;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use serde_json::{Value, json};

use super::project::{self, project};
use super::settings::{SettingFlags, Told};
use super::{Answer, Refusal, args, output};
use crate::limiters::policies;
use crate::model::config::{self, Config, PROFILE, Profile};
use crate::model::contract::{Contract, Denials, OnOutage, Scope};
use crate::model::foreign::{Foreign, Way};
use crate::model::scenario::LimitPlan;
use crate::model::units::{Limit, Window};
use crate::runner::exit::Exit;

pub fn command() -> Command {
    let show = Command::new("show")
        .about("Every setting with its value and who says so, the limiters and the profiles of the file")
        .arg(
            Arg::new("profile")
                .long("profile")
                .value_name("NAME")
                .help("As this profile of the file has it; without one, as commands other than gate do"),
        )
        .arg(args::format(&["table", "json"]));
    Command::new("config")
        .about("What rl-lab.toml says, and its schema")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(SettingFlags::augment_args(show))
        .subcommand(Command::new("schema").about("The JSON schema of rl-lab.toml"))
}

pub fn main(matches: &ArgMatches) -> Answer {
    match matches.subcommand() {
        Some(("show", m)) => show(m),
        _ => {
            output::print(&format!("{:#}\n", config::schema())).map_err(Refusal::environment)?;
            Ok(Exit::Ok)
        }
    }
}

fn show(matches: &ArgMatches) -> Answer {
    let mut flags = SettingFlags::from_arg_matches(matches).map_err(|e| Refusal::usage(e.to_string()))?;
    let name = matches.get_one::<String>("profile");
    if let Some(name) = name {
        let Some(project) = project() else {
            return Err(Refusal::usage(project::MISSING));
        };
        let profile = project.config.profile(name);
        let profile = profile.map_err(|e| Refusal::usage(format!("{}: {e}", project.shown())))?;
        flags.under(profile.settings());
    }
    let told = flags.told(matches, name.map_or("", String::as_str));
    let none = Config::default();
    let config = project().map_or(&none, |p| &p.config);
    let text = if matches.get_one::<String>("format").is_some_and(|f| f == "json") {
        format!("{:#}\n", in_json(&told, config))
    } else {
        in_words(&told, config)
    };
    output::print(&text).map_err(Refusal::environment)?;
    Ok(Exit::Ok)
}

fn in_json(told: &[Told], config: &Config) -> Value {
    let settings: Vec<Value> =
        told.iter().map(|t| json!({"name": t.name, "value": t.value, "origin": t.origin})).collect();
    let limiters: Vec<Value> = config
        .limiters
        .iter()
        .map(|(name, of)| {
            json!({
                "name": name,
                "summary": of.summary,
                "reached": reached(of),
                "module": of.module,
                "policy": of.policy,
                "origin": of.policy.as_ref().map(|_| origin(name)),
                "promises": promises(of),
            })
        })
        .collect();
    json!({
        "file": project().map(project::Project::shown),
        "settings": settings,
        "limiters": limiters,
        "require": config.require,
        "profiles": config.profiles,
    })
}

fn in_words(told: &[Told], config: &Config) -> String {
    let mut text = match project() {
        Some(project) => format!("{}\n", project.shown()),
        None => "no rl-lab.toml here or above; `rl-lab init` writes one\n".to_owned(),
    };
    text.push_str("\nsettings\n");
    for Told { name, value, origin } in told {
        let _ = writeln!(text, "  {name:<13} {:<20} {origin}", value.as_deref().unwrap_or("–"));
    }
    if !config.limiters.is_empty() {
        text.push_str("\nlimiters\n");
    }
    for (name, of) in &config.limiters {
        let summary = if of.summary.is_empty() { String::new() } else { format!(": {}", of.summary) };
        let _ = writeln!(text, "  {name}{summary}\n      {}{}", reached(of), module(of));
        if let Some(policy) = &of.policy {
            let _ = writeln!(text, "      with {policy} around it ({})", origin(name));
        }
        let _ = writeln!(text, "      promises {}", promises(of));
    }
    if let Some(required) = &config.require {
        let (limit, window) = example();
        let (told_limit, told_window) = (required.limit, required.window);
        let plan = LimitPlan { limit, window };
        let required = required.requirement(plan);
        let bound = shown(required.bound.in_words(), told_limit, told_window);
        let _ = writeln!(text, "\nrequired of all\n  {bound}, {}", scope(required.scope));
    }
    if !config.profiles.is_empty() {
        text.push_str("\nprofiles\n");
    }
    for (name, profile) in &config.profiles {
        let default = if name == PROFILE { " (what `rl-lab gate` runs by itself)" } else { "" };
        let _ = writeln!(text, "  {name}{default}\n      {}", of_profile(profile).join("\n      "));
    }
    text
}

fn of_profile(profile: &Profile) -> Vec<String> {
    let list = |names: Vec<String>| names.join(", ");
    let limiters: Vec<String> = profile.limiters.iter().map(ToString::to_string).collect();
    let limiters = if limiters.is_empty() { "all of the file".to_owned() } else { list(limiters) };
    let mut lines =
        vec![format!("scenarios {}", list(profile.scenarios.clone())), format!("limiters {limiters}")];
    lines.extend(profile.rounds.map(|n| format!("rounds {n}")));
    lines.extend(profile.explore.map(|time| format!("explores each for up to {time}")));
    lines.extend(profile.thresholds.iter().map(|(figure, most)| format!("{} ≤ {most}", figure.name())));
    if !profile.must_be_known.is_empty() {
        lines.push(format!("must be known: {}", list(profile.must_be_known.clone())));
    }
    lines
}

fn reached(of: &Foreign) -> String {
    match of.way() {
        Ok(Way::Lines) => format!("a process, asked in lines: {}", of.command.join(" ")),
        Ok(Way::Http(http)) => format!("a service, asked by {}: {}", http.method, of.command.join(" ")),
        Ok(Way::Lua(lua)) => {
            let then = lua.then.as_ref().map(|t| format!(", then {}", t.display())).unwrap_or_default();
            let file = lua.file.as_ref().map_or_else(|| "as written".to_owned(), |f| f.display().to_string());
            format!("a script that the store runs: {file}{then}")
        }
        Err(why) => why,
    }
}

fn module(of: &Foreign) -> String {
    of.module.as_ref().map(|m| format!("; its servers load {}", m.display())).unwrap_or_default()
}

/// What stands for the scenario's own limit and window where a promise is put into words.
fn example() -> (Limit, Window) {
    let limit = Limit::new(EXAMPLE).unwrap_or_else(|_| unreachable!("a limit from 1"));
    let window = Window::from_millis(EXAMPLE).unwrap_or_else(|_| unreachable!("a window from 1 ms"));
    (limit, window)
}

/// A number that nobody writes: what it is replaced by in words is what was left to the scenario.
const EXAMPLE: u64 = 7_777_777;

fn shown(words: String, limit: Option<Limit>, window: Option<Window>) -> String {
    let (stands_limit, stands_window) = example();
    let limit = limit.map_or("LIMIT".to_owned(), |l| l.to_string());
    let window = window.map_or("WINDOW".to_owned(), |w| w.to_string());
    // The window first: the number of the limit is part of its text.
    words.replace(&stands_window.to_string(), &window).replace(&stands_limit.to_string(), &limit)
}

/// Who says what is around a limiter; `--policy` comes before it.
fn origin(limiter: &str) -> String {
    let file = project().map(project::Project::shown).unwrap_or_default();
    format!("{file} [limiter.{limiter}]")
}

/// With what is around it.
fn promises(of: &Foreign) -> String {
    let (limit, window) = example();
    let bare = of.contract.contract(limit, window);
    let around =
        of.policy.as_ref().and_then(|policy| policies::around(policy, limit, window, bare.clone()).ok());
    let contract = around.unwrap_or(bare);
    shown(in_a_sentence(&contract), of.limit, of.window)
}

fn in_a_sentence(contract: &Contract) -> String {
    let refused = match contract.denials {
        Denials::Charged => "refused calls count",
        Denials::Free => "refused calls do not count",
    };
    let outage = match contract.on_outage {
        OnOutage::Open => "calls are admitted while the store is away",
        OnOutage::Closed => "calls are refused while the store is away",
        OnOutage::Fallback => "a local limiter decides while the store is away",
        OnOutage::Error => "callers get an error while the store is away",
        OnOutage::Unaffected => "it needs no store",
    };
    format!("{}, {}; {refused}; {outage}", contract.bound.in_words(), scope(contract.scope))
}

fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Global => "over all app servers together",
        Scope::Node => "on each app server",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_the_scenario_is_said_so() {
        let text = "summary = \"s\"\ncommand = [\"x\"]\nwindow = \"5s\"\n[contract]\nbound = \"fixed-window\"\nclock = \"expiry\"\ndenials = \"free\"";
        let of: Foreign = toml::from_str(text).unwrap();
        let said = promises(&of);
        assert!(
            said.starts_with("at most LIMIT in each 5s window, opened by its first hit, over all"),
            "{said}"
        );
    }
}
