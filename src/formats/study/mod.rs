//! What several runs come to together, for who was not there: limiters side by side, a decision record, or one
//! incident told step by step.

mod adr;
mod comparison;
mod incident;

use std::collections::{BTreeMap, BTreeSet};

use super::document::{Block, Span, Text, codes, heading, list, plain};
use super::{compose, svg, words};
use crate::model::report::{CellReport, CheckReport, Report, ScenarioSummary};
use crate::model::verdict::Verdict;

pub use compose::Scenes;
pub use incident::Chosen;

/// What is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// Limiters side by side, with all the evidence.
    Comparison,
    /// A decision record in the headings of MADR; what is decided is left to its author.
    Adr,
    /// One conviction, step by step.
    Incident,
}

pub struct Study<'a> {
    pub title: String,
    /// What each run is called, and its report.
    pub runs: Vec<(String, &'a Report)>,
    /// What each check proves, by its name.
    pub proves: BTreeMap<&'a str, &'a str>,
    /// The command that makes this document again.
    pub command: String,
    /// Which conviction an incident is about; the first where nothing is said.
    pub chosen: Chosen,
}

/// A scenario with its cells, of whichever runs it was part of as the same experiment.
struct Section<'a> {
    scenario: &'a ScenarioSummary,
    cells: Vec<&'a CellReport>,
    labels: Vec<String>,
    /// What its figures stand on, in a line.
    ground: String,
}

impl Study<'_> {
    /// The document. Pictures of single convictions are for a page, where they can be folded away.
    ///
    /// # Errors
    /// If a picture cannot be drawn, or there is nothing to tell.
    pub fn compose(&self, template: Template, scenes: Scenes) -> Result<Vec<Block>, String> {
        let mut blocks = match template {
            Template::Comparison => comparison::compose(self, scenes)?,
            Template::Adr => adr::compose(self, scenes)?,
            Template::Incident => incident::compose(self)?,
        };
        name_charts(&mut blocks, &mut BTreeSet::new());
        Ok(blocks)
    }

    /// Scenarios in the order of the runs. The same experiment in several runs is one section.
    fn sections(&self) -> Vec<Section<'_>> {
        let mut sections: Vec<Section<'_>> = Vec::new();
        let mut of_runs: Vec<Vec<usize>> = Vec::new();
        for (number, (_, report)) in self.runs.iter().enumerate() {
            for scenario in &report.scenarios {
                let cells = || report.cells.iter().filter(|c| c.scenario == scenario.name);
                let same = |s: &Section<'_>| {
                    let (a, b) = (s.scenario, scenario);
                    a.name == b.name && a.plan == b.plan && a.requires == b.requires && a.figures == b.figures
                };
                let at = sections.iter().position(same).unwrap_or_else(|| {
                    let ground = svg::ground(report);
                    sections.push(Section { scenario, cells: Vec::new(), labels: Vec::new(), ground });
                    of_runs.push(Vec::new());
                    sections.len() - 1
                });
                sections[at].cells.extend(cells());
                of_runs[at].extend(cells().map(|_| number));
            }
        }
        for (section, runs) in sections.iter_mut().zip(&of_runs) {
            let mut labels = words::labels(&section.cells);
            // The same limiter twice on the same ground: only the run tells them apart.
            let twice = |label: &String, all: &[String]| all.iter().filter(|l| *l == label).count() > 1;
            let known = labels.clone();
            for (label, run) in labels.iter_mut().zip(runs).filter(|(l, _)| twice(l, &known)) {
                label.push_str(&format!(" · run {}", run + 1));
            }
            section.labels = labels;
            let several = runs.iter().collect::<BTreeSet<_>>().len() > 1;
            if several {
                section.ground = format!("{} runs; see what the figures stand on", self.runs.len());
            }
        }
        sections
    }

    /// What every run's figures stand on, and how they are made again.
    fn honesty(&self) -> Vec<Block> {
        let mut blocks = vec![heading(2, "What the figures stand on")];
        for (number, (name, report)) in (1..).zip(&self.runs) {
            let mut head = plain(format!("Run {number}: "));
            head.extend([Span::Code(name.clone()), Span::Plain(format!(", {}", words::ending(report)))]);
            blocks.push(Block::Heading(3, head));
            blocks.extend(compose::error(report));
            blocks.extend(compose::ground(report));
        }
        blocks.push(Block::Para(vec![
            Span::Plain(
                "Verdicts are judged from the recorded history and do not depend on the machine; times do, and no \
                 verdict rests on one unless it says so. A pass says what was tried and not seen, with the power it \
                 had; it is no proof. The record of every call is "
                    .to_owned(),
            ),
            Span::Code("history.jsonl".to_owned()),
            Span::Plain(" in the run's folder, and ".to_owned()),
            Span::Code("rl-lab analyze".to_owned()),
            Span::Plain(" gives the same verdicts from it.".to_owned()),
        ]));
        blocks.push(Block::Para(plain("This document was made with:")));
        blocks.push(Block::Shell(self.command.clone()));
        blocks
    }
}

