//! The register tile of a linear layer: a few packed rows times one panel.
//!
//! Many chains of multiply-adds run through one call, each added to the sums when it ends: the next one starts while
//! the last one is still on its way, so that no chain waits for another.

use super::PANEL;
use super::prefetch::Prefetch;
use crate::cpu::vector::Vector;

/// Steps over the depth between two bursts of prefetches.
const UNROLL: usize = 4;

/// `sums[rows][32] += left * right`, chain by chain.
pub(super) struct Tile {
    /// `[depth][rows]`
    pub(super) left: *const f32,
    /// `[depth][32]`, or `[depth / 2][32]` pairs of bf16.
    pub(super) right: *const f32,
    /// Whether `right` holds pairs of bf16; a last one may be half empty.
    pub(super) pairs: bool,
    /// `[rows][32]`
    pub(super) sums: *mut f32,
    pub(super) rows: usize,
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

/// Passes over the depth of a tile, two vectors of columns each.
const fn strips<V: Vector>() -> usize {
    PANEL / (2 * V::LANES)
}

impl Tile {
    /// Computes the sums.
    ///
    /// # Safety
    /// `left` and `right` must be readable and `sums` writable at their shapes, and `sums` must overlap neither.
    #[inline(always)]
    pub(super) unsafe fn run<V: Vector>(&self) {
        macro_rules! choose {
            ($($rows:literal)*) => {
                match self.rows {
                    // SAFETY: the caller's promise is the same.
                    $($rows if $rows <= V::TILE_ROWS => unsafe {
                        if self.pairs { self.run_rows::<V, $rows, true>() } else { self.run_rows::<V, $rows, false>() }
                    },)*
                    _ => unreachable!("a tile has at most {} rows", V::TILE_ROWS),
                }
            };
        }
        choose!(1 2 3 4 5 6 7 8)
    }

    #[inline(always)]
    unsafe fn run_rows<V: Vector, const ROWS: usize, const PAIRS: bool>(&self) {
        let mut prefetch = self.prefetch;
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
                        prefetch.burst::<V>();
                        if PAIRS {
                            for _ in 0..UNROLL / 2 {
                                let [first, second] = pairs::<V>(right);
                                step(&mut sums, left, first);
                                step(&mut sums, left.add(ROWS), second);
                                left = left.add(2 * ROWS);
                                right = right.wrapping_add(PANEL);
                            }
                        } else {
                            for _ in 0..UNROLL {
                                step(&mut sums, left, [V::load(right), V::load(right.add(V::LANES))]);
                                left = left.add(ROWS);
                                right = right.wrapping_add(PANEL);
                            }
                        }
                    }
                    for rest in 0..chain % UNROLL {
                        let weights = if PAIRS {
                            pairs::<V>(right)[rest % 2]
                        } else {
                            [V::load(right), V::load(right.add(V::LANES))]
                        };
                        step(&mut sums, left, weights);
                        left = left.add(ROWS);
                        if !PAIRS || rest % 2 == 1 {
                            right = right.wrapping_add(PANEL);
                        }
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

/// Two vectors of each of the inputs that share their lanes.
///
/// # Safety
/// Two vectors must be readable.
#[inline(always)]
unsafe fn pairs<V: Vector>(right: *const f32) -> [[V; 2]; 2] {
    // SAFETY: the caller vouches for them.
    let [a, b] = unsafe { [V::load(right).halves(), V::load(right.add(V::LANES)).halves()] };
    [[a[0], b[0]], [a[1], b[1]]]
}

/// One input of every row.
///
/// # Safety
/// `ROWS` values must be readable.
#[inline(always)]
unsafe fn step<V: Vector, const ROWS: usize>(sums: &mut [[V; 2]; ROWS], left: *const f32, weights: [V; 2]) {
    for (row, sums) in sums.iter_mut().enumerate() {
        // SAFETY: the caller vouches for it.
        let value = V::splat(unsafe { *left.add(row) });
        sums[0] = value.mul_add(weights[0], sums[0]);
        sums[1] = value.mul_add(weights[1], sums[1]);
    }
}
