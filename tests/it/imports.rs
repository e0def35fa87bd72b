//! Reads the `crate::…` paths out of a source text, however they are written.

/// Every path in a source text that starts at the crate's root, with its line. Comments and
/// strings are no imports; `super` climbs from the file's own module and from modules inside it.
pub fn paths(module: &[&str], source: &str) -> Vec<(usize, Vec<String>)> {
    let tokens = tokens(source);
    let mut found = Vec::new();
    // One entry per open brace: the name if it opens an inline module.
    let mut inside: Vec<Option<String>> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let before = at.checked_sub(1).map(|i| tokens[i].1.as_str());
        match tokens[at].1.as_str() {
            "{" => {
                let named = at >= 2 && tokens[at - 2].1 == "mod";
                inside.push(named.then(|| tokens[at - 1].1.clone()));
            }
            "}" => drop(inside.pop()),
            root @ ("crate" | "super" | "self" | "rl_lab")
                if before != Some("::") && tokens.get(at + 1).is_some_and(|t| t.1 == "::") =>
            {
                let mut base: Vec<String> = module.iter().map(ToString::to_string).collect();
                base.extend(inside.iter().flatten().cloned());
                match root {
                    "super" => drop(base.pop()),
                    "self" => {}
                    _ => base.clear(),
                }
                at = tree(&tokens, at + 2, &base, &mut found);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Reads `a::b`, `super::a` or `{a, b::{c}}` from a token on; answers with the first token after.
fn tree(
    tokens: &[(usize, String)],
    mut at: usize,
    base: &[String],
    found: &mut Vec<(usize, Vec<String>)>,
) -> usize {
    let mut path = base.to_vec();
    let mut line = tokens.get(at).map_or(0, |t| t.0);
    loop {
        match tokens.get(at).map(|t| t.1.as_str()) {
            Some("{") => {
                at += 1;
                while at < tokens.len() && tokens[at].1 != "}" {
                    at = if tokens[at].1 == "," { at + 1 } else { tree(tokens, at, &path, found) };
                }
                return at + 1;
            }
            Some("super") => drop(path.pop()),
            Some("self") => {}
            Some(name) if name.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                path.push(name.to_owned())
            }
            _ => {
                // `crate::*` and the like: nothing is named.
                found.push((line, path));
                return at + 1;
            }
        }
        line = tokens[at].0;
        at += 1;
        if tokens.get(at).is_none_or(|t| t.1 != "::") {
            found.push((line, path));
            // `a as b` inside a group.
            return if tokens.get(at).is_some_and(|t| t.1 == "as") { at + 2 } else { at };
        }
        at += 1;
    }
}

/// Words, `::` and single signs with their lines; comments, strings and characters left out.
fn tokens(source: &str) -> Vec<(usize, String)> {
    let mut tokens = Vec::new();
    let mut rest = source;
    let mut line = 1;
    while let Some(c) = rest.chars().next() {
        let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |i| i + 2)
        } else if let Some(length) = raw_string(rest).or_else(|| quoted(rest)) {
            length
        } else if word > 0 {
            tokens.push((line, rest[..word].to_owned()));
            word
        } else {
            let sign = if rest.starts_with("::") { 2 } else { c.len_utf8() };
            if !c.is_whitespace() {
                tokens.push((line, rest[..sign].to_owned()));
            }
            sign
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    tokens
}

fn raw_string(text: &str) -> Option<usize> {
    let start = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = start.len() - start.trim_start_matches('#').len();
    let body = start[hashes..].strip_prefix('"')?;
    let end = body.find(&format!("\"{}", "#".repeat(hashes)))?;
    Some(text.len() - body.len() + end + 1 + hashes)
}

/// The length of a string or a character; a lifetime is neither.
fn quoted(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => {
                return (quote == '"' || text[1..i].chars().count() == 1 || text[1..].starts_with('\\'))
                    .then_some(i + 1);
            }
            '\n' if quote == '\'' => return None,
            _ => {}
        }
    }
    None
}
