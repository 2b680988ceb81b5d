//! Products in f16, where the processor multiplies twice as many of them at a time: chains short enough that their
//! rounding stays below that of bf16, added in groups, and the groups in f32.
//!
//! Rows and weights are scaled by powers of two, so that no sum of a chain can leave the range of f16.

use super::PANEL;
use super::block::{Block, strips};
use super::operand::{MOST_TILE_ROWS, Tiles};
use super::prefetch::{Prefetch, Share};
use super::rounding::{F16_CHAIN, F16_CHAINS};
use crate::cpu::detect::HalfKernel;
use crate::cpu::vector::{HalfFloats, Vector};

/// Words of every column between two bursts of prefetches.
const UNROLL: usize = 4;

/// Inputs of a word.
const PER_WORD: usize = 2;

/// Words whose sums in f16 are added up in f32.
const GROUP: usize = F16_CHAINS * F16_CHAIN;

/// The sums of one row and panel: for each column those of the first and of the second inputs of its words.
type RowSums = [f32; 2 * PANEL];

/// Sums of a tile of rows with one panel.
#[repr(align(64))]
struct Sums([RowSums; MOST_TILE_ROWS]);

impl HalfKernel for Block<'_> {
    #[inline(always)]
    fn run<H: HalfFloats>(self) {
        let Self { linear, operand, output, first_row, rows, panels } = self;
        let depth = linear.inputs().div_ceil(PER_WORD);
        let left = operand.block(rows.start, linear.inputs());
        let scales = operand.scales(rows.clone());
        let tiles = Tiles::of::<H::Floats>(rows.len());
        let bursts = depth / UNROLL * strips::<H::Floats>();
        let share = Share::of(linear.inputs(), PER_WORD, tiles.count, bursts);
        let mut sums = Sums([[0.0; 2 * PANEL]; MOST_TILE_ROWS]);
        for panel in panels {
            let weights = linear.panels(panel..panel + 1);
            let target = output.panel(panel, linear.panel_bias(panel));
            for (index, tile) in tiles.iter().enumerate() {
                let product = Tile {
                    left: &left[tile.start * depth..tile.end * depth],
                    right: weights,
                    prefetch: share.of_tile(index, weights),
                };
                let sums = &mut sums.0[..tile.len()];
                product.run::<H>(sums);
                for (row, sums) in tile.zip(sums) {
                    let sums = &numbers::<H>(sums, linear.panel_units(panel));
                    let scale = (scales[row].norm * f64::from(scales[row].unit)) as f32;
                    target.write::<H::Floats>(first_row + rows.start + row, sums, scale);
                }
            }
        }
    }
}

/// The sums of every column, its two parts together, in their units.
#[inline(always)]
fn numbers<H: HalfFloats>(sums: &RowSums, units: &[f32; PANEL]) -> [f32; PANEL] {
    let mut numbers = [0.0; PANEL];
    for column in (0..PANEL).step_by(H::Floats::LANES) {
        let [first, second] = [2 * column, 2 * column + H::Floats::LANES];
        let sum = H::add_neighbours([H::Floats::from_slice(&sums[first..]), H::Floats::from_slice(&sums[second..])]);
        sum.mul(H::Floats::from_slice(&units[column..])).to_slice(&mut numbers[column..]);
    }
    numbers
}

/// `sums[rows][32][2] = left * right`: chains of their own for each of a word's two inputs.
struct Tile<'a> {
    /// `[depth][rows]`
    left: &'a [u32],
    /// `[depth][32]`
    right: &'a [u32],
    /// What it fetches meanwhile.
    prefetch: Prefetch,
}

