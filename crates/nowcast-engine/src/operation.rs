//! The operations a plan is made of: data, not calls. Every device implements each of them.

use std::ops::Range;

use crate::extent::Rows;
use crate::head::Head;
use crate::kv_cache::LayerCache;
use crate::plan::Tensor;
use crate::rotary::Rotary;
use crate::scaler::Scaler;
use crate::weights::{LinearId, TableId, VectorId};

/// One operation of a plan.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Scales the context by its causal statistics.
    ScaleContext(ScaleContext),
    /// Continues the statistics over one newly predicted patch and scales it.
    ScaleStep(ScaleStep),
    /// Puts one label token before the tokens of every series.
    PrependLabel(PrependLabel),
    /// `output = norm(input) · Wᵀ + bias + residual`.
    Linear(Linear),
    /// RMS norm on its own (unfused modes).
    Norm(Norm),
    /// `silu(gate) * value` on its own (unfused modes).
    SwiGlu(SwiGlu),
    /// Sum of two tensors (unfused modes).
    Add(Add),
    /// Cosines and sines of the positions of this pass.
    RotaryTable(RotaryTable),
    /// Rotates queries in place.
    RotateQuery(RotateQuery),
    /// Rotates keys and writes keys and values at the cache's write head.
    AppendCache(AppendCache),
    /// Causal attention of the context over itself.
    AttendContext(AttendContext),
    /// Attention of each path's own tokens over the shared context and the path's own past.
    AttendPaths(AttendPaths),
    /// Attention between variates of one group at the same time step.
    AttendGroup(AttendGroup),
    /// Keeps the last row of every series.
    LastRow(LastRow),
    /// Gives every path a copy of its series' row.
    RepeatRows(RepeatRows),
    /// Sums rows of tables, chosen by integers.
    Embed(Embed),
    /// Turns signs into token ids.
    QuantiseBits(QuantiseBits),
    /// Appends one token drawn from filtered logits to every path.
    SampleToken(SampleToken),
    /// Turns raw head outputs into mixture parameters.
    ActivateMixture(ActivateMixture),
    /// Solves mixtures for their quantiles.
    MixtureQuantiles(MixtureQuantiles),
    /// Appends the mixture mean to every path.
    MeanMixture(DrawMixture),
    /// Appends one draw from the mixture to every path.
    SampleMixture(DrawMixture),
    /// Replaces predictions of exogenous variates by their known future.
    OverwriteExogenous(OverwriteExogenous),
    /// The nearest f32 of every value.
    Round(Round),
    /// The samples of every step in ascending order.
    SortSamples(SortSamples),
}

/// See [`Operation::ScaleContext`]. Shapes: `values`, `mask`, `scaled`, `location`, `scale` are
/// `[series, context, patch]`; `state` is `[series, 6]` in f64.
#[derive(Debug, Clone)]
pub struct ScaleContext {
    /// Which statistics.
    pub scaler: Scaler,
    /// Values in real units; masked ones still carry a value.
    pub values: Tensor,
    /// 1 where a point is valid, 0 where it is masked.
    pub mask: Tensor,
    /// `(value - location) / scale`.
    pub scaled: Tensor,
    /// Location of every point.
    pub location: Tensor,
    /// Scale of every point.
    pub scale: Tensor,
    /// Running statistics after the context.
    pub state: Tensor,
    /// Number of series.
    pub series: Rows,
}

/// See [`Operation::ScaleStep`]. The newest patch is read from `paths[.., column..column + patch]`.
#[derive(Debug, Clone)]
pub struct ScaleStep {
    /// Which statistics.
    pub scaler: Scaler,
    /// Predicted values in real units, `[paths, horizon]`.
    pub paths: Tensor,
    /// First column of the newest patch.
    pub column: usize,
    /// Statistics after the context, `[series, 6]`; `None` continues `state` itself.
    pub context_state: Option<Tensor>,
    /// Statistics of every path, `[paths, 6]`.
    pub state: Tensor,
    /// `[paths, patch]`.
    pub scaled: Tensor,
    /// `[paths, patch]`.
    pub location: Tensor,
    /// `[paths, patch]`.
    pub scale: Tensor,
}

