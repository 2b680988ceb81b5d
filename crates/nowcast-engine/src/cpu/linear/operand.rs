//! The rows of a call, rearranged in the order in which the kernels read them.
//!
//! Rows are cut into blocks, and blocks into register tiles. The values of a tile lie input by input, so that a kernel
//! reads one stream instead of one for each row: `[block][group of inputs][tile][input][row]` for floats, and
//! `[block][tile][word of four inputs][row]` for int8. Norms and scales are found once for each row on the way.

use super::norm::inverse_root_mean_square;
use super::pack::inputs_per_word;
use super::rounding::{OFFSET, bf16_bits, int8_scales, magnitude, quantised};
use crate::cpu::detect::{InstructionSet, Kernel};
use crate::cpu::disjoint::Disjoint;
use crate::cpu::memory::Pages;
use crate::cpu::pool::ThreadPool;
use crate::cpu::vector::Vector;
use crate::dtype::Dtype;
use std::ops::Range;

/// The most rows of a block.
pub(super) const BLOCK_ROWS: usize = 128;
/// Input values that a block of rows may have, so that they stay in the second-level cache beside a panel.
const BLOCK_INPUTS: usize = 256 * 1024;
/// Blocks for each thread that are rearranged at once: more would leave the caches before they are read.
const BLOCKS_PER_THREAD: usize = 2;
/// Values below which rearranging them is left to one thread.
const SERIAL_VALUES: usize = 16 * 1024;
/// Inputs that are rearranged together, and rows that make a square of them.
const SQUARE: usize = 8;
/// Tasks that share a block.
const PARTS: usize = 4;

/// Rows of a block.
pub(super) fn block_rows(inputs: usize) -> usize {
    (BLOCK_INPUTS / inputs / 8 * 8).clamp(8, BLOCK_ROWS)
}

/// Rows that are rearranged at once: whole blocks.
pub(super) fn chunk_rows(inputs: usize, pool: &ThreadPool) -> usize {
    BLOCKS_PER_THREAD * pool.threads() * block_rows(inputs)
}

/// The register tiles of a block of rows: as even as they can be, the larger ones first.
///
/// Divided once for a block: a division for each tile would hold up the one behind it.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    pub(super) count: usize,
    /// Rows of the smaller tiles.
    height: usize,
    /// Tiles that have a row more.
    larger: usize,
}

impl Tiles {
    #[inline(always)]
    pub(super) fn of<V: Vector>(rows: usize) -> Self {
        let count = rows.div_ceil(V::TILE_ROWS).max(1);
        Self { count, height: rows / count, larger: rows % count }
    }

    /// The rows of every tile, in order.
    #[inline(always)]
    pub(super) fn iter(self) -> impl Iterator<Item = Range<usize>> {
        let start = move |tile: usize| tile * self.height + tile.min(self.larger);
        (0..self.count).map(move |tile| start(tile)..start(tile + 1))
    }
}

/// Memory for rearranged rows, used by one call after the other.
#[derive(Debug)]
pub struct Operand {
    words: Pages,
    scales: Vec<RowScales>,
}

/// What the results of a row are multiplied with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowScales {
    /// The inverse root mean square, or 1.
    pub(super) norm: f64,
    /// One unit of the row's integers, for int8.
    pub(super) unit: f32,
}

/// Rows to rearrange.
pub(super) struct Rows<'a> {
    /// Row `r` is `input[r * stride..][..inputs]`.
    pub(super) input: &'a [f32],
    pub(super) stride: usize,
    pub(super) inputs: usize,
    /// At most [`chunk_rows`].
    pub(super) rows: usize,
    pub(super) norm_epsilon: Option<f32>,
    pub(super) dtype: Dtype,
    /// Inputs of a group.
    pub(super) group: usize,
}

impl Default for Operand {
    fn default() -> Self {
        Self { words: Pages::streamed(0), scales: Vec::new() }
    }
}

impl Operand {
    /// Makes room for calls of this many rows and inputs on a pool, so that they need not.
    pub fn reserve(&mut self, rows: usize, inputs: usize, pool: &ThreadPool) {
        let rows = rows.min(chunk_rows(inputs, pool));
        if self.words.words().len() < rows * inputs {
            self.words = Pages::streamed(rows * inputs);
        }
        if self.scales.len() < rows {
            self.scales.resize(rows, RowScales::default());
        }
    }

    /// Rearranges rows; what was there before is gone.
    pub(super) fn fill(&mut self, rows: &Rows<'_>, set: InstructionSet, pool: &ThreadPool) {
        self.reserve(rows.rows, rows.inputs, pool);
        let (words, scales) = (Disjoint::new(self.words.words_mut()), Disjoint::new(&mut self.scales[..]));
        let block_rows = block_rows(rows.inputs);
        let blocks = rows.rows.div_ceil(block_rows);
        let parts = if rows.rows * rows.inputs <= SERIAL_VALUES { 1 } else { PARTS };
        let task = |index: usize| {
            let first = index / parts * block_rows;
            let block = first..rows.rows.min(first + block_rows);
            set.dispatch(Part { rows, block, index: index % parts, parts, words, scales });
        };
        match parts {
            1 => (0..blocks).for_each(task),
            _ => pool.for_each_task(blocks * parts, |_, index| task(index)),
        }
    }

