//! A call in 36 bytes: so that a copy of all calls of a round in the order of their groups is affordable.
//!
//! Numbers are kept in 32 bits or fewer. A call of which one does not fit is read where it was recorded.

use crate::model::op::{KeyId, Maybe, Op, Outcome, Source};
use crate::model::units::{Cost, Nanos, NodeId, OpId};

#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub struct Packed {
    invoke: i64,
    /// The place in the record, which is the call's number.
    at: u32,
    /// From invocation to completion; [`NONE`] if it never completed.
    length: u32,
    remaining: u32,
    retry_after_ms: u32,
    /// After [`Packer::clock_us`].
    clock_us: u32,
    cost: u16,
    node: NodeId,
    outcome: Outcome,
    source: Option<Source>,
    /// Whether all of it is here.
    whole: bool,
    /// Room for whoever sorts.
    pub digit: u8,
}

impl Packed {
    pub const NOTHING: Self = Self {
        invoke: 0,
        at: 0,
        length: 0,
        remaining: 0,
        retry_after_ms: 0,
        clock_us: 0,
        cost: 0,
        node: NodeId(0),
        outcome: Outcome::Unknown,
        source: None,
        whole: false,
        digit: 0,
    };
}

const NONE: u32 = u32::MAX;

/// Packs the calls of a round and takes them out again.
#[derive(Debug, Clone, Copy)]
pub struct Packer {
    /// Clocks are told from here on.
    clock_us: u64,
}

impl Packer {
    pub fn of(ops: &[Op]) -> Self {
        let first = ops.iter().find_map(|op| op.clock_us.get()).unwrap_or(0);
        // A clock may have been set back since.
        Self { clock_us: first.saturating_sub(1 << 31) }
    }

    #[inline]
    pub fn pack(self, op: &Op, at: u32) -> Packed {
        let fits = |number: u64| u32::try_from(number).ok().filter(|n| *n != NONE);
        let short = |number: Maybe| number.get().map_or(Some(NONE), fits);
        let length = match op.complete {
            Op::NEVER => Some(NONE),
            end => end.0.checked_sub(op.invoke.0).and_then(|n| u64::try_from(n).ok()).and_then(fits),
        };
        let clock = op.clock_us.get().map_or(Some(NONE), |us| us.checked_sub(self.clock_us).and_then(fits));
        let given = Packed {
            invoke: op.invoke.0,
            at,
            node: op.node,
            outcome: op.outcome,
            source: op.source,
            ..Packed::NOTHING
        };
        match (length, short(op.remaining), short(op.retry_after_ms), clock, u16::try_from(op.cost.get())) {
            (Some(length), Some(remaining), Some(retry_after_ms), Some(clock_us), Ok(cost))
                if op.id == OpId(at) =>
            {
                Packed { length, remaining, retry_after_ms, clock_us, cost, whole: true, ..given }
            }
            _ => given,
        }
    }

    /// The call of this key, which is one of these.
    #[inline]
    pub fn unpack(self, packed: Packed, key: KeyId, ops: &[Op]) -> Op {
        let Packed { invoke, at, length, remaining, retry_after_ms, clock_us, node, outcome, source, .. } =
            packed;
        let Some(cost) = Cost::new(packed.cost.into()).ok().filter(|_| packed.whole) else {
            return ops[at as usize];
        };
        let maybe = |number: u32, from: u64| match number {
            NONE => Maybe::NONE,
            n => Maybe::from(Some(from + u64::from(n))),
        };
        Op {
            id: OpId(at),
            key,
            cost,
            node,
            outcome,
            source,
            invoke: Nanos(invoke),
            complete: if length == NONE { Op::NEVER } else { Nanos(invoke + i64::from(length)) },
            remaining: maybe(remaining, 0),
            retry_after_ms: maybe(retry_after_ms, 0),
            clock_us: maybe(clock_us, self.clock_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number() -> impl Strategy<Value = u64> {
        let near = |n: u64| (n - 3)..(n + 3);
        prop_oneof![0..100u64, near(1 << 31), near(1 << 32), any::<u64>()]
    }

    fn some_op() -> impl Strategy<Value = Op> {
        let maybe = || prop::option::of(number());
        let source = prop::option::of(prop_oneof![
            Just(Source::Store),
            Just(Source::FailOpen),
            Just(Source::FailClosed),
            Just(Source::Fallback),
            Just(Source::Local),
        ]);
        let outcome = prop_oneof![
            Just(Outcome::Admitted),
            Just(Outcome::Denied),
            Just(Outcome::Failed),
            Just(Outcome::Unknown),
        ];
        let told = (outcome, source, maybe(), maybe(), maybe());
        let times = (any::<i64>(), prop::option::of(number()));
        (told, times, 1u32..100_000, any::<u16>()).prop_map(|(told, (invoke, length), cost, node)| {
            let mut op = Op::new(OpId(0), NodeId(node), KeyId(7), Cost::new(cost).unwrap(), Nanos(invoke));
            if let Some(length) = length {
                op.complete = Nanos(invoke.wrapping_add(length.cast_signed()));
            }
            let (outcome, source, remaining, retry, clock) = told;
            (op.outcome, op.source) = (outcome, source);
            (op.remaining, op.retry_after_ms, op.clock_us) = (remaining.into(), retry.into(), clock.into());
            op
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]

        #[test]
        fn what_is_packed_comes_out_as_it_was(
            ops in prop::collection::vec(some_op(), 1..4), numbered in prop::bool::weighted(0.9),
        ) {
            let mut ops = ops;
            if numbered {
                ops.iter_mut().enumerate().for_each(|(n, op)| op.id = OpId(n as u32));
            }
            let packer = Packer::of(&ops);
            for (at, op) in ops.iter().enumerate() {
                let packed = packer.pack(op, at as u32);
                prop_assert_eq!(packer.unpack(packed, KeyId(7), &ops), *op);
            }
        }
    }

    #[test]
    fn a_call_as_they_mostly_are_is_packed_whole_and_stays_small() {
        let mut op = Op::new(OpId(3), NodeId(1), KeyId(7), Cost::ONE, Nanos(5));
        (op.complete, op.outcome, op.source) = (Nanos(9), Outcome::Denied, Some(Source::Store));
        (op.remaining, op.retry_after_ms) = (Some(0).into(), Some(60_000).into());
        op.clock_us = Some(1_700_000_000_000_000).into();
        assert!(Packer::of(&[op]).pack(&op, 3).whole);
        assert_eq!(size_of::<Packed>(), 36);
    }
}
