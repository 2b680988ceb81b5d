//! Two products of which the first cuts its results for the second, so that nobody reads them in between.

use super::fragments::MOST_STREAMED_ROWS;
use super::{Recorder, Section};
use crate::cuda::weights::{DeviceLinear, Format, LINK};
use crate::error::Result;
use crate::operation::{Linear, Operation};
use crate::plan::Tensor;

impl Recorder<'_> {
    /// Records a gated product together with the one behind it, if both suit, and says whether it did. Values that become
    /// bf16 need no power of two, so that a tile can cut them without the rest of their row; no digit changes.
    pub(super) fn linear_pair(&mut self, op: &Linear, following: &[Operation]) -> Result<bool> {
        let weights = self.weights;
        let Some(Operation::Linear(next)) = following.first() else { return Ok(false) };
        let (stored, stored_next) = (&weights.linears[op.weight.index], &weights.linears[next.weight.index]);
        let (DeviceLinear::Fragments(matrix), DeviceLinear::Fragments(next_matrix)) = (stored, stored_next) else {
            return Ok(false);
        };
        let most = self.most(op.input.rows)?;
        let suits = matrix.gated
            && [matrix.format, next_matrix.format] == [Format::Brain; 2]
            && op.residual.is_none()
            && op.columns == (0..next_matrix.inputs)
            && next_matrix.inputs % LINK == 0
            && next.norm_epsilon.is_none()
            && !next.columns.is_empty()
            && most > MOST_STREAMED_ROWS
            // Checks look at what stands in the plan's memory.
            && !weights.settings.checked
            && self.is_only_passed_on(op.output);
        if !suits {
            return Ok(false);
        }
        let mut first = self.blocked(op, stored.weight_address(), matrix, most)?;
        let mut second = self.blocked(next, stored_next.weight_address(), next_matrix, most)?;
        let (tile, next_tile) = (self.tile(&first)?, self.tile(&second)?);
        if !tile.writes_operands() || !next_tile.grouped {
            return Ok(false);
        }
        (first.argument.output, first.argument.cuts_results) = (self.next_fragments, 1);
        second.argument.row_fragments = self.next_fragments;
        second.argument.row_scale = 0;
        self.cut(&first, tile)?;
        self.multiply(&first, tile)?;
        self.multiply(&second, next_tile)?;
        Ok(true)
    }

    /// Whether everybody who touches a tensor is a product that writes it or the product right behind that reads it.
    fn is_only_passed_on(&self, tensor: Tensor) -> bool {
        let is_kept = self.plan.kept().iter().any(|kept| kept.index == tensor.index);
        let sections = [Section::Prefill, Section::Decode].map(|section| self.plan.operations(section));
        !is_kept
            && sections.iter().all(|operations| {
                let passes = |place: usize| operations.get(place..place + 2).is_some_and(|pair| passes(pair, tensor));
                (0..operations.len()).all(|place| {
                    let mut touches = false;
                    operations[place].each_tensor(&mut |other| touches |= other.index == tensor.index);
                    !touches || passes(place) || place > 0 && passes(place - 1)
                })
            })
    }
}

/// Whether the first of two operations writes a tensor that the second reads as its rows, and neither touches it otherwise.
fn passes(pair: &[Operation], tensor: Tensor) -> bool {
    let [Operation::Linear(first), Operation::Linear(second)] = pair else { return false };
    let is = |other: Tensor| other.index == tensor.index;
    is(first.output)
        && is(second.input)
        && !is(first.input)
        && !is(second.output)
        && ![first.residual, second.residual].into_iter().flatten().any(is)
}
