use super::counter::{Call, Counter};
use super::one_window::{self, Objection, objection};
use super::register::{Call as Of, Register};
use super::*;
use crate::model::contract::Denials;
use crate::model::units::{Limit, OpId};

/// SplitMix64: a failure is the same failure tomorrow.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}

fn timed<C>(invoke: i64, complete: Option<i64>, call: C) -> Timed<C> {
    Timed { invoke: Nanos(invoke), complete: complete.map(Nanos), call }
}

fn counter(limit: u64, denials: Denials) -> Counter {
    Counter { limit: Limit::new(limit).unwrap(), used: 0, denials }
}

fn patient<M: Sequential>(model: &M, calls: &[Timed<M::Call>]) -> Answer {
    search(model, calls, || false)
}

/// Whether an order that was given is one, by the definition.
fn explains<M: Sequential>(model: &M, calls: &[Timed<M::Call>], order: &[usize], whole: bool) -> bool {
    let mut state = model.start();
    let taken = order.iter().all(|n| match model.apply(&state, &calls[*n].call) {
        Some(next) => {
            state = next;
            true
        }
        None => false,
    });
    let precedes = |a: usize, b: usize| calls[a].complete.is_some_and(|end| end < calls[b].invoke);
    let in_time = (0..order.len()).all(|i| (0..i).all(|j| !precedes(order[i], order[j])));
    let all = (0..calls.len()).all(|n| calls[n].complete.is_none() || order.contains(&n));
    taken && in_time && (all || !whole)
}

/// Every order of every choice of calls, tried.
fn by_definition<M: Sequential>(model: &M, calls: &[Timed<M::Call>]) -> bool {
    fn go<M: Sequential>(
        model: &M,
        calls: &[Timed<M::Call>],
        state: &M::State,
        taken: &mut Vec<bool>,
    ) -> bool {
        if (0..calls.len()).all(|n| taken[n] || calls[n].complete.is_none()) {
            return true;
        }
        (0..calls.len()).any(|n| {
            let held_back = (0..calls.len()).any(|other| {
                !taken[other] && other != n && calls[other].complete.is_some_and(|end| end < calls[n].invoke)
            });
            if taken[n] || held_back {
                return false;
            }
            let Some(next) = model.apply(state, &calls[n].call) else { return false };
            taken[n] = true;
            let found = go(model, calls, &next, taken);
            taken[n] = false;
            found
        })
    }
    go(model, calls, &model.start(), &mut vec![false; calls.len()])
}

/// Up to `most` calls of a few clients, each making one call after the other, times on a coarse grid.
fn clients<C>(random: &mut Random, most: u64, mut call: impl FnMut(&mut Random) -> C) -> Vec<Timed<C>> {
    let clients = 2 + random.below(3);
    let mut free = vec![0i64; clients as usize];
    let mut calls = Vec::new();
    for _ in 0..=random.below(most) {
        let client = random.below(clients) as usize;
        let invoke = free[client] + random.below(4) as i64;
        let complete = invoke + random.below(6) as i64;
        free[client] = complete + 1;
        let answered = random.below(8) > 0;
        calls.push(timed(invoke, answered.then_some(complete), call(random)));
    }
    calls.sort_by_key(|c| c.invoke);
    calls
}

/// The answer is right, and so is what comes with it.
#[track_caller]
fn check<M: Sequential>(model: &M, calls: &[Timed<M::Call>]) -> bool
where
    M::Call: Clone + std::fmt::Debug,
{
    let answer = patient(model, calls);
    let linearizable = matches!(answer, Answer::Linearizable(_));
    assert_eq!(linearizable, by_definition(model, calls), "{calls:?}");
    match answer {
        Answer::Linearizable(order) => assert!(explains(model, calls, &order, true), "{calls:?}: {order:?}"),
        Answer::Not(stuck) => {
            // What had happened before the end of the call can be explained, with the end it cannot.
            let end = calls[stuck.at].complete;
            let until = |with_it: bool| {
                let kept = (0..calls.len()).filter(|n| Some(calls[*n].invoke) <= end).map(|n| {
                    let ended = calls[n].complete.is_some_and(|c| (Some(c), n) < (end, stuck.at));
                    let complete = calls[n].complete.filter(|_| ended || (with_it && n == stuck.at));
                    Timed { complete, ..calls[n].clone() }
                });
                kept.collect::<Vec<_>>()
            };
            assert!(by_definition(model, &until(false)) && !by_definition(model, &until(true)), "{calls:?}");
            let before = stuck.before.expect("nothing made it give up");
            assert!(explains(model, calls, &before, false), "{calls:?}: {before:?}");
            assert!(stuck.open.iter().all(|n| Some(calls[*n].invoke) <= end && *n != stuck.at));
        }
        Answer::GaveUp => panic!("nothing told it to"),
    }
    linearizable
}

