//! The register tile: the innermost loop of every matrix product.
//!
//! An element of the result is one chain of multiply-adds over the depth, in order. Which elements share a tile, and so
//! the shape of the product, is free to change without changing a digit.

use super::vector::Vector;

/// What becomes of the chain of one element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accumulate {
    /// It starts from zero and replaces the target.
    Replace,
    /// It starts from the target and replaces it: the chain goes on.
    Continue,
    /// It starts from zero and is added to the target.
    Add,
}

/// A matrix product `target[rows, columns] = left[rows, depth] * right[depth, columns]`; strides are in values.
#[derive(Clone, Copy)]
pub(crate) struct Product {
    pub(crate) left: *const f32,
    pub(crate) left_stride: usize,
    pub(crate) right: *const f32,
    pub(crate) right_stride: usize,
    pub(crate) target: *mut f32,
    pub(crate) target_stride: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) depth: usize,
    pub(crate) accumulate: Accumulate,
    /// Memory to fetch meanwhile, as much as `right` has, or null; it need not be readable.
    pub(crate) prefetch: *const f32,
}

/// Steps over the depth between two bursts of prefetches.
const UNROLL: usize = 4;
/// Values in a cache line.
const LINE: usize = 16;

/// Computes the product.
///
/// # Safety
/// `left` and `right` must be readable and `target` writable at the given sizes, and `target` must overlap neither.
#[inline(always)]
pub(crate) unsafe fn multiply<V: Vector>(product: &Product) {
    let strip = 2 * V::LANES;
    let row_tiles = product.rows.div_ceil(V::TILE_ROWS);
    let strips = product.columns.div_ceil(strip);
    let lines_per_burst = (UNROLL * product.columns.div_ceil(LINE)).div_ceil((row_tiles * strips).max(1));
    let lines = product.depth * product.columns.div_ceil(LINE);
    let mut fetched = 0;
    let mut row = 0;
    for index in 0..row_tiles {
        // Even tiles: a tile of one row is bound by latency, not by throughput.
        let rows = (product.rows - row).div_ceil(row_tiles - index);
        for strip_index in 0..strips {
            let column = strip_index * strip;
            let burst = if product.prefetch.is_null() || fetched >= lines { 0 } else { lines_per_burst };
            // SAFETY: row and column lie inside the product, which the caller vouches for.
            let part = unsafe {
                Product {
                    left: product.left.add(row * product.left_stride),
                    right: product.right.add(column),
                    target: product.target.add(row * product.target_stride + column),
                    rows,
                    columns: (product.columns - column).min(strip),
                    prefetch: product.prefetch.wrapping_add(fetched * LINE),
                    ..*product
                }
            };
            fetched += burst * (product.depth / UNROLL);
            // SAFETY: as above.
            unsafe { tile::<V>(&part, burst) };
        }
        row += rows;
    }
}

/// Chooses the tile for the number of rows, at most [`Vector::TILE_ROWS`], and columns, at most two vectors.
#[inline(always)]
unsafe fn tile<V: Vector>(part: &Product, burst: usize) {
    macro_rules! choose {
        ($($rows:literal)*) => {
            match part.rows {
                // SAFETY: the caller's promise is the same.
                $($rows if $rows <= V::TILE_ROWS => unsafe {
                    if part.columns == 2 * V::LANES {
                        tile_of::<V, $rows, true>(part, burst)
                    } else {
                        tile_of::<V, $rows, false>(part, burst)
                    }
                },)*
                _ => unreachable!("a tile has at most {} rows", V::TILE_ROWS),
            }
        };
    }
    choose!(1 2 3 4 5 6 7 8)
}

#[inline(always)]
unsafe fn tile_of<V: Vector, const ROWS: usize, const FULL: bool>(part: &Product, burst: usize) {
    let lower = part.columns.min(V::LANES);
    let upper = part.columns - lower;
    let mut sums = [[V::splat(0.0); 2]; ROWS];
    // SAFETY: rows, columns and depth stay inside the part, which the caller vouches for.
    unsafe {
        if part.accumulate == Accumulate::Continue {
            for (row, sums) in sums.iter_mut().enumerate() {
                *sums = pair::<V, FULL>(part.target.add(row * part.target_stride), lower, upper);
            }
        }
        let mut left = [part.left; ROWS];
        for (row, left) in left.iter_mut().enumerate() {
            *left = part.left.add(row * part.left_stride);
        }
        let mut right = part.right;
        let mut prefetch = part.prefetch;
        let mut step = 0;
        while step + UNROLL <= part.depth {
            for _ in 0..burst {
                V::prefetch(prefetch);
                prefetch = prefetch.wrapping_add(LINE);
            }
            for _ in 0..UNROLL {
                let weights = pair::<V, FULL>(right, lower, upper);
                for row in 0..ROWS {
                    let value = V::splat(*left[row].add(step));
                    sums[row][0] = value.mul_add(weights[0], sums[row][0]);
                    sums[row][1] = value.mul_add(weights[1], sums[row][1]);
                }
                right = right.wrapping_add(part.right_stride);
                step += 1;
            }
        }
        while step < part.depth {
            let weights = pair::<V, FULL>(right, lower, upper);
            for row in 0..ROWS {
                let value = V::splat(*left[row].add(step));
                sums[row][0] = value.mul_add(weights[0], sums[row][0]);
                sums[row][1] = value.mul_add(weights[1], sums[row][1]);
            }
            right = right.wrapping_add(part.right_stride);
            step += 1;
        }
        for (row, sums) in sums.iter_mut().enumerate() {
            let target = part.target.add(row * part.target_stride);
            if part.accumulate == Accumulate::Add {
                let before = pair::<V, FULL>(target, lower, upper);
                *sums = [before[0].add(sums[0]), before[1].add(sums[1])];
            }
            if FULL {
                sums[0].store(target);
                sums[1].store(target.add(V::LANES));
            } else {
                sums[0].store_first(target, lower);
                sums[1].store_first(target.wrapping_add(lower), upper);
            }
        }
    }
}

/// Reads two neighbouring vectors, of which only `lower` and `upper` lanes are there unless `FULL`.
#[inline(always)]
unsafe fn pair<V: Vector, const FULL: bool>(source: *const f32, lower: usize, upper: usize) -> [V; 2] {
    // SAFETY: the caller vouches for `lower + upper` readable values, two whole vectors if `FULL`.
    unsafe {
        if FULL {
            [V::load(source), V::load(source.add(V::LANES))]
        } else {
            [V::load_first(source, lower), V::load_first(source.wrapping_add(lower), upper)]
        }
    }
}
