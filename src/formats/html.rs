//! A run's report as one page: the same as the Markdown, with its pictures inside and the calls behind each conviction.

use super::compose;
use super::document::html;
use super::words;
use crate::model::report::Report;
use crate::ports::format::{Format, Look};

pub struct Html;

impl Format for Html {
    fn name(&self) -> &'static str {
        "html"
    }

    fn file(&self) -> &'static str {
        "report.html"
    }

    fn on_stdout(&self) -> bool {
        false
    }

    fn render(&self, report: &Report, _: Look) -> Result<String, String> {
        Ok(html::render(&words::title(report), &compose::page(report)?))
    }
}
