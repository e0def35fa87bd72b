//! A counterexample as a file: enough to run it again, and to read it without running it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Counterexample;
use super::print::with_letters;
use super::story::keys_in_words;
use crate::model::scenario::LimiterRef;
use crate::model::schedule::{Budget, Schedule};
use crate::model::units::{Limit, Window};

/// The version of the format. A reader refuses what it does not know.
pub const SCHEMA: u32 = 1;

pub const KIND: &str = "rl-lab schedule";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleFile {
    pub schema: u32,
    /// [`KIND`].
    pub kind: String,
    pub lab: String,
    /// Name with its parameters, as `--limiters` takes it.
    pub limiter: String,
    pub limit: Limit,
    pub window: Window,
    pub client: String,
    /// The property that breaks.
    pub check: String,
    pub budget: Budget,
    pub schedule: Schedule,
    pub witness: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<String>,
    /// `a admitted, b admitted`.
    pub outcomes: String,
    /// What happened, step by step.
    pub steps: Vec<StepSeen>,
    /// The scripts that EVALSHA names, by SHA-1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scripts: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSeen {
    pub step: String,
    /// The command as it was sent; several are separated by `;`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reply: String,
    /// What else there is to say about the step.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// The keys that expired in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expired: Vec<String>,
    pub keys: String,
    /// How the call ended that ended with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// What a counterexample is one of.
pub struct Origin<'a> {
    pub limiter: &'a LimiterRef,
    pub limit: Limit,
    pub window: Window,
    pub client: &'a str,
    pub scripts: &'a [String],
}

impl ScheduleFile {
    pub fn of(found: &Counterexample, origin: &Origin<'_>) -> Self {
        let said = &found.story.said;
        let steps = said.iter().enumerate().map(|(i, s)| {
            let before = i.checked_sub(1).map(|b| said[b].keys.as_slice()).unwrap_or_default();
            let gone = before.iter().filter(|k| !s.keys.iter().any(|now| now.name == k.name));
            let ticked = s.step == crate::model::schedule::Step::Tick;
            StepSeen {
                step: s.step.to_string(),
                sends: s.args.clone(),
                reply: with_letters(&s.reply),
                what: s.what.clone(),
                expired: gone.filter(|_| ticked).map(|k| k.name.clone()).collect(),
                keys: keys_in_words(&s.keys),
                ended: s.ended.clone(),
            }
        });
        let scripts =
            origin.scripts.iter().map(|body| (redis::Script::new(body).get_hash().to_owned(), body));
        let used = |sha: &str| said.iter().any(|s| s.args.iter().any(|a| a == sha));
        Self {
            schema: SCHEMA,
            kind: KIND.to_owned(),
            lab: env!("CARGO_PKG_VERSION").to_owned(),
            limiter: origin.limiter.to_string(),
            limit: origin.limit,
            window: origin.window,
            client: origin.client.to_owned(),
            check: found.check.to_owned(),
            budget: found.budget,
            schedule: found.schedule.clone(),
            witness: found.witness.clone(),
            between: found.story.between.clone(),
            outcomes: found.story.outcomes.clone(),
            steps: steps.collect(),
            scripts: scripts.filter(|(sha, _)| used(sha)).map(|(sha, body)| (sha, body.clone())).collect(),
        }
    }

    /// `counterexample-get-then-incr-never-over-limit`.
    pub fn stem(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let limiter: String = self.limiter.chars().map(plain).collect();
        format!("counterexample-{limiter}-{}", self.check)
    }

    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// # Errors
    /// With the file's name and what is wrong with it.
    pub fn load(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let readable = std::fs::metadata(path).map_err(|e| format!("cannot read '{name}': {e}"))?;
        if !readable.is_file() {
            return Err(format!("'{name}' is no file"));
        }
        let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read '{name}': {e}"))?;
        let file: Self = serde_json::from_str(&text)
            .map_err(|e| format!("'{name}' is no schedule as `rl-lab explore` writes it: {e}"))?;
        if file.kind != KIND || file.schema != SCHEMA {
            return Err(format!(
                "'{name}' is of kind '{}', schema {}; this lab reads '{KIND}', schema {SCHEMA}",
                file.kind, file.schema
            ));
        }
        Ok(file)
    }

