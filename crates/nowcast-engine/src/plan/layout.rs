//! Which bytes of the arena each tensor takes.

use super::Tensor;

/// Offsets are multiples of this: one cache line, and one AVX-512 register.
pub(super) const ALIGNMENT: usize = 64;

/// A tensor's size and the operations between which it must keep its contents.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lifetime {
    pub(super) bytes: usize,
    pub(super) first: usize,
    pub(super) last: usize,
}

/// Where each tensor lies.
#[derive(Debug, Clone)]
pub(crate) struct Placement {
    offsets: Vec<usize>,
    bytes: usize,
}

impl Placement {
    /// The second tensor of each pair lies where the first does, which stays there as long as either lives. `None` on
    /// overflow.
    pub(super) fn of(lifetimes: &[Lifetime], pairs: &[[Tensor; 2]]) -> Option<Self> {
        let mut alone = lifetimes.to_vec();
        for [host, guest] in pairs.iter().map(|pair| pair.map(|tensor| tensor.index)) {
            let (one, other) = (alone[host], alone[guest]);
            let (first, last) = (one.first.min(other.first), one.last.max(other.last));
            alone[host] = Lifetime { bytes: one.bytes.max(other.bytes), first, last };
            alone[guest].bytes = 0;
        }
        let (mut offsets, bytes) = place(&alone)?;
        pairs.iter().for_each(|[host, guest]| offsets[guest.index] = offsets[host.index]);
        Some(Self { offsets, bytes })
    }

    /// Byte offset of a tensor in the arena.
    pub(crate) fn offset(&self, tensor: Tensor) -> usize {
        self.offsets[tensor.index]
    }

    /// Bytes of the arena.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Lowest free offset for each tensor in order of birth, and the size of the arena. `None` on overflow.
fn place(lifetimes: &[Lifetime]) -> Option<(Vec<usize>, usize)> {
    let mut order: Vec<usize> = (0..lifetimes.len()).collect();
    order.sort_by_key(|&index| lifetimes[index].first);
    let mut offsets = vec![0; lifetimes.len()];
    let mut placed: Vec<(usize, usize, usize)> = Vec::new();
    let mut total = 0usize;
    for index in order {
        let lifetime = lifetimes[index];
        let bytes = lifetime.bytes.checked_next_multiple_of(ALIGNMENT)?;
        placed.retain(|&(_, _, last)| last >= lifetime.first);
        let mut offset = 0usize;
        for &(start, end, _) in &placed {
            if start.saturating_sub(offset) >= bytes && start >= offset {
                break;
            }
            offset = offset.max(end);
        }
        let end = offset.checked_add(bytes)?;
        let at = placed.partition_point(|&(start, _, _)| start < offset);
        placed.insert(at, (offset, end, lifetime.last));
        offsets[index] = offset;
        total = total.max(end);
    }
    Some((offsets, total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extent::Rows;
    use crate::plan::Element;
    use proptest::prelude::*;

    fn tensor(index: usize) -> Tensor {
        Tensor { index, rows: Rows::fixed(1), width: 1, element: Element::F32 }
    }

    proptest! {
        #[test]
        fn a_place_that_two_share_is_theirs_alone(
            shapes in prop::collection::vec((1usize..500, 0usize..20, 0usize..20), 4..40)
        ) {
            let lifetimes: Vec<Lifetime> = shapes
                .iter()
                .map(|&(bytes, first, length)| Lifetime { bytes, first, last: first + length })
                .collect();
            let pairs = [[2, 0], [1, 3]].map(|pair| pair.map(tensor));
            let placement = Placement::of(&lifetimes, &pairs).unwrap();
            let range = |index: usize| {
                let start = placement.offset(tensor(index));
                start..start + lifetimes[index].bytes
            };
            for (i, a) in lifetimes.iter().enumerate() {
                prop_assert!(range(i).end <= placement.bytes());
                for (j, b) in lifetimes.iter().enumerate().skip(i + 1) {
                    let together = a.first <= b.last && b.first <= a.last;
                    let apart = range(i).end <= range(j).start || range(j).end <= range(i).start;
                    let share = pairs.iter().any(|pair| pair.iter().all(|one| one.index == i || one.index == j));
                    prop_assert!(range(i).start == range(j).start || !share);
                    prop_assert!(share || !together || apart);
                }
            }
        }

        #[test]
        fn tensors_that_live_together_never_overlap(
            shapes in prop::collection::vec((0usize..500, 0usize..20, 0usize..20), 1..40)
        ) {
            let lifetimes: Vec<Lifetime> = shapes
                .iter()
                .map(|&(bytes, first, length)| Lifetime { bytes, first, last: first + length })
                .collect();
            let (offsets, total) = place(&lifetimes).unwrap();
            for (i, a) in lifetimes.iter().enumerate() {
                prop_assert!(offsets[i] % ALIGNMENT == 0 && offsets[i] + a.bytes <= total);
                for (j, b) in lifetimes.iter().enumerate().skip(i + 1) {
                    let together = a.first <= b.last && b.first <= a.last;
                    let apart = offsets[i] + a.bytes <= offsets[j] || offsets[j] + b.bytes <= offsets[i];
                    prop_assert!(!together || apart || a.bytes == 0 || b.bytes == 0);
                }
            }
        }
    }

    #[test]
    fn memory_is_shared_between_tensors_of_different_times() {
        let chain: Vec<Lifetime> = (0..100).map(|i| Lifetime { bytes: 1000, first: i, last: i + 1 }).collect();
        assert_eq!(place(&chain).unwrap().1, 2 * 1024);
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        let huge = Lifetime { bytes: usize::MAX - 5, first: 0, last: 1 };
        assert!(place(&[huge]).is_none());
    }
}
