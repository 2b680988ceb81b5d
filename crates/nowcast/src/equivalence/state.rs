//! What a plan keeps, and the rows of its KV caches that hold live tokens.

use nowcast_engine::extent::Live;
use nowcast_engine::kv_cache::LayerCache;
use nowcast_engine::plan::Tensor;

use super::Worst;
use crate::forecaster::plans::{Planned, Ready};

/// A plan that has run.
pub(super) struct Ran<M: Planned> {
    pub(super) ready: Ready<M>,
    pub(super) live: Live,
}

impl<M: Planned> Ran<M> {
    /// The live rows of a tensor that the plan keeps.
    pub(super) fn read(&mut self, tensor: Tensor) -> Vec<f64> {
        let mut values = vec![0.0; tensor.rows.count(self.live) * tensor.width];
        self.ready.executable.read(tensor, &mut values);
        values
    }

    /// Keys and values of one part of a layer's cache, `[series, ...]`, live tokens only.
    fn rows(&mut self, cache: &LayerCache, part: Part) -> [Vec<f64>; 2] {
        let shape = cache.shape;
        let tokens = shape.context.count(self.live);
        match (part, cache.suffix) {
            (Part::Suffix, None) => [Vec::new(), Vec::new()],
            (Part::Suffix, Some((keys, values))) => [self.read(keys), self.read(values)],
            (Part::Context, _) => {
                let [keys, values] = [cache.context_keys, cache.context_values].map(|tensor| self.read(tensor));
                // Keys stand `[head_dim, capacity]`, values `[capacity, head_dim]`.
                let capacity = cache.capacity();
                [
                    live_part(&keys, capacity, tokens),
                    live_part(&values, capacity * shape.head_dim, tokens * shape.head_dim),
                ]
            }
        }
    }
}

/// The first `live` of every `width` values.
fn live_part(values: &[f64], width: usize, live: usize) -> Vec<f64> {
    values.chunks(width.max(1)).flat_map(|row| &row[..live]).copied().collect()
}

/// Parts of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The context, once per series.
    Context,
    /// Each path's own tokens.
    Suffix,
}

/// Which items of a batch a comparison is about.
#[derive(Debug, Clone)]
pub(super) struct Items(pub(super) Vec<bool>);

impl Items {
    /// All of a batch.
    pub(super) fn all(batch: usize) -> Self {
        Self(vec![true; batch])
    }

    pub(super) fn none(&self) -> bool {
        !self.0.contains(&true)
    }

    /// The values that belong to these items of a tensor `[items, ...]`.
    fn of<'a>(&self, values: &'a [f64]) -> impl Iterator<Item = &'a [f64]> {
        let width = (values.len() / self.0.len()).max(1);
        values.chunks(width).zip(self.0.clone()).filter(|(_, taken)| *taken).map(|(values, _)| values)
    }

    /// The largest difference of two tensors in units of the baseline's largest value.
    pub(super) fn relative_error(&self, ours: &[f64], baseline: &[f64]) -> f64 {
        self.error_in_units(ours, baseline, 0.0)
    }

    /// The largest difference of two tensors of few values, in units of the baseline's largest value or of `least`: what
    /// is near zero by chance is no scale.
    pub(super) fn error_in_units(&self, ours: &[f64], baseline: &[f64], least: f64) -> f64 {
        assert_eq!(ours.len(), baseline.len(), "compared tensors have one shape");
        let (mut error, mut largest) = (0.0f64, least);
        for (ours, baseline) in self.of(ours).zip(self.of(baseline)) {
            for (ours, baseline) in ours.iter().zip(baseline) {
                let difference = (ours - baseline).abs();
                // Not `f64::max`, which would lose a NaN.
                error = if difference.is_nan() || difference > error { difference } else { error };
                if error.is_nan() {
                    return error;
                }
                largest = largest.max(baseline.abs());
            }
        }
        if error == 0.0 { 0.0 } else { error / largest }
    }
}

/// The largest error of keys and values over all layers.
pub(super) fn cache_error<M: Planned>(
    part: Part,
    items: &Items,
    (ours, our_caches): (&mut Ran<M>, &[LayerCache]),
    (baseline, baseline_caches): (&mut Ran<M>, &[LayerCache]),
) -> Worst {
    let mut worst = Worst::default();
    for (layer, (our_cache, baseline_cache)) in our_caches.iter().zip(baseline_caches).enumerate() {
        let rows = ours.rows(our_cache, part).into_iter().zip(baseline.rows(baseline_cache, part));
        for (kind, (ours, baseline)) in ["keys", "values"].into_iter().zip(rows) {
            worst.include(items.relative_error(&ours, &baseline), || format!("{kind} of attention {}", layer + 1));
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_live_tokens_are_compared() {
        assert_eq!(live_part(&[1.0, 2.0, f64::NAN, 3.0, 4.0, f64::NAN], 3, 2), [1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn errors_are_in_units_of_the_largest_value_of_the_items_asked_for() {
        let items = Items(vec![true, false]);
        assert_eq!(items.relative_error(&[4.5, 0.0, 7.0, 7.0], &[4.0, 0.0, 100.0, 9.0]), 0.125);
        assert!(Items::all(2).relative_error(&[1.0, f64::NAN], &[1.0, 1.0]).is_nan());
        assert_eq!(Items::all(1).relative_error(&[0.0], &[0.0]), 0.0);
        assert_eq!(Items::all(1).relative_error(&[1e-30], &[0.0]), f64::INFINITY);
        assert_eq!(Items::all(1).error_in_units(&[0.25], &[0.125], 1.0), 0.125);
    }
}
