//! Embeds every `scenarios/*.toml`, so that an installed rl-lab needs no checkout and a new
//! scenario is a new file and nothing else.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=scenarios");
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let folder = Path::new(&root).join("scenarios");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("scenarios/ is part of the package")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    let mut code = String::from("pub static EMBEDDED: &[(&str, &str)] = &[\n");
    for path in files {
        let name = path.file_stem().and_then(|s| s.to_str()).expect("a UTF-8 file name").to_owned();
        println!("cargo::rerun-if-changed={}", path.display());
        let text = fs::read_to_string(&path).expect("a readable scenario");
        writeln!(code, "    ({name:?}, {text:?}),").expect("writing to a string");
    }
    code.push_str("];\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("scenarios.rs");
    fs::write(out, code).expect("OUT_DIR is writable");
}
