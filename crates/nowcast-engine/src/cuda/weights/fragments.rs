//! Matrices for tensor cores: bands of eight rows, links of 32 inputs, values in the order of a warp's lanes. The layout
//! and its reasons stand in `kernels/fragments.cuh`.

use std::ops::Range;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::{WeightBlock, bytes_of};
use crate::error::{Error, Result};
use crate::weights::{Activation, LinearSource, ReadRow};

/// Rows of a band.
pub(in crate::cuda) const BAND: usize = 8;
/// Inputs of a link.
pub(in crate::cuda) const LINK: usize = 32;
/// Exponent of the largest value of a row once it is scaled.
const LARGEST_EXPONENT: i32 = 12;

/// How values are kept for tensor cores; `Format` in fragments.cuh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cuda) enum Format {
    /// Two f16s: 22 bits of f32.
    Split,
    /// One f16: the eleven bits of TF32.
    Half,
    /// One bf16.
    Brain,
}

impl Format {
    /// Bytes of a band's link.
    pub(in crate::cuda) fn link_bytes(self) -> usize {
        BAND * LINK * if self == Self::Split { 4 } else { 2 }
    }

    /// Links that are not parted, and that rings copy together; `Pieces::TOGETHER` in fragments.cuh.
    pub(in crate::cuda) fn links_together(self) -> usize {
        if self == Self::Split { 1 } else { 2 }
    }

    /// Links that one chain of sums in the tensor cores covers at most; `Pieces::CHAIN` there.
    pub(in crate::cuda) fn most_links_of_chain(self) -> usize {
        if self == Self::Split { 1 } else { 8 }
    }

    /// Links of the largest of some equal parts.
    pub(in crate::cuda) fn most_links_of_part(self, links: usize, parts: usize) -> usize {
        links.div_ceil(self.links_together() * parts) * self.links_together()
    }
}

/// A matrix as `[bands, links]` fragments, then a scale for each row and the bias, `[bands, 8]` each. A gated matrix
/// alternates bands of gates and of their values.
pub(in crate::cuda) struct Fragments {
    /// Where it lies, once it is packed.
    pub(super) address: u64,
    pub(in crate::cuda) format: Format,
    pub(in crate::cuda) inputs: usize,
    pub(in crate::cuda) links: usize,
    pub(in crate::cuda) gated: bool,
    pub(in crate::cuda) bands: usize,
    /// With scales and bias.
    pub(super) bytes: usize,
    /// Of each row `[bands, 8]`, once it is packed; nothing of bf16, for which nobody asks.
    lengths: Vec<Length>,
}

/// The root of a row's sum of squares, and the size of its bias.
#[derive(Debug, Clone, Copy, Default)]
struct Length {
    weights: f32,
    bias: f32,
}

/// How far results are from zero where a product's rows are behind a norm.
#[derive(Debug, Clone, Copy)]
pub(in crate::cuda) struct Reach {
    /// None is farther.
    pub(in crate::cuda) largest: f64,
    /// What half of them exceed, roughly, where inputs do not depend on each other.
    pub(in crate::cuda) typical: f64,
}

impl Fragments {
    pub(super) fn weight_bytes(&self) -> usize {
        self.bands * self.links * self.format.link_bytes()
    }

    pub(in crate::cuda) fn scale_address(&self) -> u64 {
        self.address + self.weight_bytes() as u64
    }

    pub(in crate::cuda) fn bias_address(&self) -> u64 {
        self.scale_address() + (self.bands * BAND * size_of::<f32>()) as u64
    }

    /// How a matrix will lie in memory.
    pub(super) fn of(source: &LinearSource<'_>, format: Format) -> Result<Self> {
        let gated = source.activation == Activation::SwiGlu;
        let (rows, inputs) = (source.rows, source.inputs);
        let bands = if gated { 2 * (rows / 2).div_ceil(BAND) } else { rows.div_ceil(BAND) };
        let links = inputs.div_ceil(LINK);
        let band =
            links.checked_mul(format.link_bytes()).and_then(|bytes| bytes.checked_add(2 * BAND * size_of::<f32>()));
        let bytes = band.and_then(|band| band.checked_mul(bands)).ok_or(Error::Overflow)?;
        Ok(Self { address: 0, bytes, format, inputs, links, gated, bands, lengths: Vec::new() })
    }

