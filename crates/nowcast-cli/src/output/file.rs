//! Writing a file whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use nowcast::{Error, Result};

use crate::interrupt::Partial;

/// Whether a file can be written there, as far as can be told without writing.
///
/// # Errors
/// A folder, or a name in a folder that does not exist.
pub fn check_target(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::Setting(format!("cannot write {}: it is a folder, name a file in it", path.display())));
    }
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let folder = folder_of(&target);
    if folder.is_dir() {
        return Ok(());
    }
    Err(Error::Setting(format!(
        "cannot write {}: there is no folder {}, create it first",
        path.display(),
        folder.display()
    )))
}

/// Whether two names mean one file, which need not exist yet; devices and pipes are never the same.
pub fn same_file(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| match fs::canonicalize(path) {
        Ok(found) => Some(found),
        Err(_) => Some(fs::canonicalize(folder_of(path)).ok()?.join(path.file_name()?)),
    };
    let special = |path: &Path| fs::metadata(path).is_ok_and(|found| !found.is_file());
    !special(a) && !special(b) && place(a).is_some_and(|found| Some(found) == place(b))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// Writes `bytes` to `path` whole or not at all: into a new file in the same folder, then renamed.
///
/// A link is followed and stays a link; a device or a pipe is written in place.
///
/// # Errors
/// A folder that does not exist, or whatever the operating system refuses; the old file is then as it was.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    check_target(path)?;
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if fs::metadata(&target).is_ok_and(|existing| !existing.is_file()) {
        let mut device = OpenOptions::new().write(true).open(&target).map_err(|error| Error::file(path, error))?;
        return device.write_all(bytes).map_err(|error| Error::file(path, error));
    }
    let (partial, file) = create_beside(&target, folder_of(&target)).map_err(|error| Error::file(path, error))?;
    fill(file, bytes).and_then(|()| partial.rename(&target)).map_err(|error| Error::file(path, error))
}

/// A new, empty file in the folder of the target, under a name nobody else uses.
fn create_beside(target: &Path, folder: &Path) -> io::Result<(Partial, File)> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    for attempt in 0..100 {
        let temporary = folder.join(format!(".{name}.{}-{attempt}.partial", std::process::id()));
        match Partial::create(temporary, |path| OpenOptions::new().write(true).create_new(true).open(path)) {
            Ok(created) => return Ok(created),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn fill(mut file: File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    // On disk before the rename, so that a crash leaves the old file or the new one.
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn files_are_replaced_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        write_file(&path, b"first").unwrap();
        write_file(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(folder.path()), ["out.csv"]);
    }

    #[test]
    fn a_missing_folder_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing").join("out.csv");
        let message = write_file(&path, b"x").unwrap_err().to_string();
        let missing = folder.path().join("missing");
        assert_eq!(
            message,
            format!("cannot write {}: there is no folder {}, create it first", path.display(), missing.display())
        );
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_folder_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let message = write_file(folder.path(), b"x").unwrap_err().to_string();
        assert!(message.ends_with("it is a folder, name a file in it"), "{message}");
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn one_file_may_have_many_names() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, around) = (folder.path().join("a.csv"), folder.path().join(".").join("a.csv"));
        assert!(same_file(&plain, &around));
        assert!(!same_file(&plain, &folder.path().join("b.csv")));
        fs::write(&plain, b"").unwrap();
        assert!(same_file(&plain, &around));
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_links_and_devices_stay_devices() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, b"old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_file(&link, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let null = folder.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &null).unwrap();
        write_file(&null, b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
