//! Where the time of a forecast goes: calls, time, bytes and floating-point operations of each kind of operation.
//!
//! A device that is given a [`Profile`] notes every operation it performs; without one it takes no time.

mod cost;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::dtype::Dtype;

pub(crate) use cost::{Matrix, cost};

/// What operations of one kind and shape took together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What they did, such as `linear`.
    pub operation: &'static str,
    /// On what, in words.
    pub shape: String,
    /// In what numbers they multiplied.
    pub dtype: Dtype,
    /// How many of them.
    pub calls: u64,
    /// Time from their start to their end.
    pub time: Duration,
    /// Bytes they must read and write at least: each value of each operand once.
    pub bytes: u64,
    /// Additions and multiplications of products and of attention; what else there is to compute is not counted.
    pub flops: u64,
}

/// What one operation is and must at least do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) operation: &'static str,
    pub(crate) shape: String,
    pub(crate) dtype: Dtype,
    pub(crate) bytes: u64,
    pub(crate) flops: u64,
}

/// The operations of any number of runs, merged by kind and shape.
#[derive(Debug, Default)]
pub struct Profile(Mutex<BTreeMap<(&'static str, String), Entry>>);

impl Profile {
    /// Everything noted so far, what took longest first.
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self.noted().values().cloned().collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.time));
        entries
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.noted().clear();
    }

    /// Runs an operation and notes it.
    pub(crate) fn time(&self, cost: Cost, operation: impl FnOnce()) {
        let started = Instant::now();
        operation();
        self.note(cost, started.elapsed());
    }

    fn note(&self, cost: Cost, time: Duration) {
        let Cost { operation, shape, dtype, bytes, flops } = cost;
        let mut noted = self.noted();
        let new =
            || Entry { operation, shape: shape.clone(), dtype, calls: 0, time: Duration::ZERO, bytes: 0, flops: 0 };
        let entry = noted.entry((operation, shape.clone())).or_insert_with(new);
        entry.calls += 1;
        entry.time += time;
        entry.bytes += bytes;
        entry.flops += flops;
    }

    fn noted(&self) -> MutexGuard<'_, BTreeMap<(&'static str, String), Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear(shape: &str) -> Cost {
        Cost { operation: "linear", shape: shape.into(), dtype: Dtype::F32, bytes: 10, flops: 7 }
    }

    #[test]
    fn operations_of_one_kind_and_shape_are_merged_and_the_longest_comes_first() {
        let profile = Profile::default();
        profile.note(linear("a"), Duration::from_micros(3));
        profile.note(linear("b"), Duration::from_micros(5));
        profile.note(linear("a"), Duration::from_micros(4));
        let entries = profile.entries();
        assert_eq!(entries.iter().map(|entry| &entry.shape[..]).collect::<Vec<_>>(), ["a", "b"]);
        let Entry { calls, time, bytes, flops, .. } = entries[0];
        assert_eq!((calls, time, bytes, flops), (2, Duration::from_micros(7), 20, 14));
        profile.clear();
        assert!(profile.entries().is_empty());
    }
}