    /// How far the results of some columns reach behind a norm, which leaves a row a length of at most the root of its
    /// inputs. A gated result is at most a gate times its value.
    pub(in crate::cuda) fn reach(&self, columns: Range<usize>) -> Option<Reach> {
        let most = |length: &Length| (self.inputs as f64).sqrt() * f64::from(length.weights) + f64::from(length.bias);
        let size = |length: &Length| f64::from(length.weights).hypot(f64::from(length.bias));
        let (mut largest, mut sizes) = (0.0f64, Vec::with_capacity(columns.len()));
        for column in columns {
            let (reach, typical) = if self.gated {
                let place = column / BAND * 2 * BAND + column % BAND;
                let (gate, value) = (self.lengths.get(place)?, self.lengths.get(place + BAND)?);
                (most(gate) * most(value), size(gate) * size(value))
            } else {
                let length = self.lengths.get(column)?;
                (most(length), size(length))
            };
            // Not `max`, which forgets NaN.
            largest = if reach > largest || reach.is_nan() { reach } else { largest };
            sizes.push(typical);
        }
        let middle = sizes.len().checked_sub(1)? / 2;
        let (_, &mut typical, _) = sizes.select_nth_unstable_by(middle, f64::total_cmp);
        Some(Reach { largest, typical })
    }

    /// Reads a matrix row by row, packs it on all cores and uploads it.
    pub(super) fn pack(&mut self, source: LinearSource<'_>, block: &mut WeightBlock) -> Result<()> {
        let &mut Self { bytes, format, inputs, links, gated, bands, .. } = self;
        let rows = source.rows;
        let band_words = links * format.link_bytes() / size_of::<u32>();
        let words = bytes / size_of::<u32>();
        let mut packed: Vec<u32> = Vec::new();
        packed.try_reserve_exact(words).map_err(|_| Error::Memory { bytes, what: "packing a matrix" })?;
        packed.resize(words, 0);
        let (weights, columns) = packed.split_at_mut(bands * band_words);
        let (scales, biases) = columns.split_at_mut(bands * BAND);
        let row_of = |band: usize, place: usize| {
            let (row, end) = match (gated, band % 2) {
                (false, _) => (band * BAND + place, rows),
                (true, 0) => (band / 2 * BAND + place, rows / 2),
                (true, _) => (rows / 2 + band / 2 * BAND + place, rows),
            };
            (row < end).then_some(row)
        };
        let mut lengths = vec![Length::default(); if format == Format::Brain { 0 } else { bands * BAND }];
        let read = (source.open)();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(bands.max(1));
        let share = bands.div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            let parts = weights.chunks_mut(share * band_words).zip(scales.chunks_mut(share * BAND));
            let mut all_lengths = lengths.chunks_mut(share * BAND);
            for (index, (weights, scales)) in parts.enumerate() {
                let (read, row_of, lengths) = (&read, &row_of, all_lengths.next().unwrap_or_default());
                scope.spawn(move || {
                    let mut row = Row::new(inputs, links);
                    let bands = weights.chunks_mut(band_words).zip(scales.chunks_mut(BAND));
                    for (offset, (band, scales)) in bands.enumerate() {
                        for (place, scale) in scales.iter_mut().enumerate() {
                            let Some(source) = row_of(index * share + offset, place) else { continue };
                            let own_scale = row.read(read, source, format);
                            *scale = own_scale.to_bits();
                            if let Some(length) = lengths.get_mut(offset * BAND + place) {
                                length.weights = row.length() * own_scale;
                            }
                            row.write(band, place, format);
                        }
                    }
                });
            }
        });
        drop(read);
        if let Some(bias) = &source.bias {
            for (index, value) in biases.iter_mut().enumerate() {
                let own = row_of(index / BAND, index % BAND).map_or(0.0, |row| bias[row]);
                *value = own.to_bits();
                if let Some(length) = lengths.get_mut(index) {
                    length.bias = own.abs();
                }
            }
        }
        self.lengths = lengths;
        (source.packed)();
        self.address = block.put(bytes_of(&packed))?;
        Ok(())
    }
}

