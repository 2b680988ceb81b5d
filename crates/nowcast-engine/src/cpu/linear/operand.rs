//! The rows of a call, rearranged in the order in which the kernels read them.
//!
//! Rows are cut into blocks, and blocks into register tiles. The values of a tile lie input by input, so that a kernel
//! reads one stream instead of one for each row: `[block][group of inputs][tile][input][row]` for floats (a word of two
//! inputs for pairs of bf16), and `[block][tile][word][row]` for f16 and int8, words of two and of four inputs. Norms and
//! scales are found once for each row on the way.

use super::block::GROUP;
use super::layout::Format;
use super::norm::inverse_root_mean_square;
use super::rounding::{F16_ROW_EXPONENT, OFFSET, bf16_bits, bf16_pair, f16_scales, int8_scales, magnitude, quantised};
use crate::cpu::detect::{InstructionSet, Kernel};
use crate::cpu::disjoint::Disjoint;
use crate::cpu::memory::Pages;
use crate::cpu::pool::ThreadPool;
use crate::cpu::vector::Vector;
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
/// Rows of the largest register tile.
pub(super) const MOST_TILE_ROWS: usize = 8;
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
    /// What the words hold.
    form: Form,
    scales: Vec<RowScales>,
}

/// What a word of rearranged rows holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One f32.
    Floats,
    /// One bf16, as an f32.
    Rounded,
    /// Two bf16, the first above.
    Pairs,
    /// Two f16, the first below, in units of their row.
    HalfFloats,
    /// Four integers.
    Bytes,
}

impl Form {
    /// What an instruction set multiplies with weights in a format.
    pub(super) fn of(format: Format, set: InstructionSet) -> Self {
        match format {
            Format::F32 => Self::Floats,
            Format::Bf16 if set.multiplies_pairs() => Self::Pairs,
            Format::Bf16 => Self::Rounded,
            Format::F16 => Self::HalfFloats,
            Format::Int8 => Self::Bytes,
        }
    }

    /// Inputs of a word.
    fn inputs(self) -> usize {
        match self {
            Self::Floats | Self::Rounded => 1,
            Self::Pairs | Self::HalfFloats => 2,
            Self::Bytes => 4,
        }
    }
}

/// What the results of a row are multiplied with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowScales {
    /// The inverse root mean square, or 1.
    pub(super) norm: f64,
    /// One unit of the row's numbers, for f16 and int8.
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
    pub(super) form: Form,
}

impl Default for Operand {
    fn default() -> Self {
        Self { words: Pages::of_words(0), form: Form::Floats, scales: Vec::new() }
    }
}

impl Operand {
    /// Makes room for calls of this many rows and inputs on a pool, so that they need not.
    pub fn reserve(&mut self, rows: usize, inputs: usize, pool: &ThreadPool) {
        let rows = rows.min(chunk_rows(inputs, pool));
        if self.words.words().len() < rows * inputs {
            self.words = Pages::of_words(rows * inputs);
        }
        if self.scales.len() < rows {
            self.scales.resize(rows, RowScales::default());
        }
    }

