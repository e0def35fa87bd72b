//! `rl-lab init`: a file to gate with, a workflow that does, and a limiter to begin with.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::{Answer, Refusal, output};
use crate::model::config::FILE;
use crate::runner::exit::Exit;

/// A language in which a limiter is written.
struct Language {
    name: &'static str,
    /// Files that say that a repository is written in it.
    signs: &'static [&'static str],
    /// What is written for it, or, where that is nothing, what to do.
    files: &'static [(&'static str, &'static str)],
    reached: &'static str,
    /// Said of a language whose limiter is to be put behind the protocol by hand.
    note: Option<&'static str>,
}

macro_rules! template {
    ($name:literal) => {
        include_str!(concat!("../../templates/", $name))
    };
}

macro_rules! skips {
    () => {
        "# It reads no clock, so that waits can be skipped and its schedules searched. Leave it out of one that does.\n\
         skips_time = true"
    };
}

const LUA_FILES: &[(&str, &str)] = &[
    ("rl-lab/limiter.lua", template!("lua/limiter.lua")),
    ("rl-lab/limiter-read.lua", template!("lua/limiter-read.lua")),
    ("rl-lab/limiter-write.lua", template!("lua/limiter-write.lua")),
];

const LUA: &str = r#"
[limiter.sample.lua]
file = "rl-lab/limiter.lua"
# The same in two steps, which two callers at once break: put these two lines in place of the one above.
#file = "rl-lab/limiter-read.lua"
#then = "rl-lab/limiter-write.lua"
keys = ["{key}"]
args = ["{limit}", "{window_ms}", "{cost}"]
allowed = { at = 1, is = 1 }
remaining = { at = 2 }
retry_after_ms = { at = 3 }"#;

/// Asked for in this order; the last has no sign, so it is what is left.
const LANGUAGES: [Language; 6] = [
    Language {
        name: "node",
        signs: &["package.json"],
        files: &[("rl-lab/limiter.mjs", template!("node/limiter.mjs"))],
        reached: concat!("command = [\"node\", \"rl-lab/limiter.mjs\"]\n", skips!()),
        note: None,
    },
    Language {
        name: "python",
        signs: &["pyproject.toml", "requirements.txt", "setup.py"],
        files: &[("rl-lab/limiter.py", template!("python/limiter.py"))],
        reached: concat!("command = [\"python3\", \"rl-lab/limiter.py\"]\n", skips!()),
        note: None,
    },
    Language {
        name: "php",
        signs: &["composer.json"],
        files: &[("rl-lab/limiter.php", template!("php/limiter.php"))],
        reached: concat!("command = [\"php\", \"rl-lab/limiter.php\"]\n", skips!()),
        note: None,
    },
    Language {
        name: "go",
        signs: &["go.mod"],
        files: &[
            ("rl-lab/limiter.go", template!("go/limiter.go")),
            ("rl-lab/.gitignore", "# What limiter.go is built into.\n/limiter\n/limiter.[0-9]*\n"),
        ],
        reached: concat!(template!("go/command.toml"), skips!()),
        note: None,
    },
    Language {
        name: "java",
        signs: &["pom.xml", "build.gradle", "build.gradle.kts"],
        files: LUA_FILES,
        reached: LUA,
        note: Some("Java"),
    },
    Language { name: "lua", signs: &[], files: LUA_FILES, reached: LUA, note: None },
];

/// Scenarios by how long they take.
const QUICK_LUA: &[&str] = &["race", "promises", "crash", "polling", "retry-after", "noscript", "keys"];
const FULL_LUA: &[&str] = &[
    "race",
    "race-near",
    "promises",
    "crash",
    "polling",
    "steady",
    "retry-after",
    "noscript",
    "long-script",
    "keys",
    "lifted",
    "boundary",
];
const QUICK_PROCESS: &[&str] = &["race", "promises", "crash", "polling", "noscript"];
const FULL_PROCESS: &[&str] =
    &["race", "promises", "crash", "polling", "steady", "retry-after", "noscript", "lifted", "boundary"];

pub fn command() -> Command {
    let names = PossibleValuesParser::new(LANGUAGES.map(|l| l.name));
    Command::new("init")
        .about("Write rl-lab.toml, a CI workflow and a limiter to begin with")
        .long_about(
            "Write rl-lab.toml, a CI workflow and a limiter to begin with, in the language that the folder is written \
             in. `rl-lab gate` runs them as they are. Files that are there are left alone: then nothing is written.",
        )
        .arg(
            Arg::new("dir")
                .value_name("DIR")
                .default_value(".")
                .value_parser(value_parser!(PathBuf))
                .help("Folder of the repository"),
        )
        .arg(
            Arg::new("language")
                .long("language")
                .value_name("NAME")
                .value_parser(names)
                .help("Language of the limiter, instead of the folder's"),
        )
        .arg(Arg::new("force").long("force").action(ArgAction::SetTrue).help("Overwrite files that are there"))
}

