//! `results.json`: the report itself, and nothing else. What `--format json` prints.

use crate::model::report::Report;
use crate::ports::format::{Format, Look};

pub struct Json;

impl Format for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn file(&self) -> &'static str {
        "results.json"
    }

    fn on_stdout(&self) -> bool {
        true
    }

    fn render(&self, report: &Report, _: Look) -> Result<String, String> {
        let mut text = serde_json::to_string_pretty(report).map_err(|e| e.to_string())?;
        text.push('\n');
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn it_reads_back_as_the_same_report() {
        for report in [sample::race(), sample::incident(), sample::stillborn()] {
            let text = Json.render(&report, Look { color: true, width: Some(40) }).unwrap();
            assert!(text.starts_with("{\n") && text.ends_with("}\n"));
            assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
        }
    }
}