/// See [`Operation::PrependLabel`].
#[derive(Debug, Clone)]
pub struct PrependLabel {
    /// `[series, context, width]`.
    pub input: Tensor,
    /// `[series, 1 + context, width]`.
    pub output: Tensor,
    /// Label of ordinary variates.
    pub target: VectorId,
    /// Label of exogenous variates.
    pub exogenous: VectorId,
    /// Variates of one item.
    pub variates: usize,
    /// How many of the last variates are exogenous.
    pub exogenous_variates: usize,
    /// Number of series.
    pub series: Rows,
}

/// See [`Operation::Linear`].
#[derive(Debug, Clone)]
pub struct Linear {
    /// The matrix.
    pub weight: LinearId,
    /// `[rows, inputs]`.
    pub input: Tensor,
    /// Outputs computed; the output tensor is as wide as this range.
    pub columns: Range<usize>,
    /// `[rows, columns]`.
    pub output: Tensor,
    /// Divides each input row by its root mean square, with this epsilon.
    pub norm_epsilon: Option<f32>,
    /// `[rows, columns]`, added to the product.
    pub residual: Option<Tensor>,
}

/// See [`Operation::Norm`].
#[derive(Debug, Clone)]
pub struct Norm {
    /// `[rows, width]`.
    pub input: Tensor,
    /// `[rows, width]`.
    pub output: Tensor,
    /// Scale of each column.
    pub scale: VectorId,
    /// Added to the mean square.
    pub epsilon: f32,
}

/// See [`Operation::SwiGlu`].
#[derive(Debug, Clone)]
pub struct SwiGlu {
    /// `[rows, 2 hidden]`: gates, then values.
    pub input: Tensor,
    /// `[rows, hidden]`.
    pub output: Tensor,
}

/// See [`Operation::Add`].
#[derive(Debug, Clone)]
pub struct Add {
    /// `[rows, width]`.
    pub left: Tensor,
    /// `[rows, width]`.
    pub right: Tensor,
    /// `[rows, width]`.
    pub output: Tensor,
}

/// See [`Operation::RotaryTable`]. `table` is `[positions, 4 head_dim]`: cosine and sine for queries,
/// cosine and sine for keys, the xPos factor multiplied in. Row `r` belongs to position `first + r`.
#[derive(Debug, Clone)]
pub struct RotaryTable {
    /// The embedding.
    pub rotary: Rotary,
    /// Position of the table's first row.
    pub first: Rows,
    /// Tokens up to the end of the pass that anchors xPos: the anchor is half of its largest position.
    pub anchor_tokens: Rows,
    /// The table.
    pub table: Tensor,
}

/// See [`Operation::RotateQuery`].
#[derive(Debug, Clone)]
pub struct RotateQuery {
    /// The embedding.
    pub rotary: Rotary,
    /// `[rows, width]`, changed in place.
    pub tensor: Tensor,
    /// First column of the queries.
    pub column: usize,
    /// Number of heads.
    pub heads: usize,
    /// Rows of [`RotaryTable`].
    pub table: Tensor,
    /// Which row of the table a tensor row takes.
    pub tokens: Tokens,
}

/// Which tokens of a pass a tensor's rows hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tokens {
    /// All of them, series after series (or path after path).
    All,
    /// The last one of every series.
    Last,
}

/// Positions for keys on their way into the cache.
#[derive(Debug, Clone, Copy)]
pub struct Rotation {
    /// The embedding.
    pub rotary: Rotary,
    /// Rows of [`RotaryTable`], one for each token of the pass.
    pub table: Tensor,
}

/// Which part of a cache a pass writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachePart {
    /// The context, from its first token.
    Context,
    /// Each path's own tokens.
    Suffix {
        /// First token to write.
        first: usize,
        /// Tokens of each path.
        tokens: usize,
    },
}

