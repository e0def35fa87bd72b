//! The first line of a frame, which says of what type and how long it is.

use super::{Limits, Nil, Why};

/// Types whose content follows the header, with its length declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    Bulk,
    Error,
    Verbatim,
}

/// Types whose elements follow the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Many {
    Array,
    Set,
    Push,
    Map,
    Attribute,
}

impl Many {
    /// How many frames follow a count of `n`; the limits keep it far from overflowing.
    pub fn frames(self, n: usize) -> usize {
        match self {
            Self::Array | Self::Set | Self::Push => n,
            Self::Map => n.saturating_mul(2),
            // Its pairs, and the frame they are about.
            Self::Attribute => n.saturating_mul(2).saturating_add(1),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header<'a> {
    Simple(&'a [u8]),
    Error(&'a [u8]),
    Int(i64),
    Bool(bool),
    Double(&'a [u8]),
    BigNumber(&'a [u8]),
    Nil(Nil),
    Text(Text, usize),
    Many(Many, usize),
}

/// A sign and the 19 digits of an i64 are 20; a longer one is not read to its end.
const NUMBER: usize = 32;

/// How long a line that begins like this may be, type and line end left out.
pub fn line_limit(first: u8, limits: &Limits) -> Result<usize, Why> {
    match first {
        b'+' | b'-' | b',' | b'(' => Ok(limits.line),
        b':' | b'$' | b'*' | b'!' | b'=' | b'%' | b'~' | b'>' | b'|' | b'_' | b'#' => Ok(NUMBER),
        other => Err(Why::UnknownType(other)),
    }
}

/// Reads a whole line, without its line end.
pub fn read<'a>(line: &'a [u8], limits: &Limits) -> Result<Header<'a>, Why> {
    let (&first, rest) = line.split_first().ok_or(Why::BadValue)?;
    let text = |kind| Ok(Header::Text(kind, length(rest, limits)?));
    let many = |kind: Many| Ok(Header::Many(kind, count(kind, rest, limits)?));
    match first {
        b'+' => Ok(Header::Simple(rest)),
        b'-' => Ok(Header::Error(rest)),
        b':' => Ok(Header::Int(int(rest)?)),
        b'$' if rest == b"-1" => Ok(Header::Nil(Nil::Bulk)),
        b'*' if rest == b"-1" => Ok(Header::Nil(Nil::Array)),
        b'_' if rest.is_empty() => Ok(Header::Nil(Nil::Null)),
        b'#' if rest == b"t" => Ok(Header::Bool(true)),
        b'#' if rest == b"f" => Ok(Header::Bool(false)),
        b',' if is_double(rest) => Ok(Header::Double(rest)),
        b'(' if is_digits(unsigned(rest)) => Ok(Header::BigNumber(rest)),
        b'$' => text(Text::Bulk),
        b'!' => text(Text::Error),
        b'=' => text(Text::Verbatim),
        b'*' => many(Many::Array),
        b'~' => many(Many::Set),
        b'>' => many(Many::Push),
        b'%' => many(Many::Map),
        b'|' => many(Many::Attribute),
        b'_' | b'#' | b',' | b'(' => Err(Why::BadValue),
        other => Err(Why::UnknownType(other)),
    }
}

pub fn length(digits: &[u8], limits: &Limits) -> Result<usize, Why> {
    let n = natural(digits)?;
    if n > limits.bulk { Err(Why::LongBulk(limits.bulk)) } else { Ok(n) }
}

fn count(kind: Many, digits: &[u8], limits: &Limits) -> Result<usize, Why> {
    let n = natural(digits)?;
    if kind.frames(n) > limits.elements { Err(Why::ManyElements(limits.elements)) } else { Ok(n) }
}

/// A length as Redis writes it: no sign, no leading zero. One that does not fit is no number.
pub fn natural(digits: &[u8]) -> Result<usize, Why> {
    match digits {
        b"?" => Err(Why::Streamed),
        b"0" => Ok(0),
        [b'-', ..] => Err(Why::Negative),
        [b'1'..=b'9', ..] => decimal(digits),
        _ => Err(Why::NotANumber),
    }
}

fn decimal<T: std::str::FromStr>(digits: &[u8]) -> Result<T, Why> {
    std::str::from_utf8(digits).ok().and_then(|d| d.parse().ok()).ok_or(Why::NotANumber)
}

fn int(text: &[u8]) -> Result<i64, Why> {
    if is_digits(unsigned(text)) { decimal(text) } else { Err(Why::NotANumber) }
}

fn unsigned(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text)
}

fn is_digits(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// `[+-] digits [. digits] [e [+-] digits]`, an infinity, or no number. Libraries write these in more
/// than one way: Redis before 7.2 says `-nan`, and `.5` has been seen from scripts.
fn is_double(text: &[u8]) -> bool {
    let unsigned = unsigned(text);
    if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"nan") {
        return true;
    }
    let at = unsigned.iter().position(|b| matches!(b, b'e' | b'E'));
    let (mantissa, exponent) = match at {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let point = mantissa.iter().filter(|&&b| b == b'.').count();
    let digits = mantissa.iter().filter(|b| b.is_ascii_digit()).count();
    point <= 1
        && digits > 0
        && point + digits == mantissa.len()
        && exponent.is_none_or(|e| is_digits(self::unsigned(e)))
}
