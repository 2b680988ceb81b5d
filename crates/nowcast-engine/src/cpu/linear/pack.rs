//! Weights rearranged once, in the order in which the kernel reads them.
//!
//! A panel holds 32 columns for every input, in words of 32 bits: one f32, two bf16, two f16 or four int8 of as many inputs
//! that follow each other. Words are ordered `[inputs / per word][column]`. Panels follow each other without a gap, so one
//! forecast reads the weights as one stream. The last panel and the last word are filled up with zeros.

use super::PANEL;
use super::layout::{Format, Layout};
use super::rounding::{
    F16_WEIGHT_EXPONENT, MOST_INT8_INPUTS, OFFSET, bf16_pair, f16_pair, f16_scales, int8_scales, magnitude, quantised,
};
use crate::cpu::detect::InstructionSet;
use crate::cpu::memory::Pages;
use crate::cpu::pool::ThreadPool;
use crate::dtype::Dtype;
use half::f16;
use half::slice::HalfFloatSliceExt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Words in a cache line.
const LINE: usize = 16;

/// Shape and numbers of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// What the columns of a panel are.
    pub layout: Layout,
    /// Outputs per row: half the weight rows for [`Layout::Gated`].
    pub outputs: usize,
    /// Inputs per row.
    pub inputs: usize,
    /// In what numbers it is kept.
    pub dtype: Dtype,
}

impl Shape {
    fn panels(&self) -> usize {
        self.outputs.div_ceil(self.layout.panel_outputs())
    }

    /// Words of a panel.
    fn panel_words(&self, format: Format) -> usize {
        self.inputs.div_ceil(format.inputs_per_word()) * PANEL
    }
}

/// The packed weights and bias of a linear layer.
pub struct PackedLinear {
    shape: Shape,
    format: Format,
    /// The panels.
    weights: Pages,
    /// The bias in the order of the panels' columns.
    bias: Option<Vec<f32>>,
    /// One unit of the weights of each panel's columns, where the format has them.
    units: Vec<[f32; PANEL]>,
    /// What the offset of the rows' bytes adds to the sums of each panel's columns, for int8.
    excesses: Vec<[i32; PANEL]>,
}

impl PackedLinear {
    /// Packs weights of `[outputs, inputs]`, or `[2 * outputs, inputs]` for [`Layout::Gated`].
    ///
    /// `weight_row(row, values)` fills in one row of `inputs` values; it may convert, permute and scale on the way, and
    /// is called once per row, from any thread. The bias has one value per weight row.
    ///
    /// The order and the numbers are those that the detected instruction set reads.
    ///
    /// # Panics
    /// If `inputs` or `outputs` is 0, the bias has another length, or int8 has more than [`MOST_INT8_INPUTS`].
    pub fn pack(
        shape: Shape,
        weight_row: impl Fn(usize, &mut [f32]) + Sync,
        bias: Option<&[f32]>,
        pool: &ThreadPool,
    ) -> Self {
        Self::pack_for(InstructionSet::detected(), shape, weight_row, bias, pool)
    }

    /// [`PackedLinear::pack`] for the instruction set of your choice. Every set multiplies what was packed for another,
    /// with the digits of that one, if slowly.
    ///
    /// # Panics
    /// As [`PackedLinear::pack`].
    pub fn pack_for(
        set: InstructionSet,
        shape: Shape,
        weight_row: impl Fn(usize, &mut [f32]) + Sync,
        bias: Option<&[f32]>,
        pool: &ThreadPool,
    ) -> Self {
        Self::pack_in(Format::of(shape.dtype, set), shape, weight_row, bias, pool)
    }