/// See [`Operation::AppendCache`].
#[derive(Debug, Clone)]
pub struct AppendCache {
    /// `None` leaves keys as they are.
    pub rotation: Option<Rotation>,
    /// `[rows, width]`.
    pub input: Tensor,
    /// First column of the keys.
    pub key_column: usize,
    /// First column of the values.
    pub value_column: usize,
    /// The cache.
    pub cache: LayerCache,
    /// Where to write.
    pub part: CachePart,
}

/// See [`Operation::AttendContext`]. Queries are scaled already.
#[derive(Debug, Clone)]
pub struct AttendContext {
    /// `[series, tokens, width]` or, for [`Tokens::Last`], `[series, width]`.
    pub query: Tensor,
    /// First column of the queries.
    pub query_column: usize,
    /// Keys and values.
    pub cache: LayerCache,
    /// As many rows as `query`, `[.., heads · head_dim]`.
    pub output: Tensor,
    /// Which tokens ask.
    pub tokens: Tokens,
}

/// See [`Operation::AttendPaths`]. Queries are scaled already. A query sees the whole context of its series and the
/// first tokens of its own path.
#[derive(Debug, Clone)]
pub struct AttendPaths {
    /// `[series, samples, tokens, width]`.
    pub query: Tensor,
    /// First column of the queries.
    pub query_column: usize,
    /// Keys and values.
    pub cache: LayerCache,
    /// `[series, samples, tokens, heads · head_dim]`.
    pub output: Tensor,
    /// Queries of each path.
    pub tokens: usize,
    /// Own tokens that the first query of a path sees; each further query sees one more.
    pub seen: usize,
    /// Oldest tokens, context before own ones, that are no longer seen.
    pub hidden: usize,
}

/// See [`Operation::AttendGroup`]. Queries are scaled already.
#[derive(Debug, Clone)]
pub struct AttendGroup {
    /// `[batch, variates, inner, 3 · heads · head_dim]`: queries, keys, values.
    pub qkv: Tensor,
    /// Group of every series, `[batch, variates]` in i32.
    pub groups: Tensor,
    /// `[batch, variates, inner, heads · head_dim]`.
    pub output: Tensor,
    /// Variates of one item.
    pub variates: usize,
    /// Rows of one variate: tokens or samples.
    pub inner: Rows,
    /// Number of heads.
    pub heads: usize,
}

/// See [`Operation::LastRow`].
#[derive(Debug, Clone)]
pub struct LastRow {
    /// `[series, tokens, width]`.
    pub input: Tensor,
    /// `[series, width]`.
    pub output: Tensor,
    /// Number of series.
    pub series: Rows,
}

/// See [`Operation::RepeatRows`].
#[derive(Debug, Clone)]
pub struct RepeatRows {
    /// `[series, width]`.
    pub input: Tensor,
    /// `[series, samples, width]`.
    pub output: Tensor,
}

/// See [`Operation::Embed`]. Output row `(outer, token)` is the sum of one row of each table.
#[derive(Debug, Clone)]
pub struct Embed {
    /// What is summed; terms may fill different columns.
    pub terms: Vec<EmbedTerm>,
    /// Tokens of each outer item (series or path).
    pub tokens: Rows,
    /// `[outer, tokens, width]`.
    pub output: Tensor,
}

/// One table of an [`Embed`] and where its row numbers stand.
///
/// Output row `(outer, token)` takes row `index[group, first + token][column]` of the table, where `group` is the
/// outer item or, where there are fewer groups, the one that shares it.
#[derive(Debug, Clone)]
pub struct EmbedTerm {
    /// The rows to choose from.
    pub table: TableId,
    /// Row numbers, `[groups, length, columns]` in i32; [`NO_TOKEN`](crate::token_sampling::NO_TOKEN) is a row that is not a
    /// number.
    pub index: Tensor,
    /// Number of groups.
    pub groups: Rows,
    /// First row of every group.
    pub first: Rows,
    /// Column of the row numbers.
    pub column: usize,
    /// First output column to fill.
    pub output_column: usize,
}

