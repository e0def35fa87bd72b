//! The arguments of a command that was typed as a line, by the rules of `sdssplitargs` in Redis' sds.c.

/// `None` if quotes are not balanced, or a closing one is followed by something other than a space.
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut rest = line.trim_ascii_start();
    let mut args = Vec::new();
    while !rest.is_empty() {
        let (arg, tail) = argument(rest)?;
        args.push(arg);
        rest = tail.trim_ascii_start();
    }
    Some(args)
}

fn argument(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut arg = Vec::new();
    loop {
        match rest {
            [] => return Some((arg, rest)),
            [b, ..] if b.is_ascii_whitespace() => return Some((arg, rest)),
            [b'"', tail @ ..] => return closed(double_quoted(tail, &mut arg)?, arg),
            [b'\'', tail @ ..] => return closed(single_quoted(tail, &mut arg)?, arg),
            [b, tail @ ..] => {
                arg.push(*b);
                rest = tail;
            }
        }
    }
}

/// What may stand after a closing quote: nothing, or a space.
fn closed(rest: &[u8], arg: Vec<u8>) -> Option<(Vec<u8>, &[u8])> {
    rest.first().is_none_or(u8::is_ascii_whitespace).then_some((arg, rest))
}

/// What stands after the closing quote.
fn double_quoted<'a>(mut rest: &'a [u8], arg: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, tail) = match rest {
            [b'"', tail @ ..] => return Some(tail),
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (digit(*high) << 4 | digit(*low), tail)
            }
            [b'\\', escaped, tail @ ..] => (unescaped(*escaped), tail),
            [byte, tail @ ..] => (*byte, tail),
            [] => return None,
        };
        arg.push(byte);
        rest = tail;
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], arg: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, tail) = match rest {
            [b'\'', tail @ ..] => return Some(tail),
            [b'\\', b'\'', tail @ ..] => (b'\'', tail),
            [byte, tail @ ..] => (*byte, tail),
            [] => return None,
        };
        arg.push(byte);
        rest = tail;
    }
}

fn digit(hex: u8) -> u8 {
    match hex {
        b'0'..=b'9' => hex - b'0',
        _ => hex.to_ascii_lowercase() - b'a' + 10,
    }
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn quotes_and_escapes_are_those_of_redis() {
        let args = |line: &str| split(line.as_bytes()).map(|args| args.join(&b'|'));
        assert_eq!(args("  SET  a\tb "), Some(b"SET|a|b".to_vec()));
        assert_eq!(args(r#"SET "a b" 'c\'d' "\x41\n\"" """#), Some(b"SET|a b|c'd|A\n\"|".to_vec()));
        assert_eq!(args(r#"a"b c""#), Some(b"ab c".to_vec()));
        assert_eq!(args(r#""\xzz""#), Some(b"xzz".to_vec()));
        for unbalanced in [r#""a"#, "'a", r#""a"b"#, "'a'b", r#""a\"#] {
            assert_eq!(args(unbalanced), None, "{unbalanced}");
        }
    }
}
