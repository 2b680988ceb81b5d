//! Products of int8: sums of integers are exact, so their order is free.

use super::PANEL;
use super::block::{Block, strips};
use super::operand::{MOST_TILE_ROWS, Tiles};
use super::pack::PackedLinear;
use super::prefetch::{Prefetch, Share};
use crate::cpu::detect::IntegerKernel;
use crate::cpu::vector::{Integers, Vector};

/// Words of every column between two bursts of prefetches.
const UNROLL: usize = 4;

impl IntegerKernel for Block<'_> {
    #[inline(always)]
    fn run<I: Integers>(self) {
        let Self { linear, operand, output, first_row, rows, panels } = self;
        let per_word = linear.format().inputs_per_word();
        let depth = linear.inputs().div_ceil(per_word);
        let left = operand.block(rows.start, linear.inputs());
        let scales = operand.scales(rows.clone());
        let tiles = Tiles::of::<I::Floats>(rows.len());
        let bursts = depth.div_ceil(UNROLL) * strips::<I::Floats>();
        let share = Share::of(linear.inputs(), per_word, tiles.count, bursts);
        for panel in panels {
            let weights = linear.panels(panel..panel + 1);
            let target = output.panel(panel, linear.panel_bias(panel));
            for (index, tile) in tiles.iter().enumerate() {
                let product = Tile {
                    left: &left[tile.start * depth..tile.end * depth],
                    right: weights,
                    prefetch: share.of_tile(index, weights),
                };
                let mut sums = [[0; PANEL]; MOST_TILE_ROWS];
                product.run::<I>(&mut sums[..tile.len()]);
                for (row, sums) in tile.zip(&sums) {
                    let sums = &numbers::<I>(sums, linear, panel);
                    let scale = (scales[row].norm * f64::from(scales[row].unit)) as f32;
                    target.write::<I::Floats>(first_row + rows.start + row, sums, scale);
                }
            }
        }
    }
}

/// Sums in units of the row.
#[inline(always)]
fn numbers<I: Integers>(sums: &[i32; PANEL], linear: &PackedLinear, panel: usize) -> [f32; PANEL] {
    let (units, excesses) = (linear.panel_units(panel), linear.panel_excesses(panel));
    let mut numbers = [0.0; PANEL];
    for column in (0..PANEL).step_by(I::Floats::LANES) {
        let exact = I::from_slice(&sums[column..]).sub(I::from_slice(&excesses[column..]));
        exact.to_floats().mul(I::Floats::from_slice(&units[column..])).to_slice(&mut numbers[column..]);
    }
    numbers
}

/// `sums[rows][32] = left * right` in words of four inputs.
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
    fn run<I: Integers>(&self, sums: &mut [[i32; PANEL]]) {
        macro_rules! choose {
            ($($rows:literal)*) => {
                match sums.len() {
                    $($rows if $rows <= I::Floats::TILE_ROWS => {
                        self.run_rows::<I, $rows>(sums.first_chunk_mut().expect("this is its length"));
                    })*
                    _ => unreachable!("a tile has at most {} rows", I::Floats::TILE_ROWS),
                }
            };
        }
        choose!(1 2 3 4 5 6 7 8)
    }

    #[inline(always)]
    fn run_rows<I: Integers, const ROWS: usize>(&self, sums: &mut [[i32; PANEL]; ROWS]) {
        let lanes = I::Floats::LANES;
        let depth = self.right.len() / PANEL;
        assert!(self.left.len() == depth * ROWS);
        let mut prefetch = self.prefetch;
        let halves = prefetch.halves();
        for strip in 0..strips::<I::Floats>() {
            let column = strip * 2 * lanes;
            let mut chains = [[I::zero(); 2]; ROWS];
            for step in 0..depth {
                if step % (UNROLL / 2) == 0 {
                    prefetch.fetch::<I::Floats>(halves[step % UNROLL / (UNROLL / 2)]);
                }
                // SAFETY: `right` has `depth` rows of a panel and `left` as many of `ROWS` words, as just asserted.
                unsafe {
                    let right = self.right.as_ptr().add(step * PANEL + column);
                    let weights = [I::load(right), I::load(right.add(lanes))];
                    for (row, chains) in chains.iter_mut().enumerate() {
                        let bytes = I::splat(*self.left.as_ptr().add(step * ROWS + row));
                        chains[0] = chains[0].add_products(bytes, weights[0]);
                        chains[1] = chains[1].add_products(bytes, weights[1]);
                    }
                }
            }
            for (sums, chains) in sums.iter_mut().zip(chains) {
                chains[0].to_slice(&mut sums[column..]);
                chains[1].to_slice(&mut sums[column + lanes..]);
            }
        }
    }
}
