//! The register tile of a linear layer: a few packed rows times one panel.
//!
//! Many chains of multiply-adds run through one call, each added to the sums when it ends: the next one starts while
//! the last one is still on its way, so that no chain waits for another.

use super::PANEL;
use super::block::strips;
use super::prefetch::Prefetch;
use super::weights::Weights;
use crate::cpu::vector::Vector;

/// Inputs between two bursts of prefetches.
const UNROLL: usize = 4;

/// `sums[rows][32] += left * right`, chain by chain.
pub(super) struct Tile {
    /// `[depth / inputs per word][rows]`
    pub(super) left: *const f32,
    /// `[depth / inputs per word][32]`; a last word may be half empty.
    pub(super) right: *const f32,
    /// `[rows][32]`
    pub(super) sums: *mut f32,
    pub(super) rows: usize,
    /// Inputs.
    pub(super) depth: usize,
    /// Inputs of one chain.
    pub(super) chain: usize,
    /// Whether the first chain replaces the sums.
    pub(super) replace: bool,
    /// What it fetches meanwhile.
    pub(super) prefetch: Prefetch,
}

/// How often a tile of so many inputs fetches ahead.
pub(super) const fn bursts<V: Vector>(depth: usize) -> usize {
    depth / UNROLL * strips::<V>()
}

impl Tile {
    /// Computes the sums.
    ///
    /// # Safety
    /// `left` and `right` must be readable and `sums` writable at their shapes, and `sums` must overlap neither.
    #[inline(always)]
    pub(super) unsafe fn run<V: Vector, W: Weights<V>>(&self) {
        macro_rules! choose {
            ($($rows:literal)*) => {
                match self.rows {
                    // SAFETY: the caller's promise is the same.
                    $($rows if $rows <= V::TILE_ROWS => unsafe { self.run_rows::<V, W, $rows>() },)*
                    _ => unreachable!("a tile has at most {} rows", V::TILE_ROWS),
                }
            };
        }
        choose!(1 2 3 4 5 6 7 8)
    }

    #[inline(always)]
    unsafe fn run_rows<V: Vector, W: Weights<V>, const ROWS: usize>(&self) {
        let mut prefetch = self.prefetch;
        let halves = prefetch.halves();
        for strip in 0..strips::<V>() {
            let column = strip * 2 * V::LANES;
            let mut left = self.left;
            let mut right = self.right.wrapping_add(column);
            let mut begin = 0;
            while begin < self.depth {
                let chain = self.chain.min(self.depth - begin);
                let mut sums = [[V::splat(0.0); 2]; ROWS];
                // SAFETY: every step lies inside the depth, which the caller vouches for.
                unsafe {
                    for _ in 0..chain / UNROLL {
                        for lines in halves {
                            prefetch.fetch::<V>(lines);
                            for _ in 0..UNROLL / 2 / W::INPUTS {
                                W::add(&mut sums, left, right);
                                left = left.add(W::VALUES * ROWS);
                                right = right.wrapping_add(PANEL);
                            }
                        }
                    }
                    for _ in 0..chain % UNROLL / W::INPUTS {
                        W::add(&mut sums, left, right);
                        left = left.add(W::VALUES * ROWS);
                        right = right.wrapping_add(PANEL);
                    }
                    // Chains are even: only the last one ends within a word.
                    if !chain.is_multiple_of(W::INPUTS) {
                        W::add_half(&mut sums, left, right);
                    }
                    for (row, sums) in sums.into_iter().enumerate() {
                        let target = self.sums.add(row * PANEL + column);
                        for (half, mut sum) in sums.into_iter().enumerate() {
                            let target = target.add(half * V::LANES);
                            if begin > 0 || !self.replace {
                                sum = V::load(target).add(sum);
                            }
                            sum.store(target);
                        }
                    }
                }
                begin += chain;
            }
        }
    }
}
