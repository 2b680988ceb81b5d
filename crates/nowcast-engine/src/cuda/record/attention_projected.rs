//! Projections and the attention of a few tokens over themselves, in one launch.

use super::fragments::{MOST_STREAMED_ROWS, STREAM_THREADS, SUM_BYTES, Streamed, stream_bytes};
use super::rotary::interleaved;
use super::{Recorder, Shape, int, rows};
use crate::cuda::argument::{Argument, KernelRows, argument};
use crate::cuda::kernel::Kernel;
use crate::cuda::weights::{BAND, DeviceLinear, Format};
use crate::error::Result;
use crate::operation::{AppendCache, AttendContext, Linear, Operation};

argument! {
    /// `ProjectedAttention` in attention_projected.cuh.
    ProjectedAttentionArgument {
        projection: Argument, table: u64, keys: u64, values: u64, output: u64, tokens: KernelRows, heads: i32,
        capacity: i32,
    }
}

/// Bands of a head, one for each block of its cluster; `HEAD_BANDS` in attention_projected.cuh.
const HEAD_BANDS: usize = 8;
/// Queries, keys and values.
const KINDS: usize = 3;
/// Shared memory for what blocks project and tell each other, `HeadAttention::WORDS` there.
const OWN_BYTES: usize = (KINDS + HEAD_BANDS) * SUM_BYTES;

impl Recorder<'_> {
    /// Records a product together with the three operations behind it, if they are the attention of a few tokens over
    /// themselves and nobody else asks for the projections; whether it did.
    pub(super) fn project_and_attend(&mut self, op: &Linear, following: &[Operation]) -> Result<bool> {
        let [
            Operation::AppendCache(append),
            Operation::RotateQuery(queries),
            Operation::AttendContext(attend),
            rest @ ..,
        ] = following
        else {
            return Ok(false);
        };
        let DeviceLinear::Fragments(matrix) = &self.weights.linears[op.weight.index] else { return Ok(false) };
        let is_fresh = op.output == append.input
            && Self::rotates_with(append, queries)
            && self.attends_fresh(append, queries, attend)
            && !self.overlap(queries.table, attend.output)?
            && !self.overlap(op.input, attend.output)?
            && self.is_last_use(append.input, rest);
        let shared_bytes = stream_bytes(matrix, KINDS, Streamed::Values) + OWN_BYTES;
        let fits = self.most(op.input.rows)? <= MOST_STREAMED_ROWS
            && self.weights.machine.has_clusters()
            && shared_bytes <= self.weights.machine.most_shared_bytes();
        if !is_fresh || !fits || !is_plain(op, append, attend) {
            return Ok(false);
        }
        let (cache, rotation) = (&attend.cache, append.rotation.expect("keys that rotate with their queries"));
        let heads = cache.shape.heads;
        let mut projection = self.product(op, self.weights.linears[op.weight.index].weight_address(), matrix)?;
        let mut output = self.at(attend.output);
        if let Some(factor) = self.factor_of_operands(attend.output, matrix.format, rest)? {
            (output, projection.result_factor) = (self.leave_operands(attend.output), factor);
        }
        let argument = ProjectedAttentionArgument {
            projection: projection.into(),
            table: self.at(rotation.table),
            keys: self.at(cache.context_keys),
            values: self.at(cache.context_values),
            output,
            tokens: rows(cache.shape.context)?,
            heads: int(heads)?,
            capacity: int(cache.capacity())?,
        };
        // All blocks of a cluster would wait for two that share a multiprocessor. Narrow weights leave room for a block of the
        // gated product behind instead, which would be missed more.
        let lone = self.weights.machine.spread_shared_bytes(1);
        let shared_bytes = if matrix.format == Format::Split { shared_bytes.max(lone) } else { shared_bytes };
        let shape = Shape { grid: [heads * HEAD_BANDS, 1, 1], threads: STREAM_THREADS, shared_bytes };
        self.launch("Linear and AttendContext", Kernel::ProjectAndAttend(matrix.format), shape, argument)?;
        Ok(true)
    }
}

/// Whether queries, keys and values stand in this order and fill the columns, and heads have eight bands whose pairs are
/// neighbours.
fn is_plain(op: &Linear, append: &AppendCache, attend: &AttendContext) -> bool {
    let shape = attend.cache.shape;
    let width = shape.heads * shape.head_dim;
    let columns = [attend.query_column, append.key_column, append.value_column, op.columns.len()];
    shape.head_dim == HEAD_BANDS * BAND
        && op.columns.start == 0
        && columns == [0, width, 2 * width, KINDS * width]
        && attend.output.width == width
        && op.residual.is_none()
        && append.rotation.is_some_and(|rotation| interleaved(&rotation.rotary) == 1)
}