/// What is compared: a limiter with what is around it, and its ground where that differs.
struct Options<'a> {
    policy: bool,
    client: bool,
    server: bool,
    backend: bool,
    names: Vec<String>,
    of: BTreeMap<String, Vec<(&'a ScenarioSummary, &'a CellReport)>>,
}

impl<'a> Options<'a> {
    fn of<'s>(sections: impl IntoIterator<Item = &'s Section<'a>>) -> Self
    where
        'a: 's,
    {
        Self::told_by(sections, true)
    }

    /// The same where the policy is what a scenario is about, as its faults are, unless it tries several.
    fn of_limiters<'s>(sections: impl IntoIterator<Item = &'s Section<'a>>) -> Self
    where
        'a: 's,
    {
        Self::told_by(sections, false)
    }

    fn told_by<'s>(sections: impl IntoIterator<Item = &'s Section<'a>>, policy: bool) -> Self
    where
        'a: 's,
    {
        let sections: Vec<&Section<'a>> = sections.into_iter().collect();
        let all = || sections.iter().flat_map(|s| s.cells.iter().map(|c| (s.scenario, *c)));
        // Only where one limiter was tried with several is it something that is compared.
        let varied = |of: fn(&CellReport) -> String| {
            let mut seen: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
            for (scenario, cell) in all() {
                seen.entry((&scenario.name, &cell.limiter)).or_default().insert(of(cell));
            }
            seen.values().any(|values| values.len() > 1)
        };
        let mut options = Self {
            policy: policy || varied(|c| c.policy.clone().unwrap_or_default()),
            client: varied(|c| c.client.clone()),
            server: varied(words::server_of),
            backend: varied(|c| c.backend.clone()),
            names: Vec::new(),
            of: BTreeMap::new(),
        };
        for (scenario, cell) in all() {
            let name = options.name(cell);
            if !options.of.contains_key(&name) {
                options.names.push(name.clone());
            }
            options.of.entry(name).or_default().push((scenario, cell));
        }
        options
    }

    fn name(&self, cell: &CellReport) -> String {
        let mut name = cell.limiter.clone();
        name.extend(cell.policy.iter().filter(|_| self.policy).map(|p| format!(" + {p}")));
        let parts = [
            (self.client, cell.client.clone()),
            (self.server, words::server_of(cell)),
            (self.backend, cell.backend.clone()),
        ];
        name.extend(parts.into_iter().filter(|(shown, _)| *shown).map(|(_, part)| format!(" · {part}")));
        words::clean(&name)
    }

    fn cells(&self, name: &str) -> &[(&'a ScenarioSummary, &'a CellReport)] {
        self.of.get(name).map_or(&[], Vec::as_slice)
    }