impl Tile<'_> {
    #[inline(always)]
    fn run<H: HalfFloats>(&self, sums: &mut [RowSums]) {
        macro_rules! choose {
            ($($rows:literal)*) => {
                match sums.len() {
                    $($rows if $rows <= H::Floats::TILE_ROWS => {
                        self.run_rows::<H, $rows>(sums.first_chunk_mut().expect("this is its length"));
                    })*
                    _ => unreachable!("a tile has at most {MOST_TILE_ROWS} rows"),
                }
            };
        }
        choose!(1 2 3 4 5 6 7 8)
    }

    #[inline(always)]
    fn run_rows<H: HalfFloats, const ROWS: usize>(&self, sums: &mut [RowSums; ROWS]) {
        let lanes = H::Floats::LANES;
        let depth = self.right.len() / PANEL;
        assert!(self.left.len() == depth * ROWS);
        let mut prefetch = self.prefetch;
        for strip in 0..strips::<H::Floats>() {
            let column = strip * 2 * lanes;
            let mut left = self.left.as_ptr();
            let mut right = self.right[column..].as_ptr();
            for group in (0..depth).step_by(GROUP) {
                let end = depth.min(group + GROUP);
                let mut total = [[H::zero(); 2]; ROWS];
                for start in (group..end).step_by(F16_CHAIN) {
                    let words = F16_CHAIN.min(end - start);
                    // SAFETY: `right` has `depth` rows of a panel and `left` as many of `ROWS` words, as just asserted.
                    let chains = unsafe { chain::<H, ROWS>(left, right, words, &mut prefetch) };
                    (left, right) = (left.wrapping_add(words * ROWS), right.wrapping_add(words * PANEL));
                    for (total, chains) in total.iter_mut().zip(chains) {
                        *total = [total[0].add(chains[0]), total[1].add(chains[1])];
                    }
                }
                for (sums, total) in sums.iter_mut().zip(total) {
                    for (half, total) in total.into_iter().enumerate() {
                        for (part, sum) in total.widened().into_iter().enumerate() {
                            let target = &mut sums[2 * column + (2 * half + part) * lanes..];
                            let sum = if group == 0 { sum } else { H::Floats::from_slice(target).add(sum) };
                            sum.to_slice(target);
                        }
                    }
                }
            }
        }
    }
}

/// The sums of `depth` words of every row and two vectors of columns.
///
/// # Safety
/// Both operands must be readable.
#[inline(always)]
unsafe fn chain<H: HalfFloats, const ROWS: usize>(
    mut left: *const u32,
    mut right: *const u32,
    depth: usize,
    prefetch: &mut Prefetch,
) -> [[H; 2]; ROWS] {
    let halves = prefetch.halves();
    let mut sums = [[H::zero(); 2]; ROWS];
    // SAFETY: every step lies inside the depth, which the caller vouches for.
    unsafe {
        for _ in 0..depth / UNROLL {
            for lines in halves {
                prefetch.fetch::<H::Floats>(lines);
                for _ in 0..UNROLL / 2 {
                    add_word(&mut sums, left, right);
                    (left, right) = (left.add(ROWS), right.wrapping_add(PANEL));
                }
            }
        }
        for _ in 0..depth % UNROLL {
            add_word(&mut sums, left, right);
            (left, right) = (left.add(ROWS), right.wrapping_add(PANEL));
        }
    }
    sums
}