    /// A shell script that shows it by redis-cli alone, with what every reply must be.
    pub fn to_shell(&self) -> String {
        let mut lines = vec![
            "#!/bin/sh".to_owned(),
            format!("# {} at limit {} per {}: {}", self.limiter, self.limit, self.window, self.witness),
            format!("# schedule: {}", self.schedule),
        ];
        lines.extend(self.between.as_ref().map(|b| format!("# {b}")));
        lines.extend([
            "#".to_owned(),
            "# Usage: sh this-file [options of redis-cli, such as -p 6380 -n 9]".to_owned(),
            "# It removes the keys it uses, before and after. Exit 0 if every reply is as it was.".to_owned(),
            "set -eu".to_owned(),
            "failed=0".to_owned(),
            "say() { printf '%s\\n' \"$1\"; }".to_owned(),
            "is() { # what it is told, what it was told then".to_owned(),
            "    if [ \"$1\" = \"$2\" ]; then say \"    → $1\"; else say \"    → $1 (it was: $2)\"; failed=1; fi"
                .to_owned(),
            "}".to_owned(),
        ]);
        let keys: Vec<String> = self.keys().iter().map(|k| quoted(k)).collect();
        let clean = format!("redis-cli \"$@\" DEL {} >/dev/null", keys.join(" "));
        if !keys.is_empty() {
            lines.push(clean.clone());
        }
        for body in self.scripts.values() {
            lines.push(format!("redis-cli \"$@\" SCRIPT LOAD {} >/dev/null", quoted(body)));
        }
        for step in &self.steps {
            lines.push(format!("say {}", quoted(&format!("{:<5} {}", step.step, step.headline()))));
            lines.extend(step.commands());
        }
        lines.push(format!("say {}", quoted(&format!("then: {}", self.outcomes))));
        for key in self.immortal() {
            lines.push(format!("say {}", quoted(&format!("      PTTL {key}"))));
            lines.push(format!("is \"$(redis-cli \"$@\" PTTL {})\" '-1'", quoted(&key)));
        }
        if !keys.is_empty() {
            lines.push(clean);
        }
        lines.push("exit $failed".to_owned());
        lines.join("\n") + "\n"
    }

    /// The keys that are left without an expiry.
    fn immortal(&self) -> Vec<String> {
        let last = self.steps.last().map(|s| s.keys.clone()).unwrap_or_default();
        let stays = |k: &&String| last.contains(&format!("{k} = ")) && last.contains("(no expiry)");
        let keys = self.keys();
        let alone = keys.len() == 1 || !last.contains("(due at");
        keys.iter().filter(stays).filter(|_| alone).cloned().collect()
    }

    /// The keys that were ever there.
    fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self
            .steps
            .iter()
            .flat_map(|s| s.keys.split(", ").filter_map(|k| k.split_once(" = ")).map(|(k, _)| k.to_owned()))
            .filter(|k| k.starts_with("rl:") || k.contains("rl:"))
            .collect();
        keys.sort();
        keys.dedup();
        keys
    }
}

impl StepSeen {
    fn headline(&self) -> String {
        let sent = super::story::brief(&self.sends);
        match (sent.is_empty(), self.what.is_empty()) {
            (false, false) => format!("{sent} ({})", self.what),
            (false, true) => sent,
            _ => self.what.clone(),
        }
    }

    fn commands(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.expired.iter().map(|k| format!("redis-cli \"$@\" DEL {} >/dev/null", quoted(k))).collect();
        if self.step == "flush" {
            lines.push("redis-cli \"$@\" SCRIPT FLUSH >/dev/null".to_owned());
        }
        // One that dies before its command, or only begins, sends nothing.
        if self.sends.is_empty() || self.step.ends_with(['-', '.']) {
            return lines;
        }
        let words = |args: &[String]| args.iter().map(|a| quoted(a)).collect::<Vec<_>>().join(" ");
        let commands: Vec<&[String]> = self.sends.split(|a| a == ";").collect();
        if commands[0] == ["EXEC"] {
            let inside = commands[1..].iter().map(|c| words(c)).collect::<Vec<_>>();
            let block: Vec<String> = [vec!["MULTI".to_owned()], inside, vec!["EXEC".to_owned()]].concat();
            lines.push(format!("redis-cli \"$@\" >/dev/null <<'END'\n{}\nEND", block.join("\n")));
            return lines;
        }
        for (i, command) in commands.iter().enumerate() {
            let call = format!("redis-cli \"$@\" {}", words(command));
            // Replies of what was sent behind were not looked at; times depend on the machine.
            let told = if i == 0 { plain(&self.reply) } else { None };
            lines.push(match told {
                Some(reply) => format!("is \"$({call})\" {}", quoted(&reply)),
                None => format!("{call} >/dev/null"),
            });
        }
        lines
    }
}

/// A reply as redis-cli prints it, if it is one that does not depend on the time.
fn plain(reply: &str) -> Option<String> {
    match reply {
        "(nil)" => Some(String::new()),
        "OK" => Some("OK".to_owned()),
        number => number.parse::<i64>().ok().filter(|n| n.abs() < 1000).map(|n| n.to_string()),
    }
}

/// A word for a POSIX shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
