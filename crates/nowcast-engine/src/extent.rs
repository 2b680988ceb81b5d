//! How large a tensor is: a capacity fixed in the plan, and a live part that is data.

/// How much of a plan's capacity one run uses: the host mirror of the device's scalars.
///
/// Changing it never needs a new plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Live {
    /// Independent items that run together.
    pub batch: usize,
    /// Context patches (or tokens) of every item.
    pub context: usize,
    /// Sample paths of every item.
    pub samples: usize,
}

/// A number of rows as a product of a fixed factor and of live extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    fixed: usize,
    batch: bool,
    samples: bool,
    context: Option<usize>,
}

impl Rows {
    /// A number that never changes.
    pub const fn fixed(count: usize) -> Self {
        Self { fixed: count, batch: false, samples: false, context: None }
    }

    /// One for each live item.
    pub const fn batch() -> Self {
        Self { batch: true, ..Self::fixed(1) }
    }

    /// Times a fixed factor.
    #[must_use]
    pub const fn times(self, factor: usize) -> Self {
        Self { fixed: self.fixed * factor, ..self }
    }

    /// Times the live items.
    #[must_use]
    pub const fn times_batch(self) -> Self {
        Self { batch: true, ..self }
    }

    /// Times the live samples.
    #[must_use]
    pub const fn times_samples(self) -> Self {
        Self { samples: true, ..self }
    }

    /// Times the live context plus `extra` prepended tokens.
    #[must_use]
    pub const fn times_context(self, extra: usize) -> Self {
        Self { context: Some(extra), ..self }
    }

    /// A number of context tokens with `more` after them (or a fixed number, and more).
    ///
    /// # Panics
    /// If the rows are counted by item or sample: then there is no one place for more.
    #[must_use]
    pub const fn plus(self, more: usize) -> Self {
        assert!(!self.batch && !self.samples, "more of what?");
        match self.context {
            Some(extra) => Self { context: Some(extra + more), ..self },
            None => Self { fixed: self.fixed + more, ..self },
        }
    }

    /// Fixed factor, whether items and samples count, and the prepended tokens where the context counts.
    pub(crate) const fn parts(self) -> (usize, bool, bool, Option<usize>) {
        (self.fixed, self.batch, self.samples, self.context)
    }

    /// Whether the number depends on the live samples.
    pub(crate) const fn counts_samples(self) -> bool {
        self.samples
    }

    /// How many rows are live.
    pub const fn count(self, live: Live) -> usize {
        let batch = if self.batch { live.batch } else { 1 };
        let samples = if self.samples { live.samples } else { 1 };
        let context = match self.context {
            Some(extra) => live.context + extra,
            None => 1,
        };
        self.fixed * batch * samples * context
    }

    /// The same product with overflow checked: the rows of a plan of this capacity.
    pub fn checked_count(self, capacity: Live) -> Option<usize> {
        let context = match self.context {
            Some(extra) => capacity.context.checked_add(extra)?,
            None => 1,
        };
        self.fixed
            .checked_mul(if self.batch { capacity.batch } else { 1 })?
            .checked_mul(if self.samples { capacity.samples } else { 1 })?
            .checked_mul(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_product_of_their_live_extents() {
        let live = Live { batch: 3, context: 8, samples: 5 };
        assert_eq!(Rows::fixed(7).count(live), 7);
        assert_eq!(Rows::batch().times(2).times_context(1).count(live), 3 * 2 * 9);
        assert_eq!(Rows::batch().times_samples().count(live), 15);
    }

    #[test]
    fn overflow_is_seen() {
        let live = Live { batch: usize::MAX, context: 2, samples: 1 };
        assert_eq!(Rows::batch().times_context(0).checked_count(live), None);
    }
}