    /// Names of the checks that some cell has, in order of first appearance.
    fn checks(&self) -> Vec<&'a str> {
        let all = self.names.iter().flat_map(|n| self.cells(n)).map(|(_, c)| *c);
        words::checks(&all.collect::<Vec<_>>())
    }

    /// All verdicts of an option on a check, with where.
    fn judged(&self, name: &str, check: &str) -> Vec<(&'a ScenarioSummary, &'a CellReport, &'a CheckReport)> {
        let each = self.cells(name).iter();
        each.filter_map(|(s, c)| Some((*s, *c, words::check(c, check)?))).collect()
    }

    /// The worst of them; `None` where nobody tried.
    fn worst(&self, name: &str, check: &str) -> Option<Verdict> {
        self.judged(name, check).into_iter().map(|(.., c)| c.verdict).max()
    }

    /// How many properties it was held to.
    fn tried(&self, name: &str) -> usize {
        self.checks().into_iter().filter(|check| self.worst(name, check).is_some()).count()
    }

    /// The worst of all its verdicts.
    fn overall(&self, name: &str) -> Verdict {
        let all = self.checks().into_iter().filter_map(|check| self.worst(name, check));
        all.max().unwrap_or(Verdict::Unknown)
    }

    fn with(&self, verdict: impl Fn(Verdict) -> bool) -> Vec<&str> {
        let fits = |name: &&String| verdict(self.overall(name));
        self.names.iter().filter(fits).map(String::as_str).collect()
    }
}

/// Who kept everything, who was convicted of something, and of whom too little is known.
fn standings(options: &Options<'_>) -> Option<Block> {
    let mut lines = not_convicted(options);
    for name in options.with(|v| v == Verdict::Fail) {
        let of = options.checks().into_iter().filter(|c| options.worst(name, c) == Some(Verdict::Fail));
        let mut text = vec![Span::Strong("Convicted:".to_owned()), Span::Plain(" ".to_owned())];
        text.extend([Span::Code(name.to_owned()), Span::Plain(" of ".to_owned())]);
        text.extend(codes(of));
        lines.push(text);
    }
    list(lines)
}

/// Who kept everything, and of whom too little is known.
fn not_convicted(options: &Options<'_>) -> Vec<Text> {
    let mut lines: Vec<Text> = Vec::new();
    let mut line = |head: &str, names: &[&str]| {
        if !names.is_empty() {
            let mut text = vec![Span::Strong(head.to_owned()), Span::Plain(" ".to_owned())];
            text.extend(codes(names.iter().copied()));
            lines.push(text);
        }
    };
    let passed = |name: &str| {
        let mut all = options.checks().into_iter().flat_map(|check| options.judged(name, check));
        all.any(|(.., c)| c.verdict == Verdict::Pass)
    };
    let kept = options.with(|v| matches!(v, Verdict::Pass | Verdict::NotApplicable));
    let (kept, untried): (Vec<&str>, Vec<&str>) = kept.into_iter().partition(|name| passed(name));
    // Of whom less was asked than of others, less is known.
    let most = options.names.iter().map(|name| options.tried(name)).max().unwrap_or(0);
    let (whole, part): (Vec<&str>, Vec<&str>) = kept.iter().partition(|name| options.tried(name) == most);
    line("Kept everything that was tried:", &whole);
    line(&format!("Kept what was tried of them, which is less than the {most} properties of others:"), &part);
    line("Nothing was tried of them, since nothing applied:", &untried);
    line(
        "Convicted of nothing, but of something too little is known:",
        &options.with(|v| v == Verdict::Unknown),
    );
    lines
}

