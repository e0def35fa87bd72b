//! Limiters of somebody else's: named in a file, known beside those of the catalogue for as long as the program
//! runs.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::external::script::Scripted;
use super::policies;
use crate::model::config::Config;
use crate::model::contract::OnOutage;
use crate::model::foreign::{Foreign, Way};
use crate::model::names;
use crate::model::scenario::LimiterRef;
use crate::model::units::{Limit, Window};
use crate::ports::limiter::{Settings, Spec};

static KNOWN: Mutex<Vec<&'static Spec>> = Mutex::new(Vec::new());

/// All of them, in the order of their names in each file.
pub fn all() -> Vec<&'static Spec> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Makes the limiters of a file known. What they say is kept to the end of the program: a file is read once.
///
/// # Errors
/// If one has the name of another, or a script cannot be read.
pub fn install(config: &Config) -> Result<(), String> {
    for (name, foreign) in &config.limiters {
        let taken = |s: &&Spec| s.name == name || s.id.eq_ignore_ascii_case(name);
        let alias = super::ALIASES.iter().any(|a| a.id.eq_ignore_ascii_case(name));
        if alias || super::catalogue().iter().any(&taken) || all().iter().any(taken) {
            return Err(format!("limiter '{name}': the lab has one of that name; yours needs another"));
        }
        let spec = spec(name, foreign).map_err(|why| format!("limiter '{name}': {why}"))?;
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner).push(spec);
    }
    Ok(())
}

fn spec(name: &str, foreign: &Foreign) -> Result<&'static Spec, String> {
    let policy = foreign.policy.as_ref().map(|policy| policy_of(foreign, policy)).transpose()?;
    let kept: &'static Foreign = Box::leak(Box::new(Foreign { policy, ..foreign.clone() }));
    let sends = match kept.way()? {
        Way::Lines => "what its process sends",
        Way::Http(_) => "what its service sends",
        Way::Lua(lua) => {
            let (_, then) = super::external::script::read(kept, lua)?;
            if then.is_some() {
                "EVALSHA, and another if it admits; 1 to 2 round trips"
            } else {
                "EVALSHA; 1 round trip"
            }
        }
    };
    Ok(Box::leak(Box::new(Spec {
        id: "yours",
        name: leaked(name),
        summary: leaked(&kept.summary),
        sends,
        known: "",
        params: &[],
        foreign: Some(kept),
        needs_server: None,
        check,
        contract: |settings| of(settings).contract.contract(settings.limit, settings.window),
        build: |build| match of(&build.settings).way() {
            Ok(Way::Lua(lua)) => Arc::new(Scripted::new(build, lua)),
            // Who plans puts them into processes of their own.
            _ => unreachable!("a limiter of another process is not built here"),
        },
    })))
}

/// The policy by its name, if it is one that says nothing else than the contract does.
fn policy_of(foreign: &Foreign, wanted: &LimiterRef) -> Result<LimiterRef, String> {
    let policy = policies::resolve(wanted)?;
    let declared = &foreign.contract;
    // They stand for any: what is promised in an outage does not rest on them.
    let limit = foreign.limit.map_or_else(|| Limit::new(1), Ok).map_err(|e| e.to_string())?;
    let window = foreign.window.unwrap_or(Window::LONGEST);
    let promised = policies::around(&policy, limit, window, declared.contract(limit, window))?;
    let unsaid = declared.on_outage == OnOutage::Error && declared.fallback.is_none();
    if unsaid || (declared.fallback.is_none() && promised.on_outage == declared.on_outage) {
        return Ok(policy);
    }
    Err("contract: on_outage and fallback follow from the policy, which says something else: leave them out"
        .to_owned())
}

fn leaked(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn of(settings: &Settings) -> &'static Foreign {
    settings.foreign.expect("the settings of a foreign limiter say which")
}

fn check(settings: &Settings) -> Result<(), String> {
    let foreign = of(settings);
    let fixed = foreign.limit.is_none_or(|limit| limit == settings.limit)
        && foreign.window.is_none_or(|window| window == settings.window);
    if fixed {
        return Ok(());
    }
    let limit = foreign.limit.map_or("any".to_owned(), |l| l.to_string());
    let window = foreign.window.map_or("any".to_owned(), |w| w.to_string());
    Err(format!("it is built for limit {limit} per {window}"))
}

/// Limiters that come with the lab for its lists of claims, each file of them known by how their names begin.
struct Planted {
    begins: &'static str,
    file: &'static str,
    text: &'static str,
    done: OnceLock<Result<(), String>>,
}

static PLANTED: [Planted; 2] = [
    // Planted with a fault, or without it any more.
    Planted {
        begins: "case-",
        file: "scenarios/cases/limiters.toml",
        text: include_str!("../../scenarios/cases/limiters.toml"),
        done: OnceLock::new(),
    },
    Planted {
        begins: "claim-",
        file: "scenarios/claims/limiters.toml",
        text: include_str!("../../scenarios/claims/limiters.toml"),
        done: OnceLock::new(),
    },
];

impl Planted {
    /// Makes them known, the first time that one of them is asked for.
    fn install(&self) -> Result<(), String> {
        let install = || {
            let mut config = Config::parse(Path::new(self.file), self.text).map_err(|e| e.to_string())?;
            for foreign in config.limiters.values_mut() {
                // The program comes with the lab, and not in a file.
                if let Some(file) = foreign.command.iter().position(|word| word == "planted.py") {
                    let program = include_str!("../../scenarios/cases/planted.py");
                    foreign.command.splice(file..=file, ["-c".to_owned(), program.to_owned()]);
                    foreign.folder = std::path::PathBuf::new();
                }
            }
            install(&config)
        };
        self.done.get_or_init(install).clone()
    }
}

/// Finds one by name; the error names the nearest one, of the catalogue as well.
pub fn find(name: &str) -> Result<&'static Spec, String> {
    if let Some(planted) = PLANTED.iter().find(|p| name.starts_with(p.begins)) {
        planted.install()?;
    }
    let own = all();
    own.iter().copied().find(|s| s.name == name).ok_or_else(|| {
        let known: Vec<&str> = super::catalogue().iter().chain(&own).map(|s| s.name).collect();
        names::unknown("limiter", name, &known)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        let contract = "bound = \"none\"\nclock = \"app\"\ndenials = \"free\"\n";
        let text = format!("schema = 1\n{text}").replace("CONTRACT", contract);
        Config::parse(Path::new("rl-lab.toml"), &text).unwrap()
    }

    #[test]
    fn a_limiter_of_a_file_is_found_like_any_other_and_takes_no_name_of_another() {
        let own = "[limiter.installed-once]\ncommand = [\"x\"]\nlimit = 5\n[limiter.installed-once.contract]\nCONTRACT";
        install(&config(own)).unwrap();
        let spec = crate::limiters::find("installed-once").unwrap();
        assert!(spec.foreign.is_some());
        assert!(
            crate::limiters::find("instaled-once").err().unwrap().contains("did you mean 'installed-once'")
        );
        let settings = |limit: u64| {
            let limit = crate::model::units::Limit::new(limit).unwrap();
            Settings::new(spec, limit, "1s".parse().unwrap(), &Default::default()).map(|_| ())
        };
        assert!(settings(5).is_ok() && settings(6).unwrap_err().contains("built for limit 5 per any"));
        for taken in ["installed-once", "gcra-lua", "l09"] {
            let again = format!("[limiter.{taken}]\ncommand = [\"x\"]\n[limiter.{taken}.contract]\nCONTRACT");
            assert!(install(&config(&again)).unwrap_err().contains("of that name"), "{taken}");
        }
    }
}
