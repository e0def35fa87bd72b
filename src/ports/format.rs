//! The format port: from a report to the bytes of one file. A format never writes; one manager
//! in the runner does.

use crate::model::report::Report;

pub trait Format: Sync {
    /// As `--format` names it.
    fn name(&self) -> &'static str;
    /// The file's name inside the run's folder.
    fn file(&self) -> &'static str;
    /// Whether `--format` offers it for stdout (a chart is a file only).
    fn on_stdout(&self) -> bool;
    /// Whether there is anything of this report to render.
    fn applies(&self, _report: &Report) -> bool {
        true
    }
    fn render(&self, report: &Report, look: Look) -> Result<String, String>;
}

/// How a terminal is to be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub color: bool,
    /// Columns to stay within; `None` for a file.
    pub width: Option<usize>,
}

impl Look {
    pub const PLAIN: Self = Self { color: false, width: None };
}