/// See [`Operation::QuantiseBits`]. Bit `j` is `input[j] > 0`; the lowest bit comes first. A value that is not a number
/// makes [`NO_TOKEN`](crate::token_sampling::NO_TOKEN).
#[derive(Debug, Clone)]
pub struct QuantiseBits {
    /// `[rows, bits]`.
    pub input: Tensor,
    /// Bits of the first token; the second takes the rest.
    pub first_bits: usize,
    /// `[rows, 2]` in i32.
    pub output: Tensor,
}

/// See [`Operation::SampleToken`]; the rule is [`crate::device::Launch::token_sampling`].
#[derive(Debug, Clone)]
pub struct SampleToken {
    /// One row per series or per path, `[rows, vocabulary]`.
    pub logits: Tensor,
    /// Filtered, unnormalised probabilities, as large as `logits`, in f64.
    pub weights: Tensor,
    /// Whether rows are per series, shared by its samples.
    pub shared: bool,
    /// Random stream of each series, `[series]` in i32.
    pub streams: Tensor,
    /// `[paths, width]` in i32.
    pub tokens: Tensor,
    /// Column to write.
    pub column: usize,
    /// Decode step, counted from 0; part of the random key.
    pub step: usize,
    /// Which of the tokens of a step; part of the random key.
    pub position: usize,
}

/// See [`Operation::ActivateMixture`]. All outputs are `[rows, positions, components]`.
#[derive(Debug, Clone)]
pub struct ActivateMixture {
    /// Raw head outputs, `[rows, positions, 4 components]` (3 without mixture weights).
    pub parameters: Tensor,
    /// What the head predicts.
    pub head: Head,
    /// Positions of the patch.
    pub positions: usize,
    /// Degrees of freedom, above 2.
    pub degrees_of_freedom: Tensor,
    /// Locations in scaled units.
    pub location: Tensor,
    /// Scales in scaled units.
    pub scale: Tensor,
    /// Mixture logits.
    pub logits: Tensor,
}

/// See [`Operation::MixtureQuantiles`]. Each level is solved by itself, as by [`Mixture::quantile`]; where parameters are
/// no mixture, its quantiles are NaN.
///
/// [`Mixture::quantile`]: crate::student_t::Mixture::quantile
#[derive(Debug, Clone)]
pub struct MixtureQuantiles {
    /// What the head predicts.
    pub head: Head,
    /// Positions of the patch.
    pub positions: usize,
    /// Degrees of freedom, locations, scales and logits, `[rows, positions, components]` each, as
    /// [`Operation::ActivateMixture`] leaves them.
    pub parameters: [Tensor; 4],
    /// Affine location and scale of each point, `[rows, at least positions]` in f64.
    pub affine: [Tensor; 2],
    /// `[1, levels]` in f64, each in (0, 1).
    pub levels: Tensor,
    /// `[rows, levels, positions]` in f64, in real units.
    pub quantiles: Tensor,
}

impl MixtureQuantiles {
    /// Most components that every device takes: those of a step lie in the memory that the threads of a GPU share.
    pub const MOST_COMPONENTS: usize = 256;
}

/// See [`Operation::MeanMixture`] and [`Operation::SampleMixture`].
#[derive(Debug, Clone)]
pub struct DrawMixture {
    /// Raw head outputs, one row per series or per path.
    pub parameters: Tensor,
    /// Affine location of each point, rows as `parameters`.
    pub location: Tensor,
    /// Affine scale of each point, rows as `parameters`.
    pub scale: Tensor,
    /// Whether rows are per series, shared by its samples.
    pub shared: bool,
    /// What the head predicts.
    pub head: Head,
    /// Positions to draw.
    pub positions: usize,
    /// Random stream of each series, `[series]` in i32.
    pub streams: Tensor,
    /// `[paths, horizon]`.
    pub paths: Tensor,
    /// First column to write.
    pub column: usize,
    /// Decode step, counted from 0; part of the random key.
    pub step: usize,
    /// Number of series.
    pub series: Rows,
}

