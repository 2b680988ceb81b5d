//! Which kernel goes through the keys in chunks; all of them give the same digits.

use super::Shape;
use super::uses::Uses;
use crate::cuda::device::CudaWeights;
use crate::cuda::kernel::Kernel;
use crate::cuda::machine::Machine;
use crate::cuda::weights::{DeviceLinear, Format, LINK};
use crate::operation::Operation;
use crate::plan::Tensor;

/// Keys of a chunk, `CHUNK` in attention_chunks.cuh.
pub(super) const CHUNK: usize = 64;
/// Threads that share a chunk there, and rows of a tile.
pub(super) const CHUNK_THREADS: usize = 32 * CHUNK_WARPS;
pub(super) const TILE_ROWS: usize = 16;
/// Components of a group there; a row of results has a few more.
pub(super) const GROUP: usize = 64;
const SHARE: usize = 16;
/// Warps of a chunk, and steps of its keys.
pub(super) const CHUNK_WARPS: usize = 4;
pub(super) const CHUNK_STEPS: usize = 4;
/// Bytes of a tile at one step, in f16.
pub(super) const STEP_BYTES: usize = 512;

/// How much one launch has to attend to.
pub(super) struct ChunkedExtent {
    pub(super) head_dim: usize,
    pub(super) heads: usize,
    pub(super) series: usize,
    /// Queries of a series.
    pub(super) rows: usize,
    pub(super) chunks: usize,
    /// Whether it stands beside products that round their rows to f16 or bf16.
    pub(super) is_narrow: bool,
}

/// A kernel of attention_kernels.cuh.
struct ChunkedKernel {
    /// In f32, and beside narrower products.
    kernels: [Kernel; 2],
    /// Most components of a head.
    components: usize,
    tiles: usize,
    /// Chunks that a block goes through at once.
    sharers: usize,
    /// Blocks of a cluster that share the chunks.
    blocks: usize,
}

macro_rules! chunked_kernels {
    ($($kernel:ident $half:ident: $components:literal, $tiles:literal, $sharers:literal, $blocks:literal;)*) => {
        &[$(ChunkedKernel {
            kernels: [Kernel::$kernel, Kernel::$half],
            components: $components,
            tiles: $tiles,
            sharers: $sharers,
            blocks: $blocks,
        }),*]
    };
}

/// Tiles of a block whose answers find registers beside a chunk, and such blocks on a multiprocessor.
const FEW_TILES: usize = 2;
const BLOCKS_AT_ONCE: usize = 4;
/// Blocks that share the chunks of a few rows.
const FEW_BLOCKS: usize = 4;

/// The first that suits is taken.
const KERNELS: &[ChunkedKernel] = chunked_kernels! {
    AttendFew64 HalfAttendFew64: 64, 1, 2, 4;
    Attend64By4 HalfAttend64By4: 64, 2, 4, 1;
    Attend64By2 HalfAttend64By2: 64, 2, 2, 1;
    Attend64Whole HalfAttend64Whole: 64, 3, 1, 1;
    Attend64By1 HalfAttend64By1: 64, 2, 1, 1;
    AttendFew128 HalfAttendFew128: 128, 1, 2, 4;
    AttendPair128 HalfAttendPair128: 128, 1, 2, 2;
    Attend128By2 HalfAttend128By2: 128, 1, 2, 1;
    AttendFew256 HalfAttendFew256: 256, 1, 2, 4;
    AttendPair256 HalfAttendPair256: 256, 1, 2, 2;
    Attend256By2 HalfAttend256By2: 256, 1, 2, 1;
};

impl ChunkedKernel {
    fn grid(&self, extent: &ChunkedExtent) -> [usize; 3] {
        let cluster = self.blocks + usize::from(self.has_own_block());
        [extent.rows.div_ceil(self.tiles * TILE_ROWS) * cluster, extent.heads, extent.series]
    }

