//! The forward pass and the decode loop of Toto 1.0, as a plan.
//!
//! The context runs once per series; every sample path adds one token per decoded patch. Only the last patch reaches
//! the output head, so behind the last time-wise attention only the last token of each series goes on.

use std::sync::Arc;

use nowcast_engine::extent::{Live, Rows};
use nowcast_engine::kv_cache::{CacheShape, LayerCache};
use nowcast_engine::operation::{self, Operation};
use nowcast_engine::plan::{Element, Plan, PlanBuilder, Tensor};
use nowcast_engine::rotary::{Pairing, Rotary};
use nowcast_engine::scaler::STATE_WIDTH;

use super::Toto;
use super::config::LayerKind;
use super::weights::HeadWeights;
use crate::Result;
use crate::forecaster::plans::Observe;

/// xPos positions are divided by this (`scale_base` of the reference's rotary embedding).
const XPOS_SCALE_BASE: f32 = 512.0;

/// What a plan computes for each step of the horizon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Decode {
    /// The mixture itself; the horizon fits one patch.
    Exact,
    /// The mean path: each patch's mixture mean is fed back.
    Mean,
    /// Sample paths.
    Sample,
}

/// Everything that makes two plans different.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// Greatest batch, context patches and samples.
    pub(crate) capacity: Live,
    /// Variates of one item.
    pub(crate) variates: usize,
    /// How many of the last variates are exogenous.
    pub(crate) exogenous: usize,
    /// Whether the future of the exogenous variates is known.
    pub(crate) known_future: bool,
    /// Steps to forecast.
    pub(crate) horizon: usize,
    pub(crate) decode: Decode,
    /// Anchor xPos at the context throughout, as without a KV cache.
    pub(crate) uncached_xpos: bool,
    /// Quantiles of each step that the device solves; for [`Decode::Exact`] alone.
    pub(crate) levels: usize,
    /// Answer with the samples of each step in ascending order instead of the paths.
    pub(crate) sorted: bool,
    /// What is kept for inspection.
    pub(crate) observe: Observe,
}

/// A plan and the tensors the host reads and writes.
pub(crate) struct TotoPlan {
    pub(crate) plan: Arc<Plan>,
    /// `[batch, variates, context, patch]`
    pub(crate) values: Tensor,
    /// `[batch, variates, context, patch]`
    pub(crate) mask: Tensor,
    /// `[batch, variates]` i32
    pub(crate) groups: Tensor,
    /// `[batch, variates]` i32
    pub(crate) streams: Tensor,
    /// `[batch, exogenous, horizon]`
    pub(crate) future: Option<Tensor>,
    pub(crate) output: Output,
    /// Stages by the names of the goldens, if observed.
    pub(crate) observed: Vec<(String, Tensor)>,
    /// The KV cache of each time-wise layer, kept if the state is observed.
    pub(crate) caches: Vec<LayerCache>,
}

/// What the host reads.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::large_enum_variant, reason = "there is one for each plan")]
pub(crate) enum Output {
    Paths(PathTensors),
    Mixture(MixtureTensors),
}

/// Sample paths or the mean path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathTensors {
    /// `[batch, variates, samples, horizon]` in f64; kept if the state is observed.
    pub(crate) exact: Tensor,
    /// The nearest f32, in the same order or, sorted, `[batch, variates, horizon, samples]`.
    pub(crate) answer: Tensor,
}

/// Mixture parameters of the first predicted patch, `[batch, variates, positions, components]` each, and the affine
/// map to real units, `[batch, variates, patch]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MixtureTensors {
    pub(crate) degrees_of_freedom: Tensor,
    pub(crate) location: Tensor,
    pub(crate) scale: Tensor,
    pub(crate) logits: Tensor,
    pub(crate) affine_location: Tensor,
    pub(crate) affine_scale: Tensor,
    pub(crate) quantiles: Option<QuantileTensors>,
}

/// Quantiles that the device solves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuantileTensors {
    /// `[1, levels]` in f64, an input.
    pub(crate) levels: Tensor,
    /// `[batch, variates, levels, positions]` in f64.
    pub(crate) solved: Tensor,
}

/// Raw parameters of a predicted patch, and its way back to real units.
struct Prediction {
    parameters: Tensor,
    location: Tensor,
    scale: Tensor,
}

