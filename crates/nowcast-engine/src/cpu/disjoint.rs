//! A mutable slice that several tasks write at places that do not overlap.

use std::marker::PhantomData;

/// A `&mut [T]` cut up at run time; who writes where is for the tasks to keep apart.
pub(crate) struct Disjoint<'a, T = f32> {
    start: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

impl<T> Clone for Disjoint<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Disjoint<'_, T> {}

// SAFETY: it stands for an exclusive borrow of a slice, whose parts may be sent; `part` asks that they do not overlap.
unsafe impl<T: Send> Send for Disjoint<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    /// Takes over the slice.
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), slice: PhantomData }
    }

    /// The `len` values from `start`.
    ///
    /// # Panics
    /// If they reach beyond the slice.
    ///
    /// # Safety
    /// No two parts that are alive at the same time may overlap.
    #[inline(always)]
    pub(crate) unsafe fn part(self, start: usize, len: usize) -> &'a mut [T] {
        assert!(start <= self.len && len <= self.len - start);
        // SAFETY: the part lies inside the slice, and the caller keeps parts from overlapping.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}
