//! A mutable slice that several tasks write at places that do not overlap.

use std::marker::PhantomData;

/// A `&mut [f32]` cut up at run time; who writes where is for the tasks to keep apart.
#[derive(Clone, Copy)]
pub(crate) struct Disjoint<'a> {
    start: *mut f32,
    len: usize,
    slice: PhantomData<&'a mut [f32]>,
}

// SAFETY: it stands for an exclusive borrow of `f32`s, whose parts may be sent; `part` asks that they do not overlap.
unsafe impl Send for Disjoint<'_> {}
// SAFETY: as above.
unsafe impl Sync for Disjoint<'_> {}

impl<'a> Disjoint<'a> {
    /// Takes over the slice.
    pub(crate) fn new(slice: &'a mut [f32]) -> Self {
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
    pub(crate) unsafe fn part(self, start: usize, len: usize) -> &'a mut [f32] {
        assert!(start <= self.len && len <= self.len - start);
        // SAFETY: the part lies inside the slice, and the caller keeps parts from overlapping.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}