#[test]
fn the_search_agrees_with_every_order_tried_on_registers() {
    let mut random = Random(1);
    let mut yes = 0;
    for _ in 0..20_000 {
        let calls = clients(&mut random, 6, |random| match random.below(3) {
            0 => Of::Read(random.below(3) as u32),
            1 => Of::Write(1 + random.below(2) as u32),
            _ => Of::Cas(random.below(3) as u32, 1 + random.below(2) as u32),
        });
        yes += u32::from(check(&Register, &calls));
    }
    assert!((4_000..16_000).contains(&yes), "{yes}");
}

#[test]
fn the_search_agrees_with_every_order_tried_on_counters_of_mixed_costs() {
    let mut random = Random(2);
    let mut yes = 0;
    for n in 0..20_000 {
        let calls = clients(&mut random, 6, |random| Call {
            cost: 1 + random.below(3) as u32,
            allowed: Some(random.below(3) > 0),
        });
        let calls: Vec<_> = calls
            .into_iter()
            .map(|c| Timed { call: Call { allowed: c.complete.and(c.call.allowed), ..c.call }, ..c })
            .collect();
        let denials = if n % 2 == 0 { Denials::Charged } else { Denials::Free };
        yes += u32::from(check(&counter(1 + random.below(5), denials), &calls));
    }
    assert!((4_000..16_000).contains(&yes), "{yes}");
}

/// Small histories of one window. Each is told as a counter would, now and then with an error: both
/// verdicts are common.
fn one_window_history(random: &mut Random, limit: u64, used: u64) -> Vec<Timed<Call>> {
    let mut calls = clients(random, 8, |_| Call { cost: 1, allowed: None });
    let mut moments: Vec<(i64, usize)> = calls
        .iter()
        .enumerate()
        .map(|(n, c)| {
            let length = c.complete.map_or(20, |end| end.0 - c.invoke.0);
            (c.invoke.0 + random.below(length as u64 + 1) as i64, n)
        })
        .collect();
    moments.sort_unstable();
    let mut counted = used;
    for (_, n) in moments {
        if calls[n].complete.is_none() && random.below(2) == 0 {
            continue;
        }
        let fits = counted < limit;
        counted += u64::from(fits);
        let wrong = random.below(8) == 0;
        calls[n].call.allowed = calls[n].complete.map(|_| fits != wrong);
    }
    calls
}

#[test]
fn the_rule_of_one_window_agrees_with_the_search() {
    let mut random = Random(3);
    let (mut yes, mut no) = (0, 0);
    for n in 0..50_000 {
        let limit = 1 + random.below(4);
        let used = if random.below(4) == 0 { random.below(limit + 2) } else { 0 };
        let calls = one_window_history(&mut random, limit, used);
        let denials = if n % 2 == 0 { Denials::Charged } else { Denials::Free };
        let model = Counter { used, ..counter(limit, denials) };
        let searched = matches!(patient(&model, &calls), Answer::Linearizable(_));
        let window = calls.iter().map(|c| one_window::Call {
            op: OpId(0),
            invoke: c.invoke,
            complete: c.complete.unwrap_or(Nanos(i64::MAX)),
            allowed: c.call.allowed,
        });
        let ruled = objection(window, limit, used);
        assert_eq!(searched, ruled.is_none(), "limit {limit}, used {used}: {calls:?}: {ruled:?}");
        if searched { yes += 1 } else { no += 1 }
    }
    assert!(yes >= 10_000 && no >= 10_000, "{yes} linearizable, {no} not");
}

/// Calls of one window: from, to, what was told.
fn window(calls: &[(i64, i64, Option<bool>)]) -> impl Iterator<Item = one_window::Call> + Clone {
    (0..).zip(calls).map(|(n, (invoke, complete, allowed))| one_window::Call {
        op: OpId(n),
        invoke: Nanos(*invoke),
        complete: Nanos(*complete),
        allowed: *allowed,
    })
}

