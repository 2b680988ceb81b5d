//! Products on tensor cores: which kernel, which tile. No choice here changes a digit.

use super::tile::{CUTTING, TILES, Tile};
use super::{Recorder, Shape, int, rows};
use crate::cuda::argument::{Argument, KernelRows, argument};
use crate::cuda::kernel::Kernel;
use crate::cuda::machine::{Boxes, Map};
use crate::cuda::weights::{BAND, DeviceLinear, Format, Fragments, LINK};
use crate::error::{Error, Result};
use crate::operation::Linear;
use crate::plan::Tensor;

argument! {
    /// `Product` in fragments.cuh.
    ProductArgument {
        weight: u64, column_scale: u64, bias: u64, input: u64, row_fragments: u64, row_scale: u64, residual: u64,
        output: u64, live: u64, rows: KernelRows,
        inputs: i32, links: i32, first_band: i32, end_band: i32, first_column: i32, columns: i32, gated: i32,
        has_norm: i32, epsilon: f32, row_factor: f32, row_unit: f32, result_factor: f32,
    }
}

argument! {
    /// `RowFragments` in linear_blocked.cuh.
    RowFragmentsArgument {
        input: u64, fragments: u64, row_scale: u64, live: u64, rows: KernelRows, inputs: i32, links: i32,
        has_norm: i32, epsilon: f32, row_factor: f32, row_unit: f32,
    }
}

argument! {
    /// `RingProduct` in linear_ring.cuh.
    RingArgument { weights: Map, values: Map, product: Argument }
}

/// A product of more rows than are streamed.
pub(super) struct Blocked {
    pub(super) argument: ProductArgument,
    pub(super) format: Format,
    /// Bands of the whole matrix.
    bands: usize,
    /// Rows and columns at full capacity.
    most: usize,
    columns: usize,
}

/// Rows that were cut for a product without a norm, as the next product of the same tensor may take them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CutRows {
    tensor: Tensor,
    format: Format,
    /// Whether for warpgroups.
    grouped: bool,
    /// Bits of what they are multiplied by.
    factor: u32,
}

impl CutRows {
    fn of(op: &Linear, product: &Blocked, tile: &Tile) -> Option<Self> {
        let factor = product.argument.row_factor.to_bits();
        let rows = Self { tensor: op.input, format: product.format, grouped: tile.grouped, factor };
        op.norm_epsilon.is_none().then_some(rows)
    }
}

const NAME: &str = "Linear";
/// Threads that cut a band, and, where bands would leave multiprocessors idle, those that cut so many of its rows: with a
/// norm, or bare; `cut_rows`, `cut_few_rows` and `cut_few_bare_rows` in linear_products.cuh.
const BAND_THREADS: usize = 32 * BAND;
const FEW_THREADS: usize = BAND_THREADS / 2;
const FEW_ROWS: usize = BAND / 2;
const FEW_BARE_ROWS: usize = BAND / 4;
/// Matrices of the same shape that a product is timed with.
const MOST_ALIKE: usize = 16;
/// Rows up to which weights are streamed past them.
pub(super) const MOST_STREAMED_ROWS: usize = BAND;
pub(super) const STREAM_THREADS: usize = 256;
/// Parts that the links are summed in; `PARTS` in fragments.cuh.
pub(super) const PARTS: usize = 4;
/// Blocks of a cluster, one for each part; `CLUSTER` in cluster.cuh.
const CLUSTER: usize = PARTS;
/// Links from which the blocks of a cluster share the rows.
const LEAST_CLUSTERED_LINKS: usize = 48;
/// Bands of a cluster, and links of a part, up to which blocks hold their weights in registers; `HELD_BANDS` and
/// `HELD_LINKS` for each of eight warps in linear_held.cuh.
const MOST_HELD_BANDS: usize = 3;
const MOST_HELD_LINKS: usize = 24;
/// Bytes of the sums of a band.
pub(super) const SUM_BYTES: usize = BAND * BAND * size_of::<f32>();
/// What stands in front of a block's weights; `StreamHead` in linear_streamed.cuh.
const HEAD_BYTES: usize = 16 + 2 * BAND * BAND * size_of::<f32>();

/// How a product finds its few rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Streamed {
    Values,
    /// Left by the launch before.
    Operands,
}

impl Streamed {
    /// Shared memory for some links of the rows: f16 pairs take the place of the values they are cut from, other formats
    /// stand beside them, or come as operands straight into registers.
    fn row_bytes(self, format: Format, links: usize) -> usize {
        let times = match (self, format) {
            (Streamed::Operands, _) => 0,
            (_, Format::Split) => 1,
            _ => 3,
        };
        times * links * format.link_bytes()
    }
}

