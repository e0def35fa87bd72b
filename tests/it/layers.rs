//! The floors: a module imports only floors below its own, families of floor 2 never each other.
//!
//! A port may use the types of another port that its own trait speaks of: a limiter is built from
//! a store and a clock, a workload calls limiters, a topology asks a backend. These are all, and
//! they form no circle. `main.rs` and `lib.rs` belong to no floor.

use std::path::{Path, PathBuf};

const FAMILIES: [&str; 7] =
    ["limiters", "clients", "backends", "topologies", "workloads", "checkers", "formats"];
const BETWEEN_PORTS: [(&str, &str); 4] =
    [("limiter", "clock"), ("limiter", "store"), ("workload", "limiter"), ("topology", "backend")];

fn floor(module: &str) -> Option<u8> {
    Some(match module {
        "model" => 0,
        "ports" => 1,
        family if FAMILIES.contains(&family) => 2,
        "runner" => 3,
        "cli" => 4,
        _ => return None,
    })
}

/// Why a module may not name another one. Both are paths from the crate's root.
fn objection(from: &[&str], to: &[&str]) -> Option<String> {
    let (own, other) = (*from.first()?, *to.first()?);
    let own_floor = floor(own)?;
    let Some(other_floor) = floor(other) else {
        return Some(format!("'{other}' is on no floor: give it one in tests/it/layers.rs"));
    };
    if own == "ports" && other == "ports" {
        let (own, other) = (*from.get(1)?, *to.get(1)?);
        let shared = other.starts_with(char::is_uppercase) || own == other;
        let known = shared || BETWEEN_PORTS.contains(&(own, other));
        return (!known)
            .then(|| format!("port '{own}' uses port '{other}', which its trait does not speak of"));
    }
    (own != other && other_floor >= own_floor)
        .then(|| format!("'{own}' is on floor {own_floor} and uses '{other}' on floor {other_floor}"))
}

/// Every path in a source text that starts at the crate's root, with its line. Comments and
/// strings are no imports; `super` climbs from the file's own module and from modules inside it.
fn paths(module: &[&str], source: &str) -> Vec<(usize, Vec<String>)> {
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

fn objections(file: &str, source: &str) -> Vec<String> {
    let stem = file.strip_suffix(".rs").unwrap();
    let mut module: Vec<&str> = stem.split('/').collect();
    if module.last() == Some(&"mod") {
        module.pop();
    }
    if matches!(module.as_slice(), ["main" | "lib"]) {
        return Vec::new();
    }
    paths(&module, source)
        .into_iter()
        .filter_map(|(line, to)| {
            let to: Vec<&str> = to.iter().map(String::as_str).collect();
            let why = objection(&module, &to)?;
            Some(format!("src/{file}:{line}: {} — {why}", to.join("::")))
        })
        .collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|x| x == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn no_floor_imports_its_own_or_a_higher_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut bad, mut read) = (Vec::new(), 0);
    for path in sources(&root) {
        let file = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let source = std::fs::read_to_string(&path).unwrap();
        bad.extend(objections(&file, &source));
        read += paths(&["x"], &source).len();
    }
    assert!(read > 200, "the scanner sees only {read} paths, so it reads nothing");
    assert_eq!(bad, Vec::<String>::new());
}

#[test]
fn the_ports_that_use_each_other_form_no_circle() {
    let depth = |mut port: &'static str| {
        let mut steps = 0;
        while let Some((_, next)) = BETWEEN_PORTS.iter().find(|(from, _)| *from == port) {
            port = next;
            steps += 1;
            assert!(steps <= BETWEEN_PORTS.len(), "a circle through '{port}'");
        }
    };
    BETWEEN_PORTS.iter().for_each(|(from, _)| depth(from));
}

#[cfg(test)]
mod scanner {
    use super::*;

    #[track_caller]
    fn convicts(file: &str, source: &str, line: usize) {
        let found = objections(file, source);
        assert!(
            found.len() == 1 && found[0].starts_with(&format!("src/{file}:{line}: ")),
            "{source}: {found:?}"
        );
    }

    #[test]
    fn every_way_to_write_an_import_upwards_is_found() {
        convicts("model/op.rs", "\nuse crate::ports::store::Store;", 2);
        convicts("model/op.rs", "fn f() { let x = crate::runner::exit::Exit::Ok; }", 1);
        convicts("model/op.rs", "pub(crate) fn f(x: &dyn crate::ports::store::Store) {}", 1);
        convicts("limiters/a.rs", "use crate::{model::op, backends as b};", 1);
        convicts("limiters/a.rs", "use crate::{\n  model::{op, units::*},\n  checkers::{self},\n};", 3);
        convicts("limiters/a.rs", "use super::super::formats::words;", 1);
        convicts("limiters/a/mod.rs", "use super::super::formats::words;", 1);
        convicts("limiters/a.rs", "mod tests { use super::super::super::cli; }", 1);
        convicts("limiters/mod.rs", "use super::runner;", 1);
        convicts("runner/a.rs", "use rl_lab::cli::main;", 1);
        convicts("ports/clock.rs", "use super::store::Store;", 1);
        convicts("ports/store.rs", "use crate::limiters;", 1);
        convicts("ports/store.rs", "const Q: char = '\"'; use crate::limiters; const R: char = '\"';", 1);
        convicts("model/op.rs", "use crate::elsewhere::X;", 1);
    }

    #[test]
    fn what_is_allowed_or_no_import_is_left_alone() {
        for (file, source) in [
            ("limiters/a.rs", "use crate::{model::op::{self, Op}, ports::{BoxFuture, store}};"),
            ("limiters/a.rs", "use super::common; mod tests { use super::super::b; use super::*; }"),
            ("limiters/a.rs", "// use crate::cli\n/* crate::cli */ const X: &str = \"crate::cli\"; // it's"),
            ("limiters/a.rs", "const X: &str = r#\"use \"crate::cli\"; \"#; fn f<'a>(x: &'a str) {}"),
            ("ports/limiter.rs", "use super::BoxFuture; use super::store::Store; use super::clock::Clock;"),
            ("runner/a.rs", "use crate::{limiters, formats}; use super::exit;"),
            ("cli/a.rs", "use crate::runner::exit; use crate::backends; use other::crate_::cli;"),
            ("main.rs", "use rl_lab::cli::main;"),
        ] {
            assert_eq!(objections(file, source), Vec::<String>::new(), "{source}");
        }
    }
}
