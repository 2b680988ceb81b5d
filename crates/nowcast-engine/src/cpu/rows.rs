//! Rows of a matrix shared out to threads.

use std::ops::Range;

use super::disjoint::Disjoint;

/// A matrix whose rows different threads write at the same time.
pub(super) struct SharedRows<'a, T> {
    values: Disjoint<'a, T>,
    width: usize,
}

impl<'a, T> SharedRows<'a, T> {
    pub(super) fn new(values: &'a mut [T], width: usize) -> Self {
        Self { values: Disjoint::new(values), width }
    }

    /// One row.
    ///
    /// # Safety
    /// No two live borrows of the same row.
    pub(super) unsafe fn row(&self, index: usize) -> &'a mut [T] {
        // SAFETY: rows do not overlap, and the caller borrows each once.
        unsafe { self.values.part(index * self.width, self.width) }
    }

    /// Rows next to each other.
    ///
    /// # Safety
    /// No two live borrows of the same row.
    pub(super) unsafe fn rows(&self, range: Range<usize>) -> &'a mut [T] {
        // SAFETY: rows do not overlap, and the caller borrows each once.
        unsafe { self.values.part(range.start * self.width, range.len() * self.width) }
    }
}
