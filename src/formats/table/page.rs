//! A text for a terminal: prose folded to its width, commands folded so that they can be pasted.

use super::super::words::{self, fold};
use super::paint::Tone;
use crate::ports::format::Look;

/// A text that grows by lines, none wider than the look allows.
pub struct Page {
    pub text: String,
    pub look: Look,
}

impl Page {
    /// Folds `text` after `lead`; the lines after the first are indented as deep as `lead` is long.
    pub fn line(&mut self, lead: &str, text: &str, tone: Tone) {
        let indent = words::chars(lead);
        for (i, part) in self.fold(text, indent).iter().enumerate() {
            let lead = if i == 0 { lead.to_owned() } else { " ".repeat(indent) };
            self.push(&format!("{}{}", lead, tone.paint(part, self.look.color)));
        }
    }

    /// An item of a list: indented by two, its further lines by four.
    pub fn hanging(&mut self, text: &str) {
        for (i, part) in self.fold(text, 4).iter().enumerate() {
            self.push(&format!("{}{part}", if i == 0 { "  " } else { "    " }));
        }
    }

    /// A command, folded so that it can still be pasted: a backslash ends each line but the last.
    pub fn command(&mut self, lead: &str, command: &str) {
        let indent = words::chars(lead);
        let room = self.look.width.map_or(usize::MAX, |w| w.saturating_sub(indent + 2).max(8));
        let lines = pasteable(command, room);
        for (i, part) in lines.iter().enumerate() {
            let lead = if i == 0 { lead.to_owned() } else { " ".repeat(indent) };
            let more = if i + 1 < lines.len() { " \\" } else { "" };
            self.push(&format!("{lead}{part}{more}"));
        }
    }

    pub fn head(&mut self, text: &str, tone: Tone) {
        self.push("");
        self.line("", text, tone);
    }

    fn fold(&self, text: &str, indent: usize) -> Vec<String> {
        let room = self.look.width.map_or(usize::MAX, |w| w.saturating_sub(indent).max(8));
        fold(&words::clean(text), room, &[' '])
    }

    pub fn push(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

/// Folds a shell command at the spaces outside quotes. A single word is never cut: a line too
/// long is better than a command that is another one.
fn pasteable(command: &str, width: usize) -> Vec<String> {
    let (mut quote, mut words) = (None, vec![String::new()]);
    for c in words::printable(command).chars() {
        quote = match quote {
            None if c == '\'' || c == '"' => Some(c),
            Some(open) if open == c => None,
            other => other,
        };
        let last = words.len() - 1;
        if c == ' ' && quote.is_none() { words.push(String::new()) } else { words[last].push(c) }
    }
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if words::chars(line) + 1 + words::chars(&word) <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folded_command_never_breaks_inside_quotes() {
        let lines = pasteable("rl-lab race --limiters 'a b  c' --rounds 5", 12);
        assert_eq!(lines, ["rl-lab race", "--limiters", "'a b  c'", "--rounds 5"]);
    }
}
