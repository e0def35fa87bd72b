//! The README names what there is: its tables are held to the lists that everything else reads.

use rl_lab::{checkers, limiters, runner};

const README: &str = include_str!("../../README.md");

fn row(cells: &[&str]) -> String {
    format!("| {} |", cells.join(" | "))
}

#[test]
fn the_readme_lists_every_limiter_as_the_catalogue_does() {
    for s in limiters::catalogue() {
        let row = row(&[s.id, &format!("`{}`", s.name), s.summary, s.sends, s.known]);
        assert!(README.contains(&row), "README.md lacks the row\n{row}");
    }
    for p in limiters::ALIASES {
        let row = row(&[p.id, &format!("`{}`", p.limiter()), p.summary, p.of.sends, p.known]);
        assert!(README.contains(&row), "README.md lacks the row\n{row}");
    }
}

#[test]
fn the_readme_lists_every_check_and_every_scenario() {
    for c in checkers::ALL {
        assert!(README.contains(&format!("| `{}` |", c.name())), "README.md lacks the check {}", c.name());
    }
    for (name, _) in runner::scenarios::EMBEDDED {
        assert!(README.contains(&format!("`rl-lab {name}`")), "README.md lacks the scenario {name}");
    }
}
