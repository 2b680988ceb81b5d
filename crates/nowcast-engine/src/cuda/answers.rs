//! Large answers: the device writes them into memory of the host that callers keep, so that nobody copies them again.

use std::sync::Arc;

use super::argument::KernelRows;
use super::machine::{HostMemory, Machine};
use crate::device::Kept;
use crate::error::{Error, Result};
use crate::plan::{Plan, Tensor};

/// Places of one answer at most; where callers keep all others, the next answer is copied.
const MOST_PLACES: usize = 4;
/// The device writes four values at once.
const ALIGNMENT: usize = 16;

/// Memory of one answer.
struct Place(HostMemory);

impl AsRef<[f32]> for Place {
    fn as_ref(&self) -> &[f32] {
        // SAFETY: any bits are an f32.
        let (before, floats, _) = unsafe { self.0.contents().align_to() };
        assert!(before.is_empty(), "host memory is aligned");
        floats
    }
}

/// An f32 tensor that a plan keeps, and where the device writes it: each time a place that no caller has.
pub(super) struct Answer {
    machine: Arc<dyn Machine>,
    pub(super) tensor: Tensor,
    /// Where it lies on the device.
    pub(super) address: u64,
    pub(super) rows: KernelRows,
    pub(super) width: i32,
    bytes: usize,
    /// The last one is written next, and ours alone.
    places: Vec<Arc<Place>>,
}

impl Answer {
    pub(super) fn new(machine: &Arc<dyn Machine>, plan: &Plan, tensor: Tensor, address: u64) -> Result<Self> {
        let bytes = plan.tensor_bytes(tensor).next_multiple_of(ALIGNMENT);
        let place = Arc::new(Place(HostMemory::new(machine, bytes)?));
        Ok(Self {
            machine: Arc::clone(machine),
            tensor,
            address,
            rows: KernelRows::new(tensor.rows).ok_or(Error::Overflow)?,
            width: i32::try_from(tensor.width).map_err(|_| Error::Overflow)?,
            bytes,
            places: vec![place],
        })
    }

    /// Where the device writes next.
    pub(super) fn place(&self) -> u64 {
        self.current().0.pointer().expose_provenance() as u64
    }

    /// What the device wrote.
    pub(super) fn contents(&self) -> &[u8] {
        self.current().0.contents()
    }

    /// What the device wrote, to change.
    pub(super) fn contents_mut(&mut self) -> &mut [u8] {
        let place = self.places.last_mut().and_then(Arc::get_mut);
        place.expect("what is written next is ours alone").0.contents_mut()
    }

    /// Gives away what the device wrote; `None` where there is no other place for what it writes next.
    pub(super) fn keep(&mut self, is_finite: bool) -> Option<Kept> {
        let values = Arc::clone(self.current());
        let last = self.places.len() - 1;
        match self.places[..last].iter_mut().position(|place| Arc::get_mut(place).is_some()) {
            Some(free) => self.places.swap(free, last),
            None if self.places.len() == MOST_PLACES => return None,
            None => self.places.push(Arc::new(Place(HostMemory::new(&self.machine, self.bytes).ok()?))),
        }
        Some(Kept { values, is_finite })
    }

    fn current(&self) -> &Arc<Place> {
        self.places.last().expect("there is a place at all times")
    }
}