    pub(super) fn pack_in(
        format: Format,
        shape: Shape,
        weight_row: impl Fn(usize, &mut [f32]) + Sync,
        bias: Option<&[f32]>,
        pool: &ThreadPool,
    ) -> Self {
        let Shape { layout, outputs, inputs, dtype } = shape;
        assert!(inputs > 0 && outputs > 0, "a linear layer needs at least one input and one output");
        assert!(dtype != Dtype::Int8 || inputs <= MOST_INT8_INPUTS, "{inputs} inputs are too many for int8");
        let rows = outputs * (PANEL / layout.panel_outputs());
        assert!(bias.is_none_or(|bias| bias.len() == rows), "the bias needs one value per weight row ({rows})");
        let panels = shape.panels();
        let mut units = vec![[0.0; PANEL]; if format.has_units() { panels } else { 0 }];
        let mut excesses = vec![[0; PANEL]; if format == Format::Int8 { panels } else { 0 }];
        // The packing threads are the first to write these pages.
        let panel_words = shape.panel_words(format);
        let mut weights = Pages::of_words(panels * panel_words);
        let (mut units_of_panels, mut excesses_of_panels) = (units.iter_mut(), excesses.iter_mut());
        let parts = weights.words_mut().chunks_exact_mut(panel_words).take(panels).enumerate();
        let work =
            Mutex::new(parts.map(|(panel, words)| (panel, words, units_of_panels.next(), excesses_of_panels.next())));
        pool.run(|_| {
            // Whole words, and a line more: columns at a distance of a power of two would share few cache sets.
            let stride = inputs.next_multiple_of(4) + LINE;
            let mut columns = vec![0.0; PANEL * stride];
            let mut half_floats = vec![f16::ZERO; if format == Format::F16 { columns.len() } else { 0 }];
            loop {
                let next = work.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((panel, words, units, excesses)) = next else { break };
                for (index, column) in columns.chunks_exact_mut(stride).enumerate() {
                    match layout.weight_row(panel, index, outputs) {
                        Some(row) => weight_row(row, &mut column[..inputs]),
                        None => column.fill(0.0),
                    }
                }
                match format {
                    Format::F32 => pack_words(words, &columns, |[value]| value.to_bits()),
                    Format::Bf16 => pack_words(words, &columns, bf16_pair),
                    Format::F16 => {
                        let units = units.expect("f16 has units for each panel");
                        for (column, unit) in columns.chunks_exact_mut(stride).zip(units) {
                            *unit = scale_to_f16(&mut column[..inputs]);
                        }
                        half_floats.convert_from_f32_slice(&columns);
                        pack_words(words, &half_floats, f16_pair);
                    }
                    Format::Int8 => {
                        let units = units.expect("int8 has units for each panel");
                        let excesses = excesses.expect("int8 has excesses for each panel");
                        for (index, column) in columns.chunks_exact_mut(stride).enumerate() {
                            (units[index], excesses[index]) = quantise(&mut column[..inputs]);
                        }
                        let byte = |value: f32| value as i8 as u8;
                        pack_words(words, &columns, |values: [f32; 4]| u32::from_le_bytes(values.map(byte)));
                    }
                }
            }
        });
        let columns = (0..panels * PANEL).map(|index| layout.weight_row(index / PANEL, index % PANEL, outputs));
        let bias = bias.map(|bias| columns.map(|row| row.map_or(0.0, |row| bias[row])).collect());
        Self { shape, format, weights, bias, units, excesses }
    }

    /// Outputs per row: half the weight rows for [`Layout::Gated`].
    pub fn outputs(&self) -> usize {
        self.shape.outputs
    }

    /// Inputs per row.
    pub fn inputs(&self) -> usize {
        self.shape.inputs
    }

    /// What the columns of a panel are.
    pub fn layout(&self) -> Layout {
        self.shape.layout
    }

    /// In what numbers the weights are asked for.
    pub fn dtype(&self) -> Dtype {
        self.shape.dtype
    }

    /// In what numbers they are kept.
    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// Memory held, in bytes.
    pub fn bytes(&self) -> usize {
        let bias = self.bias.as_ref().map_or(0, |bias| size_of_val(&bias[..]));
        self.weights.len() + bias + size_of_val(&self.units[..]) + size_of_val(&self.excesses[..])
    }

    /// The words of some panels, in order.
    pub(super) fn panels(&self, panels: Range<usize>) -> &[u32] {
        let size = self.shape.panel_words(self.format);
        &self.weights.words()[panels.start * size..panels.end * size]
    }

    /// The bias of a panel's columns.
    pub(super) fn panel_bias(&self, panel: usize) -> Option<&[f32; PANEL]> {
        self.bias.as_ref().map(|bias| bias[panel * PANEL..].first_chunk().expect("a panel has a bias for each column"))
    }

    /// The units of a panel's columns, where the format has them.
    pub(super) fn panel_units(&self, panel: usize) -> &[f32; PANEL] {
        &self.units[panel]
    }

    /// What the offset of bytes adds to a panel's sums, for int8.
    pub(super) fn panel_excesses(&self, panel: usize) -> &[i32; PANEL] {
        &self.excesses[panel]
    }
}

/// Turns columns of `[32][stride]` into words of `N` inputs each.
fn pack_words<T: Copy, const N: usize>(words: &mut [u32], columns: &[T], word: impl Fn([T; N]) -> u32) {
    let stride = columns.len() / PANEL;
    for (index, words) in words.chunks_exact_mut(PANEL).enumerate() {
        for (column, packed) in words.iter_mut().enumerate() {
            let first = column * stride + index * N;
            *packed = word(std::array::from_fn(|input| columns[first + input]));
        }
    }
}

/// Scales the weights of a column by a power of two; returns their unit.
fn scale_to_f16(column: &mut [f32]) -> f32 {
    let (unit, inverse) = f16_scales(magnitude(column), F16_WEIGHT_EXPONENT);
    column.iter_mut().for_each(|weight| *weight *= inverse);
    unit
}

/// Replaces the weights of a column by integers; returns their unit and what the rows' offset adds to a sum.
fn quantise(column: &mut [f32]) -> (f32, i32) {
    let (scale, inverse) = int8_scales(magnitude(column));
    let mut sum = 0;
    for weight in column {
        let integer = quantised(*weight, inverse);
        sum += integer;
        *weight = integer as f32;
    }
    (scale, OFFSET * sum)
}

