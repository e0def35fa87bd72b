//! Units. A bare integer never crosses a function boundary where its unit could be mistaken.
//!
//! Everything here is total: a value that cannot be expressed is refused when it is parsed,
//! so the rest of the lab never meets a zero window or an overflowing limit.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a text is not a unit. The message says what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnitError(String);

/// How many requests (or cost units) a limiter admits per window. At least 1, at most 2^53 − 1:
/// above that a Lua number is no longer an exact integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limit(u64);

impl Limit {
    pub const MAX: u64 = (1 << 53) - 1;

    pub fn new(value: u64) -> Result<Self, UnitError> {
        if (1..=Self::MAX).contains(&value) {
            Ok(Self(value))
        } else {
            Err(UnitError(format!("a limit is a whole number from 1 to 2^53 - 1, not {value}")))
        }
    }

    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Limit {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let value = text
            .trim()
            .parse::<u64>()
            .map_err(|_| UnitError(format!("a limit is a whole number from 1 to 2^53 - 1, not '{text}'")))?;
        Self::new(value)
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Self::new(u64::deserialize(d)?).map_err(serde::de::Error::custom)
    }
}

/// The length of a limiter's window: whole milliseconds, from 1 ms to 366 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Window(u64);

impl Window {
    const MAX_MS: u64 = 366 * 24 * 3600 * 1000;
    pub const LONGEST: Self = Self(Self::MAX_MS);

    pub fn from_millis(ms: u64) -> Result<Self, UnitError> {
        if (1..=Self::MAX_MS).contains(&ms) {
            Ok(Self(ms))
        } else {
            Err(UnitError(format!("this span is from 1 ms to 366 days long, not {ms} ms")))
        }
    }

    /// So many of it, where that is not too long.
    pub fn times(self, n: u32) -> Option<Self> {
        Self::from_millis(self.0.checked_mul(n.into())?).ok()
    }

    pub fn millis(self) -> u64 {
        self.0
    }

    pub fn nanos(self) -> i64 {
        // 366 days are 3.2e16 ns: far inside i64.
        (self.0 * 1_000_000) as i64
    }

    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_span(f, self.0)
    }
}

impl FromStr for Window {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        Self::from_millis(parse_millis(text, "a window")?)
    }
}

impl Serialize for Window {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A span of time in whole milliseconds, 0 included, up to 366 days.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(u64);

impl Span {
    pub fn from_millis(ms: u64) -> Result<Self, UnitError> {
        if ms > Window::MAX_MS {
            return Err(UnitError(format!("a span is at most 366 days long, not {ms} ms")));
        }
        Ok(Self(ms))
    }

    pub fn millis(self) -> u64 {
        self.0
    }

    pub fn nanos(self) -> i64 {
        (self.0 * 1_000_000) as i64
    }

    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_span(f, self.0)
    }
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        Self::from_millis(parse_millis(text, "a span")?)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A short span in whole microseconds, such as `0.3ms` or `300us`; at most a minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Micros(u64);

impl Micros {
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub fn duration(self) -> Duration {
        Duration::from_micros(self.0)
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0 as f64 / 1e3)
    }
}

impl FromStr for Micros {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let us = parse_span(text, "a short span", &[("us", 1), ("ms", 1_000), ("s", 1_000_000)])?;
        if us > 60_000_000 {
            return Err(UnitError(format!("a short span is at most a minute long, not '{text}'")));
        }
        Ok(Self(us))
    }
}

