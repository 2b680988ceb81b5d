//! Which bytes of the arena each tensor takes.

/// Offsets are multiples of this: one cache line, and one AVX-512 register.
pub(super) const ALIGNMENT: usize = 64;

/// A tensor's size and the operations between which it must keep its contents.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lifetime {
    pub(super) bytes: usize,
    pub(super) first: usize,
    pub(super) last: usize,
}

/// Lowest free offset for each tensor in order of birth, and the size of the arena. `None` on overflow.
pub(super) fn place(lifetimes: &[Lifetime]) -> Option<(Vec<usize>, usize)> {
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
    use proptest::prelude::*;

    proptest! {
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
