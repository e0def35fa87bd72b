//! The verdict matrix as a picture: limiters down the side, properties across, a field for each
//! verdict. Each field carries a sign as well as a colour.

use plotters::style::RGBColor;
use plotters::style::text_anchor::HPos;

use super::super::words;
use super::canvas::{Canvas, EDGE, LINE, SMALL, Type, ink};
use crate::model::matrix::{Matrix, MatrixCell};
use crate::model::report::Report;
use crate::model::verdict::{Verdict, Weight, weight};
use crate::ports::format::{Format, Look};

pub struct HeatMap;

const NAME: Type = Type::new(13.0, ink::TEXT);
const HEAD: Type = Type::bold(12.0, ink::TEXT);
const SIGN: Type = Type::bold(12.0, RGBColor(255, 255, 255));
const SIGN_DARK: Type = Type::new(12.0, ink::QUIET);
const ROW: i32 = 24;
const PASS: RGBColor = RGBColor(0, 114, 178);
const FAIL: RGBColor = RGBColor(184, 66, 0);
const UNKNOWN: RGBColor = RGBColor(150, 110, 0);
const NOT: RGBColor = RGBColor(240, 240, 240);

impl Format for HeatMap {
    fn name(&self) -> &'static str {
        "heat-map"
    }

    fn file(&self) -> &'static str {
        "matrix.svg"
    }

    fn on_stdout(&self) -> bool {
        false
    }

    fn applies(&self, report: &Report) -> bool {
        report.matrix.is_some()
    }

    fn render(&self, report: &Report, _: Look) -> Result<String, String> {
        let matrix = report.matrix.as_ref().ok_or("the run was not for a matrix")?;
        let text = draw(report, matrix)?;
        let label = "Verdict matrix: limiters against properties";
        Ok(text.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{label}\" "), 1))
    }
}

fn draw(report: &Report, matrix: &Matrix) -> Result<String, String> {
    let names: Vec<String> = matrix.rows.iter().map(|r| words::clean(&r.limiter)).collect();
    let left = EDGE + names.iter().map(|n| NAME.width(n)).max().unwrap_or(0) + 12;
    let heads: Vec<i32> = matrix.columns.iter().map(|c| (HEAD.width(&c.head) + 14).max(48)).collect();
    let right = left + heads.iter().sum::<i32>();
    let top = EDGE + 2 * LINE + 30;
    let fields = top + ROW * matrix.rows.len() as i32;
    let legend: Vec<String> = legend(report, matrix);
    let width = (right + EDGE).max(760);
    let height = fields + 16 + LINE * legend.len() as i32 + EDGE;
    let mut text = String::new();
    let canvas = Canvas::new(&mut text, (width, height))?;
    canvas.text(&title(matrix), (EDGE, EDGE + 4), Type::bold(17.0, ink::TEXT), HPos::Left)?;
    let ground = format!("{}; {}; seed {}", words::servers(report), report.honesty.backend, report.seed);
    canvas.text(&ground, (EDGE, EDGE + LINE + 8), SMALL, HPos::Left)?;
    let mut x = left;
    for (column, wide) in matrix.columns.iter().zip(&heads) {
        canvas.text(&column.head, (x + wide / 2, top - 14), HEAD, HPos::Center)?;
        x += wide;
    }
    for (row, (y, name)) in matrix.rows.iter().zip((0..).map(|i| top + ROW * i).zip(&names)) {
        canvas.text(name, (left - 10, y + ROW / 2), NAME, HPos::Right)?;
        let mut x = left;
        for (cell, wide) in row.verdicts.iter().zip(&heads) {
            if let Some(cell) = cell {
                let (ink, sign, kind) = look(cell);
                canvas.field((x + 1, y + 1), (x + wide - 1, y + ROW - 1), ink)?;
                canvas.text(sign, (x + wide / 2, y + ROW / 2), kind, HPos::Center)?;
            }
            x += wide;
        }
    }
    for (y, line) in (0..).map(|i| fields + 16 + LINE * i + LINE / 2).zip(&legend) {
        canvas.text(line, (EDGE, y), SMALL, HPos::Left)?;
    }
    canvas.finish()?;
    Ok(text)
}

fn title(matrix: &Matrix) -> String {
    let convicted = |c: &Option<MatrixCell>| c.as_ref().is_some_and(|c| c.verdict == Verdict::Fail);
    let whole = matrix.rows.iter().filter(|r| !r.verdicts.iter().any(convicted)).count();
    format!("{whole} of {} limiters keep every property that was tried", matrix.rows.len())
}

fn look(cell: &MatrixCell) -> (RGBColor, &'static str, Type) {
    let wrong = weight(cell.verdict, cell.outcome) == Weight::Failed;
    match (cell.verdict, wrong) {
        (Verdict::Pass, false) => (PASS, "ok", SIGN),
        (Verdict::Pass, true) => (PASS, "ok!", SIGN),
        (Verdict::Fail, false) => (FAIL, "✕", SIGN),
        (Verdict::Fail, true) => (FAIL, "✕!", SIGN),
        (Verdict::Unknown, _) => (UNKNOWN, "?", SIGN),
        (Verdict::NotApplicable, _) => (NOT, "–", SIGN_DARK),
    }
}

fn legend(report: &Report, matrix: &Matrix) -> Vec<String> {
    let mut lines: Vec<String> =
        matrix.columns.iter().map(|c| format!("{}: {} (tried by {})", c.head, c.check, c.scenario)).collect();
    lines.push("ok: kept; ✕: convicted, with a witness; –: does not apply; !: not what is known".to_owned());
    if let Some(error) = &report.error {
        lines.push(format!("{}: {error}", words::error_head(report)));
    }
    lines
}