/// Adds the products of one word of every row and two vectors of columns.
///
/// # Safety
/// Both operands must be readable.
#[inline(always)]
unsafe fn add_word<H: HalfFloats, const ROWS: usize>(sums: &mut [[H; 2]; ROWS], left: *const u32, right: *const u32) {
    // SAFETY: the caller vouches for both operands.
    unsafe {
        let weights = [H::load(right), H::load(right.add(H::Floats::LANES))];
        for (row, sums) in sums.iter_mut().enumerate() {
            let pair = H::splat(*left.add(row));
            *sums = [pair.mul_add(weights[0], sums[0]), pair.mul_add(weights[1], sums[1])];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::Format;
    use super::super::{Addend, Layout, LinearCall, Operand, PackedLinear, Shape};
    use crate::cpu::detect::InstructionSet;
    use crate::cpu::pool::ThreadPool;
    use crate::dtype::Dtype;
    use crate::random::{philox, uniform_from_32};

    /// Several groups of chains.
    const INPUTS: usize = 2048;
    const OUTPUTS: usize = 32;

    /// Rows times weights in a format, by the portable set and by every one that has instructions for f16.
    fn products(format: Format, input: &[f32], weights: &[f32]) -> Vec<Vec<f32>> {
        let pool = ThreadPool::new(2);
        let shape = Shape { layout: Layout::Plain, outputs: OUTPUTS, inputs: INPUTS, dtype: Dtype::Bf16 };
        let row = |row: usize, values: &mut [f32]| values.copy_from_slice(&weights[row * INPUTS..][..INPUTS]);
        let linear = PackedLinear::pack_in(format, shape, row, None, &pool);
        let sets = InstructionSet::supported().filter(|set| set.multiplies_half_floats());
        let apply = |set: InstructionSet| {
            let mut output = vec![0.0; input.len() / INPUTS * OUTPUTS];
            let call = LinearCall {
                input,
                input_stride: INPUTS,
                rows: input.len() / INPUTS,
                columns: 0..OUTPUTS,
                output: &mut output,
                output_stride: OUTPUTS,
                norm_epsilon: None,
                addend: Addend::Nothing,
            };
            linear.apply_with(set, call, &mut Operand::default(), &pool);
            output
        };
        [InstructionSet::PORTABLE].into_iter().chain(sets).map(apply).collect()
    }

    /// The root of the mean square of what results are off by.
    fn error(results: &[f32], input: &[f32], weights: &[f32]) -> f64 {
        let squares = results.iter().enumerate().map(|(index, result)| {
            let (row, column) = (&input[index / OUTPUTS * INPUTS..], &weights[index % OUTPUTS * INPUTS..]);
            let exact: f64 = row.iter().zip(&column[..INPUTS]).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            (f64::from(*result) - exact).powi(2)
        });
        (squares.sum::<f64>() / results.len() as f64).sqrt()
    }

    /// Reproducible values, nearly normal.
    fn noise(key: u32, count: usize) -> Vec<f32> {
        let uniforms = |index| philox([index as u32, 0, 0, 0], [key, 0]).map(uniform_from_32);
        (0..count).map(|index| (uniforms(index).iter().sum::<f64>() - 2.0) as f32).collect()
    }

    fn check_that_twins_agree(results: &[Vec<f32>]) {
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        for result in results {
            assert!(bits(result) == bits(&results[0]));
        }
    }

    #[test]
    fn f16_is_off_by_less_than_bf16() {
        let (input, weights) = (noise(1, 8 * INPUTS), noise(2, OUTPUTS * INPUTS));
        // One value of a hundred is fifty times as large, as in trained models.
        let outliers: Vec<f32> = input
            .iter()
            .enumerate()
            .map(|(index, value)| if index % 97 == 0 { 50.0 * value } else { *value })
            .collect();
        for input in [input, outliers] {
            let half = products(Format::F16, &input, &weights);
            check_that_twins_agree(&half);
            let of_bf16 = error(&products(Format::Bf16, &input, &weights)[0], &input, &weights);
            let of_f16 = error(&half[0], &input, &weights);
            // Chains are off by 2^-9.8 of a result, two operands in bf16 by 2^-8.8: half, and a quarter for chance.
            assert!(of_f16 < 0.625 * of_bf16, "{of_f16:e}, bf16 {of_bf16:e}");
        }
    }

    #[test]
    fn the_largest_sums_are_finite_whatever_the_size_of_the_values() {
        // The second number is what the first becomes in f16.
        for (value, rounded) in [(2f32.powi(-60), 2f32.powi(-60)), (1.999_999_9, 2.0), (2f32.powi(60), 2f32.powi(60))] {
            let (input, weights) = (vec![value; INPUTS], vec![-1.999_999_9; OUTPUTS * INPUTS]);
            let results = products(Format::F16, &input, &weights);
            check_that_twins_agree(&results);
            // Sums are the same product one to 224 times: exact.
            assert!(results[0].iter().all(|result| *result == INPUTS as f32 * rounded * -2.0), "{value:e}");
        }
    }

    #[test]
    fn a_value_far_below_its_neighbours_is_off_by_a_fraction_of_the_largest() {
        let mut input = vec![0.0; INPUTS];
        let mut weights = vec![0.0; OUTPUTS * INPUTS];
        (input[0], input[200]) = (1.0, 2f32.powi(-20) * 1.2);
        weights.chunks_exact_mut(INPUTS).for_each(|column| column[200] = 1.0);
        let results = products(Format::F16, &input, &weights);
        check_that_twins_agree(&results);
        // The largest is at least 2^3, so that the last place is at most 2^-24 of an eighth of it.
        assert!(results[0].iter().all(|result| (result - input[200]).abs() <= 2f32.powi(-25 - 3)));
    }
}
