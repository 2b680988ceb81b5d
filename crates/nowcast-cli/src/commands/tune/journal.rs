//! What is done of a search, line by line beside its output, so that a search that stops goes on.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use nowcast::tuning::Choice;
use nowcast::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One finished trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Finished {
    pub(super) settings: Choice,
    /// The goal for each symbol.
    pub(super) scores: Vec<Option<f64>>,
}

/// An open journal. Its first line says which search it belongs to, each other one is a finished trial.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

/// The journal's place beside an output.
pub(super) fn beside(out: &Path) -> PathBuf {
    let mut name = out.file_name().unwrap_or_default().to_os_string();
    name.push(".journal");
    out.with_file_name(name)
}

impl Journal {
    /// Opens the journal of a search, or begins it; the trials that are done come back.
    ///
    /// # Errors
    /// A journal of another search, or a file that cannot be read or written.
    pub(super) fn open(path: &Path, search: &Value) -> Result<(Self, Vec<Finished>)> {
        let fault = |error| Error::file(path, error);
        let known = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(fault(error)),
        };
        let other = |reason: &str| {
            Error::Setting(format!("{} {reason}: remove it to begin anew, or name another --out", path.display()))
        };
        // A line that a crash cut off has no end: it is written again.
        let whole = known.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = known[..whole].lines();
        let mut finished = Vec::new();
        if let Some(first) = lines.next() {
            if serde_json::from_str::<Value>(first).ok().as_ref() != Some(search) {
                return Err(other("belongs to a search with other data or settings"));
            }
            for line in lines {
                finished.push(serde_json::from_str(line).map_err(|_| other("is damaged"))?);
            }
        }
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(fault)?;
        file.set_len(whole as u64).map_err(fault)?;
        drop(file);
        let file = OpenOptions::new().append(true).open(path).map_err(fault)?;
        let mut journal = Self { path: path.to_path_buf(), file };
        if whole == 0 {
            journal.line(search)?;
        }
        Ok((journal, finished))
    }

    /// Keeps a finished trial.
    pub(super) fn push(&mut self, finished: &Finished) -> Result<()> {
        self.line(finished)
    }

    /// One write for the whole line, so that an interruption comes before or after it.
    fn line(&mut self, value: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(value).map_err(|error| Error::Data(format!("cannot write JSON: {error}")))?;
        line.push(b'\n');
        self.file.write_all(&line).and_then(|()| self.file.sync_data()).map_err(|error| Error::file(&self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_journal_goes_on_where_it_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = beside(&folder.path().join("tuned.json"));
        assert!(path.ends_with("tuned.json.journal"));
        let search = json!({"seed": 1, "share": 0.1});
        let trial = Finished {
            settings: Choice { context: Some(64), ..Choice::default() },
            scores: vec![Some(0.1 + 0.2), None],
        };
        let (mut journal, finished) = Journal::open(&path, &search).unwrap();
        assert!(finished.is_empty());
        journal.push(&trial).unwrap();
        drop(journal);
        // A crash in the middle of a line.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"settings\":{\"con").unwrap();
        let (mut journal, finished) = Journal::open(&path, &search).unwrap();
        assert_eq!(finished, std::slice::from_ref(&trial));
        journal.push(&trial).unwrap();
        assert_eq!(Journal::open(&path, &search).unwrap().1.len(), 2);

        let error = Journal::open(&path, &json!({"seed": 2})).unwrap_err().to_string();
        assert!(error.contains("another --out") && !error.contains('\n'), "{error}");
        fs::write(&path, format!("{search}\nnonsense\n")).unwrap();
        assert!(Journal::open(&path, &search).unwrap_err().to_string().contains("is damaged"));
    }
}
