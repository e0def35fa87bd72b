//! The run's folder: `out/<time>-<scenario>-<seed>/`, and `out/latest` that points at the newest.
//!
//! Files are written beside their place and renamed into it, so a reader never sees half a file.

use std::io;
use std::path::{Path, PathBuf};

use crate::formats;
use crate::formats::document::{Block, markdown};
use crate::model::report::Report;
use crate::model::units::Seed;
use crate::ports::format::Look;

#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes the folder. Two runs in the same second get folders of their own.
    pub fn create(base: &Path, started: &str, scenario: &str, seed: Seed) -> io::Result<Self> {
        std::fs::create_dir_all(base)?;
        let time: String = started.chars().filter(char::is_ascii_alphanumeric).collect();
        for n in 1.. {
            let suffix = if n == 1 { String::new() } else { format!("-{n}") };
            let path = base.join(format!("{time}-{scenario}-{seed}{suffix}"));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        unreachable!("some number is free")
    }

    /// A folder by its own name, for a report that no run wrote.
    pub fn at(path: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(path).map_err(|e| format!("cannot write to '{}': {e}", path.display()))?;
        Ok(Self { path: path.to_owned() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes `latest` point here. Done once a server is up: a run that measures nothing is not what
    /// the next `analyze` means.
    pub fn announce(&self) {
        if let Some(base) = self.path.parent() {
            point_latest(base, &self.path);
        }
    }

    pub fn history(&self) -> PathBuf {
        self.path.join("history.jsonl")
    }

    /// Writes a file of the run's own. Answers with its path.
    pub fn keep(&self, name: &str, content: &[u8]) -> Result<PathBuf, String> {
        let path = self.path.join(name);
        replace(&self.path, name, content).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        Ok(path)
    }

    /// Writes every format's file. Called after each cell, so that what was measured is kept
    /// whatever happens next.
    pub fn write(&self, report: &Report) -> Result<(), String> {
        for format in formats::ALL.iter().filter(|f| f.applies(report)) {
            let text = format.render(report, Look::PLAIN).map_err(|e| format!("{}: {e}", format.file()))?;
            replace(&self.path, format.file(), text.as_bytes())
                .map_err(|e| format!("cannot write {}: {e}", self.path.join(format.file()).display()))?;
        }
        Ok(())
    }
}

/// Writes a document as NAME.md and NAME.html, its charts into the folder NAME beside them. Answers with what was written,
/// the charts as their folder.
pub fn write_document(name: &Path, mut blocks: Vec<Block>, page: &str) -> Result<Vec<PathBuf>, String> {
    let stem = name.file_name().map(|n| n.to_string_lossy().into_owned());
    let stem = stem.ok_or_else(|| format!("'{}' names no file", name.display()))?;
    let folder = name.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    let mut charts = Vec::new();
    beside(&mut blocks, &stem, &mut charts);
    let place = folder.join(&stem);
    let mut written = Vec::new();
    for (extension, text) in [("md", markdown::render(&blocks)), ("html", page.to_owned())] {
        let file = format!("{stem}.{extension}");
        replace(folder, &file, text.as_bytes()).map_err(failed(&folder.join(&file)))?;
        written.push(folder.join(file));
    }
    if !charts.is_empty() {
        std::fs::create_dir_all(&place).map_err(failed(&place))?;
        for (file, svg) in &charts {
            replace(&place, file, svg.as_bytes()).map_err(failed(&place.join(file)))?;
        }
        written.push(place);
    }
    Ok(written)
}

fn failed(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("cannot write {}: {error}", path.display())
}

/// Takes the charts out of a document, which then names them where they will be.
fn beside(blocks: &mut [Block], stem: &str, charts: &mut Vec<(String, String)>) {
    for block in blocks {
        match block {
            Block::Fold { blocks, .. } => beside(blocks, stem, charts),
            Block::Chart { file, svg, .. } => {
                charts.push((file.clone(), std::mem::take(svg)));
                *file = format!("{stem}/{file}");
            }
            _ => {}
        }
    }
}

fn replace(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let beside = folder.join(format!(".{name}.part"));
    let written = std::fs::write(&beside, content).and_then(|()| std::fs::rename(&beside, folder.join(name)));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// A convenience: where links are not to be had, the run goes on without.
fn point_latest(base: &Path, path: &Path) {
    let Some(name) = path.file_name() else { return };
    let beside = base.join(format!(".latest-{}", std::process::id()));
    let _ = std::fs::remove_file(&beside);
    if std::os::unix::fs::symlink(name, &beside).is_ok()
        && std::fs::rename(&beside, base.join("latest")).is_err()
    {
        let _ = std::fs::remove_file(&beside);
    }
}