    /// The rearranged words, from a row on that starts a block.
    pub(super) fn block(&self, first: usize, inputs: usize, dtype: Dtype) -> &[u32] {
        let per_word = if dtype == Dtype::Int8 { inputs_per_word(dtype) } else { 1 };
        &self.words.words()[first * inputs.div_ceil(per_word)..]
    }

    /// The scales of some rows.
    pub(super) fn scales(&self, rows: Range<usize>) -> &[RowScales] {
        &self.scales[rows]
    }
}

/// Every `parts`-th tile of a block.
struct Part<'a> {
    rows: &'a Rows<'a>,
    block: Range<usize>,
    index: usize,
    parts: usize,
    words: Disjoint<'a, u32>,
    scales: Disjoint<'a, RowScales>,
}

impl Kernel for Part<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Rows { input, stride, inputs, norm_epsilon, dtype, .. } = *self.rows;
        for tile in Tiles::of::<V>(self.block.len()).iter().skip(self.index).step_by(self.parts) {
            let first = self.block.start + tile.start;
            let row = |row: usize| &input[(first + row) * stride..][..inputs];
            // SAFETY: no other part has this tile.
            let scales = unsafe { self.scales.part(first, tile.len()) };
            for (index, scales) in scales.iter_mut().enumerate() {
                scales.norm = norm_epsilon.map_or(1.0, |epsilon| inverse_root_mean_square(row(index), epsilon));
            }
            match dtype {
                Dtype::F32 | Dtype::Tf32 => self.interleave::<V>(&tile, f32::to_bits),
                Dtype::Bf16 => self.interleave::<V>(&tile, bf16_bits),
                Dtype::Int8 => {
                    let per_row = inputs.div_ceil(inputs_per_word(dtype));
                    // SAFETY: no other part has this tile.
                    let words = unsafe { self.words.part(first * per_row, tile.len() * per_row) };
                    for (index, scales) in scales.iter_mut().enumerate() {
                        scales.unit = quantise_row(row(index), &mut words[index..], tile.len());
                    }
                }
            }
        }
    }
}

impl Part<'_> {
    /// Writes the values of a tile input by input.
    #[inline(always)]
    fn interleave<V: Vector>(&self, tile: &Range<usize>, bits: impl Fn(f32) -> u32) {
        macro_rules! choose {
            ($($rows:literal)*) => {
                match tile.len() {
                    $($rows => self.interleave_rows::<V, $rows>(tile.start, bits),)*
                    _ => unreachable!("a tile has at most 8 rows"),
                }
            };
        }
        choose!(1 2 3 4 5 6 7 8)
    }

    #[inline(always)]
    fn interleave_rows<V: Vector, const ROWS: usize>(&self, first: usize, bits: impl Fn(f32) -> u32) {
        let Rows { input, stride, inputs, group, .. } = *self.rows;
        let rows: [&[f32]; ROWS] =
            std::array::from_fn(|row| &input[(self.block.start + first + row) * stride..][..inputs]);
        for start in (0..inputs).step_by(group) {
            let depth = group.min(inputs - start);
            let place = self.block.start * inputs + start * self.block.len() + first * depth;
            // SAFETY: no other part has this tile.
            let words = unsafe { self.words.part(place, depth * ROWS) };
            let rows: [&[f32]; ROWS] = std::array::from_fn(|row| &rows[row][start..start + depth]);
            let mut squares = words.chunks_exact_mut(SQUARE * ROWS);
            for (square, words) in squares.by_ref().enumerate() {
                let first = |row: &[f32]| *row[square * SQUARE..].first_chunk().expect("as many inputs as words");
                if let (Ok(rows), Ok(words)) = (<[&[f32]; SQUARE]>::try_from(&rows[..]), words.try_into()) {
                    V::transpose(rows.map(|row| first(row).map(&bits)), words);
                    continue;
                }
                for (row, values) in rows.iter().map(|row| first(row)).enumerate() {
                    for input in 0..SQUARE {
                        words[input * ROWS + row] = bits(values[input]);
                    }
                }
            }
            let done = depth / SQUARE * SQUARE;
            for (input, words) in squares.into_remainder().chunks_exact_mut(ROWS).enumerate() {
                for (word, row) in words.iter_mut().zip(rows) {
                    *word = bits(row[done + input]);
                }
            }
        }
    }
}

/// Writes a row as bytes, every word `stride` words after the last, and returns the row's unit.
#[inline(always)]
fn quantise_row(row: &[f32], words: &mut [u32], stride: usize) -> f32 {
    const BYTES: usize = 64;
    let (unit, inverse) = int8_scales(magnitude(row));
    let byte = |value: f32| (quantised(value, inverse) + OFFSET) as u8;
    let mut bytes = [OFFSET as u8; BYTES];
    let mut words = words.iter_mut().step_by(stride);
    for values in row.chunks(BYTES) {
        bytes[values.len()..].fill(OFFSET as u8);
        for (out, &value) in bytes.iter_mut().zip(values) {
            *out = byte(value);
        }
        let count = values.len().div_ceil(4);
        for (word, bytes) in words.by_ref().take(count).zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
    }
    unit
}
