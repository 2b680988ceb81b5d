//! The numbers of a distribution, wherever they lie.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Numbers of f32: a vector of their own, or a part of an answer that a device wrote once for many variates.
#[derive(Clone)]
pub struct Values(Place);

#[derive(Clone)]
enum Place {
    Own(Vec<f32>),
    Shared { memory: Arc<dyn AsRef<[f32]> + Send + Sync>, range: Range<usize> },
}

impl Values {
    /// A part of memory that other answers share; `range` lies within it.
    pub(crate) fn shared(memory: Arc<dyn AsRef<[f32]> + Send + Sync>, range: Range<usize>) -> Self {
        assert!(range.end <= memory.as_ref().as_ref().len(), "a part lies within its memory");
        Self(Place::Shared { memory, range })
    }
}

impl Deref for Values {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &self.0 {
            Place::Own(values) => values,
            Place::Shared { memory, range } => &memory.as_ref().as_ref()[range.clone()],
        }
    }
}

impl From<Vec<f32>> for Values {
    fn from(values: Vec<f32>) -> Self {
        Self(Place::Own(values))
    }
}

impl FromIterator<f32> for Values {
    fn from_iter<Source: IntoIterator<Item = f32>>(values: Source) -> Self {
        Vec::from_iter(values).into()
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(formatter)
    }
}
