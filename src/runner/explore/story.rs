//! What happens in a counterexample: step by step, and which two steps must not come as they do.

use super::keyspace::Key;
use super::print::with_letters;
use super::world::{RedisWorld, Said};
use crate::explorer::{Trouble, follow_patiently};
use crate::model::schedule::{Schedule, Step, letter};

/// A schedule as it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    pub said: Vec<Said>,
    /// `a admitted, b admitted`.
    pub outcomes: String,
    /// What must not come between what, in words; `None` where nothing comes between.
    pub between: Option<String>,
}

/// Runs the schedule once more and takes down what happens, then finds out what it hangs on.
pub fn tell(
    world: &mut RedisWorld,
    schedule: &Schedule,
    check: &str,
    stop: &dyn Fn() -> bool,
) -> Result<Story, Trouble> {
    world.tell();
    let (_, _) = follow_patiently(world, &schedule.0)?;
    let outcomes = world.outcomes();
    let said = world.told();
    // Which of many steps it hangs on takes as many runs as there are pairs of them.
    let between =
        if stop() || schedule.0.len() > 60 { None } else { between(world, schedule, check, &said)? };
    Ok(Story { said, outcomes, between })
}

/// The step of another, or the passing of time, that lies between two steps of one client and without
/// which, there, nothing breaks; or the death that cuts a call in two.
fn between(
    world: &mut RedisWorld,
    schedule: &Schedule,
    check: &str,
    said: &[Said],
) -> Result<Option<String>, Trouble> {
    let steps = &schedule.0;
    for (i, step) in steps.iter().enumerate() {
        let Some(client) = step.client() else { continue };
        let mine = |s: &Step| s.client() == Some(client);
        let Some(next) = (i + 1..steps.len()).find(|j| mine(&steps[*j])) else { continue };
        // One step of another alone, or else all of them.
        let alone = (i + 1..next).map(|intruder| intruder..intruder + 1);
        for intruders in alone.chain(std::iter::once(i + 1..next)).filter(|r| !r.is_empty()) {
            if harmless_outside(world, steps, i, intruders.clone(), next, check)? {
                return Ok(Some(format!(
                    "{} between {} and {} of {}",
                    come(said, intruders),
                    command(said, i),
                    command(said, next),
                    letter(client)
                )));
            }
        }
    }
    for i in 1..steps.len() {
        if steps[i - 1].client() == steps[i].client() {
            continue;
        }
        let mut swapped = steps.clone();
        swapped.swap(i - 1, i);
        let (_, ending) = follow_patiently(world, &swapped)?;
        if !ending.broken.iter().any(|b| b.check == check) {
            return Ok(Some(format!(
                "{} before {}; the other way round it holds",
                come(said, i - 1..i),
                whose(said, i)
            )));
        }
    }
    let death = steps.iter().enumerate().find(|(_, s)| matches!(s, Step::DieBefore(_) | Step::DieAfter(_)));
    Ok(death.map(|(i, step)| {
        let client = step.client().map_or('?', letter);
        let before = (0..i).rev().find(|j| steps[*j].client() == step.client());
        match (step, before) {
            (Step::DieBefore(_), Some(before)) => {
                format!("{client} dies between {} and its next command", command(said, before))
            }
            (Step::DieBefore(_), None) => format!("{client} dies before its first command"),
            _ => format!("{client} dies after {} was applied", command(said, i)),
        }
    }))
}

