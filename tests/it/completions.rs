//! Completion, as a shell does it: a script that is generated and never reached is no completion.

use std::process::Command;

fn completed(words: &[&str]) -> Vec<String> {
    let script = Command::new(env!("CARGO_BIN_EXE_rl-lab")).args(["completions", "bash"]).output().unwrap();
    let quoted: Vec<String> = words.iter().map(|w| format!("'{w}'")).collect();
    let ask = format!(
        "{}\nCOMP_WORDS=({}); COMP_CWORD={}; \
         f=$(complete -p rl-lab | sed 's/.*-F \\([^ ]*\\).*/\\1/'); \"$f\" rl-lab '{}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        String::from_utf8(script.stdout).unwrap(),
        quoted.join(" "),
        words.len() - 1,
        words[words.len() - 1],
        words[words.len() - 2],
    );
    // It is longer than an argument may be.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), ask).unwrap();
    let answer = Command::new("bash").arg("--norc").arg(file.path()).output().unwrap();
    String::from_utf8(answer.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_behind_the_subcommand_too() {
    assert!(completed(&["rl-lab", "ra"]).contains(&"race".to_owned()));
    assert_eq!(completed(&["rl-lab", "race", "--format", ""]), ["table", "json", "markdown", "csv"]);
    assert_eq!(completed(&["rl-lab", "race", "--backend", ""]), ["auto", "docker", "local"]);
    assert!(completed(&["rl-lab", "list", ""]).contains(&"limiters".to_owned()));
}
