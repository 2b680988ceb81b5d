//! Own keys and values of paths beside products of bf16: both of a component in one word, where its key would be.

use super::attention_chunks::is_narrow;
use super::uses::Uses;
use crate::cuda::device::{CudaWeights, Settings};
use crate::cuda::weights::{DeviceLinear, Format};
use crate::error::Result;
use crate::kv_cache::LayerCache;
use crate::operation::{CachePart, Operation};
use crate::plan::{Placement, Plan, Section, Tensor};

/// Whose own tokens are as own_tokens.cuh has them.
#[derive(Debug)]
pub(in crate::cuda) struct PackedOwn {
    /// Keys, where the words are, and values, which nobody writes.
    suffixes: Vec<[Tensor; 2]>,
}

/// Half of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cuda) enum Half {
    Key,
    Value,
}

impl Half {
    pub(in crate::cuda) fn of(self, word: u32) -> f32 {
        f32::from_bits(if self == Self::Key { word << 16 } else { word & 0xffff_0000 })
    }
}

impl PackedOwn {
    /// Those whose tokens all come from products of bf16, asked by attention beside narrow products alone: that in f32 knows
    /// no words.
    pub(in crate::cuda) fn of(weights: &CudaWeights, plan: &Plan, uses: &Uses) -> Self {
        let mut found: Vec<([Tensor; 2], bool)> = Vec::new();
        let is_kept = |tensor: Tensor| plan.kept().iter().any(|kept| kept.index == tensor.index);
        let sections = [Section::Prefill, Section::Decode];
        for operation in sections.iter().flat_map(|&section| plan.operations(section)) {
            let (cache, suits) = match operation {
                Operation::AppendCache(op) if op.part != CachePart::Context => {
                    (op.cache, is_made_in_bf16(weights, uses, op.input))
                }
                Operation::AttendPaths(op) => (op.cache, is_narrow(weights, uses, op.query, op.output)),
                _ => continue,
            };
            let Some((keys, values)) = cache.suffix else { continue };
            // The host reads values where keys are.
            let suits = suits && (is_kept(keys) || !is_kept(values));
            match found.iter_mut().find(|(suffix, _)| suffix[0].index == keys.index) {
                Some((_, all_suit)) => *all_suit &= suits,
                None => found.push(([keys, values], suits && !weights.settings.exact)),
            }
        }
        Self { suffixes: found.into_iter().filter_map(|(suffix, all_suit)| all_suit.then_some(suffix)).collect() }
    }

    /// Where the plan's tensors lie: values take no memory of their own, but where checks look at every tensor by itself.
    pub(in crate::cuda) fn placement(&self, settings: Settings, plan: &Plan) -> Result<Placement> {
        plan.placement_sharing(if settings.checked { &[] } else { &self.suffixes })
    }

    pub(super) fn has(&self, cache: &LayerCache) -> bool {
        cache.suffix.is_some_and(|(keys, _)| self.half_of(keys).is_some())
    }

    /// Whether a pass appends keys and values of the same rows to such a cache, so that their queries are rounded too.
    pub(super) fn has_rows(&self, uses: &Uses, queries: Tensor) -> bool {
        uses.operations(queries).any(|operation| match operation {
            Operation::AppendCache(op) => {
                op.part != CachePart::Context && op.input.index == queries.index && self.has(&op.cache)
            }
            _ => false,
        })
    }

    /// The tensor that has a tensor's values, and in which half of its words.
    pub(in crate::cuda) fn half_of(&self, tensor: Tensor) -> Option<(Tensor, Half)> {
        self.suffixes.iter().find_map(|&[keys, values]| match tensor.index {
            index if index == keys.index => Some((keys, Half::Key)),
            index if index == values.index => Some((keys, Half::Value)),
            _ => None,
        })
    }
}

/// Whether products of bf16, and no others, make a tensor.
fn is_made_in_bf16(weights: &CudaWeights, uses: &Uses, tensor: Tensor) -> bool {
    let mut products = uses.operations(tensor).filter_map(|operation| match operation {
        Operation::Linear(op) if op.output.index == tensor.index => Some(&weights.linears[op.weight.index]),
        _ => None,
    });
    let is_bf16 =
        |linear: &DeviceLinear| matches!(linear, DeviceLinear::Fragments(matrix) if matrix.format == Format::Brain);
    products.next().is_some_and(is_bf16) && products.all(is_bf16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_lower_half() {
        let word = 0xc000_3f80;
        assert_eq!([Half::Key, Half::Value].map(|half| half.of(word)), [1.0, -2.0]);
    }
}