/// One pass over tokens: the context, or one new token per path.
#[derive(Clone, Copy)]
pub(super) struct Pass {
    pub(super) table: Tensor,
    /// Rows of one variate.
    pub(super) inner: Rows,
    /// `None` for the context.
    pub(super) step: Option<usize>,
}

/// A plan while it is written; its layers stand in `layers.rs`.
pub(super) struct Forward<'a> {
    pub(super) model: &'a Toto,
    pub(super) shape: Shape,
    pub(super) plan: PlanBuilder,
    pub(super) series: Rows,
    pub(super) groups: Tensor,
    pub(super) caches: Vec<Option<LayerCache>>,
    observed: Vec<(String, Tensor)>,
}

impl Toto {
    /// Writes down one forecast of this shape.
    pub(super) fn write_plan(&self, shape: Shape) -> Result<TotoPlan> {
        let mut plan = PlanBuilder::new(shape.capacity, !self.options.eager);
        let series = Rows::batch().times(shape.variates);
        let context = series.times_context(0);
        let patch = self.config.patch_size;
        let values = plan.input(Element::F32, context, patch);
        let mask = plan.input(Element::F32, context, patch);
        let groups = plan.input(Element::I32, series, 1);
        let streams = plan.input(Element::I32, series, 1);
        let future =
            shape.known_future.then(|| plan.input(Element::F32, Rows::batch().times(shape.exogenous), shape.horizon));
        let caches = Vec::new();
        let mut forward = Forward { model: self, shape, plan, series, groups, caches, observed: Vec::new() };
        forward.reserve_caches();

        let (prediction, state) = forward.prefill(values, mask);
        forward.plan.begin_decode();
        let output = match shape.decode {
            Decode::Exact => Output::Mixture(forward.mixture(&prediction)),
            Decode::Mean | Decode::Sample => Output::Paths(forward.decode(prediction, state, streams, future)),
        };
        let caches: Vec<LayerCache> = forward.caches.iter().flatten().copied().collect();
        let Forward { mut plan, observed, .. } = forward;
        if shape.observe >= Observe::State {
            caches.iter().flat_map(LayerCache::tensors).for_each(|tensor| plan.keep(tensor));
        }
        let plan = Arc::new(plan.finish().map_err(|error| crate::Error::Memory(error.to_string()))?);
        Ok(TotoPlan { plan, values, mask, groups, streams, future, output, observed, caches })
    }

    pub(super) fn rotary(&self) -> Rotary {
        Rotary { head_dim: self.config.head_dim, pairing: Pairing::Interleaved, xpos_scale_base: Some(XPOS_SCALE_BASE) }
    }
}

