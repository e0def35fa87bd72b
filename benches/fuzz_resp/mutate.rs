//! New inputs out of known ones.

/// splitmix64 (Steele, Lea, Flood 2014): what a seed gives, it gives everywhere.
pub struct Dice(pub u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, which is at least one.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).expect("below a usize")
    }

    fn of<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

const LONGEST: usize = 64 << 10;

/// What hostile peers declare, and the borders of what is allowed.
const NUMBERS: [&[u8]; 18] = [
    b"-1",
    b"-2",
    b"0",
    b"-0",
    b"+1",
    b"01",
    b"1",
    b"2",
    b"4095",
    b"4096",
    b"4097",
    b"1048576",
    b"1048577",
    b"2147483647",
    b"4294967296",
    b"9223372036854775807",
    b"18446744073709551616",
    b"?",
];
const TOKENS: [&[u8]; 12] = [
    b"\r\n", b"\r", b"\n", b"*1\r\n", b"$1\r\n", b"|0\r\n", b"%1\r\n", b"_\r\n", b"$-1\r\n", b"\"", b"'",
    b"\\x",
];
const TYPES: &[u8] = b"+-:$*_#,(!=%~>|";

pub fn mutate(corpus: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = corpus[dice.below(corpus.len())].clone();
    for _ in 0..=dice.below(4) {
        once(&mut bytes, corpus, dice);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn once(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], dice: &mut Dice) {
    let at = dice.below(bytes.len() + 1);
    let to = at + dice.below((bytes.len() - at).min(32) + 1);
    match dice.below(10) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..to)),
        2 => {
            let again = bytes[at..to].to_vec();
            bytes.splice(at..at, again);
        }
        3 => insert(bytes, at, dice.of(&TOKENS)),
        4 => replace_number(bytes, at, dice.of(&NUMBERS)),
        5 => {
            let other = &corpus[dice.below(corpus.len())];
            let from = dice.below(other.len() + 1);
            insert(bytes, at, &other[from..]);
        }
        6 => nest(bytes, dice),
        7 if at < bytes.len() => bytes[at] = TYPES[dice.below(TYPES.len())],
        8 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
        _ => bytes.insert(at, u8::try_from(dice.below(256)).expect("a byte")),
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, what: &[u8]) {
    bytes.splice(at..at, what.iter().copied());
}

/// The next run of digits from `at` on.
fn replace_number(bytes: &mut Vec<u8>, at: usize, number: &[u8]) {
    let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit).map(|step| at + step) else { return };
    let to = bytes[from..].iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |step| from + step);
    bytes.splice(from..to, number.iter().copied());
}

/// Puts it all into an aggregate.
fn nest(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let heads: [&[u8]; 6] = [b"*1\r\n", b"~1\r\n", b">1\r\n", b"%1\r\n+k\r\n", b"|0\r\n", b"*2\r\n"];
    let head = dice.of(&heads);
    insert(bytes, 0, head);
}