impl Serialize for Micros {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Micros {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Parses a span such as `500ms`, `1.5s`, `2m`, `1h`, `1d` into whole milliseconds.
/// A fraction must come out as whole milliseconds: `1.5s` does, `0.5ms` is refused.
pub fn parse_millis(text: &str, what: &str) -> Result<u64, UnitError> {
    const UNITS: [(&str, u64); 6] =
        [("ms", 1), ("s", 1_000), ("m", 60_000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    parse_span(text, what, &UNITS)
}

/// Parses a number with one of these units, each given with its size in the smallest.
fn parse_span(text: &str, what: &str, units: &[(&str, u64)]) -> Result<u64, UnitError> {
    let smallest = units.iter().find(|(_, scale)| *scale == 1).map_or("", |(unit, _)| unit);
    let bad = || {
        let names: Vec<&str> = units.iter().map(|(unit, _)| *unit).collect();
        UnitError(format!(
            "{what} is a number with a unit ({}), such as 500{smallest} or 1.5s, not '{text}'",
            names.join(", ")
        ))
    };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(bad)?;
    let (number, unit) = trimmed.split_at(split);
    let scale = units.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(bad)?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || number.ends_with('.') || fraction.len() > 9 {
        return Err(bad());
    }
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    let fraction_value: u64 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| bad())? };
    let denominator = 10u64.pow(fraction.len() as u32);
    let part = u128::from(fraction_value) * u128::from(scale);
    if part % u128::from(denominator) != 0 {
        return Err(UnitError(format!("{what} of '{text}' is not a whole number of {smallest}")));
    }
    whole
        .checked_mul(scale)
        .and_then(|n| n.checked_add((part / u128::from(denominator)) as u64))
        .ok_or_else(bad)
}

fn write_span(f: &mut fmt::Formatter<'_>, ms: u64) -> fmt::Result {
    const UNITS: [(u64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    // Minutes are written as seconds up to an hour: `60s` is how limits are spoken of.
    for (scale, unit) in UNITS {
        let enough = if unit == "m" { ms > 3_600_000 } else { ms >= scale };
        if enough && ms.is_multiple_of(scale) {
            return write!(f, "{}{unit}", ms / scale);
        }
    }
    write!(f, "{ms}ms")
}

/// What one request takes out of the limit. At least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Cost(u32);

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_u64(CostVisitor)
    }
}

/// Takes a number of any size and sign, to say what would have been right.
struct CostVisitor;

impl Visitor<'_> for CostVisitor {
    type Value = Cost;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a cost: a whole number from 1 to {}", u32::MAX)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Cost, E> {
        u32::try_from(value).map_err(|_| Cost::refusal(value)).and_then(Cost::new).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Cost, E> {
        u64::try_from(value).map_err(|_| E::custom(Cost::refusal(value))).and_then(|v| self.visit_u64(v))
    }
}

impl Cost {
    pub const ONE: Cost = Cost(1);

    pub fn new(value: u32) -> Result<Self, UnitError> {
        if value == 0 {
            return Err(Self::refusal(value));
        }
        Ok(Self(value))
    }

    fn refusal(value: impl fmt::Display) -> UnitError {
        UnitError(format!("a cost is a whole number from 1 to {}, not {value}", u32::MAX))
    }

    #[inline]
    pub fn get(self) -> u32 {
        self.0
    }
}

/// The number from which a run derives every random choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Nanoseconds since the run's one monotonic anchor. Negative only where slack is subtracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub i64);

impl Nanos {
    /// From so many seconds on a time is told in hours, minutes and seconds.
    const LONG_NS: u64 = 10_000_000_000;

    pub fn millis(self) -> f64 {
        self.0 as f64 / 1e6
    }

    pub fn from_millis(ms: f64) -> Self {
        Self((ms * 1e6).round() as i64)
    }

    /// Whether milliseconds with three decimals are no longer read.
    pub fn is_long(self) -> bool {
        self.0.unsigned_abs() >= Self::LONG_NS
    }

    /// As it is told beside another one: to the microsecond where they are less than ten seconds apart, since
    /// what lies between them is then told so as well.
    pub fn beside(self, other: Self) -> String {
        let near = self.0.abs_diff(other.0) < Self::LONG_NS;
        if self.is_long() && near { self.long(6) } else { self.to_string() }
    }

    /// `14m30.001s`, with so many decimals.
    fn long(self, decimals: u32) -> String {
        let sign = if self.0 < 0 { "-" } else { "" };
        let unit = 10_u64.pow(9 - decimals);
        let parts = (self.0.unsigned_abs() + unit / 2) / unit;
        let (seconds, rest) = (parts / 10_u64.pow(decimals), parts % 10_u64.pow(decimals));
        let larger = larger_units(seconds / 60, true);
        format!("{sign}{larger}{}.{rest:0width$}s", seconds % 60, width = decimals as usize)
    }
}

impl fmt::Display for Nanos {
    /// Milliseconds with three decimals, as the witnesses print them; from ten seconds on hours, minutes and
    /// seconds, such as `14m30.001s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_long() { f.write_str(&self.long(3)) } else { write!(f, "{:.3} ms", self.millis()) }
    }
}

/// `870000 ms` as a person reads it: `14m30s`. Nothing is rounded.
pub fn millis_in_words(ms: u64) -> String {
    if ms < Nanos::LONG_NS / 1_000_000 {
        return format!("{ms} ms");
    }
    let larger = larger_units(ms / 60_000, false);
    match (ms / 1000 % 60, ms % 1000) {
        (0, 0) => larger,
        (seconds, 0) => format!("{larger}{seconds}s"),
        (seconds, rest) => format!("{larger}{seconds}.{rest:03}s"),
    }
}

