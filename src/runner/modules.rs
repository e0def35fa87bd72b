//! Modules that servers load for limiters of somebody else's.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::ports::limiter::Spec;

/// The backend whose servers see the files of this machine.
const LOADS: &str = "local";

/// By its whole path: servers run in folders of their own.
fn module(spec: &Spec) -> Option<PathBuf> {
    let foreign = spec.foreign?;
    let path = foreign.folder.join(foreign.module.as_ref()?);
    Some(std::path::absolute(&path).unwrap_or(path))
}

/// All that these limiters need, each once, as far as they are there.
pub fn of<'a>(limiters: impl Iterator<Item = &'a Spec>) -> Vec<PathBuf> {
    let all: BTreeSet<PathBuf> = limiters.filter_map(module).filter(|path| path.is_file()).collect();
    all.into_iter().collect()
}

/// Why the servers of a backend do not have what a limiter needs, if so.
#[derive(Debug, PartialEq, Eq)]
pub enum Lack {
    /// They cannot be given it.
    Backend(String),
    /// The file is not there.
    File(String),
}

pub fn lack(spec: &Spec, backend: &str) -> Option<Lack> {
    let path = module(spec)?;
    if backend != LOADS {
        let why = "needs a module that servers in containers are not given: --backend local";
        return Some(Lack::Backend(why.to_owned()));
    }
    (!path.is_file()).then(|| Lack::File(format!("its module {} is not there", path.display())))
}

impl Lack {
    pub fn in_words(&self) -> &str {
        match self {
            Self::Backend(why) | Self::File(why) => why,
        }
    }
}