impl Forward<'_> {
    fn extra(&self) -> usize {
        self.model.prepended_tokens()
    }

    fn patch(&self) -> usize {
        self.model.config.patch_size
    }

    fn steps(&self) -> usize {
        self.shape.horizon.div_ceil(self.patch())
    }

    /// Time steps of a predicted patch that the horizon needs.
    fn positions(&self, step: usize) -> usize {
        if self.shape.observe == Observe::Stages {
            self.patch()
        } else {
            self.patch().min(self.shape.horizon - step * self.patch())
        }
    }

    fn reserve_caches(&mut self) {
        let shape = CacheShape {
            series: self.series,
            heads: self.model.config.heads,
            head_dim: self.model.config.head_dim,
            context: Rows::fixed(1).times_context(self.extra()),
            steps: self.steps() - 1,
        };
        for layer in &self.model.weights.layers {
            let cache = (layer.kind == LayerKind::Time).then(|| LayerCache::new(&mut self.plan, shape));
            self.caches.push(cache);
        }
    }

    fn observe(&mut self, name: &str, tensor: Tensor) {
        if self.shape.observe == Observe::Stages {
            self.plan.keep(tensor);
            self.observed.push((name.to_owned(), tensor));
        }
    }

    /// Scales and embeds the context, runs the layers, and reads the head at the last patch.
    fn prefill(&mut self, values: Tensor, mask: Tensor) -> (Prediction, Tensor) {
        let (model, series) = (self.model, self.series);
        let context = series.times_context(0);
        let scaled = self.plan.tensor(context, self.patch());
        let [location, scale] = [(); 2].map(|()| self.plan.tensor_of(Element::F64, context, self.patch()));
        let last = [(); 2].map(|()| self.plan.tensor_of(Element::F64, series, self.patch()));
        let state = self.plan.tensor_of(Element::F64, series, STATE_WIDTH);
        let scaler = model.config.scaler;
        let tokens = Rows::fixed(1).times_context(self.extra());
        self.plan.stage("scaler");
        self.plan.push(Operation::ScaleContext(operation::ScaleContext {
            scaler,
            values,
            mask,
            scaled,
            location,
            scale,
            last,
            state,
            series,
        }));
        self.observe("scaled", scaled);
        self.observe("loc", location);
        self.observe("scale", scale);
        // Neither the scaler nor the table waits for the other.
        self.plan.stage("rotary positions");
        let table = self.rotary_table(Rows::fixed(0), tokens);

        self.plan.stage("patch embedding");
        let mut x = self.plan.linear(model.weights.patch_embed, scaled);
        self.observe("patch_embed", x);
        if let Some([target, exogenous]) = model.weights.labels {
            let output = self.plan.tensor(series.times_context(1), x.width);
            self.plan.push(Operation::PrependLabel(operation::PrependLabel {
                input: x,
                output,
                target,
                exogenous,
                variates: self.shape.variates,
                exogenous_variates: self.shape.exogenous,
                series,
            }));
            x = output;
        }

        let everything = Pass { table, inner: tokens, step: None };
        let only_last = Pass { inner: Rows::fixed(1), ..everything };
        let last_time_layer = model.weights.layers.iter().rposition(|layer| layer.kind == LayerKind::Time);
        let mut pass = everything;
        for (index, layer) in model.weights.layers.iter().enumerate() {
            self.plan.stage(format!("layer {index}"));
            if self.shape.observe != Observe::Stages && Some(index) == last_time_layer {
                x = self.last_time_layer(index, layer, x, everything);
                pass = only_last;
            } else {
                x = self.layer(index, layer, x, pass);
            }
            self.observe(&format!("layer_out.{index}"), x);
        }
        self.observe("hidden", x);

        self.plan.stage("output head");
        // Already one row per series unless all tokens were carried to the end.
        let hidden = if x.rows == series { x } else { self.plan.last_row(x, series) };
        let parameters = self.head(hidden, 0);
        let [location, scale] = last;
        (Prediction { parameters, location, scale }, state)
    }

    /// Feeds each predicted patch back until the horizon is reached.
    fn decode(
        &mut self,
        first: Prediction,
        context_state: Tensor,
        streams: Tensor,
        future: Option<Tensor>,
    ) -> PathTensors {
        let model = self.model;
        let paths_rows = self.series.times_samples();
        let paths = self.plan.tensor_of(Element::F64, paths_rows, self.shape.horizon);
        let state = self.plan.tensor_of(Element::F64, paths_rows, STATE_WIDTH);
        let mut prediction = first;
        for step in 0..self.steps() {
            self.plan.stage(format!("draw of step {step}"));
            self.draw(&prediction, paths, streams, step);
            let column = step * self.patch();
            if let Some(future) = future {
                self.plan.push(Operation::OverwriteExogenous(operation::OverwriteExogenous {
                    paths,
                    future,
                    columns: column..(column + self.patch()).min(self.shape.horizon),
                    variates: self.shape.variates,
                    exogenous: self.shape.exogenous,
                }));
            }
            if step + 1 == self.steps() {
                break;
            }
            self.plan.stage(format!("scaler and embedding of step {step}"));
            let scaled = self.plan.tensor(paths_rows, self.patch());
            let [location, scale] = [(); 2].map(|()| self.plan.tensor_of(Element::F64, paths_rows, self.patch()));
            self.plan.push(Operation::ScaleStep(operation::ScaleStep {
                scaler: model.config.scaler,
                paths,
                column,
                context_state: (step == 0).then_some(context_state),
                state,
                scaled,
                location,
                scale,
            }));
            self.observe(&format!("ext_loc.{step}"), location);
            self.observe(&format!("ext_scale.{step}"), scale);
            let position = Rows::fixed(1).times_context(self.extra() + step);
            let table = self.rotary_table(position, Rows::fixed(1));
            let pass = Pass { table, inner: Rows::fixed(1).times_samples(), step: Some(step) };
            let mut x = self.plan.linear(model.weights.patch_embed, scaled);
            for (index, layer) in model.weights.layers.iter().enumerate() {
                self.plan.stage(format!("layer {index} of step {step}"));
                x = self.layer(index, layer, x, pass);
            }
            self.plan.stage(format!("output head of step {step}"));
            self.observe(&format!("decode_hidden.{step}"), x);
            prediction = Prediction { parameters: self.head(x, step + 1), location, scale };
        }
        let answer = if self.shape.sorted {
            let sorted = self.plan.tensor(paths_rows.times(self.shape.horizon), 1);
            self.plan.stage("sorting of samples");
            let series = self.series;
            self.plan.push(Operation::SortSamples(operation::SortSamples { paths, sorted, series }));
            sorted
        } else {
            let rounded = self.plan.tensor(paths_rows, self.shape.horizon);
            self.plan.stage("rounding of paths");
            self.plan.push(Operation::Round(operation::Round { input: paths, output: rounded }));
            rounded
        };
        self.plan.keep(answer);
        if self.shape.observe >= Observe::State {
            self.plan.keep(paths);
        }
        PathTensors { exact: paths, answer }
    }

    fn draw(&mut self, prediction: &Prediction, paths: Tensor, streams: Tensor, step: usize) {
        let draw = operation::DrawMixture {
            parameters: prediction.parameters,
            location: prediction.location,
            scale: prediction.scale,
            shared: step == 0,
            head: self.model.config.head,
            positions: self.patch().min(self.shape.horizon - step * self.patch()),
            streams,
            paths,
            column: step * self.patch(),
            step,
            series: self.series,
        };
        self.plan.push(match self.shape.decode {
            Decode::Mean => Operation::MeanMixture(draw),
            Decode::Sample | Decode::Exact => Operation::SampleMixture(draw),
        });
    }

    fn mixture(&mut self, prediction: &Prediction) -> MixtureTensors {
        self.plan.stage("mixture");
        let components = self.model.config.head.components();
        let positions = self.positions(0);
        let rows = self.series;
        let [degrees_of_freedom, location, scale, logits] =
            [(); 4].map(|()| self.plan.tensor(rows, positions * components));
        self.plan.push(Operation::ActivateMixture(operation::ActivateMixture {
            parameters: prediction.parameters,
            head: self.model.config.head,
            positions,
            degrees_of_freedom,
            location,
            scale,
            logits,
        }));
        let (affine_location, affine_scale) = (prediction.location, prediction.scale);
        for tensor in [degrees_of_freedom, location, scale, logits, affine_location, affine_scale] {
            self.plan.keep(tensor);
        }
        let quantiles = (self.shape.levels > 0).then(|| {
            let levels = self.plan.input(Element::F64, Rows::fixed(1), self.shape.levels);
            let solved = self.plan.tensor_of(Element::F64, rows, self.shape.levels * positions);
            self.plan.push(Operation::MixtureQuantiles(operation::MixtureQuantiles {
                head: self.model.config.head,
                positions,
                parameters: [degrees_of_freedom, location, scale, logits],
                affine: [affine_location, affine_scale],
                levels,
                quantiles: solved,
            }));
            self.plan.keep(solved);
            QuantileTensors { levels, solved }
        });
        MixtureTensors { degrees_of_freedom, location, scale, logits, affine_location, affine_scale, quantiles }
    }

    /// Cosines and sines of `rows` positions from `first` on. xPos is anchored at the end of the pass, as the
    /// reference's cached passes are, or always at the end of the context.
    fn rotary_table(&mut self, first: Rows, rows: Rows) -> Tensor {
        let rotary = self.model.rotary();
        let table = self.plan.tensor(rows, 4 * rotary.head_dim);
        let context = Rows::fixed(1).times_context(self.extra());
        let anchor_tokens = if self.shape.uncached_xpos || first == Rows::fixed(0) { context } else { first.plus(1) };
        self.plan.push(Operation::RotaryTable(operation::RotaryTable { rotary, first, anchor_tokens, table }));
        table
    }

    /// From the residual stream to raw parameters, `[positions, parameters]` per row; there is no final norm.
    fn head(&mut self, x: Tensor, step: usize) -> Tensor {
        let outputs = self.model.config.head.values();
        let positions = self.positions(step);
        match self.model.weights.head {
            HeadWeights::Folded(weight) => self.plan.linear_columns(weight, x, 0..positions * outputs),
            HeadWeights::Unfolded { unembed, heads } => {
                let embedded = self.plan.linear_columns(unembed, x, 0..positions * x.width);
                let by_step = embedded.reshaped(x.rows.times(positions), x.width);
                self.plan.linear(heads, by_step).reshaped(x.rows, positions * outputs)
            }
        }
    }
}
