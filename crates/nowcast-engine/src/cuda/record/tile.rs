//! The blocks of a result that products on tensor cores compute, and what each costs.

use crate::cuda::kernel::Kernel;
use crate::cuda::weights::{BAND, Format};

const RING_THREADS: usize = 384;

/// A block of the result.
pub(super) struct Tile {
    pub(super) kernel: fn(Format) -> Kernel,
    pub(super) columns: usize,
    pub(super) rows: usize,
    pub(super) threads: usize,
    /// Parts that are summed side by side, each with stages of its own.
    pub(super) depth: usize,
    /// Links on their way for f32; other formats may have room for more.
    pub(super) stages: usize,
    pub(super) short_stages: usize,
    /// Blocks that share a multiprocessor.
    pub(super) resident: usize,
    /// Whether four warps multiply together, which only some architectures can.
    pub(super) grouped: bool,
    /// How much a multiprocessor gets done with as many blocks as share it, and with one alone; 1 is the 128 x 128 tile
    /// without warpgroups.
    pub(super) speed: f64,
    pub(super) alone: f64,
}

/// From the largest to the smallest; the last fits every GPU.
pub(super) const TILES: [Tile; 8] = [
    Tile {
        kernel: Kernel::Ring192,
        columns: 128,
        rows: 192,
        threads: RING_THREADS,
        depth: 1,
        stages: 3,
        short_stages: 6,
        resident: 1,
        grouped: true,
        speed: 2.28,
        alone: 2.28,
    },
    Tile {
        kernel: Kernel::Ring128,
        columns: 128,
        rows: 128,
        threads: RING_THREADS,
        depth: 1,
        stages: 4,
        short_stages: 8,
        resident: 1,
        grouped: true,
        speed: 2.29,
        alone: 2.29,
    },
    Tile {
        kernel: Kernel::Ring96,
        columns: 128,
        rows: 96,
        threads: RING_THREADS,
        depth: 1,
        stages: 6,
        short_stages: 12,
        resident: 1,
        grouped: true,
        speed: 1.96,
        alone: 1.96,
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
        speed: 1.0,
        alone: 1.0,
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
        speed: 0.95,
        alone: 0.95,
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
        speed: 0.75,
        alone: 0.75,
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
        speed: 0.4,
        alone: 0.4,
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
        speed: 0.3,
        alone: 0.2,
    },
];

impl Tile {
    pub(super) fn shared_bytes(&self, format: Format) -> usize {
        let stages = if format == Format::Split { self.stages } else { self.short_stages };
        let ring = self.depth * stages * (self.columns + self.rows) / BAND * format.link_bytes();
        // A gap behind every row keeps rows in different banks.
        let results = (self.columns + 4) * self.rows * size_of::<f32>();
        // A ring of links that are sent has barriers, and its rows' scales beside it.
        let sent = if self.grouped { self.rows * size_of::<f32>() + 2 * stages * size_of::<u64>() } else { 0 };
        // One part's sums wait behind the ring; those of several meet in its place.
        if self.depth == 1 { ring + results + sent } else { ring.max(self.depth * results) }
    }

    pub(super) fn grid(&self, rows: usize, columns: usize) -> [usize; 3] {
        [rows.div_ceil(self.rows), columns.div_ceil(self.columns), 1]
    }

    /// Time, in values of the result that a multiprocessor computes at a speed of 1.
    pub(super) fn cost(&self, rows: usize, columns: usize, multiprocessors: usize) -> f64 {
        let [down, across, _] = self.grid(rows, columns);
        let (turn, blocks) = (multiprocessors * self.resident, down * across);
        let shared = self.resident as f64 / self.speed;
        let last = match blocks % turn {
            0 => 0.0,
            rest if rest <= multiprocessors => 1.0 / self.alone,
            _ => shared,
        };
        ((blocks / turn) as f64 * shared + last) * (self.rows * self.columns) as f64
    }
}