/// One row on its way, and what it is cut into.
struct Row {
    inputs: usize,
    values: Vec<f32>,
    near: Vec<f32>,
    half: Vec<f16>,
    brain: Vec<bf16>,
    rest: Vec<f16>,
}

impl Row {
    fn new(inputs: usize, links: usize) -> Self {
        let length = links * LINK;
        let (half, brain) = (vec![f16::ZERO; length], vec![bf16::ZERO; length]);
        Self { inputs, values: vec![0.0; length], near: vec![0.0; length], rest: half.clone(), half, brain }
    }

    /// Reads a row and scales it by a power of two; returns what results are to be multiplied by. Rows of bf16, which has
    /// the exponents of f32, stay as they are: `IS_SCALED` in fragments.cuh, by which kernels leave their scales out.
    fn read(&mut self, read: &ReadRow<'_>, row: usize, format: Format) -> f32 {
        let values = &mut self.values[..self.inputs];
        read(row, values);
        if format == Format::Brain {
            return 1.0;
        }
        let largest = values.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        let exponent = ((largest.to_bits() >> 23) as i32 - 127).clamp(-100, 127);
        let power = |exponent: i32| f32::from_bits(((exponent + 127) as u32) << 23);
        values.iter_mut().for_each(|value| *value *= power(LARGEST_EXPONENT - exponent));
        power(exponent - LARGEST_EXPONENT)
    }

    /// The root of the sum of squares of the scaled row; sixteen sums side by side take no longer than reading it.
    fn length(&self) -> f32 {
        let mut sums = [0.0f32; 16];
        for values in self.values.chunks_exact(sums.len()) {
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value * value);
        }
        sums.iter().sum::<f32>().sqrt()
    }

    /// Writes the row as row `place` of a band.
    fn write(&mut self, band: &mut [u32], place: usize, format: Format) {
        let pair = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
        if format == Format::Brain {
            self.brain.convert_from_f32_slice(&self.values);
        } else {
            self.half.convert_from_f32_slice(&self.values);
        }
        if format == Format::Split {
            self.half.convert_to_f32_slice(&mut self.near);
            let rests = self.near.iter_mut().zip(&self.values);
            rests.for_each(|(near, value)| *near = value - *near);
            self.rest.convert_from_f32_slice(&self.near);
        }
        for step in 0..self.values.len() / 16 {
            for quarter in 0..4 {
                let [low, high] = [0, 2].map(|behind| step * 16 + 4 * quarter + behind);
                let halves = |values: &[f16], at: usize| pair(values[at].to_bits(), values[at + 1].to_bits());
                let lane = place * 4 + quarter;
                match format {
                    Format::Split => {
                        let words = [&self.half, &self.rest].map(|part| [halves(part, low), halves(part, high)]);
                        band[(step * 32 + lane) * 4..][..4].copy_from_slice(words.as_flattened());
                    }
                    Format::Half => {
                        let words = [halves(&self.half, low), halves(&self.half, high)];
                        band[((step / 2 * 32 + lane) * 2 + step % 2) * 2..][..2].copy_from_slice(&words);
                    }
                    Format::Brain => {
                        let of = |at: usize| pair(self.brain[at].to_bits(), self.brain[at + 1].to_bits());
                        let words = [of(low), of(high)];
                        band[((step / 2 * 32 + lane) * 2 + step % 2) * 2..][..2].copy_from_slice(&words);
                    }
                }
            }
        }
    }
}
