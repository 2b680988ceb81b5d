//! The operations a plan is made of: data, not calls. Every device implements each of them.

mod attention;
mod rows;
mod statistics;
mod tokens;

pub use attention::{
    AppendCache, AttendContext, AttendGroup, AttendPaths, CachePart, RotaryTable, RotateQuery, Rotation,
};
pub use rows::{Add, LastRow, Linear, Norm, OverwriteExogenous, PrependLabel, RepeatRows, Round, SortSamples, SwiGlu};
pub use statistics::{ActivateMixture, DrawMixture, MixtureQuantiles, ScaleContext, ScaleStep};
pub use tokens::{Embed, EmbedTerm, QuantiseBits, SampleToken};

use crate::kv_cache::LayerCache;
use crate::plan::Tensor;

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
            Self::ScaleContext(op) => all(&[op.scaled, op.location, op.scale, op.last[0], op.last[1]]),
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
            Self::ScaleContext(op) => {
                all(&[op.values, op.mask, op.scaled, op.location, op.scale, op.last[0], op.last[1], op.state]);
            }
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
