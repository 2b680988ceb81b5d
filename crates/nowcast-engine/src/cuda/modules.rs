//! Machine code of the sources: from the user's cache or compiled, and then loaded.

use super::cubin_cache::CubinCache;
use super::kernel::Source;
use crate::error::{Error, Result};

/// Where machine code for one architecture comes from.
pub(super) struct Codes<Compile> {
    options: Vec<String>,
    cache: CubinCache,
    compile: Compile,
}

/// Machine code of a source.
pub(super) struct Code {
    bytes: Vec<u8>,
    /// Whether it was made earlier.
    from_disk: bool,
}

impl<Compile: Fn(&Source, &[String]) -> Result<Vec<u8>> + Sync> Codes<Compile> {
    /// `compile` is asked for what the cache does not have.
    pub(super) fn new(options: Vec<String>, cache: CubinCache, compile: Compile) -> Self {
        Self { options, cache, compile }
    }

    /// Code of every source, compiled in parallel.
    pub(super) fn all(&self, sources: &[Source]) -> Result<Vec<Code>> {
        std::thread::scope(|scope| {
            let tasks: Vec<_> = sources.iter().map(|source| scope.spawn(|| self.of(source))).collect();
            tasks.into_iter().map(|task| task.join().expect("compiling does not panic")).collect()
        })
    }

    fn of(&self, source: &Source) -> Result<Code> {
        let mut from_disk = true;
        let bytes = self.cache.get(source, &self.options, || {
            from_disk = false;
            (self.compile)(source, &self.options)
        })?;
        Ok(Code { bytes, from_disk })
    }

    /// Loads code. What an earlier process left and the driver refuses, another version's say, is compiled again.
    pub(super) fn load<Module>(
        &self,
        source: &Source,
        code: &Code,
        load: impl Fn(&[u8]) -> Result<Module>,
    ) -> Result<Module> {
        match load(&code.bytes) {
            Err(error @ Error::Device(_)) if code.from_disk => {
                tracing::debug!("{} is compiled again: {error}", source.name);
                self.cache.forget(source, &self.options);
                load(&self.of(source)?.bytes)
            }
            answer => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const SOURCES: [Source; 2] = [Source { name: "a.cu", text: "kernel a" }, Source { name: "b.cu", text: "kernel b" }];

    /// A process that compiles and loads both sources: what it loaded or why not, and how often it compiled.
    fn process(
        folder: &std::path::Path,
        compiled: &str,
        load: impl Fn(&[u8]) -> Result<String>,
    ) -> (std::result::Result<Vec<String>, String>, usize) {
        let count = AtomicUsize::new(0);
        let compile = |source: &Source, _: &[String]| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(format!("{compiled} of {}", source.text).into_bytes())
        };
        let codes = Codes::new(Vec::new(), CubinCache::at(folder), compile);
        let all = codes.all(&SOURCES).unwrap();
        let loaded = SOURCES.iter().zip(&all).map(|(source, code)| codes.load(source, code, &load));
        let loaded = loaded.collect::<Result<Vec<String>>>().map_err(|error| error.to_string());
        (loaded, count.into_inner())
    }

    fn accept(code: &[u8]) -> Result<String> {
        Ok(String::from_utf8(code.to_vec()).unwrap())
    }

    fn refuse(code: &[u8], refused: &str) -> Result<String> {
        let code = accept(code)?;
        if code.contains(refused) { Err(Error::Device(format!("the driver refuses {code}"))) } else { Ok(code) }
    }

    #[test]
    fn what_the_driver_refuses_of_an_earlier_process_is_compiled_again_once() {
        let folder = tempfile::tempdir().unwrap();
        let old = ["old of kernel a", "old of kernel b"];
        assert_eq!(process(folder.path(), "old", accept), (Ok(old.map(String::from).to_vec()), 2));
        let mended = ["old of kernel a", "new of kernel b"].map(String::from).to_vec();
        assert_eq!(process(folder.path(), "new", |code| refuse(code, "old of kernel b")), (Ok(mended.clone()), 1));
        assert_eq!(process(folder.path(), "newer", accept), (Ok(mended), 0));
    }

    #[test]
    fn what_the_driver_refuses_freshly_compiled_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for compiled in [2, 1] {
            let (answer, count) = process(folder.path(), "code", |code| refuse(code, "kernel a"));
            assert_eq!(answer.unwrap_err(), "the driver refuses code of kernel a");
            // Of the second process only what was refused is compiled again.
            assert_eq!(count, compiled);
        }
    }

    #[test]
    fn memory_does_not_come_from_compiling() {
        let folder = tempfile::tempdir().unwrap();
        process(folder.path(), "code", accept).0.unwrap();
        let full = |_: &[u8]| Err(Error::Memory { bytes: 1, what: "kernels" });
        let (answer, count) = process(folder.path(), "code", full);
        assert_eq!((answer, count), (Err("cannot reserve 1 bytes for kernels".into()), 0));
    }
}
