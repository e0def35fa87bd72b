//! `no-lost-permit`: what was taken out of the limit ended with a caller.
//!
//! As `no-false-denial`, but a refused call never counts as having used anything, whatever the
//! contract says: nobody got what it paid for. That convicts who charges refusals where it hurts (a
//! large call is refused and eats the window; a log fills up with refusals) and who loses permits it
//! had claimed, such as a batch whose owner went away. A limiter may declare that it charges refusals,
//! keep its word and fail here.
//!
//! Calls without an answer count as used: their permits may be with callers for all anybody knows.
//! What it cannot see, what a pass needs and what it costs are those of `no-false-denial`.

use super::rooms;
use crate::model::contract::Denials;
use crate::model::history::Cell;
use crate::model::indexed::IndexedCell;
use crate::model::verdict::Finding;
use crate::ports::checker::Checker;

pub struct NoLostPermit;

impl Checker for NoLostPermit {
    fn name(&self) -> &'static str {
        "no-lost-permit"
    }

    fn proves(&self) -> &'static str {
        "no call is refused for want of permits that no caller got"
    }

    fn judge(&self, cell: &Cell) -> Finding {
        self.judge_indexed(&IndexedCell::of(cell))
    }

    fn judge_indexed(&self, cell: &IndexedCell) -> Finding {
        rooms::judge(cell, Denials::Free)
    }
}
