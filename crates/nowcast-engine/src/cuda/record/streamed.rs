//! Few rows that the kernel before leaves as operands of tensor cores, so that a product reads them straight into registers.

use super::Recorder;
use super::fragments::{MOST_STREAMED_ROWS, Streamed};
use crate::cuda::weights::{DeviceLinear, Format};
use crate::error::Result;
use crate::operation::{Linear, Operation};
use crate::plan::Tensor;

impl Recorder<'_> {
    /// Records a product of few rows that were left as operands, or whose results are, and says whether it did.
    pub(super) fn stream_operands(&mut self, op: &Linear, following: &[Operation]) -> Result<bool> {
        let takes = self.operands.take().is_some_and(|index| index == op.input.index);
        let stored = &self.weights.linears[op.weight.index];
        let DeviceLinear::Fragments(matrix) = stored else { return Ok(false) };
        let leaves = matrix.gated
            && matrix.format == Format::Brain
            && op.residual.is_none()
            && op.columns.start == 0
            && self.takes_operands(op.output, following)?;
        if !takes && !leaves {
            return Ok(false);
        }
        let mut argument = self.product(op, stored.weight_address(), matrix)?;
        let rows = if takes { Streamed::Operands } else { Streamed::Values };
        let Some((kernel, shape)) = self.streamed(op, matrix, rows) else { return Ok(false) };
        if takes {
            argument.row_fragments = self.next_fragments;
        }
        if leaves {
            (argument.output, argument.cuts_results) = (self.leave_operands(op.output), 1);
        }
        self.launch("Linear", kernel, shape, argument)?;
        Ok(true)
    }

    /// Whether the operation right behind is a product that reads a tensor of few rows as operands.
    pub(super) fn takes_operands(&self, input: Tensor, following: &[Operation]) -> Result<bool> {
        let Some((op, matrix)) = self.reader_of_operands(input, following) else { return Ok(false) };
        Ok(!matrix.gated
            && (1..=MOST_STREAMED_ROWS).contains(&self.most(input.rows)?)
            && self.streamed(op, matrix, Streamed::Operands).is_some())
    }

    /// Where the launch before [`Self::stream_operands`] leaves a tensor.
    pub(super) fn leave_operands(&mut self, tensor: Tensor) -> u64 {
        self.operands = Some(tensor.index);
        self.next_fragments
    }
}
