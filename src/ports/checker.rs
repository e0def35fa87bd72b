//! The checker port: from a recorded cell to a verdict.

use crate::model::history::Cell;
use crate::model::indexed::IndexedCell;
use crate::model::verdict::Finding;

/// A property and how it is judged.
///
/// A checker is a pure function of the history. It says `fail` only with a witness that no
/// reading of the timestamps can excuse, and `pass` only if the property was put to the test:
/// where the evidence is too thin, it says `unknown`. If it panics, that is `unknown` as well.
pub trait Checker: Sync {
    fn name(&self) -> &'static str;
    /// One line: what it proves.
    fn proves(&self) -> &'static str;
    fn judge(&self, cell: &Cell) -> Finding;

    /// The same with what other checkers have made of the cell already. Who groups calls does so here.
    fn judge_indexed(&self, cell: &IndexedCell) -> Finding {
        self.judge(cell.cell())
    }
}
