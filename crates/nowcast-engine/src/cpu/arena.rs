//! The memory of a plan on the CPU, lent out tensor by tensor with its borrows checked.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

use super::memory::Pages;
use crate::error::{Error, Result};
use crate::extent::Live;
use crate::plan::{Element, Plan, Tensor};

/// One zeroed block of memory for a whole plan.
#[derive(Debug)]
pub(super) struct Arena {
    pages: Pages,
}

impl Arena {
    pub(super) fn new(bytes: usize) -> Result<Self> {
        let pages = Pages::zeroed(bytes).map_err(|_| Error::Memory { bytes, what: "the plan" })?;
        Ok(Self { pages })
    }

    /// Fills the arena with NaN, so that reading what nobody wrote shows.
    pub(super) fn poison(&mut self) {
        self.pages.values_mut().fill(f32::from_bits(u32::MAX));
    }

    /// The bytes of a tensor's live rows.
    pub(super) fn copy(&mut self, plan: &Plan, live: Live, tensor: Tensor) -> Vec<u8> {
        let access = self.access(plan, live);
        match tensor.element {
            Element::F32 => access.read::<f32>(tensor).iter().flat_map(|value| value.to_ne_bytes()).collect(),
            Element::F64 => access.read::<f64>(tensor).iter().flat_map(|value| value.to_ne_bytes()).collect(),
            Element::I32 => access.read::<i32>(tensor).iter().flat_map(|value| value.to_ne_bytes()).collect(),
        }
    }

    /// All rows of an f32 tensor.
    pub(super) fn view(&self, plan: &Plan, tensor: Tensor) -> &[f32] {
        &self.pages.values()[range(plan, tensor)]
    }

    /// All rows of an f32 tensor, to write.
    pub(super) fn place(&mut self, plan: &Plan, tensor: Tensor) -> &mut [f32] {
        &mut self.pages.values_mut()[range(plan, tensor)]
    }

    /// Lends tensors of one operation.
    pub(super) fn access<'a>(&'a mut self, plan: &'a Plan, live: Live) -> Access<'a> {
        Access {
            bytes: self.pages.len(),
            memory: self.pages.as_mut_ptr(),
            arena: PhantomData,
            plan,
            live,
            borrows: Cell::new([(0, 0, false); MOST_BORROWS]),
            count: Cell::new(0),
        }
    }
}

/// Where all rows of an f32 tensor lie among the values of an arena.
fn range(plan: &Plan, tensor: Tensor) -> Range<usize> {
    assert_eq!(tensor.element, Element::F32, "a tensor is viewed as what it holds");
    let start = plan.offset(tensor) / 4;
    start..start + plan.tensor_bytes(tensor) / 4
}

/// No operation touches more tensors than this.
const MOST_BORROWS: usize = 12;

/// The tensors of one operation: any number of readers, or one writer, for every byte.
pub(super) struct Access<'a> {
    memory: *mut u8,
    bytes: usize,
    /// Nobody else reaches the arena meanwhile.
    arena: PhantomData<&'a mut Arena>,
    plan: &'a Plan,
    live: Live,
    borrows: Cell<[(usize, usize, bool); MOST_BORROWS]>,
    count: Cell<usize>,
}

/// A plain number an arena may hold: every bit pattern is a value.
pub(super) trait Plain: Copy {
    const ELEMENT: Element;
}

impl Plain for f32 {
    const ELEMENT: Element = Element::F32;
}

impl Plain for f64 {
    const ELEMENT: Element = Element::F64;
}

impl Plain for i32 {
    const ELEMENT: Element = Element::I32;
}

impl Plain for u32 {
    // One kind of integer is enough: signed or not is how it is read.
    const ELEMENT: Element = Element::I32;
}

impl Access<'_> {
    /// Live rows of a tensor.
    pub(super) fn rows(&self, tensor: Tensor) -> usize {
        tensor.rows.count(self.live)
    }

    pub(super) fn live(&self) -> Live {
        self.live
    }

    /// The live rows, to read.
    pub(super) fn read<T: Plain>(&self, tensor: Tensor) -> &[T] {
        let (start, length) = self.borrow::<T>(tensor, false);
        // SAFETY: inside the arena, aligned, any bits are valid, and `borrow` saw to it that no writer overlaps.
        unsafe { std::slice::from_raw_parts(self.memory.add(start).cast(), length) }
    }

    /// The live rows, to write.
    #[allow(clippy::mut_from_ref)]
    pub(super) fn write<T: Plain>(&self, tensor: Tensor) -> &mut [T] {
        let (start, length) = self.borrow::<T>(tensor, true);
        // SAFETY: as `read`; `borrow` saw to it that nothing else overlaps.
        unsafe { std::slice::from_raw_parts_mut(self.memory.add(start).cast(), length) }
    }

    fn borrow<T: Plain>(&self, tensor: Tensor, mutable: bool) -> (usize, usize) {
        assert_eq!(tensor.element, T::ELEMENT, "a tensor is read as what it holds");
        let length = self.rows(tensor) * tensor.width;
        let start = self.plan.offset(tensor);
        let end = start + length * T::ELEMENT.bytes();
        assert!(end <= start + self.plan.tensor_bytes(tensor) && end <= self.bytes);
        let (mut borrows, count) = (self.borrows.get(), self.count.get());
        let clash = borrows[..count].iter().any(|&(s, e, m)| (m || mutable) && start < e && s < end);
        assert!(!clash, "an operation's tensors overlap");
        borrows[count] = (start, end, mutable);
        self.borrows.set(borrows);
        self.count.set(count + 1);
        (start, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extent::Rows;
    use crate::plan::PlanBuilder;

    const LIVE: Live = Live { batch: 1, context: 1, samples: 1 };

    fn plan() -> (Plan, Tensor, Tensor) {
        let mut builder = PlanBuilder::new(LIVE, true);
        let a = builder.input(Element::F32, Rows::fixed(2), 8);
        let b = builder.input(Element::F32, Rows::fixed(2), 8);
        builder.keep(a);
        builder.keep(b);
        (builder.finish().unwrap(), a, b)
    }

    #[test]
    fn two_tensors_may_be_lent_at_once() {
        let (plan, a, b) = plan();
        let mut arena = Arena::new(plan.bytes()).unwrap();
        let access = arena.access(&plan, LIVE);
        access.write::<f32>(a).fill(1.0);
        assert_eq!(access.read::<f32>(b), [0.0; 16]);
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn one_tensor_is_never_lent_to_two_writers() {
        let (plan, a, _) = plan();
        let mut arena = Arena::new(plan.bytes()).unwrap();
        let access = arena.access(&plan, LIVE);
        let first = access.write::<f32>(a);
        access.write::<f32>(a).fill(0.0);
        first.fill(1.0);
    }

    #[test]
    fn memory_that_cannot_be_had_is_an_error() {
        assert!(Arena::new(usize::MAX / 4).is_err());
    }
}
