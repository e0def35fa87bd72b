//! The scenarios: those in the binary, and those in files of the user's own.

use std::path::Path;

use crate::model::names;
use crate::model::scenario::{Scenario, ScenarioError};

include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

/// A scenario with the name it goes by in results and in the command that repeats it.
#[derive(Debug, Clone)]
pub struct Named {
    pub name: String,
    /// How to call it again: `["race"]`, or `["run", "mine.toml"]`.
    pub call: Vec<String>,
    pub scenario: Scenario,
    file: String,
    text: String,
}

impl Named {
    /// An objection to a value that the file writes, with its place there.
    pub fn objection(&self, value: &str, message: String) -> String {
        let quoted = [format!("\"{value}\""), format!("'{value}'")];
        let needles = [quoted[0].as_str(), quoted[1].as_str(), value];
        ScenarioError::at(&self.file, &self.text, &needles, message).to_string()
    }
}

/// The scenarios in the binary.
///
/// # Errors
/// If one of them cannot be read; a test rules that out.
pub fn embedded() -> Result<Vec<Named>, String> {
    EMBEDDED.iter().map(|(name, text)| read(name, text)).collect()
}

fn read(name: &str, text: &str) -> Result<Named, String> {
    named(name, vec![name.to_owned()], format!("scenarios/{name}.toml"), text.to_owned())
}

fn named(name: &str, call: Vec<String>, file: String, text: String) -> Result<Named, String> {
    let scenario = Scenario::parse(&file, &text).map_err(|e| e.to_string())?;
    Ok(Named { name: name.to_owned(), call, scenario, file, text })
}

/// An embedded scenario by name; the error names the nearest one.
pub fn find(name: &str) -> Result<Named, String> {
    match EMBEDDED.iter().find(|(n, _)| *n == name) {
        Some((name, text)) => read(name, text),
        None => {
            let known: Vec<&str> = EMBEDDED.iter().map(|(n, _)| *n).collect();
            Err(names::unknown("scenario", name, &known))
        }
    }
}

/// A scenario from a file, or an embedded one where there is no such file but such a name.
pub fn load(file: &str) -> Result<Named, String> {
    let path = Path::new(file);
    if !path.exists() && EMBEDDED.iter().any(|(n, _)| *n == file) {
        return find(file);
    }
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let known: Vec<&str> = EMBEDDED.iter().map(|(n, _)| *n).collect();
            return Err(format!("no file '{file}', and {}", names::unknown("scenario", file, &known)));
        }
        Err(error) => return Err(format!("cannot read '{file}': {error}")),
    };
    let name = path.file_stem().and_then(|s| s.to_str()).unwrap_or("scenario");
    named(name, vec!["run".to_owned(), file.to_owned()], file.to_owned(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_scenario_is_read() {
        let all = embedded().unwrap();
        assert!(all.iter().any(|s| s.name == "race"));
    }

    #[test]
    fn a_missing_file_is_told_with_the_nearest_scenario() {
        let error = load("raec").unwrap_err();
        assert!(error.contains("no file 'raec'") && error.contains("did you mean 'race'"), "{error}");
    }
}
