//! A folder to go wrong in, and what must hold of every failure.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::program::{Call, Run, model};

/// A folder of files to go wrong with, in which the program runs.
pub(crate) struct Place(TempDir);

/// Seven good rows.
pub(crate) const GOOD: &str =
    "date,a,b\n2024-01-01,1,2\n2024-01-02,2,2\n2024-01-03,3,1\n2024-01-04,2,5\n2024-01-05,4,4\n";

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.write("good.csv", GOOD);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    /// All files below, with their contents.
    fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut contents = BTreeMap::new();
        let mut folders = vec![self.0.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let bytes = fs::read(&path).unwrap();
                    contents.insert(path, bytes);
                }
            }
        }
        contents
    }

    /// `forecast` in this folder; `--horizon 4` and the small model unless given.
    pub(crate) fn forecast(&self, arguments: &[&str]) -> Call {
        let model = model();
        let mut all = vec!["forecast"];
        all.extend(arguments);
        for (flag, value) in [("--horizon", "4"), ("--model", &model)] {
            if !arguments.iter().any(|argument| argument.starts_with(flag)) {
                all.extend([flag, value]);
            }
        }
        self.call(&all)
    }

    pub(crate) fn call(&self, arguments: &[&str]) -> Call {
        Call::new(arguments).within(self.0.path())
    }

    /// Runs, and says what is wrong with how it failed: the message must hold all `words`.
    fn fault(&self, call: Call, words: &[&str]) -> Option<String> {
        let before = self.contents();
        let Run { code, stdout, stderr } = call.run();
        let line = stderr.strip_suffix('\n').unwrap_or(&stderr);
        let problem = if code != Some(2) {
            format!("exit status {code:?}")
        } else if !stdout.is_empty() {
            format!("{} bytes on the standard output", stdout.len())
        } else if !line.starts_with("error: ") || line.chars().any(char::is_control) {
            "not one line that begins with error:".into()
        } else if line.contains("panicked") || line.chars().count() > 800 {
            "not a message for people".into()
        } else if self.contents() != before {
            "a file was left or changed".into()
        } else if let Some(word) = words.iter().find(|word| !line.contains(**word)) {
            format!("{word:?} is not said")
        } else {
            return None;
        };
        Some(format!("{problem}: {stderr}"))
    }
}

/// All faults at once.
#[derive(Default)]
pub(crate) struct Faults(Vec<String>);

impl Faults {
    pub(crate) fn check(&mut self, place: &Place, name: &str, call: Call, words: &[&str]) {
        self.0.extend(place.fault(call, words).map(|fault| format!("{name}: {fault}")));
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.0.is_empty(), "{} of the cases:\n{}", self.0.len(), self.0.join("\n"));
        }
    }
}
