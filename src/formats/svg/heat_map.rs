//! The verdict matrix as a picture: limiters down the side, properties across, a field for each
//! verdict. Each field carries a sign as well as a colour.

use std::collections::BTreeMap;

use plotters::style::RGBColor;
use plotters::style::text_anchor::HPos;

use super::super::words;
use super::canvas::{Canvas, EDGE, LINE, SMALL, Type, fold, ink};
use super::labelled;
use crate::model::matrix::{Column, Matrix, MatrixCell};
use crate::model::report::Report;
use crate::model::verdict::{Verdict, Weight, weight};
use crate::ports::format::{Format, Look};

pub struct HeatMap;

const NAME: Type = Type::new(13.0, ink::TEXT);
const TITLE: Type = Type::bold(17.0, ink::TEXT);
const HEAD: Type = Type::bold(12.0, ink::TEXT);
const SIGN: Type = Type::bold(12.0, RGBColor(255, 255, 255));
const SIGN_DARK: Type = Type::new(12.0, ink::QUIET);
const ROW: i32 = 24;
const PASS: RGBColor = RGBColor(0, 114, 178);
/// Of a ground for white signs, which a dark page leaves as it is.
const FAIL: RGBColor = RGBColor(176, 58, 0);
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
        let ground = format!("{}; {}; seed {}", words::servers(report), report.honesty.backend, report.seed);
        let tried = |c: &Column| format!("{}: {} (tried by {})", c.head, c.check, c.scenario);
        let mut notes: Vec<String> = matrix.columns.iter().map(tried).collect();
        notes.extend(report.error.as_ref().map(|error| format!("{}: {error}", words::error_head(report))));
        draw(matrix, &ground, notes)
    }
}

/// Widest column: a longer head goes on below itself.
const HEAD_CHARS: usize = 12;

/// The picture of a matrix. `ground` is what it stands on, `notes` stand below.
pub fn draw(matrix: &Matrix, ground: &str, notes: Vec<String>) -> Result<String, String> {
    let names: Vec<String> = matrix.rows.iter().map(|r| words::clean(&r.label())).collect();
    let left = EDGE + names.iter().map(|n| NAME.width(n)).max().unwrap_or(0) + 12;
    let heads: Vec<Vec<String>> =
        matrix.columns.iter().map(|c| words::fold(&c.head, HEAD_CHARS, &['-', ' '])).collect();
    let wide = |lines: &Vec<String>| lines.iter().map(|l| HEAD.width(l) + 14).max().unwrap_or(0).max(48);
    let wides: Vec<i32> = heads.iter().map(wide).collect();
    let right = left + wides.iter().sum::<i32>();
    let width = (right + EDGE).max(760);
    let title = fold(&title(matrix), TITLE, width);
    let ground = fold(ground, SMALL, width);
    let lines = heads.iter().map(Vec::len).max().unwrap_or(1) as i32;
    let below_title = EDGE + 24 * title.len() as i32 + LINE * ground.len() as i32;
    let top = below_title + 16 + 15 * lines;
    let fields = top + ROW * matrix.rows.len() as i32;
    let legend: Vec<String> =
        std::iter::once(signs(matrix)).chain(notes).flat_map(|n| fold(&n, SMALL, width)).collect();
    let height = fields + 16 + LINE * legend.len() as i32 + EDGE;
    let mut text = String::new();
    let canvas = Canvas::new(&mut text, (width, height))?;
    for (i, line) in (0..).zip(&title) {
        canvas.text(line, (EDGE, EDGE + 4 + 24 * i), TITLE, HPos::Left)?;
    }
    for (i, line) in (0..).zip(&ground) {
        canvas.text(line, (EDGE, EDGE + 24 * title.len() as i32 + 6 + LINE * i), SMALL, HPos::Left)?;
    }
    let mut x = left;
    for (lines, wide) in heads.iter().zip(&wides) {
        // The last line of each stands on the first row.
        for (i, line) in (0..).zip(lines.iter().rev()) {
            canvas.text(line, (x + wide / 2, top - 10 - 15 * i), HEAD, HPos::Center)?;
        }
        x += wide;
    }
    for (row, (y, name)) in matrix.rows.iter().zip((0..).map(|i| top + ROW * i).zip(&names)) {
        canvas.text(name, (left - 10, y + ROW / 2), NAME, HPos::Right)?;
        let mut x = left;
        for (cell, wide) in row.verdicts.iter().zip(&wides) {
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
    Ok(labelled(&text, "Verdict matrix: limiters against properties"))
}

/// What the signs mean that are there.
fn signs(matrix: &Matrix) -> String {
    let all = || matrix.rows.iter().flat_map(|r| &r.verdicts).flatten();
    let known = [
        ("ok: kept", Verdict::Pass),
        ("✕: convicted, with a witness", Verdict::Fail),
        ("?: not enough evidence", Verdict::Unknown),
        ("–: does not apply", Verdict::NotApplicable),
    ];
    let used = known.iter().filter(|(_, v)| all().any(|c| c.verdict == *v)).map(|(text, _)| *text);
    let wrong = all().any(|c| weight(c.verdict, c.outcome) == Weight::Failed);
    used.chain(wrong.then_some("!: not what is known")).collect::<Vec<_>>().join("; ")
}

fn title(matrix: &Matrix) -> String {
    // A limiter is what it is on all servers, where there are several.
    let mut worst: BTreeMap<&str, Option<Verdict>> = BTreeMap::new();
    for row in &matrix.rows {
        let of_row = row.verdicts.iter().flatten().map(|c| c.verdict).max();
        let known = worst.entry(&row.limiter).or_insert(of_row);
        *known = (*known).max(of_row);
    }
    let count = |fits: fn(Option<Verdict>) -> bool| worst.values().filter(|v| fits(**v)).count();
    let kept = count(|v| matches!(v, Some(Verdict::Pass | Verdict::NotApplicable)));
    let open = match count(|v| matches!(v, Some(Verdict::Unknown) | None)) {
        0 => String::new(),
        n => format!("; of {n} something is unknown"),
    };
    format!("{kept} of {} limiters keep every property that was tried{open}", worst.len())
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