    /// Rearranges rows; what was there before is gone.
    pub(super) fn fill(&mut self, rows: &Rows<'_>, set: InstructionSet, pool: &ThreadPool) {
        self.reserve(rows.rows, rows.inputs, pool);
        self.form = rows.form;
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
    pub(super) fn block(&self, first: usize, inputs: usize) -> &[u32] {
        &self.words.words()[first * inputs.div_ceil(self.form.inputs())..]
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
        let Rows { input, stride, inputs, norm_epsilon, form, .. } = *self.rows;
        for tile in Tiles::of::<V>(self.block.len()).iter().skip(self.index).step_by(self.parts) {
            let first = self.block.start + tile.start;
            let row = |row: usize| &input[(first + row) * stride..][..inputs];
            // SAFETY: no other part has this tile.
            let scales = unsafe { self.scales.part(first, tile.len()) };
            for (index, scales) in scales.iter_mut().enumerate() {
                scales.norm = norm_epsilon.map_or(1.0, |epsilon| inverse_root_mean_square(row(index), epsilon));
            }
            match form {
                Form::Floats => self.interleave::<V, _>(&tile, &Exact),
                Form::Rounded => self.interleave::<V, _>(&tile, &Rounded),
                Form::Pairs => self.interleave::<V, _>(&tile, &Paired),
                Form::HalfFloats => {
                    let of_row = |index| f16_scales(magnitude(row(index)), F16_ROW_EXPONENT);
                    self.interleave::<V, _>(&tile, &HalfFloats { inverse_units: units(scales, of_row) });
                }
                Form::Bytes => {
                    let of_row = |index| int8_scales(magnitude(row(index)));
                    self.interleave::<V, _>(&tile, &Bytes { inverse_units: units(scales, of_row) });
                }
            }
        }
    }
}

impl Part<'_> {
    /// Writes the words of a tile one input after the other.
    #[inline(always)]
    fn interleave<V: Vector, W: RowWords>(&self, tile: &Range<usize>, form: &W) {
        macro_rules! choose {
            ($($rows:literal)*) => {
                match tile.len() {
                    $($rows => self.interleave_rows::<V, W, $rows>(tile.start, form),)*
                    _ => unreachable!("a tile has at most {MOST_TILE_ROWS} rows"),
                }
            };
        }
        choose!(1 2 3 4 5 6 7 8)
    }

    #[inline(always)]
    fn interleave_rows<V: Vector, W: RowWords, const ROWS: usize>(&self, first: usize, form: &W) {
        let Rows { input, stride, inputs, .. } = *self.rows;
        let words_of = |inputs: usize| inputs.div_ceil(W::INPUTS);
        let rows: [&[f32]; ROWS] =
            std::array::from_fn(|row| &input[(self.block.start + first + row) * stride..][..inputs]);
        let mut buffers = [[0.0; GROUP]; ROWS];
        for start in (0..inputs).step_by(W::GROUP) {
            let depth = W::GROUP.min(inputs - start);
            let count = words_of(depth);
            let place = if W::GROUPED {
                self.block.start * words_of(inputs) + words_of(start) * self.block.len() + first * count
            } else {
                (self.block.start + first) * words_of(inputs) + words_of(start) * ROWS
            };
            // SAFETY: no other part has this tile.
            let target = unsafe { self.words.part(place, count * ROWS) };
            if W::COPIED {
                for (index, (row, words)) in rows.iter().zip(&mut buffers).enumerate() {
                    form.write::<V>(index, &row[start..][..depth], words);
                }
            }
            let words = |row: usize, first: usize| -> &[f32] {
                if W::COPIED { &buffers[row][first..] } else { &rows[row][start + first..] }
            };
            let whole = count / SQUARE * SQUARE;
            let (squares, rest) = target.split_at_mut(whole * ROWS);
            for (square, target) in squares.chunks_exact_mut(SQUARE * ROWS).enumerate() {
                let words: [&[f32; SQUARE]; ROWS] = std::array::from_fn(|row| {
                    words(row, square * SQUARE).first_chunk().expect("a square lies within its row")
                });
                if let (Ok(target), Ok(words)) = ((&mut *target).try_into(), words[..].try_into()) {
                    V::transpose(words, target);
                    continue;
                }
                for (index, target) in target.chunks_exact_mut(ROWS).enumerate() {
                    target.copy_from_slice(&words.map(|row| row[index].to_bits()));
                }
            }
            for (index, target) in rest.chunks_exact_mut(ROWS).enumerate() {
                target
                    .copy_from_slice(&std::array::from_fn::<_, ROWS, _>(|row| words(row, whole + index)[0].to_bits()));
            }
        }
    }
}

