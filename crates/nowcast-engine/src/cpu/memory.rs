//! Large pages for memory that is read as a stream.

/// Asks the system to back the values with large pages; call it before they are first written.
///
/// A stream of weights crosses a page every 4 KiB, and each crossing may cost a walk through the page tables, twice
/// over in a virtual machine; with pages of 2 MiB few rows ran half as fast again there. Where the system has no such
/// pages nothing happens.
pub fn prefer_large_pages(values: &mut [f32]) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        const PAGE: usize = 4096;
        // Whole pages outwards, so that the ranges of neighbouring allocations meet.
        let start = values.as_ptr() as usize / PAGE * PAGE;
        let end = (values.as_ptr_range().end as usize).next_multiple_of(PAGE);
        // SAFETY: this advice changes no contents, and a failure changes nothing.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
    #[cfg(any(not(target_os = "linux"), miri))]
    let _ = values;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_stay() {
        let mut values: Vec<f32> = (0..3_000_000).map(|index| index as f32).collect();
        prefer_large_pages(&mut values[5..2_999_000]);
        prefer_large_pages(&mut []);
        assert!(values.iter().enumerate().all(|(index, value)| *value == index as f32));
    }
}
