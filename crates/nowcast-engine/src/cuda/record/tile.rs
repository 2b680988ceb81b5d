//! The blocks of a result that products on tensor cores compute, and what each costs.

use super::fragments::PARTS;
use crate::cuda::kernel::Kernel;
use crate::cuda::weights::{BAND, Format};

const RING_THREADS: usize = 384;
/// Rows of a tile up to which parts of several chains find registers; `HAS_LONG_PARTS` in linear_wide.cuh.
const MOST_ROWS_OF_LONG_PARTS: usize = 128;
/// Those that multiply; `SPLIT_WORKERS` in linear_inbox.cuh.
const SPLIT_RING_THREADS: usize = 128;
const SPLIT_RING_WARPS: usize = SPLIT_RING_THREADS / 32;
/// Bytes that all multiprocessors read from the L2 cache in a microsecond, in the boxes of rings, and in the larger ones of
/// one-product formats.
const CACHE_RATE: f64 = 5.5e6;
const RING_CACHE_RATE: f64 = 7.7e6;
const SHORT_CACHE_RATE: f64 = 10.5e6;

/// Microseconds of a launch that cuts rows, which tiles for warpgroups save where rows come cut or go on so.
pub(super) const CUTTING: f64 = 2.3;

/// Microseconds of a block beside its links, and of a link, where as many blocks as do share a multiprocessor: fitted to
/// the times of 500 products of 30 to 1,344 rows on an H200, rings since then to products of 192 to 1,792 rows, f32 split
/// rings and rings of 64 rows to what products of 240 and 1,344 rows take in a forecast.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    fixed: f64,
    link: f64,
}

/// A block of the result.
pub(super) struct Tile {
    pub(super) kernel: fn(Format) -> Kernel,
    pub(super) columns: usize,
    pub(super) rows: usize,
    threads: usize,
    /// Parts that are summed side by side, each with stages of its own.
    pub(super) depth: usize,
    /// Stages on their way for f32, of one link, and for other formats, of two where it is a ring.
    pub(super) stages: usize,
    pub(super) short_stages: usize,
    /// Blocks that share a multiprocessor.
    pub(super) resident: usize,
    /// Whether four warps multiply together, which only some architectures can.
    pub(super) grouped: bool,
    /// Blocks of a cluster that share out the links; `None` where a block does one tile after the other, or the only one.
    pub(super) sharers: Option<usize>,
    /// For f32, and for formats with one product for each pair of values.
    pub(super) pace: Pace,
    pub(super) short_pace: Pace,
}

/// Of a tile that a format does not have.
const NEVER: Pace = Pace { fixed: f64::INFINITY, link: 0.0 };

/// A small tile whose links the blocks of a cluster share out; whoever takes it tells what it costs.
const fn split_ring(kernel: fn(Format) -> Kernel, sharers: usize) -> Tile {
    Tile {
        kernel,
        columns: 64,
        rows: 96,
        threads: SPLIT_RING_THREADS,
        depth: 1,
        stages: 4,
        short_stages: 4,
        resident: 2,
        grouped: true,
        sharers: Some(sharers),
        pace: NEVER,
        short_pace: NEVER,
    }
}