#[cfg(test)]
mod tests {
    use super::super::GateHalf;
    use super::*;

    fn packed(layout: Layout, outputs: usize, inputs: usize, format: Format) -> PackedLinear {
        let dtype = match format {
            Format::F32 => Dtype::F32,
            Format::Bf16 | Format::F16 => Dtype::Bf16,
            Format::Int8 => Dtype::Int8,
        };
        let fill = |row: usize, values: &mut [f32]| {
            assert_eq!(values.len(), inputs);
            for (input, value) in values.iter_mut().enumerate() {
                *value = (row * 1000 + input) as f32 + 1.0;
            }
        };
        PackedLinear::pack_in(format, Shape { layout, outputs, inputs, dtype }, fill, None, &ThreadPool::new(2))
    }

    #[test]
    fn a_plain_panel_holds_its_columns_input_by_input() {
        let linear = packed(Layout::Plain, 40, 3, Format::F32);
        let panels = linear.panels(0..2);
        assert_eq!(panels.as_ptr() as usize % 64, 0);
        for (index, word) in panels.iter().enumerate() {
            let (panel, input, column) = (index / 96, index / 32 % 3, index % 32);
            let row = panel * 32 + column;
            assert_eq!(f32::from_bits(*word), if row < 40 { (row * 1000 + input) as f32 + 1.0 } else { 0.0 });
        }
    }

    #[test]
    fn a_gated_panel_holds_gates_then_values() {
        for (half, gate_row, value_row) in [(GateHalf::First, 0, 20), (GateHalf::Second, 20, 0)] {
            let linear = packed(Layout::Gated(half), 20, 2, Format::F32);
            let panels = linear.panels(0..2);
            for (index, word) in panels.iter().enumerate() {
                let (panel, input, column) = (index / 64, index / 32 % 2, index % 32);
                let output = panel * 16 + column % 16;
                let row = output + if column < 16 { gate_row } else { value_row };
                assert_eq!(f32::from_bits(*word), if output < 20 { (row * 1000 + input) as f32 + 1.0 } else { 0.0 });
            }
        }
    }

    #[test]
    fn a_word_of_bf16_holds_two_inputs_the_first_above() {
        let linear = packed(Layout::Plain, 2, 3, Format::Bf16);
        let words = linear.panels(0..1);
        let halves = |word: u32| [f32::from_bits(word & 0xffff_0000), f32::from_bits(word << 16)];
        // 1001 to 1003 are rounded to eight bits.
        assert_eq!((halves(words[0]), halves(words[1])), ([1.0, 2.0], [1000.0, 1000.0]));
        assert_eq!((halves(words[32]), halves(words[33])), ([3.0, 0.0], [1004.0, 0.0]));
        assert_eq!(words.len(), 2 * 32);
    }

    #[test]
    fn a_word_of_f16_holds_two_inputs_the_first_below_in_units_of_their_column() {
        let linear = packed(Layout::Plain, 2, 3, Format::F16);
        let (words, units) = (linear.panels(0..1), linear.panel_units(0));
        // 1 to 3 and 1001 to 1003, below 8.
        assert_eq!(units[..2], [0.5, 128.0]);
        for (column, values) in [[1.0, 2.0, 3.0, 0.0], [1001.0, 1002.0, 1003.0, 0.0]].iter().enumerate() {
            let halves = [words[column], words[32 + column]].map(|word| [word as u16, (word >> 16) as u16]);
            let numbers = halves.as_flattened().iter().map(|bits| f16::from_bits(*bits).to_f32() * units[column]);
            assert!(numbers.eq(values.iter().copied()), "column {column}");
        }
        assert_eq!(words.len(), 2 * 32);
    }

    #[test]
    fn a_word_of_int8_holds_four_inputs() {
        let linear = packed(Layout::Plain, 1, 5, Format::Int8);
        let words = linear.panels(0..1);
        // 1 to 5 in units of 5/127.
        assert_eq!(words[0].to_le_bytes(), [25, 51, 76, 102]);
        assert_eq!(words[32].to_le_bytes(), [127, 0, 0, 0]);
        assert_eq!(
            (linear.panel_units(0)[0], linear.panel_excesses(0)[0]),
            (5.0 / 127.0, 128 * (25 + 51 + 76 + 102 + 127))
        );
    }

    #[test]
    fn bytes_count_everything_held() {
        let pool = ThreadPool::new(1);
        let shape = Shape { layout: Layout::Plain, outputs: 33, inputs: 5, dtype: Dtype::F32 };
        let formats =
            [(Format::F32, 5 * 4), (Format::Bf16, 3 * 4), (Format::F16, 3 * 4 + 4), (Format::Int8, 2 * 4 + 8)];
        for (format, bytes) in formats {
            let fill = |_: usize, values: &mut [f32]| values.fill(1.0);
            let linear = PackedLinear::pack_in(format, shape, fill, Some(&[0.5; 33]), &pool);
            assert_eq!(linear.bytes(), 64 * (bytes + 4), "{format:?}");
        }
    }
}
