//! The floors: a module imports only floors below its own, families of floor 2 never each other.
//!
//! A port may use the types of another port that its own trait speaks of: a limiter is built from
//! a store and a clock, a workload calls limiters and says for which call the store sends, a topology
//! asks a backend and gives out links. These are all, and they form no circle. `main.rs` and `lib.rs` belong to no floor.

use std::path::{Path, PathBuf};

use crate::imports::paths;

const FAMILIES: [&str; 9] = [
    "limiters",
    "clients",
    "backends",
    "topologies",
    "faults",
    "workloads",
    "checkers",
    "explorer",
    "formats",
];
const BETWEEN_PORTS: [(&str, &str); 15] = [
    ("limiter", "database"),
    ("database", "store"),
    ("limiter", "clock"),
    ("limiter", "store"),
    ("workload", "limiter"),
    ("workload", "store"),
    ("topology", "backend"),
    ("policy", "clock"),
    ("policy", "limiter"),
    ("fault", "link"),
    ("fault", "backend"),
    ("fault", "route"),
    ("fault", "topology"),
    ("topology", "link"),
    ("link", "backend"),
];

fn floor(module: &str) -> Option<u8> {
    Some(match module {
        "model" => 0,
        "ports" | "wire" => 1,
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
        convicts("wire/proxy/a.rs", "use crate::ports::store;", 1);
        convicts("ports/a.rs", "use crate::wire::resp;", 1);
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
            ("wire/proxy/a.rs", "use super::super::keys; use crate::wire::resp; use crate::model::units;"),
            ("clients/a.rs", "use crate::wire::resp;"),
            ("main.rs", "use rl_lab::cli::main;"),
        ] {
            assert_eq!(objections(file, source), Vec::<String>::new(), "{source}");
        }
    }
}
