//! Keys and values of one forecast: the context once per series, the future once per path.
//!
//! The write head is data: the planner knows it as [`Live::context`] plus a decode step, and a device keeps
//! the same number as a scalar its kernels read. It never becomes part of a plan.
//!
//! [`Live::context`]: crate::extent::Live

use crate::extent::Rows;
use crate::plan::{PlanBuilder, Tensor};

/// Shape of the caches of all attention layers of a model.
#[derive(Debug, Clone, Copy)]
pub struct CacheShape {
    /// Number of series.
    pub series: Rows,
    /// Number of heads.
    pub heads: usize,
    /// Components of one head.
    pub head_dim: usize,
    /// Tokens of the context.
    pub context: Rows,
    /// Own tokens of a path that the cache has room for.
    pub steps: usize,
}

/// The cache of one attention layer.
#[derive(Debug, Clone, Copy)]
pub struct LayerCache {
    /// Shape of all caches.
    pub shape: CacheShape,
    /// Keys of the context, transposed: `[series, heads, head_dim, capacity]`.
    pub context_keys: Tensor,
    /// Values of the context: `[series, heads, capacity, head_dim]`.
    pub context_values: Tensor,
    /// Keys and values of the steps, `[series, samples, heads, steps, head_dim]` each.
    pub suffix: Option<(Tensor, Tensor)>,
}

impl LayerCache {
    /// Reserves the cache of one layer.
    pub fn new(plan: &mut PlanBuilder, shape: CacheShape) -> Self {
        // Too large a product becomes a tensor that no plan can hold.
        let capacity = shape.context.checked_count(plan.capacity()).unwrap_or(usize::MAX);
        let row = shape.heads * shape.head_dim;
        let context = row.saturating_mul(capacity);
        let context_keys = plan.tensor(shape.series, context);
        let context_values = plan.tensor(shape.series, context);
        let suffix = (shape.steps > 0).then(|| {
            let paths = shape.series.times_samples();
            let own = row.saturating_mul(shape.steps);
            (plan.tensor(paths, own), plan.tensor(paths, own))
        });
        Self { shape, context_keys, context_values, suffix }
    }

    /// The same memory with another number of context tokens in it, at most as many as there is room for.
    #[must_use]
    pub fn with_context(self, context: Rows) -> Self {
        Self { shape: CacheShape { context, ..self.shape }, ..self }
    }

    /// The same own tokens behind another context, which has memory of its own.
    #[must_use]
    pub fn beside(self, plan: &mut PlanBuilder, context: Rows) -> Self {
        let other = Self::new(plan, CacheShape { context, steps: 0, ..self.shape });
        Self { shape: CacheShape { context, ..self.shape }, suffix: self.suffix, ..other }
    }

    /// The tensors it is made of.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor> {
        let suffix = self.suffix.into_iter().flat_map(|(keys, values)| [keys, values]);
        [self.context_keys, self.context_values].into_iter().chain(suffix)
    }

    /// Tokens of context there is room for.
    pub fn capacity(&self) -> usize {
        self.context_keys.width / (self.shape.heads * self.shape.head_dim)
    }
}
