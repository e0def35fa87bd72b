//! `rl-lab.toml`: found, read, held to what there is, and its limiters made known.

use std::path::{Path, PathBuf};

use super::scenarios;
use crate::model::config::{Config, FILE, Profile};
use crate::model::names;
use crate::model::scenario::ScenarioError;
use crate::{backends, checkers, limiters};

/// The file of this folder, or of the nearest one above it. A folder with `.git` is the last that is looked into.
/// The answer is a path from here.
pub fn find(here: &Path) -> Option<PathBuf> {
    let mut way = PathBuf::new();
    for folder in here.ancestors() {
        let file = way.join(FILE);
        if folder.join(FILE).is_file() {
            return Some(file);
        }
        if folder.join(".git").exists() {
            return None;
        }
        way.push("..");
    }
    None
}

/// Reads a file and makes its limiters known, for as long as the program runs.
///
/// # Errors
/// With file, line and column where it says something that cannot be meant.
pub fn load(path: &Path) -> Result<Config, String> {
    let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            format!("there is no file '{}'; `rl-lab init` writes one", path.display())
        }
        _ => format!("cannot read '{}': {e}", path.display()),
    })?;
    let config = Config::parse(path, &text).map_err(|e| e.to_string())?;
    let shown = path.display().to_string();
    let objection =
        |needles: &[&str], why: String| ScenarioError::at(&shown, &text, needles, why).to_string();
    let backend = |name: &Option<String>| match name {
        Some(name) if !backends::NAMES.contains(&name.as_str()) => {
            Err(objection(&[&format!("\"{name}\"")], names::unknown("backend", name, backends::NAMES)))
        }
        _ => Ok(()),
    };
    backend(&config.backend)?;
    limiters::foreign::install(&config).map_err(|why| {
        let name = why.split('\'').nth(1).unwrap_or_default();
        objection(&[&format!("[limiter.{name}"), &format!("[limiter.\"{name}\"")], why.clone())
    })?;
    for (name, profile) in &config.profiles {
        backend(&profile.backend)?;
        fits(profile).map_err(|(what, why)| {
            objection(&[&format!("\"{what}\""), &format!("'{what}'")], format!("profile '{name}': {why}"))
        })?;
    }
    Ok(config)
}

/// Whether what a profile names is there; if not, the name and why.
fn fits(profile: &Profile) -> Result<(), (String, String)> {
    for scenario in profile.scenarios.iter().filter(|s| !is_file(s)) {
        let known: Vec<&str> = scenarios::EMBEDDED.iter().map(|(n, _)| *n).collect();
        if !known.contains(&scenario.as_str()) {
            return Err((scenario.clone(), names::unknown("scenario", scenario, &known)));
        }
    }
    for limiter in &profile.limiters {
        limiters::resolve(limiter).map_err(|why| (limiter.to_string(), why))?;
    }
    for check in &profile.must_be_known {
        checkers::find(check).map_err(|why| (check.clone(), why))?;
    }
    Ok(())
}

/// Whether a profile means a file, and not a scenario that the lab brings along.
pub fn is_file(scenario: &str) -> bool {
    Path::new(scenario).extension().is_some_and(|x| x == "toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_file_above_is_found_and_none_beyond_a_repository() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("repo/a/b");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(root.path().join(FILE), "").unwrap();
        assert_eq!(find(&deep).unwrap(), Path::new("../../../rl-lab.toml"));
        std::fs::create_dir(root.path().join("repo/.git")).unwrap();
        assert_eq!(find(&deep), None);
        std::fs::write(root.path().join("repo").join(FILE), "").unwrap();
        assert_eq!(find(&deep).unwrap(), Path::new("../../rl-lab.toml"));
        assert_eq!(find(&root.path().join("repo")).unwrap(), Path::new(FILE));
    }

    #[test]
    fn what_a_file_names_must_be_there() {
        let root = tempfile::tempdir().unwrap();
        let refused = |more: &str| {
            let path = root.path().join(FILE);
            std::fs::write(&path, format!("schema = 1\n{more}")).unwrap();
            load(&path).unwrap_err()
        };
        for (more, place, what) in [
            ("backend = \"lokal\"", ":2:11: ", "did you mean 'local'"),
            ("[profile.q]\nscenarios = [\"raec\"]", ":3:14: ", "did you mean 'race'"),
            (
                "[profile.q]\nscenarios = []\nexplore = \"1s\"\nlimiters = [\"gcra-lu\"]",
                ":5:13: ",
                "did you mean 'gcra-lua'",
            ),
            (
                "[profile.q]\nscenarios = [\"race\"]\nmust_be_known = [\"recover\"]",
                ":4:18: ",
                "did you mean 'recovers'",
            ),
            (
                "[limiter.l]\nlua = { file = \"gone.lua\", keys = [], allowed = { is = 1 } }\n[limiter.l.contract]\nbound = \"none\"\nclock = \"app\"\ndenials = \"free\"",
                ":2:1: ",
                "gone.lua cannot be read",
            ),
        ] {
            let refused = refused(more);
            assert!(refused.contains(&format!("{FILE}{place}")) && refused.contains(what), "{refused}");
        }
        assert!(load(&root.path().join("nowhere.toml")).unwrap_err().contains("there is no file"));
    }
}
