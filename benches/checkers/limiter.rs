//! A limiter that keeps its bound to the nanosecond, and no more than it must.

use std::collections::VecDeque;

use super::cases::Rule;

/// What it answers.
pub struct Answer {
    pub allowed: bool,
    pub remaining: u64,
    /// Until something comes back, where it was refused.
    pub wait_ns: i64,
}

pub struct Limiter {
    pub rule: Rule,
    pub limit: i64,
    pub window: i64,
    /// Whether what it refuses is counted.
    pub charges: bool,
    log: VecDeque<i64>,
    /// When the open window began, what it and the one before counted.
    open: (i64, i64, i64),
    /// When a bucket is full again, in parts of a window.
    full_at: i128,
}

impl Limiter {
    pub fn new(rule: Rule, limit: i64, window: i64, charges: bool) -> Self {
        let far = i64::MIN / 4;
        let full_at = i128::from(far) * i128::from(limit);
        Self { rule, limit, window, charges, log: VecDeque::new(), open: (far, 0, 0), full_at }
    }

    /// Decides as if it had refused nobody before, whatever it charges.
    pub fn acquire(&mut self, at: i64, cost: i64) -> Answer {
        match self.rule {
            Rule::Fixed | Rule::OneWindow => {
                if at - self.open.0 >= self.window {
                    self.open = (at, 0, 0);
                }
                self.count(self.limit, cost, self.open.0 + self.window - at)
            }
            Rule::Aligned | Rule::Weighted => {
                let began = at.div_euclid(self.window) * self.window;
                if began != self.open.0 {
                    let before = if began - self.open.0 == self.window { self.open.1 } else { 0 };
                    self.open = (began, 0, before);
                }
                let over = began + self.window - at;
                if self.rule == Rule::Aligned {
                    return self.count(self.limit, cost, over);
                }
                let weight = i128::from(self.open.2) * i128::from(over);
                let left = i128::from(self.limit) * i128::from(self.window) - weight;
                let left = i64::try_from(left.div_euclid(i128::from(self.window))).unwrap_or(0);
                let wait = self.weighted_wait(over, cost);
                self.count(left, cost, wait)
            }
            Rule::Sliding => self.sliding(at, cost),
            Rule::Bucket => self.bucket(at, cost),
        }
    }

    /// How long until the two windows weigh so little that the call fits: in this one, or else in the next,
    /// where what counts now is what counts less and less.
    fn weighted_wait(&self, over: i64, cost: i64) -> i64 {
        let (window, (_, now, before)) = (i128::from(self.window), self.open);
        // The moment from which `older` weighs no more than `room`, from the beginning of its window.
        let light = |older: i64, room: i64| -> i128 {
            if older <= 0 { 0 } else { window - (i128::from(room) * window).div_euclid(i128::from(older)) }
        };
        let elapsed = window - i128::from(over);
        let (here, next) = (self.limit - now - cost, self.limit - cost);
        let wait = if here >= 0 && light(before, here) <= window {
            light(before, here) - elapsed
        } else {
            i128::from(over) + light(now, next).max(0)
        };
        i64::try_from(wait.max(1)).unwrap_or(i64::MAX)
    }

    fn count(&mut self, limit: i64, cost: i64, wait_ns: i64) -> Answer {
        let allowed = self.open.1 + cost <= limit;
        if allowed || self.charges {
            self.open.1 += cost;
        }
        Answer { allowed, remaining: (limit - self.open.1).max(0).cast_unsigned(), wait_ns }
    }

    fn sliding(&mut self, at: i64, cost: i64) -> Answer {
        while self.log.front().is_some_and(|t| at - t >= self.window) {
            self.log.pop_front();
        }
        let used = self.log.len() as i64;
        let allowed = used + cost <= self.limit;
        let leaves = self.log.get(usize::try_from(used + cost - self.limit - 1).unwrap_or(0)).copied();
        if allowed || self.charges {
            self.log.extend(std::iter::repeat_n(at, cost as usize));
        }
        let remaining = (self.limit - self.log.len() as i64).max(0).cast_unsigned();
        Answer { allowed, remaining, wait_ns: leaves.map_or(0, |t| t + self.window - at) }
    }

    /// In parts: a nanosecond brings `limit` of them, a call takes `window`.
    fn bucket(&mut self, at: i64, cost: i64) -> Answer {
        let (window, limit) = (i128::from(self.window), i128::from(self.limit));
        let (now, takes) = (i128::from(at) * limit, i128::from(cost) * window);
        let after = self.full_at.max(now) + takes;
        let over = after - now - limit * window;
        if over <= 0 || self.charges {
            self.full_at = after;
        }
        let left = (limit * window - (self.full_at - now).max(0)).max(0) / window;
        let wait = (over.max(0) + limit - 1) / limit;
        Answer {
            allowed: over <= 0,
            remaining: u64::try_from(left).unwrap_or(0),
            wait_ns: i64::try_from(wait).unwrap_or(i64::MAX),
        }
    }
}
