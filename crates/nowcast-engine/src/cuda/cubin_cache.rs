//! Compiled kernels on disk: private to the user, named by what they were made of, and never believed unchecked.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::kernel::{HEADERS, Source};
use super::probe::KernelCache;

/// Begins every entry, with the version of the format.
const MAGIC: &[u8; 8] = b"nwcubin1";
const DIGEST: usize = 32;

/// A folder of compiled kernels.
#[derive(Debug)]
pub(super) struct CubinCache {
    folder: Option<PathBuf>,
}

impl CubinCache {
    /// The user's cache: `$XDG_CACHE_HOME/nowcast/kernels`, or the same below `~/.cache`; none where neither is known.
    pub(super) fn of_user() -> Self {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
        Self { folder: base.map(|base| base.join("nowcast").join("kernels")) }
    }

    /// Where it is.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    #[cfg(test)]
    pub(super) fn at(folder: &Path) -> Self {
        Self { folder: Some(folder.to_owned()) }
    }

    /// Whether an entry is there, whole.
    pub(super) fn holds(&self, source: &Source, options: &[String]) -> bool {
        let path = self.folder.as_ref().map(|folder| folder.join(format!("{}.cubin", name(source, options))));
        path.and_then(|path| fs::read(path).ok()).is_some_and(|bytes| checked(&bytes).is_some())
    }

    /// What is there of this and of earlier versions.
    pub(super) fn state(&self) -> KernelCache {
        let mut state = KernelCache { folder: self.folder.clone(), ..KernelCache::default() };
        let entries = self.folder.as_ref().and_then(|folder| fs::read_dir(folder).ok());
        for path in entries.into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.extension().is_none_or(|extension| extension != "cubin") {
                continue;
            }
            let bytes = fs::read(&path).unwrap_or_default();
            state.bytes += bytes.len() as u64;
            match checked(&bytes) {
                Some(_) => state.entries += 1,
                None => state.damaged += 1,
            }
        }
        state
    }

    /// Gives up the entry of a source.
    pub(super) fn forget(&self, source: &Source, options: &[String]) {
        if let Some(folder) = &self.folder {
            let _ = fs::remove_file(folder.join(format!("{}.cubin", name(source, options))));
        }
    }

    /// The entry for a source, from disk or else from `compile`.
    pub(super) fn get<E>(
        &self,
        source: &Source,
        options: &[String],
        compile: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        let Some(folder) = &self.folder else { return compile() };
        let path = folder.join(format!("{}.cubin", name(source, options)));
        if let Some(code) = fs::read(&path).ok().and_then(|bytes| checked(&bytes)) {
            return Ok(code);
        }
        let code = compile()?;
        if let Err(error) = write_private(&path, &[MAGIC, &Sha256::digest(&code), &code]) {
            tracing::debug!("cannot keep compiled kernels in {}: {error}", folder.display());
        }
        Ok(code)
    }
}

/// A digest over everything that decides the code, so that no entry is ever out of date.
fn name(source: &Source, options: &[String]) -> String {
    let mut digest = Sha256::new();
    let mut add = |text: &str| {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    };
    HEADERS.iter().chain([source]).for_each(|source| {
        add(source.name);
        add(source.text);
    });
    options.iter().for_each(|option| add(option));
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The code of an entry, if it is what was stored.
fn checked(bytes: &[u8]) -> Option<Vec<u8>> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (digest, code) = rest.split_at_checked(DIGEST)?;
    (Sha256::digest(code).as_slice() == digest && !code.is_empty()).then(|| code.to_vec())
}

/// Writes a file that only the user may read, whole or not at all; its folder is made where there is none.
pub(super) fn write_private(path: &Path, parts: &[&[u8]]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
    }
    // Written under another name first: a process that is killed, or another that stores the same, does no harm.
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let write = || {
        let mut file = options.open(&temporary)?;
        parts.iter().try_for_each(|part| file.write_all(part))?;
        fs::rename(&temporary, path)
    };
    let result = write();
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Source = Source { name: "a.cu", text: "kernel" };

    fn get(cache: &CubinCache, options: &[String], code: &[u8]) -> (Vec<u8>, bool) {
        let mut compiled = false;
        let result: Result<_, std::convert::Infallible> = cache.get(&SOURCE, options, || {
            compiled = true;
            Ok(code.to_vec())
        });
        let Ok(code) = result;
        (code, compiled)
    }

    #[test]
    fn a_second_process_finds_what_the_first_compiled() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CubinCache::at(&folder.path().join("kernels"));
        let options = vec!["-arch=sm_90".to_owned()];
        assert_eq!(get(&cache, &options, b"code"), (b"code".to_vec(), true));
        assert_eq!(get(&cache, &options, b"other"), (b"code".to_vec(), false));
        assert_eq!(get(&cache, &["-arch=sm_80".to_owned()], b"other"), (b"other".to_vec(), true));
    }

    #[test]
    fn a_damaged_entry_is_rebuilt_and_never_believed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CubinCache::at(folder.path());
        get(&cache, &[], b"the code");
        let path = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let whole = fs::read(&path).unwrap();
        for position in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[position] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(get(&cache, &[], b"the code"), (b"the code".to_vec(), true), "a flipped bit in byte {position}");
            fs::write(&path, &whole[..position]).unwrap();
            assert_eq!(get(&cache, &[], b"the code"), (b"the code".to_vec(), true), "cut to {position} bytes");
        }
        assert!(!get(&cache, &[], b"the code").1);
    }

    #[test]
    fn what_is_there_is_counted_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CubinCache::at(folder.path());
        assert_eq!((cache.state().entries, cache.holds(&SOURCE, &[])), (0, false));
        get(&cache, &[], b"one");
        get(&cache, &["another".to_owned()], b"two");
        let state = cache.state();
        assert_eq!((state.entries, state.damaged, cache.holds(&SOURCE, &[])), (2, 0, true));
        let path = folder.path().join(format!("{}.cubin", name(&SOURCE, &[])));
        fs::write(&path, b"nonsense").unwrap();
        let state = cache.state();
        assert_eq!((state.entries, state.damaged, cache.holds(&SOURCE, &[])), (1, 1, false));
        assert_eq!(state.folder.as_deref(), Some(folder.path()));
    }

    #[cfg(unix)]
    #[test]
    fn entries_are_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("kernels");
        get(&CubinCache::at(&inner), &[], b"code");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&inner), 0o700);
        assert_eq!(mode(&fs::read_dir(&inner).unwrap().next().unwrap().unwrap().path()), 0o600);
    }
}