/// From the largest to the smallest; the last fits every GPU.
pub(super) const TILES: [Tile; 11] = [
    Tile {
        kernel: Kernel::Ring176,
        columns: 128,
        rows: 176,
        threads: RING_THREADS,
        depth: 1,
        stages: 3,
        short_stages: 5,
        resident: 1,
        grouped: true,
        sharers: None,
        pace: Pace { fixed: 13.6, link: 0.68 },
        short_pace: Pace { fixed: 6.0, link: 0.30 },
    },
    Tile {
        kernel: Kernel::Ring128,
        columns: 128,
        rows: 128,
        threads: RING_THREADS,
        depth: 1,
        stages: 4,
        short_stages: 6,
        resident: 1,
        grouped: true,
        sharers: None,
        pace: Pace { fixed: 9.8, link: 0.55 },
        short_pace: Pace { fixed: 7.1, link: 0.20 },
    },
    Tile {
        kernel: Kernel::Ring96,
        columns: 128,
        rows: 96,
        threads: RING_THREADS,
        depth: 1,
        stages: 6,
        short_stages: 7,
        resident: 1,
        grouped: true,
        sharers: None,
        pace: Pace { fixed: 8.2, link: 0.45 },
        short_pace: Pace { fixed: 4.6, link: 0.17 },
    },
    Tile {
        kernel: |_| Kernel::Ring64,
        columns: 128,
        rows: 64,
        threads: RING_THREADS,
        depth: 1,
        stages: 7,
        short_stages: 0,
        resident: 1,
        grouped: true,
        sharers: None,
        pace: Pace { fixed: 6.6, link: 0.41 },
        short_pace: NEVER,
    },
    Tile {
        pace: Pace { fixed: 4.4, link: 0.46 },
        short_pace: Pace { fixed: 5.6, link: 0.22 },
        ..split_ring(Kernel::SplitRing2, 2)
    },
    Tile {
        pace: Pace { fixed: 4.0, link: 0.88 },
        short_pace: Pace { fixed: 4.4, link: 0.24 },
        ..split_ring(Kernel::SplitRing4, 4)
    },
    Tile {
        kernel: Kernel::Block128By128,
        columns: 128,
        rows: 128,
        threads: 256,
        depth: 1,
        stages: 4,
        short_stages: 4,
        resident: 1,
        grouped: false,
        sharers: None,
        pace: Pace { fixed: 12.0, link: 1.30 },
        short_pace: Pace { fixed: 12.0, link: 0.65 },
    },
    Tile {
        kernel: Kernel::Block128By96,
        columns: 96,
        rows: 128,
        threads: 256,
        depth: 1,
        stages: 4,
        short_stages: 4,
        resident: 1,
        grouped: false,
        sharers: None,
        pace: Pace { fixed: 11.0, link: 1.10 },
        short_pace: Pace { fixed: 11.0, link: 0.55 },
    },
    Tile {
        kernel: Kernel::Block64By64,
        columns: 64,
        rows: 64,
        threads: 256,
        depth: 4,
        stages: 3,
        short_stages: 3,
        resident: 1,
        grouped: false,
        sharers: None,
        pace: Pace { fixed: 4.5, link: 0.30 },
        short_pace: Pace { fixed: 4.5, link: 0.25 },
    },
    Tile {
        kernel: Kernel::Block32By32,
        columns: 32,
        rows: 32,
        threads: 128,
        depth: 4,
        stages: 4,
        short_stages: 4,
        resident: 1,
        grouped: false,
        sharers: None,
        pace: Pace { fixed: 1.5, link: 0.26 },
        short_pace: Pace { fixed: 1.5, link: 0.10 },
    },
    Tile {
        kernel: Kernel::Small32By32,
        columns: 32,
        rows: 32,
        threads: 128,
        depth: 4,
        stages: 2,
        short_stages: 2,
        resident: 3,
        grouped: false,
        sharers: None,
        pace: Pace { fixed: 2.9, link: 0.39 },
        short_pace: Pace { fixed: 2.9, link: 0.20 },
    },
];

impl Tile {
    /// Threads of a block; links of f16 pairs are sent by others than those that multiply.
    pub(super) fn threads(&self, format: Format) -> usize {
        if self.sharers.is_some() && format == Format::Split { 2 * self.threads } else { self.threads }
    }

    /// Links of a stage.
    pub(super) fn stage_links(&self, format: Format) -> usize {
        if self.grouped { format.links_together() } else { 1 }
    }

    /// Whether a format has it.
    pub(super) fn is_for(&self, format: Format) -> bool {
        self.pace_in(format).fixed.is_finite()
    }

    /// Whether the sums of products with so many links have registers.
    pub(super) fn holds(&self, links: usize, format: Format) -> bool {
        // Tiles of many rows have none for parts of several chains.
        self.rows <= MOST_ROWS_OF_LONG_PARTS
            || format == Format::Split
            || format.most_links_of_part(links, PARTS) <= format.most_links_of_chain()
    }

    fn pace_in(&self, format: Format) -> Pace {
        if format == Format::Split { self.pace } else { self.short_pace }
    }

    pub(super) fn shared_bytes(&self, format: Format) -> usize {
        let stages = if format == Format::Split { self.stages } else { self.short_stages };
        let stage_bytes = (self.columns + self.rows) / BAND * self.stage_links(format) * format.link_bytes();
        let ring = self.depth * stages * stage_bytes;
        // A gap behind every row keeps rows in different banks.
        let results = (self.columns + 4) * self.rows * size_of::<f32>();
        // A ring of links that are sent has barriers, and its rows' scales beside it.
        let scales = self.rows * size_of::<f32>();
        let barriers = 2 * stages * size_of::<u64>();
        match (self.grouped, self.sharers, self.depth) {
            // The sums that others send; every warp has its own copy of the scales of the rows that the block finishes.
            (true, Some(sharers), _) => {
                let sent = (PARTS - PARTS / sharers) * self.rows / sharers * self.columns * size_of::<f32>();
                ring + sent + SPLIT_RING_WARPS * scales / sharers + barriers + size_of::<u64>()
            }
            (true, None, _) if format == Format::Split => ring + results + scales + barriers,
            // Results go from registers to memory; the scales of two tiles have barriers of their own: `ScaleRing`.
            (true, None, _) => ring + 2 * scales + barriers + 4 * size_of::<u64>(),
            // One part's sums wait behind the ring; those of several meet in its place.
            (false, _, 1) => ring + results,
            (false, _, depth) => ring.max(depth * results),
        }
    }

    pub(super) fn grid(&self, rows: usize, columns: usize) -> [usize; 3] {
        [rows.div_ceil(self.rows), columns.div_ceil(self.columns), 1]
    }

    /// Blocks of the grid.
    pub(super) fn blocks(&self, rows: usize, columns: usize) -> usize {
        let [down, across, _] = self.grid(rows, columns);
        down * across * self.sharers.unwrap_or(1)
    }

