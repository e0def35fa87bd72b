//! Patterns as in Redis' KEYS: `*`, `?`, `[a-c]`, `[^a]`, and a backslash before any of them.

/// Whether the whole text matches. Follows one `*` at a time, so that no pattern takes longer than
/// the product of the two lengths.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Behind the last star, and how much of the text it has swallowed up to.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p + 1, t));
            p += 1;
        } else if t == text.len() {
            if p == pattern.len() {
                return true;
            }
            return false;
        } else if let Some(next) = (p < pattern.len()).then(|| one(pattern, p, text[t])).flatten() {
            p = next;
            t += 1;
        } else if let Some((behind, from)) = star {
            star = Some((behind, from + 1));
            (p, t) = (behind, from + 1);
        } else {
            return false;
        }
    }
}

/// Matches one byte; gives where the pattern goes on.
fn one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match pattern[p] {
        b'?' => Some(p + 1),
        b'[' => class(pattern, p + 1, byte),
        b'\\' if p + 1 < pattern.len() => (pattern[p + 1] == byte).then_some(p + 2),
        literal => (literal == byte).then_some(p + 1),
    }
}

/// A class that is not closed reaches to the end of the pattern.
fn class(pattern: &[u8], mut p: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(p) == Some(&b'^');
    p += usize::from(negated);
    let mut found = false;
    while p < pattern.len() && pattern[p] != b']' {
        if pattern[p] == b'\\' && p + 1 < pattern.len() {
            found |= pattern[p + 1] == byte;
            p += 2;
        } else if p + 2 < pattern.len() && pattern[p + 1] == b'-' {
            let (low, high) = (pattern[p].min(pattern[p + 2]), pattern[p].max(pattern[p + 2]));
            found |= (low..=high).contains(&byte);
            p += 3;
        } else {
            found |= pattern[p] == byte;
            p += 1;
        }
    }
    (found != negated).then_some((p + 1).min(pattern.len()))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_are_those_of_redis() {
        for (pattern, yes, no) in [
            ("k", vec!["k"], vec!["", "kk", "K"]),
            ("*", vec!["", "k", "a:b"], vec![]),
            ("rl:*:42", vec!["rl::42", "rl:user:42", "rl:42:42"], vec!["rl:42", "rl:user:421"]),
            ("*a*b*", vec!["ab", "xaxbx", "aab"], vec!["ba", "a", "b"]),
            ("h?llo", vec!["hello"], vec!["hllo", "heello"]),
            ("h[ae-g^]llo", vec!["hallo", "hfllo", "h^llo"], vec!["hbllo", "hllo"]),
            ("h[^e]llo", vec!["hallo"], vec!["hello"]),
            (r"a\*", vec!["a*"], vec!["ab", r"a\*"]),
            ("", vec![""], vec!["a"]),
        ] {
            yes.iter().for_each(|t| assert!(matches(pattern.as_bytes(), t.as_bytes()), "{pattern} {t}"));
            no.iter().for_each(|t| assert!(!matches(pattern.as_bytes(), t.as_bytes()), "{pattern} {t}"));
        }
        assert!(!matches(&b"*a".repeat(40), &b"a".repeat(39)));
    }
}
