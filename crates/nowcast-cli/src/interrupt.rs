//! Ctrl-C: what is half-written goes away, and one line says what is done.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io};

/// Exit status of a program that Ctrl-C ended, as shells expect it.
const INTERRUPTED: i32 = 130;

/// What the handler must know; it runs on a thread of its own.
static WORK: Mutex<Work> = Mutex::new(Work { stage: None, partial: Vec::new(), written: Vec::new() });

struct Work {
    /// What is being done, and how far it is.
    stage: Option<(&'static str, usize, usize)>,
    /// Files under temporary names.
    partial: Vec<PathBuf>,
    /// Files that are whole.
    written: Vec<PathBuf>,
}

fn work() -> MutexGuard<'static, Work> {
    WORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on Ctrl-C, and a request to end, clean up; `say` tells the user.
///
/// # Errors
/// The operating system takes no handler.
pub fn install(say: fn(&str)) -> io::Result<()> {
    let handler = move || {
        // Held until the end: nothing is renamed any more.
        let work = work();
        for path in &work.partial {
            // What cannot be removed stays under its temporary name.
            let _ = fs::remove_file(path);
        }
        say(&work.in_words());
        std::process::exit(INTERRUPTED);
    };
    ctrlc::set_handler(handler).map_err(io::Error::other)
}

/// Says how far the work is.
pub fn note_progress(what: &'static str, done: usize, total: usize) {
    work().stage = Some((what, done, total));
}

impl Work {
    fn in_words(&self) -> String {
        let mut text = match self.stage {
            Some((what, done, total)) => format!("interrupted: {what}, {done} of {total} done"),
            None => "interrupted".to_string(),
        };
        let written: Vec<String> = self.written.iter().map(|path| path.display().to_string()).collect();
        match written.as_slice() {
            [] => text += "; no file was written",
            written => text += &format!("; written: {}", written.join(", ")),
        }
        text
    }
}

/// A file on its way under a temporary name.
pub(crate) struct Partial(PathBuf);

impl Partial {
    /// Creates it with `create`, so that it is known from its first moment.
    pub(crate) fn create<T>(path: PathBuf, create: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<(Self, T)> {
        let mut work = work();
        let file = create(&path)?;
        work.partial.push(path.clone());
        Ok((Self(path), file))
    }

    /// Gives it its name.
    pub(crate) fn rename(self, target: &Path) -> io::Result<()> {
        let mut work = work();
        fs::rename(&self.0, target)?;
        work.partial.retain(|path| *path != self.0);
        work.written.push(target.to_path_buf());
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let mut work = work();
        if let Some(index) = work.partial.iter().position(|path| *path == self.0) {
            work.partial.swap_remove(index);
            // Nothing more can be done where the removal fails too; the first error is the one to tell.
            let _ = fs::remove_file(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_is_told() {
        let mut work = Work { stage: None, partial: Vec::new(), written: Vec::new() };
        assert_eq!(work.in_words(), "interrupted; no file was written");
        work.stage = Some(("forecasting", 3, 10));
        work.written.push("a.csv".into());
        assert_eq!(work.in_words(), "interrupted: forecasting, 3 of 10 done; written: a.csv");
    }

    #[test]
    fn a_file_that_gets_no_name_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let [partial, target] = ["partial", "target"].map(|name| folder.path().join(name));
        let create = |path: &Path| fs::File::create_new(path);
        drop(Partial::create(partial.clone(), create).unwrap());
        assert!(!partial.exists());
        let (again, _) = Partial::create(partial.clone(), create).unwrap();
        again.rename(&target).unwrap();
        assert!(target.exists() && !partial.exists());
    }
}
