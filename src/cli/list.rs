//! `rl-lab list`: what there is, from the same lists that everything else reads.

use clap::{Arg, ArgMatches, Command};
use serde_json::{Value, json};

use super::{Answer, Refusal, args, output};
use crate::limiters::policies;
use crate::model::figures::Figure;
use crate::model::servers;
use crate::runner::exit::Exit;
use crate::runner::scenarios;
use crate::{backends, checkers, clients, faults, formats, limiters, topologies, workloads};

const KINDS: [&str; 12] = [
    "scenarios",
    "limiters",
    "checks",
    "figures",
    "policies",
    "workloads",
    "faults",
    "topologies",
    "clients",
    "backends",
    "servers",
    "formats",
];

pub fn command() -> Command {
    Command::new("list")
        .about("List scenarios, limiters, checks and everything else a name can be given for")
        .arg(Arg::new("kind").value_name("KIND").value_parser(KINDS).help("Only this kind"))
        .arg(args::format(&["table", "json"]))
}

pub fn main(matches: &ArgMatches) -> Answer {
    let wanted = matches.get_one::<String>("kind");
    let kinds: Vec<&str> = KINDS.into_iter().filter(|k| wanted.is_none_or(|w| w == k)).collect();
    let mut sections = Vec::new();
    for kind in kinds {
        sections.push((kind, entries(kind).map_err(|e| Refusal::new(Exit::Broken, e))?));
    }
    let text = if matches.get_one::<String>("format").is_some_and(|f| f == "json") {
        let all: serde_json::Map<String, Value> =
            sections.into_iter().map(|(k, e)| (k.to_owned(), Value::from(e))).collect();
        format!("{:#}\n", Value::from(all))
    } else {
        sections.iter().map(|(kind, entries)| section(kind, entries)).collect::<Vec<_>>().join("\n")
    };
    output::print(&text).map_err(Refusal::environment)?;
    Ok(Exit::Ok)
}

/// One object per entry: `name`, `summary`, and what else there is to say.
fn entries(kind: &str) -> Result<Vec<Value>, String> {
    Ok(match kind {
        "scenarios" => scenarios::embedded()?
            .into_iter()
            .map(|s| json!({"name": s.name, "summary": s.scenario.title, "shows": s.scenario.shows}))
            .collect(),
        "limiters" => catalogue(),
        "checks" => checkers::ALL.iter().map(|c| json!({"name": c.name(), "summary": c.proves()})).collect(),
        "figures" => Figure::ALL.iter().map(|f| json!({"name": f.name(), "summary": f.summary()})).collect(),
        "workloads" => {
            workloads::ALL.iter().map(|w| json!({"name": w.shape().name(), "summary": w.summary()})).collect()
        }
        "policies" => policies::ALL.iter().map(|p| policy(p)).collect(),
        "faults" => faults::ALL.iter().map(|f| json!({"name": f.name(), "summary": f.summary()})).collect(),
        "topologies" => {
            topologies::ALL.iter().map(|t| json!({"name": t.kind(), "summary": t.summary()})).collect()
        }
        "clients" => clients::ALL.iter().map(|c| json!({"name": c.name, "summary": c.summary})).collect(),
        "servers" => servers::ALL.iter().map(|b| json!({"name": b.name, "summary": b.summary})).collect(),
        "backends" => backends::NAMES.iter().map(|n| json!({"name": n, "summary": backend(n)})).collect(),
        _ => formats::ALL
            .iter()
            .map(|f| {
                let also = if f.on_stdout() { " and, with --format, on stdout" } else { "" };
                json!({"name": f.name(), "file": f.file(), "summary": format!("{}{also}", f.file())})
            })
            .collect(),
    })
}

fn backend(name: &str) -> &'static str {
    match name {
        "docker" => "containers, through a Docker engine",
        "local" => "redis-server processes on this machine",
        _ => "docker if an engine answers and has an image, else local",
    }
}

/// Every number of the catalogue, in its order.
fn catalogue() -> Vec<Value> {
    let alias = |p: &limiters::Alias| {
        json!({
            "name": p.limiter().to_string(),
            "id": p.id,
            "summary": p.summary,
            "sends": p.of.sends,
            "known": p.known,
            "params": [],
        })
    };
    let mut all: Vec<Value> = limiters::catalogue().into_iter().map(limiter).collect();
    all.extend(limiters::ALIASES.iter().map(alias));
    all.sort_by_key(|entry| entry["id"].as_str().unwrap_or_default().to_owned());
    all.extend(limiters::foreign::all().into_iter().map(limiter));
    all
}

fn params(of: &[crate::ports::limiter::Param]) -> Vec<Value> {
    of.iter()
        .map(|p| json!({"name": p.name, "default": p.default, "accepts": p.accepts(), "help": p.help}))
        .collect()
}

fn policy(spec: &crate::ports::policy::PolicySpec) -> Value {
    json!({"name": spec.name, "id": spec.id, "summary": spec.summary, "params": params(spec.params)})
}

fn limiter(spec: &crate::ports::limiter::Spec) -> Value {
    let params = params(spec.params);
    json!({
        "name": spec.name,
        "id": spec.id,
        "summary": spec.summary,
        "sends": spec.sends,
        "known": spec.known,
        "params": params,
    })
}

fn section(kind: &str, entries: &[Value]) -> String {
    let text = |e: &Value, field: &str| e.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let width = entries.iter().map(|e| text(e, "name").len()).max().unwrap_or(0);
    let mut out = format!("{kind}\n");
    for e in entries {
        let id = text(e, "id");
        let id = if id.is_empty() { id } else { format!("{id}  ") };
        let line = format!("  {id}{:width$}  {}", text(e, "name"), text(e, "summary"));
        out.push_str(line.trim_end());
        out.push('\n');
        for field in ["sends", "known"] {
            let told = text(e, field);
            if !told.is_empty() {
                out.push_str(&format!("         {field}: {told}\n"));
            }
        }
        let params = e.get("params").and_then(Value::as_array).into_iter().flatten();
        for p in params {
            let default = text(p, "default");
            let default = if default.is_empty() { String::new() } else { format!(" [{default}]") };
            out.push_str(&format!(
                "         {}: {}{default}; {}\n",
                text(p, "name"),
                text(p, "accepts"),
                text(p, "help")
            ));
        }
    }
    out
}
