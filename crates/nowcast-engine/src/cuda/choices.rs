//! Measured choices between kernels that give the same digits, kept on disk from one process to the next.
//!
//! What the file says is only believed where it names one of the candidates of the moment. As any of them is right, a file
//! that is old, damaged or forged can make a forecast slower, never another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::cubin_cache::write_private;
use super::kernel::{HEADERS, SOURCES};
use crate::error::Result;

/// First line of a file.
const TITLE: &str = "nowcast choices 1";
/// A file is read up to this many bytes: thousands of choices.
const MOST_BYTES: u64 = 1 << 20;

/// What was measured on one kind of machine with one set of kernels.
#[derive(Debug)]
pub(super) struct Choices {
    path: Option<PathBuf>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The chosen candidate for each question.
    answers: BTreeMap<String, String>,
    changed: bool,
}

impl Choices {
    /// Those for a kind of machine; without a folder they are as good as the process.
    pub(super) fn at(folder: Option<&Path>, machine: &str) -> Self {
        let mut digest = Sha256::new();
        let kernels = HEADERS.iter().chain(SOURCES).map(|source| source.text);
        for text in std::iter::once(machine).chain(kernels) {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        }
        let name: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let path = folder.map(|folder| folder.join(format!("{name}.choices")));
        let answers = path.as_deref().and_then(read).unwrap_or_default();
        Self { path, known: Mutex::new(Known { answers, changed: false }) }
    }

    /// The candidate for a question: the one on record, else the one that takes the least time. With other candidates it is
    /// another question.
    ///
    /// # Errors
    /// Those of `time`, which takes the place of a candidate.
    ///
    /// # Panics
    /// There is no candidate.
    pub(super) fn choose(
        &self,
        question: &str,
        candidates: &[&str],
        mut time: impl FnMut(usize) -> Result<Duration>,
    ) -> Result<usize> {
        let question = format!("{question}, of {}", candidates.join(" "));
        let on_record = self.known().answers.get(&question).cloned();
        if let Some(place) = on_record.and_then(|name| candidates.iter().position(|candidate| *candidate == name)) {
            return Ok(place);
        }
        let times = (0..candidates.len()).map(|place| Ok((time(place)?, place))).collect::<Result<Vec<_>>>()?;
        let best = times.iter().min().expect("there is a candidate");
        tracing::debug!(target: "choices", %question, choice = candidates[best.1], ?times, "measured");
        let mut known = self.known();
        known.answers.insert(question, candidates[best.1].to_owned());
        known.changed = true;
        Ok(best.1)
    }

    /// Writes down what was measured since the last time; without a place to write to, it is measured again next time.
    pub(super) fn keep(&self) {
        let mut known = self.known();
        let Some(path) = self.path.as_deref().filter(|_| known.changed) else { return };
        // What another process has measured meanwhile stays.
        let mut all = read(path).unwrap_or_default();
        all.extend(known.answers.clone());
        let lines: String = all.iter().map(|(question, answer)| format!("{question}\t{answer}\n")).collect();
        if let Err(error) = write_private(path, &[format!("{TITLE}\n").as_bytes(), lines.as_bytes()]) {
            tracing::debug!("cannot keep measured choices in {}: {error}", path.display());
        }
        known.changed = false;
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lines of a file that look like choices; none where it is not ours.
fn read(path: &Path) -> Option<BTreeMap<String, String>> {
    let size = std::fs::metadata(path).ok()?.len();
    let text = (size <= MOST_BYTES).then(|| std::fs::read_to_string(path).ok())??;
    let lines = text.strip_prefix(TITLE)?.lines();
    Some(
        lines
            .filter_map(|line| line.split_once('\t'))
            .map(|(question, answer)| (question.into(), answer.into()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The choice between three kernels that take 3, 1 and 2, and how many were timed.
    fn choose(choices: &Choices, question: &str) -> (usize, usize) {
        let mut timed = 0;
        let choice = choices.choose(question, &["slow", "fast", "middling"], |place| {
            timed += 1;
            Ok(Duration::from_micros([3, 1, 2][place]))
        });
        (choice.unwrap(), timed)
    }

    #[test]
    fn what_was_measured_once_is_not_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        let first = Choices::at(Some(&folder), "a GPU");
        assert_eq!((choose(&first, "a"), choose(&first, "a")), ((1, 3), (1, 0)));
        // Opened before the first has written anything.
        let second = Choices::at(Some(&folder), "a GPU");
        assert_eq!(choose(&second, "b"), (1, 3));
        first.keep();
        second.keep();
        let third = Choices::at(Some(&folder), "a GPU");
        assert_eq!((choose(&third, "a"), choose(&third, "b")), ((1, 0), (1, 0)));
        assert_eq!(choose(&Choices::at(Some(&folder), "another GPU"), "a"), (1, 3));
        assert_eq!(choose(&Choices::at(None, "a GPU"), "a"), (1, 3));
    }

    /// bf16 and f32 took each other's place on record, so that both were timed again by every process.
    #[test]
    fn kernels_of_two_formats_do_not_forget_each_other() {
        let choices = Choices::at(None, "a GPU");
        let kernels = |format| [format!("small_{format}"), format!("large_{format}")];
        for timed_once in [2, 0] {
            for kernels in [kernels("f32"), kernels("bf16")] {
                let mut timed = 0;
                let names: Vec<&str> = kernels.iter().map(String::as_str).collect();
                let time = |place: usize| {
                    timed += 1;
                    Ok(Duration::from_micros(place as u64))
                };
                assert_eq!(choices.choose("a product", &names, time).unwrap(), 0);
                assert_eq!(timed, timed_once);
            }
        }
    }

    #[test]
    fn a_damaged_file_is_measured_again_or_names_a_candidate() {
        let folder = tempfile::tempdir().unwrap();
        let choices = Choices::at(Some(folder.path()), "a GPU");
        choose(&choices, "a");
        choices.keep();
        let path = choices.path.clone().unwrap();
        let whole = std::fs::read(&path).unwrap();
        let damaged = (0..whole.len()).flat_map(|place| {
            let flipped = [1, 0x80].map(|bit| {
                let mut bytes = whole.clone();
                bytes[place] ^= bit;
                bytes
            });
            flipped.into_iter().chain([whole[..place].to_vec()])
        });
        let huge = [&whole[..], &vec![b'\n'; MOST_BYTES as usize]].concat();
        for bytes in damaged.chain([huge, b"nonsense".to_vec(), Vec::new()]) {
            std::fs::write(&path, bytes).unwrap();
            let choices = Choices::at(Some(folder.path()), "a GPU");
            assert_eq!(choose(&choices, "a").0, 1);
            choices.keep();
        }
    }
}
