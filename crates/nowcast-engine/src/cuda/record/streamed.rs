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
        let can_leave = matrix.gated && op.residual.is_none() && op.columns.start == 0;
        let result_factor =
            if can_leave { self.factor_of_operands(op.output, matrix.format, following)? } else { None };
        if !takes && result_factor.is_none() {
            return Ok(false);
        }
        let mut argument = self.product(op, stored.weight_address(), matrix)?;
        let rows = if takes { Streamed::Operands } else { Streamed::Values };
        let Some((kernel, shape)) = self.streamed(op, matrix, rows) else { return Ok(false) };
        if let Some(factor) = result_factor {
            (argument.output, argument.result_factor) = (self.leave_operands(op.output), factor);
        }
        self.launch("Linear", kernel, shape, argument)?;
        Ok(true)
    }

    /// If the operation right behind is a product in a format that reads a tensor of few rows as operands, what they are
    /// multiplied by before they are cut.
    pub(super) fn factor_of_operands(
        &self,
        input: Tensor,
        format: Format,
        following: &[Operation],
    ) -> Result<Option<f32>> {
        let Some((op, matrix)) = self.reader_of_operands(input, following) else { return Ok(None) };
        let takes = !matrix.gated
            && matrix.format == format
            && (1..=MOST_STREAMED_ROWS).contains(&self.most(input.rows)?)
            && self.streamed(op, matrix, Streamed::Operands).is_some();
        Ok(takes.then(|| self.row_factor(op, format)))
    }

    /// Where the launch before [`Self::stream_operands`] leaves a tensor.
    pub(super) fn leave_operands(&mut self, tensor: Tensor) -> u64 {
        self.operands = Some(tensor.index);
        self.bare_fragments
    }
}