/// Shared memory of a block that streams some bands of a matrix past its rows.
pub(super) fn stream_bytes(matrix: &Fragments, bands: usize, rows: Streamed) -> usize {
    HEAD_BYTES + bands * matrix.links * matrix.format.link_bytes() + rows.row_bytes(matrix.format, matrix.links)
}

/// Rows that need no launch to cut them where the tile is for warpgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handed {
    Nothing,
    /// Those of the product, by whoever makes them.
    Rows,
    /// Those of the product behind, by this one.
    Results,
}

impl Handed {
    /// What tells a measured choice apart.
    fn case(self) -> &'static str {
        match self {
            Handed::Nothing => "",
            Handed::Rows => ", operands before",
            Handed::Results => ", operands behind",
        }
    }
}

impl Recorder<'_> {
    /// A product as its kernels take it.
    pub(super) fn product(&self, op: &Linear, weight: u64, matrix: &Fragments) -> Result<ProductArgument> {
        let bands_of = |columns: usize| columns.div_ceil(BAND) * if matrix.gated { 2 } else { 1 };
        let first_band = op.columns.start / BAND * if matrix.gated { 2 } else { 1 };
        let end_band = bands_of(op.columns.end);
        let row_factor = self.row_factor(op, matrix.format);
        Ok(ProductArgument {
            weight,
            column_scale: matrix.scale_address(),
            bias: matrix.bias_address(),
            input: self.at(op.input),
            row_fragments: if op.norm_epsilon.is_some() { self.normed_fragments } else { self.bare_fragments },
            row_scale: self.row_scale,
            residual: op.residual.map_or(0, |residual| self.at(residual)),
            output: self.at(op.output),
            live: self.live,
            rows: rows(op.input.rows)?,
            inputs: int(matrix.inputs)?,
            links: int(matrix.links)?,
            first_band: int(first_band)?,
            end_band: int(end_band)?,
            first_column: int(op.columns.start)?,
            columns: int(op.columns.len())?,
            gated: matrix.gated.into(),
            has_norm: op.norm_epsilon.is_some().into(),
            epsilon: op.norm_epsilon.unwrap_or(0.0),
            row_factor,
            row_unit: if row_factor == 0.0 { 1.0 } else { 1.0 / row_factor },
            result_factor: 0.0,
        })
    }

    pub(super) fn fragment_product(&mut self, op: &Linear, weight: u64, matrix: &Fragments, most: usize) -> Result<()> {
        if most <= MOST_STREAMED_ROWS {
            let argument = self.product(op, weight, matrix)?;
            if let Some((kernel, shape)) = self.streamed(op, matrix, Streamed::Values) {
                return self.launch(NAME, kernel, shape, argument);
            }
        }
        let product = self.blocked(op, weight, matrix, most)?;
        let tile = self.tile(&product, Handed::Nothing, |recorder, product, tile| recorder.cut(product, tile))?;
        let rows = CutRows::of(op, &product, tile);
        let [before, after] = &mut self.cut_rows;
        let are_cut = rows.is_some() && *before == rows;
        *after = rows;
        if !are_cut {
            self.cut(&product, tile)?;
        }
        self.multiply(&product, tile)
    }

    /// A product of more rows than are streamed.
    pub(super) fn blocked(&self, op: &Linear, weight: u64, matrix: &Fragments, most: usize) -> Result<Blocked> {
        let argument = self.product(op, weight, matrix)?;
        let columns = (argument.end_band - argument.first_band) as usize * BAND;
        Ok(Blocked { argument, format: matrix.format, bands: matrix.bands, most, columns })
    }

    /// Cuts the rows of a product into fragments.
    pub(super) fn cut(&mut self, product: &Blocked, tile: &Tile) -> Result<()> {
        let &Blocked { ref argument, format, most, .. } = product;
        let cut = RowFragmentsArgument {
            input: argument.input,
            fragments: argument.row_fragments,
            row_scale: self.row_scale,
            live: self.live,
            rows: argument.rows,
            inputs: argument.inputs,
            links: argument.links,
            has_norm: argument.has_norm,
            epsilon: argument.epsilon,
            row_factor: argument.row_factor,
            row_unit: argument.row_unit,
        };
        let is_few = most.div_ceil(BAND) < self.weights.machine.multiprocessors();
        let (rows, threads) = match (is_few, argument.has_norm == 0) {
            (false, _) => (BAND, BAND_THREADS),
            (true, false) => (FEW_ROWS, FEW_THREADS),
            (true, true) => (FEW_BARE_ROWS, FEW_THREADS),
        };
        let shape = Shape { grid: [most.div_ceil(rows), 1, 1], threads, shared_bytes: 0 };
        let cut_rows = match (tile.grouped, rows) {
            (false, BAND) => Kernel::CutRows(format),
            (true, BAND) => Kernel::CutGroupedRows(format),
            (false, FEW_ROWS) => Kernel::CutFewRows(format),
            (true, FEW_ROWS) => Kernel::CutFewGroupedRows(format),
            (false, _) => Kernel::CutFewBareRows(format),
            (true, _) => Kernel::CutFewBareGroupedRows(format),
        };
        self.launch(NAME, cut_rows, shape, cut)
    }

    /// Multiplies rows that are cut.
    pub(super) fn multiply(&mut self, product: &Blocked, tile: &Tile) -> Result<()> {
        let &Blocked { ref argument, format, most, columns, .. } = product;
        let (kernel, threads) = ((tile.kernel)(format), tile.threads(format));
        let (grid, shared_bytes) = (tile.grid(most, columns), tile.shared_bytes(format));
        if !tile.grouped {
            return self.launch(NAME, kernel, Shape { grid, threads, shared_bytes }, argument.clone());
        }
        let machine = &self.weights.machine;
        let (mut blocks, mut shared_bytes) = (tile.blocks(most, columns), shared_bytes);
        let multiprocessors = machine.multiprocessors();
        match tile.sharers {
            // Each does one tile after the other.
            None => blocks = blocks.min(multiprocessors),
            // Two would share the multiprocessor that the kernel before leaves first, and other ones would idle. Where the GPU
            // has room for no cluster more, the last would wait for the others.
            Some(sharers) if blocks >= multiprocessors / 2 && blocks / sharers < machine.lone_clusters(sharers) => {
                shared_bytes = shared_bytes.max(machine.spread_shared_bytes(1));
            }
            Some(_) => {}
        }
        let shape = Shape { grid: [blocks, 1, 1], threads, shared_bytes };
        let ring = self.ring_argument(product, tile)?;
        self.launch(NAME, kernel, shape, ring)
    }

    /// The argument of a product whose links are sent box by box.
    fn ring_argument(&self, product: &Blocked, tile: &Tile) -> Result<RingArgument> {
        let &Blocked { ref argument, format, bands, most, .. } = product;
        let words = argument.links as usize * format.link_bytes() / 4;
        let box_words = tile.stage_links(format) * format.link_bytes() / 4;
        let boxes =
            |address, rows, box_rows| self.weights.machine.map(Boxes { address, words, rows, box_words, box_rows });
        Ok(RingArgument {
            weights: boxes(argument.weight, bands, tile.columns / BAND)?,
            values: boxes(argument.row_fragments, most.div_ceil(BAND), tile.rows / BAND)?,
            product: argument.clone().into(),
        })
    }

    /// The tile that takes the least time, by its cost or measured along with what `prepare` records.
    pub(super) fn tile(
        &mut self,
        product: &Blocked,
        handed: Handed,
        prepare: impl Fn(&mut Self, &Blocked, &Tile) -> Result<()>,
    ) -> Result<&'static Tile> {
        let weights = self.weights;
        let &Blocked { ref argument, format, most, columns, .. } = product;
        let machine = &weights.machine;
        let grouped = weights.settings.warpgroups && machine.has_warpgroups();
        let fits = |tile: &&Tile| {
            let links = argument.links as usize;
            // Every block of a cluster has a link.
            let shares = tile.sharers.is_none() || links >= PARTS * format.links_together();
            let fits = tile.shared_bytes(format) <= machine.most_shared_bytes() && tile.holds(links, format);
            tile.is_for(format) && fits && (grouped || !tile.grouped) && shares
        };
        let tiles: Vec<&'static Tile> = TILES.iter().filter(fits).collect();
        if tiles.is_empty() {
            return Err(Error::Device("the GPU has too little shared memory for a product".into()));
        }
        if let (Some(choices), Some(stopwatch)) = (&weights.choices, self.stopwatch.take()) {
            let names: Vec<&str> = tiles.iter().map(|tile| (tile.kernel)(format).name()).collect();
            let ProductArgument { links, gated, has_norm, .. } = argument;
            let question =
                format!("product {most} x {columns} x {links} links, gated {gated}, norm {has_norm}{}", handed.case());
            let (first, alike) = (self.launches.len(), self.alike(product));
            let choice = choices.choose(&question, &names, |place| {
                for product in &alike {
                    prepare(self, product, tiles[place])?;
                    self.multiply(product, tiles[place])?;
                }
                // SAFETY: the launches name memory of the weights and of the plan, which has not run yet.
                let time = unsafe { stopwatch.time(&self.launches[first..]) };
                self.launches.truncate(first);
                time
            });
            self.stopwatch = Some(stopwatch);
            return Ok(tiles[choice?]);
        }
        let cost = |tile: &Tile| {
            let cutting = if handed != Handed::Nothing && !tile.grouped { CUTTING } else { 0.0 };
            cutting + tile.cost([most, columns, argument.links as usize], format, machine.multiprocessors())
        };
        let best = tiles.into_iter().min_by(|one, other| cost(one).total_cmp(&cost(other)));
        Ok(best.expect("some tile fits"))
    }

    /// The same product with the weights of each layer in turn, so that none is timed with its weights in the cache.
    fn alike(&self, product: &Blocked) -> Vec<Blocked> {
        let &Blocked { ref argument, format, bands, .. } = product;
        let alike = self.weights.linears.iter().filter_map(|stored| {
            let DeviceLinear::Fragments(other) = stored else { return None };
            let shape = (other.format, other.bands, other.links as i32, i32::from(other.gated));
            let mut argument = argument.clone();
            (argument.weight, argument.column_scale, argument.bias) =
                (stored.weight_address(), other.scale_address(), other.bias_address());
            (shape == (format, bands, argument.links, argument.gated)).then_some(Blocked { argument, ..*product })
        });
        alike.take(MOST_ALIKE).collect()
    }

    /// The kernel for few rows; none where they do not fit.
    pub(super) fn streamed(&self, op: &Linear, matrix: &Fragments, rows: Streamed) -> Option<(Kernel, Shape)> {
        let bands = (op.columns.end.div_ceil(BAND) - op.columns.start / BAND) * if matrix.gated { 2 } else { 1 };
        let clustered = |rows| if op.norm_epsilon.is_none() { self.cluster(matrix, bands, rows) } else { None };
        let kernel = clustered(rows);
        // Every block would read all operands, where those of a cluster share values out.
        if kernel.is_none() && rows == Streamed::Operands && clustered(Streamed::Values).is_some() {
            return None;
        }
        kernel.or_else(|| self.stream(matrix, bands, rows))
    }

    /// As many blocks as there are multiprocessors, or more where the weights of a block would not fit shared memory;
    /// none where the rows do not fit.
    fn stream(&self, matrix: &Fragments, bands: usize, rows: Streamed) -> Option<(Kernel, Shape)> {
        let machine = &self.weights.machine;
        let width = if matrix.gated { 2 } else { 1 };
        let units = bands / width;
        let shared_bytes = |units: usize| stream_bytes(matrix, units * width, rows);
        let least = units.div_ceil(machine.multiprocessors());
        let most = (1..=least).rev().find(|&units| shared_bytes(units) <= machine.most_shared_bytes())?;
        let grid = units.div_ceil(most).max(units.min(machine.multiprocessors()));
        let shape = Shape { grid: [grid, 1, 1], threads: STREAM_THREADS, shared_bytes: shared_bytes(most) };
        let kernel = match rows {
            Streamed::Values => Kernel::Stream(matrix.format),
            Streamed::Operands => Kernel::StreamOperands(matrix.format),
        };
        Some((kernel, shape))
    }

    /// As [`Self::stream`] for many links of rows without a norm: each block of a cluster reads and cuts one part.
    fn cluster(&self, matrix: &Fragments, bands: usize, rows: Streamed) -> Option<(Kernel, Shape)> {
        let machine = &self.weights.machine;
        let is_whole = matrix.inputs == matrix.links * LINK;
        if !machine.has_clusters() || !is_whole || matrix.links < LEAST_CLUSTERED_LINKS {
            return None;
        }
        let width = if matrix.gated { 2 } else { 1 };
        let units = bands / width;
        let (most, links) = (
            units.div_ceil((machine.multiprocessors() / CLUSTER).max(1)),
            matrix.format.most_links_of_part(matrix.links, PARTS),
        );
        // No more than are busy: the last ones may find no multiprocessors side by side.
        let clusters = units.div_ceil(most);
        let is_held =
            matrix.format == Format::Split && !matrix.gated && most <= MOST_HELD_BANDS && links <= MOST_HELD_LINKS;
        // Rows and weights.
        let link_bytes = if is_held {
            // Values, then the sums of each link.
            Streamed::Values.row_bytes(matrix.format, MOST_HELD_LINKS)
        } else {
            rows.row_bytes(matrix.format, links) + most * width * links * matrix.format.link_bytes()
        };
        // The barrier, the largest value of each row in each part, the sums to finish.
        let shared_bytes =
            16 + PARTS * BAND * size_of::<f32>() + PARTS * most.div_ceil(CLUSTER) * width * SUM_BYTES + link_bytes;
        let kernel = match rows {
            Streamed::Operands if is_held => Kernel::ClusterHeldOperands,
            Streamed::Operands => match matrix.format {
                Format::Split => return None,
                Format::Half => Kernel::HalfClusterOperands,
                Format::Brain => Kernel::ClusterOperands,
            },
            Streamed::Values if is_held => Kernel::ClusterHeld,
            Streamed::Values => Kernel::Cluster(matrix.format),
        };
        let shape = Shape { grid: [clusters * CLUSTER, 1, 1], threads: STREAM_THREADS, shared_bytes };
        (shared_bytes <= machine.most_shared_bytes()).then_some((kernel, shape))
    }
}
