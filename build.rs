//! Embeds every `scenarios/*.toml`, so that an installed rl-lab needs no checkout and a new scenario is a
//! new file and nothing else; and builds the preload that gives a server a clock of its own.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    scenarios(&root, &out);
    preload(&root, &out);
}

fn scenarios(root: &Path, out: &Path) {
    println!("cargo::rerun-if-changed=scenarios");
    let mut files: Vec<_> = fs::read_dir(root.join("scenarios"))
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
    fs::write(out.join("scenarios.rs"), code).expect("OUT_DIR is writable");
}

/// Where it cannot be built there is an empty file, and why: the lab does without, and says so.
fn preload(root: &Path, out: &Path) {
    let source = root.join("src/backends/preload/clock.c");
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-env-changed=CC");
    let library = out.join("clock.so");
    let why = compile(&source, &library).err().unwrap_or_default();
    if !why.is_empty() {
        fs::write(&library, []).expect("OUT_DIR is writable");
    }
    fs::write(out.join("clock.txt"), why).expect("OUT_DIR is writable");
}

fn compile(source: &Path, library: &Path) -> Result<(), String> {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let (os, processor) = (variable("CARGO_CFG_TARGET_OS"), variable("CARGO_CFG_TARGET_ARCH"));
    if os != "linux" || !["x86_64", "aarch64"].contains(&processor.as_str()) {
        return Err(format!("it is made for Linux on x86_64 and aarch64, not for {os} on {processor}"));
    }
    if variable("HOST") != variable("TARGET") {
        return Err("this rl-lab was built on another kind of machine than it runs on".to_owned());
    }
    let compiler = env::var("CC").ok().filter(|c| !c.is_empty()).unwrap_or_else(|| "cc".to_owned());
    let made = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-nostdlib", "-O2", "-fno-stack-protector", "-fno-builtin", "-s", "-o"])
        .arg(library)
        .arg(source)
        .output();
    match made {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(format!("{compiler} failed: {}", String::from_utf8_lossy(&done.stderr).trim())),
        Err(error) => Err(format!("the C compiler {compiler} cannot be run: {error}")),
    }
}
