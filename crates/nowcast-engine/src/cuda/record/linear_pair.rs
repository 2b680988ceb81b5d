//! Products whose rows are cut by the kernel that makes them, so that nobody reads them in between.

use super::fragments::{Blocked, Handed, MOST_STREAMED_ROWS};
use super::tile::Tile;
use super::{Recorder, Section};
use crate::cuda::weights::{DeviceLinear, Format, Fragments, LINK};
use crate::error::Result;
use crate::operation::{Linear, Operation};
use crate::plan::Tensor;

impl<'a> Recorder<'a> {
    /// Records a gated product together with the one behind it, if both suit, and says whether it did.
    pub(super) fn linear_pair(&mut self, op: &Linear, following: &[Operation]) -> Result<bool> {
        let stored = &self.weights.linears[op.weight.index];
        let DeviceLinear::Fragments(matrix) = stored else { return Ok(false) };
        let most = self.most(op.input.rows)?;
        if !matrix.gated || op.residual.is_some() || op.columns.start != 0 {
            return Ok(false);
        }
        let Some((second, next_tile)) = self.product_of_operands(op.output, following)? else { return Ok(false) };
        // A kernel cuts for its own format.
        if second.format != matrix.format {
            return Ok(false);
        }
        let mut first = self.blocked(op, stored.weight_address(), matrix, most)?;
        let tile = self.tile(&first, Handed::Results, |recorder, product, tile| {
            recorder.cut(product, tile)?;
            if tile.grouped { Ok(()) } else { recorder.cut(&second, next_tile) }
        })?;
        if !tile.grouped {
            return Ok(false);
        }
        (first.argument.output, first.argument.result_factor) = (self.bare_fragments, second.argument.row_factor);
        self.cut(&first, tile)?;
        self.multiply(&first, tile)?;
        self.multiply(&second, next_tile)?;
        Ok(true)
    }

    /// Records the product that makes queries, keys and values of paths together with their attention, if that takes them
    /// cut and nobody else asks for them; how many operations that were.
    pub(super) fn project_paths(&mut self, op: &Linear, following: &[Operation]) -> Result<Option<usize>> {
        let [
            Operation::AppendCache(append),
            Operation::RotateQuery(queries),
            Operation::AttendPaths(attend),
            rest @ ..,
        ] = following
        else {
            return Ok(None);
        };
        let stored = &self.weights.linears[op.weight.index];
        let DeviceLinear::Fragments(matrix) = stored else { return Ok(None) };
        let most = self.most(op.input.rows)?;
        let suits = matrix.format == Format::Brain
            && !matrix.gated
            && op.residual.is_none()
            && op.columns == (0..op.output.width)
            && op.output.width.is_multiple_of(LINK)
            && op.output == append.input
            && most > MOST_STREAMED_ROWS
            // Checks look at what stands in the plan's memory.
            && !self.weights.settings.checked
            && !self.is_kept(op.output)
            && Self::rotates_with(append, queries)
            && self.attends_newest(append, queries, attend)?
            && self.attends_cut(append, attend, rest)?;
        if !suits {
            return Ok(None);
        }
        let mut product = self.blocked(op, stored.weight_address(), matrix, most)?;
        let tile = self.tile(&product, Handed::Nothing, |recorder, product, tile| recorder.cut(product, tile))?;
        // Tiles whose links are shared out do not cut what they have multiplied.
        if !tile.grouped || tile.sharers.is_some() {
            return Ok(None);
        }
        product.argument.result_factor = 1.0;
        self.cut(&product, tile)?;
        self.multiply(&product, tile)?;
        Ok(Some(3 + self.attend_cut(append, attend, rest)?))
    }

    /// The product of many rows behind whatever writes them, and its tile, if it can read them at `bare_fragments`, cut by
    /// their writer.
    pub(super) fn product_of_operands(
        &mut self,
        input: Tensor,
        following: &[Operation],
    ) -> Result<Option<(Blocked, &'static Tile)>> {
        let Some((op, matrix)) = self.reader_of_operands(input, following) else { return Ok(None) };
        let most = self.most(input.rows)?;
        if most <= MOST_STREAMED_ROWS {
            return Ok(None);
        }
        let address = self.weights.linears[op.weight.index].weight_address();
        let mut product = self.blocked(op, address, matrix, most)?;
        let cut_apart = |recorder: &mut Self, product: &Blocked, tile: &Tile| {
            if tile.grouped { Ok(()) } else { recorder.cut(product, tile) }
        };
        let tile = self.tile(&product, Handed::Rows, cut_apart)?;
        product.argument.row_scale = 0;
        Ok(tile.grouped.then_some((product, tile)))
    }

    /// The product right behind whatever writes a tensor, if it can take its rows as operands, and nobody else asks for
    /// them. Their power of two is known before, so that they can be cut without the rest of their row; no digit changes.
    pub(super) fn reader_of_operands<'b>(
        &self,
        input: Tensor,
        following: &'b [Operation],
    ) -> Option<(&'b Linear, &'a Fragments)> {
        let Some(Operation::Linear(op)) = following.first() else { return None };
        let DeviceLinear::Fragments(matrix) = &self.weights.linears[op.weight.index] else { return None };
        let suits = self.row_factor(op, matrix.format) != 0.0
            && op.input.index == input.index
            && matrix.inputs == input.width
            && matrix.inputs.is_multiple_of(LINK)
            && op.norm_epsilon.is_none()
            && !op.columns.is_empty()
            // Checks look at what stands in the plan's memory.
            && !self.weights.settings.checked
            && self.is_only_passed_on(input);
        suits.then_some((op, matrix))
    }

    /// Whether everybody who touches a tensor is an operation that writes it or the product right behind that reads it.
    fn is_only_passed_on(&self, tensor: Tensor) -> bool {
        let passes = |&(section, place): &(Section, usize)| {
            let operations = self.plan.operations(section);
            let from = |first: usize| operations.get(first..first + 2).is_some_and(|pair| passes(pair, tensor));
            from(place) || place > 0 && from(place - 1)
        };
        !self.is_kept(tensor) && self.uses.places(tensor).iter().all(passes)
    }
}

/// Whether the first of two operations writes a tensor that the second, a product, reads as its rows, and neither touches
/// it otherwise.
fn passes(pair: &[Operation], tensor: Tensor) -> bool {
    let [first, Operation::Linear(second)] = pair else { return false };
    let is = |other: Tensor| other.index == tensor.index;
    let writes = match first {
        Operation::Linear(op) => is(op.output) && !is(op.input) && !op.residual.is_some_and(is),
        Operation::AttendContext(op) => is(op.output) && !is(op.query),
        Operation::AttendPaths(op) => is(op.output) && !is(op.query),
        _ => false,
    };
    writes && is(second.input) && !is(second.output) && !second.residual.is_some_and(is)
}