/// See [`Operation::OverwriteExogenous`].
#[derive(Debug, Clone)]
pub struct OverwriteExogenous {
    /// `[batch, variates, samples, horizon]`.
    pub paths: Tensor,
    /// `[batch, exogenous, horizon]`.
    pub future: Tensor,
    /// Columns to replace.
    pub columns: Range<usize>,
    /// Variates of one item.
    pub variates: usize,
    /// How many of the last variates are exogenous.
    pub exogenous: usize,
}

/// See [`Operation::Round`].
#[derive(Debug, Clone)]
pub struct Round {
    /// `[rows, width]` in f64.
    pub input: Tensor,
    /// `[rows, width]`.
    pub output: Tensor,
}

/// See [`Operation::SortSamples`].
///
/// Values become the nearest f32, and the order is that of [`f32::total_cmp`].
#[derive(Debug, Clone)]
pub struct SortSamples {
    /// `[series, samples, horizon]` in f64.
    pub paths: Tensor,
    /// `[series, horizon, samples]`, as a tensor of width 1.
    pub sorted: Tensor,
    /// Number of series.
    pub series: Rows,
}

impl SortSamples {
    /// Most samples that every device sorts: those of a step fit the memory that the threads of a GPU share.
    pub const MOST_SAMPLES: usize = 1 << 14;
}