/// Days, hours and minutes; those that are none only `between` others.
fn larger_units(minutes: u64, between: bool) -> String {
    let parts = [(minutes / 1440, "d"), (minutes / 60 % 24, "h"), (minutes % 60, "m")];
    let mut text = String::new();
    for (n, unit) in parts {
        if n > 0 || (between && !text.is_empty()) {
            text.push_str(&format!("{n}{unit}"));
        }
    }
    text
}

/// Which app server, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u16);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Sequence number of an op within its round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpId(pub u32);

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        for (text, ms) in [
            ("500ms", 500),
            ("1s", 1_000),
            ("1.5s", 1_500),
            ("0.25s", 250),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            (" 60s ", 60_000),
        ] {
            assert_eq!(text.parse::<Window>().unwrap().millis(), ms, "{text}");
        }
    }

    #[test]
    fn a_cost_that_is_none_is_refused_with_what_would_be_one() {
        for text in ["0", "-1", "4294967296", "1.5", "\"2\"", "null", "-9223372036854775808"] {
            let error = serde_json::from_str::<Cost>(text).unwrap_err().to_string();
            assert!(error.contains("from 1 to 4294967295"), "{text}: {error}");
        }
        assert_eq!(serde_json::from_str::<Cost>("1").unwrap(), Cost::ONE);
        assert_eq!(serde_json::from_str::<Cost>("4294967295").unwrap().get(), u32::MAX);
        assert_eq!(
            Cost::new(0).unwrap_err().to_string(),
            "a cost is a whole number from 1 to 4294967295, not 0"
        );
    }

    #[test]
    fn a_span_that_cannot_be_kept_exactly_is_refused() {
        for text in [
            "",
            "60",
            "s",
            "0s",
            "-1s",
            "1.2.3s",
            "0.5ms",
            "1 fortnight",
            "1e3s",
            "400d",
            "1.s",
            ".5s",
            "99999999999999999999d",
        ] {
            assert!(text.parse::<Window>().is_err(), "{text} was taken");
        }
    }

    #[test]
    fn a_long_time_is_told_so_that_a_person_can_read_it() {
        const MS: i64 = 1_000_000;
        for (ns, told) in [
            (349_000, "0.349 ms"),
            (9_999_999_000, "9999.999 ms"),
            (10_000 * MS, "10.000s"),
            (870_000_802_000, "14m30.001s"),
            (59_999_999_600, "1m0.000s"),
            (11_700_000_833_000, "3h15m0.001s"),
            (90_000_000 * MS + 500_000, "1d1h0m0.001s"),
            (-12_345 * MS, "-12.345s"),
        ] {
            assert_eq!(Nanos(ns).to_string(), told);
        }
        for (ms, told) in [
            (9_999, "9999 ms"),
            (12_345, "12.345s"),
            (900_000, "15m"),
            (902_000, "15m2s"),
            (3_600_000, "1h"),
            (3_605_001, "1h5.001s"),
        ] {
            assert_eq!(millis_in_words(ms), told);
        }
    }

    #[test]
    fn two_times_that_are_close_are_told_apart_however_late_they_are() {
        let (from, to) = (Nanos(910_000_840_000), Nanos(910_000_892_000));
        assert_eq!(format!("{} to {}", from.beside(to), to.beside(from)), "15m10.000840s to 15m10.000892s");
        let far = Nanos(870_000_802_000);
        assert_eq!(format!("{} to {}", far.beside(to), to.beside(far)), "14m30.001s to 15m10.001s");
        let short = Nanos(9_999_900_000);
        let long = Nanos(10_000_100_000);
        assert_eq!(format!("{} to {}", short.beside(long), long.beside(short)), "9999.900 ms to 10.000100s");
    }

    #[test]
    fn a_limit_beyond_what_a_lua_number_holds_is_refused() {
        assert!(Limit::new(0).is_err());
        assert!(Limit::new(Limit::MAX).is_ok());
        assert!(Limit::new(Limit::MAX + 1).is_err());
    }

    proptest! {
        #[test]
        fn a_printed_window_reads_back_as_itself(ms in 1u64..=Window::MAX_MS) {
            let window = Window::from_millis(ms).unwrap();
            prop_assert_eq!(window.to_string().parse::<Window>().unwrap(), window);
        }

        #[test]
        fn reading_a_span_never_panics(text in "\\PC{0,24}") {
            let _ = text.parse::<Window>();
        }
    }
}
