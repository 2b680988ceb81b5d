//! Whole pages of zeroed memory, which go back to the system the moment they are dropped.
//!
//! A heap keeps what is freed in its middle: weights and plans that come and go would leave the process as large as it
//! ever was.

use std::alloc::{Layout, handle_alloc_error};
use std::io;

use memmap2::MmapMut;

/// Zeroed memory of its own, aligned to a page.
#[derive(Debug)]
pub(crate) struct Pages(MmapMut);

impl Pages {
    /// Reserves memory; the system provides it when it is first written.
    ///
    /// Weights cross a page every 4 KiB and paths' keys one for every path, and each crossing may cost a walk through the
    /// page tables, twice over in a virtual machine; with pages of 2 MiB few rows ran half as fast again there. Where the
    /// system has no such pages nothing happens.
    pub(crate) fn zeroed(bytes: usize) -> io::Result<Self> {
        let pages = MmapMut::map_anon(bytes.max(1))?;
        #[cfg(target_os = "linux")]
        // Advice only: a failure changes nothing.
        let _ = pages.advise(memmap2::Advice::HugePage);
        Ok(Self(pages))
    }

    /// Reserves memory for words, or ends the process as any allocation would.
    pub(crate) fn of_words(words: usize) -> Self {
        let bytes = words.saturating_mul(size_of::<u32>());
        Self::zeroed(bytes)
            .unwrap_or_else(|_| handle_alloc_error(Layout::array::<u32>(words).unwrap_or(Layout::new::<u32>())))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr()
    }

    /// The memory as words of 32 bits.
    pub(crate) fn words(&self) -> &[u32] {
        // SAFETY: pages are aligned for any word, every bit pattern is one, and the length is rounded down.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() / size_of::<u32>()) }
    }

    /// As [`Pages::words`], to write.
    pub(crate) fn words_mut(&mut self) -> &mut [u32] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() / size_of::<u32>()) }
    }

    /// The memory as f32.
    pub(crate) fn values(&self) -> &[f32] {
        // SAFETY: pages are aligned for any value, every bit pattern is an f32, and the length is rounded down.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() / size_of::<f32>()) }
    }

    /// As [`Pages::values`], to write.
    pub(crate) fn values_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, and every bit pattern is an f32.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() / size_of::<f32>()) }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_and_keeps_what_is_written() {
        let mut pages = Pages::of_words(3_000_000);
        assert!(pages.words().len() >= 3_000_000 && pages.words().iter().all(|word| *word == 0));
        pages.words_mut().iter_mut().enumerate().for_each(|(index, word)| *word = index as u32);
        assert!(pages.words().iter().enumerate().all(|(index, word)| *word == index as u32));
        assert!(Pages::zeroed(0).is_ok());
        assert!(Pages::zeroed(usize::MAX / 2).is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_goes_back_at_once() {
        let resident = || -> usize {
            let text = std::fs::read_to_string("/proc/self/statm").unwrap();
            text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
        };
        let blocks: Vec<Pages> = (0..8)
            .map(|_| {
                let mut pages = Pages::of_words(4 << 20);
                pages.values_mut().fill(1.0);
                pages
            })
            .collect();
        let full = resident();
        drop(blocks);
        // Other tests run meanwhile, but none of them needs half of it.
        assert!(resident() + (64 << 20) < full);
    }
}