impl Operation {
    /// The kind, by the name it has here.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ScaleContext(_) => "ScaleContext",
            Self::ScaleStep(_) => "ScaleStep",
            Self::PrependLabel(_) => "PrependLabel",
            Self::Linear(_) => "Linear",
            Self::Norm(_) => "Norm",
            Self::SwiGlu(_) => "SwiGlu",
            Self::Add(_) => "Add",
            Self::RotaryTable(_) => "RotaryTable",
            Self::RotateQuery(_) => "RotateQuery",
            Self::AppendCache(_) => "AppendCache",
            Self::AttendContext(_) => "AttendContext",
            Self::AttendPaths(_) => "AttendPaths",
            Self::AttendGroup(_) => "AttendGroup",
            Self::LastRow(_) => "LastRow",
            Self::RepeatRows(_) => "RepeatRows",
            Self::Embed(_) => "Embed",
            Self::QuantiseBits(_) => "QuantiseBits",
            Self::SampleToken(_) => "SampleToken",
            Self::ActivateMixture(_) => "ActivateMixture",
            Self::MixtureQuantiles(_) => "MixtureQuantiles",
            Self::MeanMixture(_) => "MeanMixture",
            Self::SampleMixture(_) => "SampleMixture",
            Self::OverwriteExogenous(_) => "OverwriteExogenous",
            Self::Round(_) => "Round",
            Self::SortSamples(_) => "SortSamples",
        }
    }

    /// Calls `visit` for every tensor the operation writes, wholly or in part, but for the statistics of scalers: those
    /// of nothing yet hold an infinity.
    pub(crate) fn each_written(&self, visit: &mut dyn FnMut(Tensor)) {
        let mut all = |tensors: &[Tensor]| tensors.iter().copied().for_each(&mut *visit);
        match self {
            Self::ScaleContext(op) => all(&[op.scaled, op.location, op.scale]),
            Self::ScaleStep(op) => all(&[op.scaled, op.location, op.scale]),
            Self::PrependLabel(op) => all(&[op.output]),
            Self::Linear(op) => all(&[op.output]),
            Self::Norm(op) => all(&[op.output]),
            Self::SwiGlu(op) => all(&[op.output]),
            Self::Add(op) => all(&[op.output]),
            Self::RotaryTable(op) => all(&[op.table]),
            Self::RotateQuery(op) => all(&[op.tensor]),
            Self::AppendCache(op) => match (op.part, op.cache.suffix) {
                (CachePart::Suffix { .. }, Some((keys, values))) => all(&[keys, values]),
                _ => all(&[op.cache.context_keys, op.cache.context_values]),
            },
            Self::AttendContext(op) => all(&[op.output]),
            Self::AttendPaths(op) => all(&[op.output]),
            Self::AttendGroup(op) => all(&[op.output]),
            Self::LastRow(op) => all(&[op.output]),
            Self::RepeatRows(op) => all(&[op.output]),
            Self::Embed(op) => all(&[op.output]),
            Self::QuantiseBits(op) => all(&[op.output]),
            Self::SampleToken(op) => all(&[op.weights, op.tokens]),
            Self::ActivateMixture(op) => all(&[op.degrees_of_freedom, op.location, op.scale, op.logits]),
            Self::MixtureQuantiles(op) => all(&[op.quantiles]),
            Self::MeanMixture(op) | Self::SampleMixture(op) => all(&[op.paths]),
            Self::OverwriteExogenous(op) => all(&[op.paths]),
            Self::Round(op) => all(&[op.output]),
            Self::SortSamples(op) => all(&[op.sorted]),
        }
    }

    /// Calls `visit` for every tensor the operation touches.
    pub(crate) fn each_tensor(&self, visit: &mut dyn FnMut(Tensor)) {
        let mut all = |tensors: &[Tensor]| tensors.iter().copied().for_each(&mut *visit);
        let context = |cache: &LayerCache| [cache.context_keys, cache.context_values];
        let suffix = |cache: &LayerCache| cache.suffix.map_or(context(cache), |(keys, values)| [keys, values]);
        match self {
            Self::ScaleContext(op) => all(&[op.values, op.mask, op.scaled, op.location, op.scale, op.state]),
            Self::ScaleStep(op) => {
                all(&[op.paths, op.context_state.unwrap_or(op.state), op.state, op.scaled, op.location, op.scale]);
            }
            Self::PrependLabel(op) => all(&[op.input, op.output]),
            Self::Linear(op) => all(&[op.input, op.output, op.residual.unwrap_or(op.output)]),
            Self::Norm(op) => all(&[op.input, op.output]),
            Self::SwiGlu(op) => all(&[op.input, op.output]),
            Self::Add(op) => all(&[op.left, op.right, op.output]),
            Self::RotaryTable(op) => all(&[op.table]),
            Self::RotateQuery(op) => all(&[op.tensor, op.table]),
            Self::AppendCache(op) => {
                all(&[op.input, op.rotation.map_or(op.input, |rotation| rotation.table)]);
                all(&if op.part == CachePart::Context { context(&op.cache) } else { suffix(&op.cache) });
            }
            Self::AttendContext(op) => {
                all(&[op.query, op.output]);
                all(&context(&op.cache));
            }
            Self::AttendPaths(op) => {
                all(&[op.query, op.output]);
                all(&context(&op.cache));
                all(&suffix(&op.cache));
            }
            Self::AttendGroup(op) => all(&[op.qkv, op.groups, op.output]),
            Self::LastRow(op) => all(&[op.input, op.output]),
            Self::RepeatRows(op) => all(&[op.input, op.output]),
            Self::Embed(op) => {
                all(&[op.output]);
                op.terms.iter().for_each(|term| all(&[term.index]));
            }
            Self::QuantiseBits(op) => all(&[op.input, op.output]),
            Self::SampleToken(op) => all(&[op.logits, op.weights, op.streams, op.tokens]),
            Self::MixtureQuantiles(op) => {
                all(&op.parameters);
                all(&op.affine);
                all(&[op.levels, op.quantiles]);
            }
            Self::ActivateMixture(op) => {
                all(&[op.parameters, op.degrees_of_freedom, op.location, op.scale, op.logits]);
            }
            Self::MeanMixture(op) | Self::SampleMixture(op) => {
                all(&[op.parameters, op.location, op.scale, op.streams, op.paths]);
            }
            Self::OverwriteExogenous(op) => all(&[op.paths, op.future]),
            Self::Round(op) => all(&[op.input, op.output]),
            Self::SortSamples(op) => all(&[op.paths, op.sorted]),
        }
    }
}