    /// Whether one block more goes through own keys.
    fn has_own_block(&self) -> bool {
        self.blocks == FEW_BLOCKS
    }

    fn blocks(&self, extent: &ChunkedExtent) -> usize {
        self.grid(extent).iter().product()
    }

    /// As many chunks at once as there are, but no more than keep the GPU busy; more rows for each block where there are too
    /// many of them.
    fn suits(&self, extent: &ChunkedExtent, multiprocessors: usize) -> bool {
        let blocks = self.blocks(extent);
        match (self.blocks, self.sharers) {
            // A context of one chunk, and more blocks of fewer rows than find room at once.
            (1, 1) if self.tiles > FEW_TILES => {
                let smaller = Self { tiles: FEW_TILES, ..*self };
                extent.chunks == 1 && smaller.blocks(extent) > BLOCKS_AT_ONCE * multiprocessors
            }
            (1, 4) => blocks <= multiprocessors,
            // Two such blocks find room on a multiprocessor.
            (1, 2) if self.components == 64 => extent.chunks > 1 && blocks <= 2 * multiprocessors,
            (1, _) => true,
            // A cluster of five finds room on neighbouring multiprocessors alone, of which there are some sixteen.
            (FEW_BLOCKS, _) => extent.chunks > 2 && blocks <= multiprocessors / 4 * 3,
            _ => extent.chunks > 2 && blocks <= multiprocessors,
        }
    }

    /// Shared memory, as the constructor of `ChunkAttention` in attention_chunks.cuh divides it.
    fn shared_bytes(&self, head_dim: usize, format: usize) -> usize {
        let step_bytes = if format == 0 { 2 * STEP_BYTES } else { STEP_BYTES };
        let (rows, steps) = (self.tiles * TILE_ROWS, head_dim.div_ceil(LINK) * LINK / 16);
        let stride = head_dim.div_ceil(GROUP).next_power_of_two() * GROUP + SHARE;
        // Where the result of an own chunk is put by.
        let own = if self.has_own_block() { stride } else { 0 };
        // Of a row: its scale; of every sharer a result, the largest scores and sums of four warps and the largest of all.
        let row_words = 1 + own + self.sharers * (stride + 2 * CHUNK_WARPS + 1);
        self.tiles * (steps + self.sharers * CHUNK_STEPS) * step_bytes + rows * row_words * size_of::<f32>()
    }
}

/// Whether the product that makes queries, or the one that takes what they attend to, rounds its rows: another part of the
/// model, a tokenizer say, may keep f32.
pub(super) fn is_narrow(weights: &CudaWeights, uses: &Uses, query: Tensor, output: Tensor) -> bool {
    uses.operations(query).chain(uses.operations(output)).any(|operation| match operation {
        Operation::Linear(op) if op.output.index == query.index || op.input.index == output.index => {
            let linear = &weights.linears[op.weight.index];
            matches!(linear, DeviceLinear::Fragments(matrix) if matrix.format != Format::Split)
        }
        _ => false,
    })
}

/// The kernel for so many queries and keys, unless heads are too large.
pub(super) fn chunked(machine: &dyn Machine, extent: &ChunkedExtent) -> Option<(Kernel, Shape)> {
    let format = usize::from(extent.is_narrow);
    let components = KERNELS.iter().map(|kernel| kernel.components).find(|&most| extent.head_dim <= most)?;
    let chosen = KERNELS.iter().filter(|kernel| kernel.components == components).find(|kernel| {
        (kernel.blocks == 1 || machine.has_clusters())
            && kernel.suits(extent, machine.multiprocessors())
            && kernel.shared_bytes(extent.head_dim, format) <= machine.most_shared_bytes()
    })?;
    let (grid, threads) = (chosen.grid(extent), chosen.sharers * CHUNK_THREADS);
    let shape = Shape { grid, threads, shared_bytes: chosen.shared_bytes(extent.head_dim, format) };
    Some((chosen.kernels[format], shape))
}
