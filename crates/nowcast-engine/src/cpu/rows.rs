//! Rows of a matrix shared out to threads.

use std::marker::PhantomData;
use std::ops::Range;

/// A matrix whose rows different threads write at the same time.
pub(super) struct SharedRows<'a, T> {
    start: *mut T,
    width: usize,
    rows: usize,
    lifetime: PhantomData<&'a mut [T]>,
}

// SAFETY: rows are only reached through `row`, whose caller promises that no two threads take the same one.
unsafe impl<T: Send> Sync for SharedRows<'_, T> {}

impl<'a, T> SharedRows<'a, T> {
    pub(super) fn new(values: &'a mut [T], width: usize) -> Self {
        let rows = values.len().checked_div(width).unwrap_or(0);
        Self { start: values.as_mut_ptr(), width, rows, lifetime: PhantomData }
    }

    /// One row.
    ///
    /// # Safety
    /// No two live borrows of the same row.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn row(&self, index: usize) -> &mut [T] {
        assert!(index < self.rows);
        // SAFETY: inside the matrix; the caller sees to it that the row is borrowed once.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(index * self.width), self.width) }
    }

    /// Rows next to each other.
    ///
    /// # Safety
    /// No two live borrows of the same row.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn rows(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.rows);
        let (start, length) = (range.start * self.width, range.len() * self.width);
        // SAFETY: inside the matrix; the caller sees to it that the rows are borrowed once.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), length) }
    }
}
