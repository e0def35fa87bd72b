//! The server builds that are known by name, and a choice among them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::names;

/// Major and minor version of a server; `7.0` in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version(pub u32, pub u32);

impl Version {
    /// Reads `7.0.15` as 7.0.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        Some(Self(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let version = Self::parse(&text).filter(|v| v.to_string() == text);
        version.ok_or_else(|| format!("'{text}' is no version of a server, such as 7.0"))
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

/// A build of a server. `scripts/servers` gets it, and `rl-lab … --server NAME` runs on it.
#[derive(Debug, PartialEq, Eq)]
pub struct Build {
    pub name: &'static str,
    /// What the server calls itself: `redis` or `valkey`.
    pub flavour: &'static str,
    /// How its version begins.
    pub series: &'static str,
    pub summary: &'static str,
}

/// All of them, the oldest first.
pub static ALL: [Build; 5] = [
    Build {
        name: "6.2",
        flavour: "redis",
        series: "6.2.",
        summary: "Redis 6.2: before EXPIRE NX and before functions",
    },
    Build {
        name: "7.0",
        flavour: "redis",
        series: "7.0.",
        summary: "Redis 7.0: the last whose TIME moves inside a script",
    },
    Build { name: "8.2", flavour: "redis", series: "8.2.", summary: "Redis 8.2" },
    Build {
        name: "valkey-8.1",
        flavour: "valkey",
        series: "8.1.",
        summary: "Valkey 8.1: the other branch of what was Redis 7.2",
    },
    Build { name: "valkey-9.1", flavour: "valkey", series: "9.1.", summary: "Valkey 9.1" },
];

/// As the word for all of them that are there.
pub const EVERY: &str = "all";

impl Build {
    /// The image that `scripts/servers images` makes of it.
    pub fn image(&self) -> String {
        format!("rl-lab-server:{}", self.name)
    }

    /// The file that holds it in its folder of the cache.
    pub fn program(&self) -> String {
        format!("{}-server", self.flavour)
    }

    /// A build by name; the error names the nearest one.
    pub fn find(name: &str) -> Result<&'static Self, String> {
        let known: Vec<&str> = ALL.iter().map(|b| b.name).chain([EVERY]).collect();
        ALL.iter().find(|b| b.name == name).ok_or_else(|| names::unknown("server", name, &known))
    }
}

/// What to run on: `6.2`, `7.0,valkey-9.1`, or `all` that are there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Wanted {
    /// In the order of [`ALL`], each once, one at least.
    builds: Vec<&'static Build>,
    /// Whether those that are not there are only told of.
    every: bool,
}

impl Wanted {
    pub fn builds(&self) -> &[&'static Build] {
        &self.builds
    }

    pub fn every(&self) -> bool {
        self.every
    }

    /// The one, if it is one.
    pub fn single(&self) -> Option<&'static Build> {
        match self.builds.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = text.split(',').map(str::trim).filter(|n| !n.is_empty()).collect();
        if names.is_empty() {
            return Err("no server is named; `rl-lab list servers` lists them".to_owned());
        }
        let every = names == [EVERY];
        let named: Vec<&Build> = if every {
            ALL.iter().collect()
        } else {
            names.into_iter().map(Build::find).collect::<Result<_, _>>()?
        };
        Ok(Self { builds: ALL.iter().filter(|b| named.contains(b)).collect(), every })
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.every {
            return f.write_str(EVERY);
        }
        f.write_str(&self.builds.iter().map(|b| b.name).collect::<Vec<_>>().join(","))
    }
}

impl TryFrom<String> for Wanted {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Wanted> for String {
    fn from(wanted: Wanted) -> Self {
        wanted.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_taken_in_their_order_and_each_once() {
        let read = |text: &str| text.parse::<Wanted>().map(|w| w.to_string());
        assert_eq!(read("valkey-9.1, 6.2,6.2").as_deref(), Ok("6.2,valkey-9.1"));
        assert_eq!(read("all").as_deref(), Ok("all"));
        let all: Wanted = "all".parse().unwrap();
        assert!(all.every() && all.builds().len() == ALL.len() && all.single().is_none());
        let five = ALL.iter().map(|b| b.name).collect::<Vec<_>>().join(",");
        assert!(!five.parse::<Wanted>().unwrap().every(), "whoever names each wants each");
    }

    #[test]
    fn a_server_that_there_is_not_is_refused_with_the_nearest_name() {
        assert!("valkey-9".parse::<Wanted>().unwrap_err().contains("did you mean 'valkey-9.1'"));
        assert!("6.2,all".parse::<Wanted>().is_err() && " , ".parse::<Wanted>().is_err());
    }

    #[test]
    fn what_the_script_fetches_is_what_is_known_here() {
        let pins = include_str!("../../scripts/servers.txt");
        let lines = pins.lines().filter(|l| !l.starts_with('#'));
        let pinned: Vec<Vec<&str>> = lines.map(|l| l.split_whitespace().collect()).collect();
        for line in &pinned {
            let build = Build::find(line[0]).unwrap();
            assert!(line[1].starts_with(build.series) && line[4].len() == 64, "{line:?}");
            assert!(line[5].ends_with(&format!("/{}", build.program())), "{line:?}");
        }
        // Debian's is on PATH and not fetched.
        let fetched = |b: &&Build| b.name != "7.0" && !pinned.iter().any(|l| l[0] == b.name);
        assert_eq!(ALL.iter().find(fetched), None);
        let script = include_str!("../../scripts/servers");
        let all = ALL.iter().map(|b| b.name).collect::<Vec<_>>().join(" ");
        assert!(script.contains(&format!("every='{all}'")));
    }
}
