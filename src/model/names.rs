//! Looking names up, naming the nearest one when a name is not there, and naming keys.

use std::borrow::Cow;

/// `unknown limiter 'foo'; did you mean 'fob'? (known: …)`
pub fn unknown(kind: &str, name: &str, known: &[&str]) -> String {
    let hint = nearest(name, known).map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
    format!("unknown {kind} '{name}'{hint} (known: {})", known.join(", "))
}

/// The known name closest to `name`, if it is close enough to be worth suggesting.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let lower = name.to_lowercase();
    known
        .iter()
        .map(|k| {
            let whole = strsim::jaro_winkler(&lower, &k.to_lowercase());
            // `incr-get` is meant for `get-then-incr`: a shared stretch counts as well.
            let inside = if !lower.is_empty() && k.contains(&lower) { 0.9 } else { 0.0 };
            (f64::max(whole, inside), *k)
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(score, _)| *score >= 0.7)
        .map(|(_, k)| k)
}

/// A key without what all keys of its round begin with, `rl-lab:<run>:<round>:`. A limiter may have put
/// something before it, which stays.
pub fn without_prefix(key: &str) -> Cow<'_, str> {
    let Some(from) = key.find("rl-lab:") else { return Cow::Borrowed(key) };
    let to = key[from..].match_indices(':').nth(2).map_or(key.len(), |(at, _)| from + at + 1);
    if from == 0 { Cow::Borrowed(&key[to..]) } else { Cow::Owned(format!("{}{}", &key[..from], &key[to..])) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_name() {
        let known = ["get-then-incr", "incr-then-expire", "gcra-lua"];
        assert_eq!(nearest("get-then-icnr", &known), Some("get-then-incr"));
        assert_eq!(nearest("gcra", &known), Some("gcra-lua"));
        assert_eq!(nearest("zzz", &known), None);
    }

    #[test]
    fn a_key_is_named_without_its_run_and_round() {
        assert_eq!(without_prefix("rl-lab:d0d1:0-0-1:user:42"), "user:42");
        assert_eq!(without_prefix("lock:rl-lab:d0d1:0-0-1:user"), "lock:user");
        assert_eq!(without_prefix("user"), "user");
    }
}
