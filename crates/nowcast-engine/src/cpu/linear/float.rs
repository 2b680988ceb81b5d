//! Products in f32, of f32 or of bf16 weights.

use super::block::{Block, GROUP};
use super::layout::Format;
use super::operand::{BLOCK_ROWS, Tiles};
use super::prefetch::Share;
use super::tile::{Tile, bursts};
use super::weights::{Floats, Paired, Weights, Widened};
use super::{PANEL, depth_block};
use crate::cpu::detect::{Kernel, PairKernel};
use crate::cpu::vector::{Pairs, Vector};

/// Register tiles that read pairs of bf16 as they are; where more share them, pairs are widened once for all.
const MOST_PAIRED_TILES: usize = 2;

/// Sums of a block of rows with one panel.
#[repr(align(64))]
struct Sums([[f32; PANEL]; BLOCK_ROWS]);

/// The weights of one group, widened to f32.
#[repr(align(64))]
struct Group([f32; GROUP * PANEL]);

impl Kernel for Block<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        if self.linear.format() != Format::Bf16 {
            return self.run_with::<V, Floats>(|words, _| words.as_ptr().cast());
        }
        if self.rows.len() <= MOST_PAIRED_TILES * V::TILE_ROWS {
            return self.run_with::<V, Widened>(|words, _| words.as_ptr().cast());
        }
        let mut widened = Group([0.0; GROUP * PANEL]);
        self.run_with::<V, Floats>(|words, depth| {
            widen::<V>(words, &mut widened.0[..depth.next_multiple_of(2) * PANEL]);
            widened.0.as_ptr()
        });
    }
}

impl PairKernel for Block<'_> {
    #[inline(always)]
    fn run<P: Pairs>(self) {
        self.run_with::<P, Paired>(|words, _| words.as_ptr().cast());
    }
}

impl Block<'_> {
    /// `weights` turns the words of one group, of so many inputs, into what a tile reads: itself, or `[depth][32]`
    /// floats, which stay there until its next call.
    #[inline(always)]
    fn run_with<V: Vector, W: Weights<V>>(&self, mut weights: impl FnMut(&[u32], usize) -> *const f32) {
        let Self { linear, operand, output, first_row, rows, panels } = self;
        let (inputs, per_word, count) = (linear.inputs(), linear.format().inputs_per_word(), rows.len());
        let left = operand.block(rows.start, inputs);
        let scales = operand.scales(rows.clone());
        let (tiles, chain) = (Tiles::of::<V>(count), depth_block(inputs));
        let share = Share::of(GROUP, per_word, tiles.count, bursts::<V>(GROUP));
        // Words of a row of the operand.
        let words_of = |inputs: usize| inputs.div_ceil(W::INPUTS / W::VALUES);
        let mut sums = Sums([[0.0; PANEL]; BLOCK_ROWS]);
        for panel in panels.clone() {
            let panel_words = linear.panels(panel..panel + 1);
            let target = output.panel(panel, linear.panel_bias(panel));
            for start in (0..inputs).step_by(GROUP) {
                let depth = GROUP.min(inputs - start);
                let words = &panel_words[start / per_word * PANEL..][..depth.div_ceil(per_word) * PANEL];
                let right = weights(words, depth);
                let left = &left[words_of(start) * count..][..words_of(depth) * count];
                for (index, tile) in tiles.iter().enumerate() {
                    let product = Tile {
                        left: left[tile.start * words_of(depth)..][..tile.len() * words_of(depth)].as_ptr().cast(),
                        right,
                        sums: sums.0[tile.clone()].as_mut_ptr().cast(),
                        rows: tile.len(),
                        depth,
                        chain,
                        replace: start == 0,
                        prefetch: share.of_tile(index, words),
                    };
                    // SAFETY: the operand holds `depth` inputs of the tile, `right` as many rows of a panel, and the
                    // sums have room for the block.
                    unsafe { product.run::<V, W>() };
                    // Written tile by tile, the results leave while the next tile computes.
                    if start + depth == inputs {
                        for row in tile {
                            target.write::<V>(first_row + rows.start + row, &sums.0[row], scales[row].norm as f32);
                        }
                    }
                }
            }
        }
    }
}

/// Turns words of two bf16 into rows of f32.
#[inline(always)]
fn widen<V: Vector>(words: &[u32], floats: &mut [f32]) {
    for (words, rows) in words.chunks_exact(PANEL).zip(floats.chunks_exact_mut(2 * PANEL)) {
        for column in (0..PANEL).step_by(V::LANES) {
            // SAFETY: a row of a panel has 32 words, and any word is an f32.
            let [first, second] = unsafe { V::load(words[column..].as_ptr().cast()) }.halves();
            first.to_slice(&mut rows[column..]);
            second.to_slice(&mut rows[PANEL + column..]);
        }
    }
}