/// Whether nothing breaks with these steps before both of the client's, nor with them after both.
fn harmless_outside(
    world: &mut RedisWorld,
    steps: &[Step],
    first: usize,
    intruders: std::ops::Range<usize>,
    next: usize,
    check: &str,
) -> Result<bool, Trouble> {
    let (between, moved) = (first + 1..next, &steps[intruders.clone()]);
    let stay: Vec<Step> = between.filter(|i| !intruders.contains(i)).map(|i| steps[i]).collect();
    let ends = |early: &[Step], late: &[Step]| {
        [&steps[..first], early, &[steps[first]], &stay, &[steps[next]], late, &steps[next + 1..]].concat()
    };
    for outside in [ends(moved, &[]), ends(&[], moved)] {
        let (_, ending) = follow_patiently(world, &outside)?;
        if ending.broken.iter().any(|b| b.check == check) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn command(said: &[Said], at: usize) -> String {
    let Some(line) = said.get(at) else { return "a step".to_owned() };
    match line.args.first() {
        Some(name) => name.clone(),
        None => line.what.clone(),
    }
}

/// `GET and INCRBY of b come`, `60001 ms pass: k expires: this comes`.
fn come(said: &[Said], steps: std::ops::Range<usize>) -> String {
    let clients: Vec<u8> = steps.clone().filter_map(|i| said.get(i)?.step.client()).collect();
    let names: Vec<String> = steps.clone().map(|i| command(said, i)).collect();
    let one = steps.len() == 1;
    match clients.first() {
        Some(client) if clients.len() == names.len() && clients.iter().all(|c| c == client) => {
            let verb = if one { "comes" } else { "come" };
            format!("{} of {} {verb}", names.join(" and "), letter(*client))
        }
        _ => format!("\"{}\" comes", names.join(", ")),
    }
}

fn whose(said: &[Said], at: usize) -> String {
    match said.get(at).and_then(|s| s.step.client()) {
        Some(client) => format!("{} of {}", command(said, at), letter(client)),
        None => format!("\"{}\"", command(said, at)),
    }
}

impl Story {
    /// One line for each step: number, client, what it sends and is told, what the keys are then.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (number, said) in (1usize..).zip(&self.said) {
            let who = said.step.client().map_or(' ', letter);
            let before = number.checked_sub(2).and_then(|n| self.said.get(n)).map(|s| &s.keys);
            let mut line = format!("{number:>2} {who}  {}", sentence(said));
            if before != Some(&said.keys) || number == 1 {
                line.push_str("   ⟶ ");
                line.push_str(&keys_in_words(&said.keys));
            }
            lines.push(line);
        }
        lines
    }

    /// A column for each client, and what the keys are after each step.
    pub fn side_by_side(&self) -> String {
        let clients =
            self.said.iter().filter_map(|s| s.step.client()).max().map_or(0, |c| usize::from(c) + 1);
        let width = |c: usize| {
            let mine = self.said.iter().filter(|s| s.step.client().is_some_and(|x| usize::from(x) == c));
            mine.map(|s| sentence(s).chars().count()).max().unwrap_or(1)
        };
        let widths: Vec<usize> = (0..clients).map(width).collect();
        let pad = |text: &str, width: usize| {
            format!("{text}{}", " ".repeat(width.saturating_sub(text.chars().count())))
        };
        let mut out = String::from("    ");
        for (c, width) in (0u8..).zip(&widths) {
            out.push_str(&pad(&letter(c).to_string(), *width));
            out.push_str("   ");
        }
        out.push_str("keys afterwards\n");
        for (number, said) in (1..).zip(&self.said) {
            let mut line = format!("{number:>2}  ");
            match said.step.client() {
                Some(client) => {
                    for (c, width) in widths.iter().enumerate() {
                        let mine = usize::from(client) == c;
                        line.push_str(&pad(&if mine { sentence(said) } else { String::new() }, *width));
                        line.push_str("   ");
                    }
                }
                None => {
                    let all = widths.iter().sum::<usize>() + 3 * widths.len().saturating_sub(1);
                    line.push_str(&pad(&format!("— {} —", said.what), all));
                    line.push_str("   ");
                }
            }
            line.push_str(&keys_in_words(&said.keys));
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// A command on one line: scripts by the start of their hash.
pub fn brief(args: &[String]) -> String {
    let name = args.first().map(|n| n.to_uppercase()).unwrap_or_default();
    let word = |(i, arg): (usize, &String)| match i {
        1 if name == "EVALSHA" => format!("{}…", arg.chars().take(7).collect::<String>()),
        1 if name == "EVAL" => "<script>".to_owned(),
        _ if arg.is_empty() => "\"\"".to_owned(),
        _ => arg.clone(),
    };
    args.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
}

/// What a step did, on one line.
pub fn sentence(said: &Said) -> String {
    let mut text = brief(&said.args);
    if !said.what.is_empty() {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&said.what);
    }
    if !said.reply.is_empty() && said.what.is_empty() {
        text.push_str(" → ");
        text.push_str(&said.reply);
    }
    if let Some(ended) = &said.ended {
        text.push_str(" ⇒ ");
        text.push_str(ended);
    }
    text
}

/// `k = 1 (60000 ms)`, `k = 1 (no expiry)`; `no keys`.
pub fn keys_in_words(keys: &[Key]) -> String {
    if keys.is_empty() {
        return "no keys".to_owned();
    }
    let one = |key: &Key| {
        let left = key.due_ms.map_or("no expiry".to_owned(), |d| format!("due at {d} ms"));
        format!("{} = {} ({left})", with_letters(&key.name), with_letters(&key.holds()))
    };
    keys.iter().map(one).collect::<Vec<_>>().join(", ")
}
