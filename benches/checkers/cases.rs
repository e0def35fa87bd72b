//! What is judged: each kind of bound with one key and with many, with calls that overlap and calls that
//! do not; for each checker a limiter that it convicts; and what takes a way of its own.

pub struct Case {
    pub name: &'static str,
    pub rule: Rule,
    pub keys: u32,
    pub in_flight: i64,
    pub twist: Twist,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    Fixed,
    /// One window holds the whole round.
    OneWindow,
    Aligned,
    Sliding,
    Weighted,
    Bucket,
}

/// What is special about a case. What convicts comes near the end, so that it is found last.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Twist {
    None,
    /// Everybody is let in.
    Leaks,
    /// A key has no expiry.
    Stays,
    /// Nobody is let in any more.
    Starves,
    /// Refusals are counted as well, from the beginning.
    Charges,
    /// One more is told to be left than there is.
    Boasts,
    /// Who is refused is told to come back in a millisecond.
    Hurries,
    /// A silence of three windows, and who calls after it is refused.
    Forgets,
    /// Each of two rounds has calls that took two round trips.
    Trips,
    /// Each call is watched, and in the last the keys lie in two slots.
    Spreads,
    /// Each call is watched.
    Watched,
    /// Each node has a limit of its own.
    PerNode,
    /// A bound over all keys as well, which is never reached.
    AcrossKeys,
    /// Calls cost one to three.
    Costs,
}

impl Twist {
    /// Who has to convict.
    pub fn convicted_by(self) -> &'static [&'static str] {
        match self {
            Self::Leaks => &["never-over-limit", "meets-requirement"],
            Self::Stays => &["every-key-expires"],
            Self::Starves => &["steady-client-served", "no-false-denial", "no-lost-permit"],
            Self::Charges => &["denial-changes-nothing"],
            Self::Boasts => &["remaining-consistent", "matches-model"],
            Self::Hurries => &["retry-after-honest"],
            Self::Forgets => &["recovers"],
            Self::Trips => &["cost"],
            Self::Spreads => &["keys-declared-and-one-slot"],
            Self::None | Self::Watched | Self::PerNode | Self::AcrossKeys | Self::Costs => &[],
        }
    }
}

impl Case {
    /// Whether ten times as many calls are always judged as well: the cases that grow worst.
    pub fn grows(&self) -> bool {
        GROWING.contains(&self.name)
    }
}

const fn case(name: &'static str, rule: Rule, keys: u32, in_flight: i64, twist: Twist) -> Case {
    Case { name, rule, keys, in_flight, twist }
}

const MANY: u32 = 10_000;

const GROWING: [&str; 4] = [
    "sliding, one key, one in flight",
    "sliding, one key, one in flight, starves",
    "sliding, 10,000 keys, bound across keys",
    "bucket, 10,000 keys",
];

pub static CASES: &[Case] = &[
    case("fixed, one key", Rule::Fixed, 1, 200, Twist::None),
    case("fixed, one key, leaks", Rule::Fixed, 1, 200, Twist::Leaks),
    case("fixed, one key, one in flight", Rule::Fixed, 1, 1, Twist::None),
    case("fixed, 10,000 keys", Rule::Fixed, MANY, 200, Twist::None),
    case("one window, one key", Rule::OneWindow, 1, 200, Twist::None),
    case("one window, one key, leaks", Rule::OneWindow, 1, 200, Twist::Leaks),
    case("one window, 10,000 keys", Rule::OneWindow, MANY, 200, Twist::None),
    case("aligned, one key", Rule::Aligned, 1, 200, Twist::None),
    case("aligned, 10,000 keys", Rule::Aligned, MANY, 200, Twist::None),
    case("sliding, one key", Rule::Sliding, 1, 200, Twist::None),
    case("sliding, one key, leaks", Rule::Sliding, 1, 200, Twist::Leaks),
    case("sliding, one key, one in flight", Rule::Sliding, 1, 1, Twist::None),
    case("sliding, one key, one in flight, starves", Rule::Sliding, 1, 1, Twist::Starves),
    case("sliding, one key, one in flight, charges", Rule::Sliding, 1, 1, Twist::Charges),
    case("sliding, 10,000 keys", Rule::Sliding, MANY, 200, Twist::None),
    case("sliding, 10,000 keys, leaks", Rule::Sliding, MANY, 200, Twist::Leaks),
    case("sliding, 10,000 keys, one in flight", Rule::Sliding, MANY, 1, Twist::None),
    case("sliding, 10,000 keys, stays", Rule::Sliding, MANY, 200, Twist::Stays),
    case("sliding, 10,000 keys, starves", Rule::Sliding, MANY, 200, Twist::Starves),
    case("sliding, 10,000 keys, charges", Rule::Sliding, MANY, 200, Twist::Charges),
    case("sliding, 10,000 keys, boasts", Rule::Sliding, MANY, 1, Twist::Boasts),
    case("sliding, 10,000 keys, hurries", Rule::Sliding, MANY, 1, Twist::Hurries),
    case("sliding, 10,000 keys, forgets", Rule::Sliding, MANY, 1, Twist::Forgets),
    case("sliding, 10,000 keys, two round trips", Rule::Sliding, MANY, 200, Twist::Trips),
    case("sliding, 10,000 keys, watched", Rule::Sliding, MANY, 1, Twist::Watched),
    case("sliding, 10,000 keys, watched, spreads", Rule::Sliding, MANY, 1, Twist::Spreads),
    case("sliding, 10,000 keys, per node", Rule::Sliding, MANY, 200, Twist::PerNode),
    case("sliding, 10,000 keys, bound across keys", Rule::Sliding, MANY, 200, Twist::AcrossKeys),
    case("sliding, 10,000 keys, costs", Rule::Sliding, MANY, 200, Twist::Costs),
    case("weighted, one key", Rule::Weighted, 1, 200, Twist::None),
    case("weighted, one key, leaks", Rule::Weighted, 1, 200, Twist::Leaks),
    case("weighted, 10,000 keys", Rule::Weighted, MANY, 200, Twist::None),
    case("bucket, one key", Rule::Bucket, 1, 200, Twist::None),
    case("bucket, one key, one in flight", Rule::Bucket, 1, 1, Twist::None),
    case("bucket, one key, 100,000 in flight", Rule::Bucket, 1, 100_000, Twist::None),
    case("bucket, one key, leaks", Rule::Bucket, 1, 200, Twist::Leaks),
    case("bucket, one key, charges", Rule::Bucket, 1, 1, Twist::Charges),
    case("bucket, 10,000 keys", Rule::Bucket, MANY, 200, Twist::None),
    case("bucket, 10,000 keys, leaks", Rule::Bucket, MANY, 200, Twist::Leaks),
    case("bucket, 10,000 keys, starves", Rule::Bucket, MANY, 200, Twist::Starves),
];
