//! `rl-lab report` and `rl-lab compare`: what is told of runs to who was not there.

use rl_lab::model::report::Report;
use rl_lab::model::verdict::Verdict;

use crate::support::{Lab, usable};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

async fn lab() -> Option<Lab> {
    usable("local").await.then(|| Lab::new().env("RL_LAB_BACKEND", "local"))
}

fn read(lab: &Lab, name: &str) -> String {
    std::fs::read_to_string(lab.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[tokio::test]
async fn a_comparison_is_a_page_that_needs_nothing_beside_it_and_markdown_with_its_charts() {
    let Some(lab) = lab().await else { return };
    lab.run(&["race", "--seed", "1"]).exits(0);
    lab.run(&["report", "latest", "-o", "told/race"]).exits(0).prints(&["told/race.md", "told/race.html"]);
    let (text, page) = (read(&lab, "told/race.md"), read(&lab, "told/race.html"));
    for part in
        ["get-then-incr", "200 admitted where 10 may be", "What the figures stand on", "rl-lab race --seed 1"]
    {
        assert!(text.contains(part) && page.contains(part), "{part}");
    }
    for chart in text.split("](").skip(1).filter_map(|t| t.split(')').next()).filter(|f| f.ends_with(".svg"))
    {
        assert!(read(&lab, &format!("told/{chart}")).contains("<svg "), "{chart}");
    }
    assert!(text.contains("](race/race.svg)"), "{text}");
    // The calls behind each conviction can be looked at.
    assert!(page.contains("The calls behind the verdict"), "no conviction is drawn");
    // `xmlns` is the name of a language and loads nothing.
    let loads = page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "");
    assert!(!loads.contains("http:") && !loads.contains("https:") && !loads.contains("src="));
}

#[tokio::test]
async fn who_reads_the_decision_record_finds_what_each_need_leaves() {
    let Some(lab) = lab().await else { return };
    let needs = std::fs::read_dir(format!("{ROOT}/scenarios/needs")).unwrap();
    let mut files: Vec<String> = needs.map(|f| f.unwrap().path().to_str().unwrap().to_owned()).collect();
    files.sort();
    let mut args = vec!["run"];
    args.extend(files.iter().map(String::as_str));
    let report: Report = lab.run(&[&args[..], &["--format", "json"]].concat()).exits(0).report();
    assert!(report.passed && report.cells.len() > 120);
    let text = lab.run(&["report", "-t", "adr"]).exits(0).stdout;
    let of = |need: &str| {
        let (_, rest) = text.split_once(&format!("#### {need}")).unwrap_or_else(|| panic!("{text}"));
        rest.lines().find(|l| l.contains("Kept everything that was tried")).unwrap().to_owned()
    };
    // Five in any quarter of an hour: only a log. A hundred at once and a hundred a second: all but fixed windows. And
    // neither by a clock of which there is more than one.
    assert_eq!(
        of("5 wrong passwords per account"),
        "- **Kept everything that was tried:** `sliding-log-lua:clock=server`"
    );
    assert_eq!(
        of("100 requests per second per user"),
        "- **Kept everything that was tried:** `sliding-log-lua:clock=server`, `token-bucket-lua:clock=server`, \
         `gcra-lua:clock=server`"
    );
    // How they differ, and under what each was tried.
    assert!(text.contains("- bytes per identity (api-cost): 72 for `gcra-lua:clock=server`; "), "{text}");
    assert!(text.contains("3 s window for `sliding-log-lua:clock=server` alone"), "{text}");
    // An outage does to who sets the expiry with a second command what a crash does.
    let convicted = "`incr-then-expire` of `every-key-expires` (api-crash, api-outage)";
    assert!(text.contains(convicted), "{text}");
    // A time that nobody can read: hundreds of thousands of milliseconds.
    let unread =
        |word: &str| word.split_once('.').is_some_and(|(ms, _)| ms.len() > 4 && ms.parse::<u64>().is_ok());
    let long = text.split(" ms").filter_map(|before| before.rsplit(' ').next()).find(|word| unread(word));
    assert_eq!(long, None);
}

#[tokio::test]
async fn an_incident_is_told_from_the_first_call_to_the_one_too_many() {
    let Some(lab) = lab().await else { return };
    let args = ["race", "--rounds", "1", "--requests", "20", "--limiters", "get-then-incr,fixed-window-lua"];
    lab.run(&args).exits(1);
    let told = ["report", "-t", "incident", "--check", "never-over-limit"];
    let text = lab.run(&told).exits(0).stdout;
    assert!(text.contains("`get-then-incr` breaks `never-over-limit`"), "{text}");
    assert!(text.contains("where 10 may be\n"), "the step with the eleventh is not marked:\n{text}");
    assert!(text.contains("## Show it again") && text.contains("rl-lab race"), "{text}");
    lab.run(&["report", "-t", "incident", "--limiter", "fixed-window-lua"]).exits(2).says(&["no conviction"]);
}

#[tokio::test]
async fn a_change_that_breaks_a_limiter_is_told_from_one_that_does_not() {
    let Some(lab) = lab().await else { return };
    lab.run(&["init"]).exits(0);
    let run = |out: &str, code| {
        lab.run(&["race", "--limiters", "sample", "--seed", "1", "--out", out]).exits(code);
        format!("{out}/latest")
    };
    let before = run("before", 0);
    let again = run("again", 0);
    let text = std::fs::read_to_string(lab.path("rl-lab.toml")).unwrap();
    let right = "file = \"rl-lab/limiter.lua\"\n";
    let wrong = "file = \"rl-lab/limiter-read.lua\"\nthen = \"rl-lab/limiter-write.lua\"\n";
    assert!(text.contains(right), "{text}");
    lab.file("rl-lab.toml", &text.replacen(right, wrong, 1));
    let after = run("after", 1);
    lab.run(&["compare", &before, &again]).exits(0).prints(&["Every verdict is the same"]);
    let done = lab.run(&["compare", &before, &after]).exits(1);
    done.prints(&["never-over-limit", "broken", "admitted where 10 may be", "changed, p = 0.008"]);
    let json = lab.run(&["compare", &before, &after, "--format", "json"]).exits(1).stdout;
    let told: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(told["verdicts"], "broken");
    // The other way around it is a fix.
    lab.run(&["compare", &after, &before]).exits(0).prints(&["fixed"]);
}

#[tokio::test]
async fn runs_without_anything_in_common_are_not_compared() {
    let Some(lab) = lab().await else { return };
    lab.run(&["race", "--limiters", "gcra-lua", "--out", "a"]).exits(0);
    lab.run(&["race", "--limiters", "fixed-window-lua", "--out", "b"]).exits(0);
    lab.run(&["compare", "a/latest", "b/latest"]).exits(2).says(&["no cell in common"]);
    lab.run(&["compare", "a/latest", "nowhere"]).exits(2).says(&["no results at 'nowhere'"]);
    lab.run(&["report", "nowhere"]).exits(2).says(&["no results at 'nowhere'"]);
}

#[tokio::test]
async fn every_conviction_of_a_bound_can_be_looked_at_call_by_call() {
    let Some(lab) = lab().await else { return };
    let report = lab.run(&["race", "--format", "json"]).exits(0).report();
    let mut seen = 0;
    for cell in &report.cells {
        let failed = cell.checks.iter().filter(|c| c.verdict == Verdict::Fail);
        for check in failed.filter(|c| ["never-over-limit", "meets-requirement"].contains(&c.check.as_str()))
        {
            let scene = check.scene.as_ref().unwrap_or_else(|| panic!("{}: {}", cell.limiter, check.check));
            let over = scene.calls.iter().filter_map(|c| c.sum).max().unwrap();
            assert!(over > scene.allowed.unwrap(), "{}: {over}", cell.limiter);
            seen += 1;
        }
    }
    assert!(seen >= 5, "{seen}");
}