    /// Microseconds for so many rows, columns and links, about.
    pub(super) fn cost(&self, extent: [usize; 3], format: Format, multiprocessors: usize) -> f64 {
        let [rows, columns, links] = extent;
        let (blocks, sharers) = (self.blocks(rows, columns), self.sharers.unwrap_or(1));
        let turns = blocks.div_ceil(multiprocessors * self.resident);
        let pace = self.pace_in(format);
        let cache_rate = match (format, self.grouped) {
            (_, false) => CACHE_RATE,
            (Format::Split, true) => RING_CACHE_RATE,
            (_, true) => SHORT_CACHE_RATE,
        };
        let worked = turns as f64 * (pace.fixed + links.div_ceil(sharers) as f64 * pace.link);
        // Small tiles read every link more often.
        let read = blocks / sharers * links * (self.rows + self.columns) / BAND * format.link_bytes();
        worked.max(pace.fixed + read as f64 / cache_rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cheapest tile.
    fn best(extent: [usize; 3], format: Format) -> &'static Tile {
        best_of(extent, format, true)
    }

    /// With warpgroups and without.
    fn best_of(extent: [usize; 3], format: Format, grouped: bool) -> &'static Tile {
        let cost = |tile: &&Tile| tile.cost(extent, format, 132);
        let tiles = TILES.iter().filter(|tile| grouped || !tile.grouped);
        tiles.min_by(|one, other| cost(one).total_cmp(&cost(other))).unwrap()
    }

    /// `tiles_that_only_some_extents_have` and, in the end, `thousands_of_rows` need these.
    #[test]
    fn large_tiles_have_extents() {
        for format in [Format::Split, Format::Half, Format::Brain] {
            assert_eq!(best([260, 5_704, 5], format).rows, 176);
            assert!(best([760, 4_200, 5], format).rows == 96 && best([1_792, 760, 5], format).rows == 96);
            let rows = if format == Format::Split { 128 } else { 176 };
            assert_eq!(best([1_500, 1_400, 5], format).rows, rows);
        }
        for format in [Format::Half, Format::Brain] {
            for (extent, rows) in [([204, 5_704, 34], 128), ([108, 4_296, 34], 96)] {
                let best = best(extent, format);
                assert!(best.rows == rows && best.columns == 128, "{extent:?}: {}", (best.kernel)(format).name());
            }
            // Parts of several chains.
            assert!(format.most_links_of_part(34, PARTS) > format.most_links_of_chain());
            let best = best_of([110, 3_200, 5], format, false);
            assert_eq!([best.rows, best.columns], [64, 64]);
        }
    }

    /// `blocks_share_out_the_links_of_many_columns` needs these.
    #[test]
    fn products_of_some_hundred_rows_are_shared_out() {
        assert_eq!(best([70, 5_704, 6], Format::Split).sharers, Some(2));
        for format in [Format::Half, Format::Brain] {
            assert_eq!(best([100, 2_696, 20], format).sharers, Some(2));
        }
        for format in [Format::Split, Format::Half, Format::Brain] {
            assert_eq!(best([200, 640, 16], format).sharers, Some(4));
        }
    }

    /// The tests of cuda_reach.rs need these: other tiles cut rows apart.
    #[test]
    fn rows_of_a_known_reach_are_handed_over() {
        // Gated products, then what takes rows: of gates and of attention.
        let extents = [
            [70, 5_696, 5],
            [150, 1_024, 16],
            [70, 2_144, 89],
            [150, 1_280, 16],
            [140, 1_280, 16],
            [192, 832, 26],
            [200, 1_280, 16],
            [858, 640, 24],
            [440, 640, 24],
            [128, 1_280, 16],
        ];
        for format in [Format::Split, Format::Half] {
            for extent in extents {
                let best = best(extent, format);
                assert!(best.grouped, "{extent:?}: {}", (best.kernel)(format).name());
            }
        }
        assert_eq!(best(extents[0], Format::Split).sharers, Some(2));
        assert_eq!(best(extents[1], Format::Split).sharers, Some(4));
        // `rows_cut_for_the_next_product_have_the_same_digits` has two of rings.
        for (extent, rows) in [([200, 4_224, 5], 64), ([130, 5_696, 5], 96)] {
            let ring = best(extent, Format::Split);
            assert!(ring.grouped && ring.sharers.is_none() && ring.rows == rows);
        }
    }

    /// `rows_cut_for_the_next_product_have_the_same_digits` needs these: other tiles cut rows apart.
    #[test]
    fn products_that_hand_rows_over_are_tiled_for_warpgroups() {
        let extents = [
            ([200, 4_224, 5], None),
            ([200, 640, 66], Some(4)),
            ([60, 4_224, 16], Some(4)),
            ([60, 2_144, 66], Some(4)),
            ([70, 4_288, 20], Some(2)),
            ([70, 2_144, 67], Some(4)),
        ];
        for (extent, sharers) in extents {
            let best = best(extent, Format::Brain);
            assert!(best.grouped && best.sharers == sharers, "{extent:?}: {}", (best.kernel)(Format::Brain).name());
        }
    }
}