pub fn main(matches: &ArgMatches) -> Answer {
    let dir = matches.get_one::<PathBuf>("dir").cloned().unwrap_or_else(|| ".".into());
    let language = match matches.get_one::<String>("language") {
        Some(name) => LANGUAGES.iter().find(|l| l.name == name),
        None => LANGUAGES.iter().find(|l| l.signs.iter().any(|sign| dir.join(sign).is_file())),
    };
    // Of nothing that is known: a script needs nothing installed.
    let language = language.unwrap_or(&LANGUAGES[LANGUAGES.len() - 1]);
    let files = files(language);
    let there: Vec<String> =
        files.iter().map(|(name, _)| dir.join(name)).filter(|p| p.exists()).map(shown).collect();
    if !there.is_empty() && !matches.get_flag("force") {
        let what = format!("{} there already; nothing is written (--force overwrites)", is_or_are(&there));
        return Err(Refusal::usage(what));
    }
    for (name, text) in &files {
        write(&dir.join(name), text)?;
    }
    output::print(&said(&dir, language, &files)).map_err(Refusal::environment)?;
    Ok(Exit::Ok)
}

fn files(language: &Language) -> Vec<(&'static str, String)> {
    let list = |names: &[&str]| names.iter().map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(", ");
    let script = language.files == LUA_FILES;
    let (quick, full) = if script { (QUICK_LUA, FULL_LUA) } else { (QUICK_PROCESS, FULL_PROCESS) };
    let explore = |time: &str| format!("explore = \"{time}\"\n");
    let config = template!("rl-lab.toml")
        .replace("{{reached}}", language.reached)
        .replace("{{quick}}", &list(quick))
        .replace("{{full}}", &list(full))
        // A process is started again for each schedule in which it dies.
        .replace("{{explore-quick}}", &explore(if script { "3s" } else { "10s" }))
        .replace("{{explore-full}}", &explore("60s"));
    let mut files = vec![
        (FILE, config.trim_end().to_owned() + "\n"),
        (".github/workflows/rate-limiter.yml", template!("rate-limiter.yml").to_owned()),
    ];
    files.extend(language.files.iter().map(|(name, text)| (*name, (*text).to_owned())));
    files
}

fn write(path: &Path, text: &str) -> Result<(), Refusal> {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = made.and_then(|()| std::fs::write(path, text));
    written.map_err(|e| Refusal::environment(format!("cannot write '{}': {e}", path.display())))
}

#[expect(clippy::needless_pass_by_value, reason = "it is mapped over paths")]
fn shown(path: PathBuf) -> String {
    let path = path.strip_prefix(".").unwrap_or(&path);
    path.display().to_string()
}

fn is_or_are(files: &[String]) -> String {
    format!("{} {}", files.join(", "), if files.len() == 1 { "is" } else { "are" })
}

fn said(dir: &Path, language: &Language, files: &[(&'static str, String)]) -> String {
    let mut text = String::new();
    for (name, _) in files {
        text += &format!("wrote {}\n", shown(dir.join(name)));
    }
    if let Some(name) = language.note {
        text += &format!(
            "\nThe sample is a Lua script that Redis runs. To gate one in {name}, write a program that answers the \
             lines of docs/protocol.md\n(a small JSON object for each call, on stdin and stdout), and name it in \
             {FILE}: command = [\"path/to/it\"].\n"
        );
    }
    let there =
        if dir == Path::new(".") { String::new() } else { format!("cd {} && ", shown(dir.to_owned())) };
    text + &format!("\nNext: {there}rl-lab gate\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config::Config;
    use crate::model::foreign::Way;

    #[test]
    fn every_language_gets_a_file_that_is_read_and_names_what_is_written() {
        for language in &LANGUAGES {
            let files = files(language);
            let config = Config::parse(Path::new(FILE), &files[0].1).map_err(|e| e.to_string()).unwrap();
            assert!(!files[0].1.contains("{{"), "{}", files[0].1);
            let sample = &config.limiters["sample"];
            let file = match sample.way().unwrap() {
                Way::Lua(lua) => lua.file.as_ref().unwrap().display().to_string(),
                _ => sample.command[1..].concat(),
            };
            assert!(files.iter().any(|(name, _)| file.contains(name)), "{}: {file}", language.name);
            for profile in ["quick", "full"] {
                let profile = config.profile(profile).unwrap();
                assert!(profile.explore.is_some() && sample.unsearchable().is_none(), "{}", language.name);
            }
        }
    }

    #[test]
    fn what_is_commented_out_can_be_put_in() {
        for language in &LANGUAGES {
            let text = files(language)[0].1.clone();
            for (line, without) in text.lines().filter_map(|l| Some((l, l.strip_prefix('#')?))) {
                if without.starts_with(' ') || without.starts_with("file") || without.starts_with("then") {
                    continue;
                }
                let put_in = text.replacen(line, without, 1);
                Config::parse(Path::new(FILE), &put_in).map_err(|e| format!("{without}: {e}")).unwrap();
            }
            if language.files == LUA_FILES {
                let two = text
                    .replace("file = \"rl-lab/limiter.lua\"\n", "")
                    .replace("#file = ", "file = ")
                    .replace("#then = ", "then = ");
                let config = Config::parse(Path::new(FILE), &two).map_err(|e| e.to_string()).unwrap();
                assert!(config.limiters["sample"].lua.as_ref().unwrap().then.is_some());
            }
        }
    }
}