/// Sets the units of the rows of a tile, and returns their inverses.
#[inline(always)]
fn units(scales: &mut [RowScales], of_row: impl Fn(usize) -> (f32, f32)) -> [f32; MOST_TILE_ROWS] {
    let mut inverses = [0.0; MOST_TILE_ROWS];
    for (index, (scales, inverse)) in scales.iter_mut().zip(&mut inverses).enumerate() {
        (scales.unit, *inverse) = of_row(index);
    }
    inverses
}

/// What becomes of the values of a row.
trait RowWords {
    /// Inputs of a word.
    const INPUTS: usize;
    /// Inputs of a group.
    const GROUP: usize = GROUP;
    /// Whether words are others than the values.
    const COPIED: bool = true;
    /// Whether a group of inputs of all tiles comes before the next group, rather than all inputs of a tile.
    const GROUPED: bool = true;

    /// Writes the words of at most [`RowWords::GROUP`] values of a row of the tile, as the bits of f32; inputs behind their
    /// end are zero.
    fn write<V: Vector>(&self, row: usize, values: &[f32], words: &mut [f32; GROUP]);
}

/// Values as they are.
struct Exact;

/// The nearest bf16, as an f32.
struct Rounded;

/// The nearest bf16 of two values.
struct Paired;

/// The nearest f16 of two values, in units of their row.
struct HalfFloats {
    inverse_units: [f32; MOST_TILE_ROWS],
}

/// Four values as bytes, in units of their row.
struct Bytes {
    inverse_units: [f32; MOST_TILE_ROWS],
}

impl RowWords for Exact {
    const INPUTS: usize = 1;
    const COPIED: bool = false;

    #[inline(always)]
    fn write<V: Vector>(&self, _: usize, values: &[f32], words: &mut [f32; GROUP]) {
        words[..values.len()].copy_from_slice(values);
    }
}

impl RowWords for Rounded {
    const INPUTS: usize = 1;

    #[inline(always)]
    fn write<V: Vector>(&self, _: usize, values: &[f32], words: &mut [f32; GROUP]) {
        for (word, value) in words.iter_mut().zip(values) {
            *word = f32::from_bits(bf16_bits(*value));
        }
    }
}

impl RowWords for Paired {
    const INPUTS: usize = 2;

    #[inline(always)]
    fn write<V: Vector>(&self, _: usize, values: &[f32], words: &mut [f32; GROUP]) {
        let (pairs, last) = values.as_chunks::<2>();
        for (word, pair) in words.iter_mut().zip(pairs) {
            *word = f32::from_bits(bf16_pair(*pair));
        }
        if let [last] = *last {
            words[pairs.len()] = f32::from_bits(bf16_pair([last, 0.0]));
        }
    }
}

impl RowWords for HalfFloats {
    const INPUTS: usize = 2;
    const GROUP: usize = Self::INPUTS * GROUP;
    const GROUPED: bool = false;

    #[inline(always)]
    fn write<V: Vector>(&self, row: usize, values: &[f32], words: &mut [f32; GROUP]) {
        let inverse = V::splat(self.inverse_units[row]);
        for (values, words) in values.chunks(V::LANES).zip(words.chunks_exact_mut(V::LANES / 2)) {
            // SAFETY: so many values are there.
            let values = unsafe { V::load_first(values.as_ptr(), values.len()) };
            values.mul(inverse).to_half_floats(words);
        }
    }
}

impl RowWords for Bytes {
    const INPUTS: usize = 4;
    const GROUPED: bool = false;

    #[inline(always)]
    fn write<V: Vector>(&self, row: usize, values: &[f32], words: &mut [f32; GROUP]) {
        let inverse = self.inverse_units[row];
        let mut bytes = [OFFSET as u8; GROUP];
        for (byte, value) in bytes.iter_mut().zip(values) {
            *byte = (quantised(*value, inverse) + OFFSET) as u8;
        }
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = f32::from_bits(u32::from_le_bytes(*bytes));
        }
    }
}
