//! A static plan: every buffer, offset and operation of one forecast shape, fixed before the first number is read.
//!
//! A model describes its forward pass to a [`PlanBuilder`]; [`PlanBuilder::finish`] lays all tensors out in one
//! arena, sharing memory between tensors that are never live together. The plan knows its bytes before it runs.

mod builder;
mod layout;

pub use builder::{Norm, PlanBuilder};
pub(crate) use layout::Placement;

use crate::error::{Error, Result};
use crate::extent::{Live, Rows};
use crate::operation::Operation;
use layout::Lifetime;

/// What a tensor holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// 32-bit floats.
    F32,
    /// 64-bit floats.
    F64,
    /// 32-bit integers.
    I32,
}

impl Element {
    /// Bytes of one value.
    pub const fn bytes(self) -> usize {
        match self {
            Element::F32 | Element::I32 => 4,
            Element::F64 => 8,
        }
    }
}

/// A row-major matrix in a plan's arena; its live rows are contiguous from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tensor {
    pub(crate) index: usize,
    /// Number of rows.
    pub rows: Rows,
    /// Values of one row.
    pub width: usize,
    /// What it holds.
    pub element: Element,
}

/// The two halves of a forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// The context, once per series.
    Prefill,
    /// The future; may run several times over one prefill, for further sample paths.
    Decode,
}

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Plan {
    capacity: Live,
    operations: Vec<Operation>,
    prefill: usize,
    lifetimes: Vec<Lifetime>,
    placement: Placement,
    inputs: Vec<Tensor>,
    kept: Vec<Tensor>,
    /// Where each named part begins.
    stages: Vec<(usize, String)>,
}

impl Plan {
    /// Greatest extents the plan can run.
    pub fn capacity(&self) -> Live {
        self.capacity
    }

    /// Bytes of the arena.
    pub fn bytes(&self) -> usize {
        self.placement.bytes()
    }

    /// Operations of a section, in order.
    pub fn operations(&self, section: Section) -> &[Operation] {
        match section {
            Section::Prefill => &self.operations[..self.prefill],
            Section::Decode => &self.operations[self.prefill..],
        }
    }

    /// An operation in words: the part of the model it belongs to, its kind, and its place in its section.
    pub fn describe(&self, section: Section, place: usize) -> String {
        let (of, start) = match section {
            Section::Prefill => ("prefill", 0),
            Section::Decode => ("decode", self.prefill),
        };
        let operations = self.operations(section);
        let stage = self.stages.iter().rev().find(|(first, _)| *first <= start + place);
        let stage = stage.map_or_else(String::new, |(_, stage)| format!("{stage}, "));
        format!("{stage}{} (operation {} of {} of the {of})", operations[place].name(), place + 1, operations.len())
    }

    /// Tensors the host writes before a run.
    pub fn inputs(&self) -> &[Tensor] {
        &self.inputs
    }

    /// Tensors the host may read after a run.
    pub fn kept(&self) -> &[Tensor] {
        &self.kept
    }

    /// Byte offset of a tensor in the arena.
    pub fn offset(&self, tensor: Tensor) -> usize {
        self.placement.offset(tensor)
    }

    /// Other places, for a device that keeps both tensors of each pair where the first is.
    pub(crate) fn placement_sharing(&self, pairs: &[[Tensor; 2]]) -> Result<Placement> {
        if pairs.is_empty() {
            return Ok(self.placement.clone());
        }
        Placement::of(&self.lifetimes, pairs).ok_or(Error::Overflow)
    }

    /// Bytes of a tensor at full capacity.
    pub fn tensor_bytes(&self, tensor: Tensor) -> usize {
        self.lifetimes[tensor.index].bytes
    }
}

impl Tensor {
    /// The same values as another matrix; a fixed number of rows of one make one row of the other.
    #[must_use]
    pub const fn reshaped(self, rows: Rows, width: usize) -> Self {
        Self { rows, width, ..self }
    }
}
