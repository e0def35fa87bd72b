//! Floor 2, formats: a [`Report`](crate::model::report::Report) as a text. Each file is one format
//! and pure; one manager in the runner writes the files, so that a broken format loses nothing.
//!
//! What they share: `words` (names, numbers, folding) and `findings` (sorted, put together). `github` is no file of a
//! run: it is what a gate tells that platform.

pub mod compare;
mod compose;
pub mod csv;
pub mod document;
mod findings;
pub mod github;
pub mod html;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod study;
pub mod svg;
pub mod table;
pub mod words;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod xml;

use crate::ports::format::Format;

/// Every format, in the order `--format` and `rl-lab list` name them.
pub static ALL: &[&dyn Format] = &[
    &table::Table,
    &json::Json,
    &markdown::Markdown,
    &html::Html,
    &csv::Csv,
    &junit::Junit,
    &svg::Svg,
    &svg::heat_map::HeatMap,
];

/// The format of that name.
pub fn find(name: &str) -> Option<&'static dyn Format> {
    ALL.iter().copied().find(|format| format.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::format::Look;

    #[test]
    fn names_and_files_are_unique_and_found() {
        for format in ALL {
            assert_eq!(ALL.iter().filter(|f| f.name() == format.name()).count(), 1, "{}", format.name());
            assert_eq!(ALL.iter().filter(|f| f.file() == format.file()).count(), 1, "{}", format.file());
            assert_eq!(find(format.name()).map(Format::file), Some(format.file()));
        }
        assert!(find("yaml").is_none());
    }

    #[test]
    fn a_run_that_ended_before_its_first_cell_still_renders_everywhere() {
        for format in ALL.iter().filter(|f| f.applies(&sample::stillborn())) {
            let text = format.render(&sample::stillborn(), Look::PLAIN).unwrap();
            assert!(!text.is_empty(), "{} is empty", format.name());
            assert!(
                format.name() == "csv" || text.contains("no engine answers"),
                "{} hides the error",
                format.name()
            );
        }
    }
}
