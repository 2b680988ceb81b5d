//! The bytes of one weights file: memory-mapped, or built into the program.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;

use crate::{Error, Result};

/// Bytes that stay where they are while the checkpoint lives.
pub(super) enum Storage {
    Mapped(Mmap),
    Memory(Cow<'static, [u8]>),
}

impl fmt::Debug for Storage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes", self.bytes().len())
    }
}

impl Storage {
    /// Maps a file read-only; nothing is read yet.
    ///
    /// Whoever shortens or rewrites the file while it is mapped changes the weights or kills the process (SIGBUS on
    /// unix): replace checkpoints by renaming a new file over the old one, as every downloader does.
    pub(super) fn map(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::file(path, error))?;
        let metadata = file.metadata().map_err(|error| Error::file(path, error))?;
        if !metadata.is_file() {
            return Err(Error::Checkpoint(format!("{} is not a regular file", path.display())));
        }
        if metadata.len() == 0 {
            return Ok(Storage::Memory(Cow::Borrowed(&[])));
        }
        // SAFETY: the mapping is read-only and private; that nobody changes the file underneath is the caller's
        // part, as documented above: no operating system we run on offers a lock that would enforce it.
        let map = unsafe { Mmap::map(&file) }.map_err(|error| Error::file(path, error))?;
        Ok(Storage::Mapped(map))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Storage::Mapped(map) => map,
            Storage::Memory(bytes) => bytes,
        }
    }

    /// Drops the pages of a range from the resident set; they come back from the file when touched again.
    /// Pages shared with a neighbour go too, and nothing happens where the system has no such call.
    pub(super) fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Storage::Mapped(map) = self
            && !range.is_empty()
        {
            // SAFETY: the mapping is read-only and backed by its file, so a dropped page reads the same again.
            let advised =
                unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.len()) };
            if let Err(error) = advised {
                tracing::debug!("pages of a packed weight stay resident: {error}");
            }
        }
        #[cfg(not(unix))]
        let _ = range;
    }
}