/// Gives every chart a file name of its own.
fn name_charts(blocks: &mut [Block], taken: &mut BTreeSet<String>) {
    for block in blocks {
        match block {
            Block::Fold { blocks, .. } => name_charts(blocks, taken),
            Block::Chart { file, .. } => {
                let stem = file.trim_end_matches(".svg").to_owned();
                let mut n = 1;
                while !taken.insert(file.clone()) {
                    n += 1;
                    *file = format!("{stem}-{n}.svg");
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::{html, markdown};
    use super::super::sample;
    use super::*;

    fn study<'a>(runs: Vec<(String, &'a Report)>) -> Study<'a> {
        let proves = BTreeMap::from([("never-over-limit", "no span holds more than the contract allows")]);
        Study {
            title: "T".into(),
            runs,
            proves,
            command: "rl-lab report a".into(),
            chosen: Chosen::default(),
        }
    }

    #[test]
    fn a_limiter_that_ran_twice_is_told_apart_by_its_run() {
        let (a, b) = (sample::race(), sample::race());
        let study = study(vec![("a".into(), &a), ("b".into(), &b)]);
        let sections = study.sections();
        assert_eq!(sections.len(), 1, "the same experiment is one section");
        let labels: BTreeSet<&String> = sections[0].labels.iter().collect();
        assert_eq!(labels.len(), 2 * a.cells.len());
        assert!(sections[0].labels.contains(&"get-then-incr · run 2".to_owned()), "{labels:?}");
    }

    #[test]
    fn the_worst_verdict_of_an_option_is_what_counts() {
        let (a, mut b) = (sample::race(), sample::race());
        b.scenarios[0].name = "other".to_owned();
        for cell in &mut b.cells {
            cell.scenario = "other".to_owned();
        }
        b.cells[2].checks[0] = sample::check("never-over-limit", Verdict::Unknown, None, "too few calls");
        let study = study(vec![("a".into(), &a), ("b".into(), &b)]);
        let sections = study.sections();
        let options = Options::of(&sections);
        assert_eq!(options.names.len(), a.cells.len(), "an option is one, in however many scenarios");
        assert_eq!(options.worst("fixed-window-lua", "never-over-limit"), Some(Verdict::Unknown));
        assert_eq!(options.overall("gcra-lua:clock=server"), Verdict::Pass);
        assert_eq!(options.overall("get-then-incr"), Verdict::Fail);
    }

    #[test]
    fn who_was_asked_for_less_is_not_told_beside_who_kept_all_of_it() {
        let mut race = sample::race();
        race.cells[2].checks.truncate(1);
        let study = study(vec![("a".into(), &race)]);
        let text = markdown::render(&study.compose(Template::Comparison, Scenes::None).unwrap());
        assert!(text.contains("- **Kept everything that was tried:** `gcra-lua:clock=server`\n"), "{text}");
        assert!(
            text.contains("which is less than the 3 properties of others:** `fixed-window-lua`\n"),
            "{text}"
        );
    }

    #[test]
    fn every_template_tells_what_it_stands_on_in_both_forms() {
        let (race, incident) = (sample::race(), sample::incident());
        for template in [Template::Comparison, Template::Adr, Template::Incident] {
            let study = study(vec![("out/a".into(), &race), ("out/b".into(), &incident)]);
            let blocks = study.compose(template, Scenes::Drawn).unwrap();
            let page = html::render(&study.title, &blocks);
            let text = markdown::render(&blocks);
            for part in ["redis 7.0.15", "rl-lab report a", "rl-lab race --seed 42", "out/a", "out/b"] {
                assert!(page.contains(part) && text.contains(part), "{part} is missing in {template:?}");
            }
        }
    }

    #[test]
    fn who_was_never_run_kept_nothing() {
        let mut race = sample::race();
        let cell = race.cells.iter_mut().find(|c| c.limiter == "fixed-window-lua").unwrap();
        cell.checks.iter_mut().for_each(|c| c.verdict = Verdict::NotApplicable);
        let study = study(vec![("a".into(), &race)]);
        for template in [Template::Comparison, Template::Adr] {
            let text = markdown::render(&study.compose(template, Scenes::None).unwrap());
            let kept = text.lines().find(|l| l.contains("Kept everything")).unwrap_or_default();
            assert!(!kept.contains("fixed-window-lua"), "{kept}");
            assert!(
                text.contains("**Nothing was tried of them, since nothing applied:** `fixed-window-lua`"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_decision_record_has_the_headings_of_its_form_and_decides_nothing() {
        let race = sample::race();
        let study = study(vec![("a".into(), &race)]);
        let text = markdown::render(&study.compose(Template::Adr, Scenes::None).unwrap());
        for head in [
            "## Context and Problem Statement",
            "## Decision Drivers",
            "## Considered Options",
            "## Decision Outcome",
            "### Consequences",
            "### Confirmation",
            "## Pros and Cons of the Options",
            "## More Information",
        ] {
            assert!(text.contains(head), "{head} is missing in\n{text}");
        }
        assert!(text.contains("to be filled in by the author"));
    }

    #[test]
    fn a_policy_that_every_limiter_has_is_part_of_what_was_tried_and_not_of_an_option() {
        let (calm, mut outage) = (sample::race(), sample::race());
        outage.scenarios[0].name = "outage".to_owned();
        for cell in &mut outage.cells {
            cell.scenario = "outage".to_owned();
            cell.policy = Some("fail-open".to_owned());
        }
        let told = |calm: &Report, outage: &Report| {
            let (mut calm, mut outage) = (calm.clone(), outage.clone());
            calm.scenarios[0].need = Some("a need".to_owned());
            outage.scenarios[0].need = Some("a need".to_owned());
            let study = study(vec![("a".into(), &calm), ("b".into(), &outage)]);
            markdown::render(&study.compose(Template::Adr, Scenes::None).unwrap())
        };
        let text = told(&calm, &outage);
        assert!(
            text.contains("- `outage`: Race: 200 calls at once, with the policy `fail-open` and the client")
        );
        assert!(
            text.contains("\n### `gcra-lua:clock=server`\n")
                && !text.contains("### `gcra-lua:clock=server +")
        );
        // Where a scenario tries several, they are what is compared.
        let mut closed = outage.cells.clone();
        for cell in &mut closed {
            cell.policy = Some("fail-closed".to_owned());
        }
        outage.cells.extend(closed);
        let text = told(&calm, &outage);
        assert!(text.contains("\n### `gcra-lua:clock=server + fail-closed`\n"), "{text}");
    }

    #[test]
    fn an_option_that_was_tried_under_some_variations_alone_is_said_to_be() {
        let mut race = sample::race();
        for (n, cell) in race.cells.iter_mut().enumerate() {
            cell.variation = Some(if n == 3 { "1 s window" } else { "60 s window" }.to_owned());
        }
        let study = study(vec![("a".into(), &race)]);
        let text = markdown::render(&study.compose(Template::Adr, Scenes::None).unwrap());
        let told =
            "(60 s window for all but `gcra-lua:clock=server`; 1 s window for `gcra-lua:clock=server` alone)";
        assert!(text.contains(told), "{text}");
    }

    #[test]
    fn each_property_of_an_option_is_argued_once_and_what_all_keep_not_at_all() {
        let race = sample::race();
        let study = study(vec![("a".into(), &race)]);
        let text = markdown::render(&study.compose(Template::Adr, Scenes::None).unwrap());
        let (_, arguments) = text.split_once("## Pros and Cons of the Options").unwrap();
        let (arguments, _) = arguments.split_once("## More Information").unwrap();
        assert!(text.contains("Every option keeps `every-key-expires` (race)"), "{text}");
        assert!(!arguments.contains("every-key-expires") && !arguments.contains("round 1"), "{arguments}");
        let bad = "- Bad, because it breaks `never-over-limit`, `meets-requirement` (race)";
        assert_eq!(arguments.matches(bad).count(), 2, "{arguments}");
        // Who broke least comes first.
        let at = |name: &str| arguments.find(&format!("### `{name}`")).unwrap();
        assert!(at("fixed-window-lua") < at("get-then-incr"));
    }

    #[test]
    fn an_incident_needs_a_conviction_and_names_the_one_that_is_asked_for() {
        let race = sample::race();
        let mut study = study(vec![("a".into(), &race)]);
        study.chosen.limiter = Some("token-bucket-read-write".to_owned());
        let text = markdown::render(&study.compose(Template::Incident, Scenes::Drawn).unwrap());
        assert!(text.contains("`token-bucket-read-write`") && !text.contains("`get-then-incr`"), "{text}");
        study.chosen.limiter = Some("fixed-window-lua".to_owned());
        let error = study.compose(Template::Incident, Scenes::Drawn).unwrap_err();
        assert!(error.contains("no conviction"), "{error}");
    }
}