#[test]
fn one_window_typed_by_hand() {
    const YES: Option<bool> = Some(true);
    const NO: Option<bool> = Some(false);
    const INFO: Option<bool> = None;
    let found = |calls: &[(i64, i64, Option<bool>)], limit, used| objection(window(calls), limit, used);
    // Two of two, a refusal beside them that may be the last.
    assert_eq!(found(&[(0, 5, YES), (1, 6, NO), (2, 7, YES)], 2, 0), None);
    // A third.
    let three = [(0, 5, YES), (1, 6, YES), (2, 7, YES)];
    assert_eq!(found(&three, 2, 0), Some(Objection::TooMany { admitted: 3 }));
    assert_eq!(found(&three, 3, 0), None);
    assert_eq!(found(&three, 9, 7), Some(Objection::TooMany { admitted: 3 }));
    // Refused, and the next one is let in.
    let after = found(&[(0, 1, YES), (2, 3, NO), (4, 5, YES)], 2, 0);
    assert!(matches!(after, Some(Objection::AdmittedAfter { refused, admitted })
        if (refused.op, admitted.op) == (OpId(1), OpId(2))));
    // The same with ends that touch: the admitted one may have come first.
    assert_eq!(found(&[(0, 1, YES), (2, 3, NO), (3, 5, YES)], 2, 0), None);
    // Refused although one of two was free.
    let room = found(&[(0, 1, YES), (2, 3, NO)], 2, 0);
    assert!(matches!(room, Some(Objection::RefusedWithRoom { counted: 1, .. })));
    // A call that nobody knows about may have had it; not one that came later.
    assert_eq!(found(&[(0, 1, YES), (1, i64::MAX, INFO), (2, 3, NO)], 2, 0), None);
    assert!(found(&[(0, 1, YES), (2, 3, NO), (4, i64::MAX, INFO)], 2, 0).is_some());
    // What was used before is used; more than the limit is the limit.
    assert_eq!(found(&[(0, 1, NO)], 2, 2), None);
    assert_eq!(found(&[(0, 1, NO)], 2, 7), None);
    assert!(found(&[(0, 1, YES)], 2, 7).is_some());
}

#[test]
fn registers_typed_by_hand() {
    // A read may see a write that is still open, and must see one that is over.
    let open =
        [timed(0, Some(9), Of::Write(1)), timed(2, Some(3), Of::Read(1)), timed(4, Some(5), Of::Read(1))];
    assert!(matches!(patient(&Register, &open), Answer::Linearizable(order) if order == [0, 1, 2]));
    // Once it was seen, it is there.
    let back =
        [timed(0, Some(9), Of::Write(1)), timed(2, Some(3), Of::Read(1)), timed(4, Some(5), Of::Read(0))];
    let Answer::Not(stuck) = patient(&Register, &back) else { panic!("it went back") };
    assert_eq!((stuck.at, stuck.open, stuck.before), (2, vec![0], Some(vec![0, 1])));
    // A write without an answer may take effect late, or never.
    let late = [timed(0, None, Of::Write(1)), timed(2, Some(3), Of::Read(0)), timed(4, Some(5), Of::Read(1))];
    assert!(matches!(patient(&Register, &late), Answer::Linearizable(order) if order == [1, 0, 2]));
    assert!(matches!(patient(&Register, &late[..2]), Answer::Linearizable(order) if order == [1]));
    // Of two that set it from the same value one must have failed.
    let both = [timed(0, Some(9), Of::Cas(0, 1)), timed(1, Some(8), Of::Cas(0, 2))];
    assert!(matches!(patient(&Register, &both), Answer::Not(Stuck { at: 0, .. })));
}

#[test]
fn counters_typed_by_hand() {
    let call = |invoke, complete, cost, allowed| timed(invoke, complete, Call { cost, allowed });
    // Three and two of four, both at once: one is refused. What comes later fits if that was free.
    let calls =
        [call(0, Some(5), 3, Some(true)), call(1, Some(6), 2, Some(false)), call(7, Some(8), 1, Some(true))];
    assert!(matches!(patient(&counter(4, Denials::Free), &calls), Answer::Linearizable(_)));
    let Answer::Not(stuck) = patient(&counter(4, Denials::Charged), &calls) else { panic!("it was charged") };
    assert_eq!((stuck.at, stuck.open, stuck.before), (2, vec![], Some(vec![0, 1])));
}

#[test]
fn a_search_that_is_told_to_stop_stops() {
    let calls: Vec<_> = (0..40).map(|n| timed(n, Some(1000), Of::Write(n as u32 + 1))).collect();
    let hopeless = [&calls[..], &[timed(1001, Some(1002), Of::Read(99))]].concat();
    let mut steps = 0;
    let answer = search(&Register, &hopeless, || {
        steps += 1;
        steps > 5_000
    });
    assert_eq!((answer, steps), (Answer::GaveUp, 5_001));
}

#[test]
fn two_hundred_at_once_are_no_explosion_for_a_counter() {
    // Equal calls take turns: what is left to try is how many of each kind, not which.
    let told = |n: i64| Call { cost: 1 + u32::from(n % 3 == 0), allowed: Some(n % 5 == 0) };
    let calls: Vec<_> = (0..200).map(|n| timed(n, Some(1000 + n), told(n))).collect();
    let admitted: u64 = (0..200).filter(|n| n % 5 == 0).map(|n| u64::from(told(n).cost)).sum();
    let mut steps = 0;
    let mut asked = |limit| {
        search(&counter(limit, Denials::Free), &calls, || {
            steps += 1;
            steps > 1_000_000
        })
    };
    assert!(matches!(asked(admitted), Answer::Linearizable(_)));
    assert!(matches!(asked(admitted + 2), Answer::Not(_)));
    assert!(matches!(asked(admitted - 1), Answer::Not(_)));
}
