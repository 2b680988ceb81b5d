//! Kronos' generation loop, written down once as a plan.
//!
//! The context is computed once per series and shared by its sample paths; a path keeps only its own tokens. Where
//! the window slides, positions start anew and dropped tokens leave the hidden states, so everything in the window is
//! computed again for every step: the part that is still context once per series, the generated tail once per path.

use std::sync::Arc;

use nowcast_engine::extent::{Live, Rows};
use nowcast_engine::kv_cache::LayerCache;
use nowcast_engine::operation::{self, CachePart, Operation};
use nowcast_engine::plan::{Element, Plan, PlanBuilder, Tensor};

use super::Kronos;
use super::blocks::{Pass, Span};
use super::config::CANDLE_FIELDS;
use super::embedding::TokenRows;
use super::weights::TIME_TABLES;
use crate::Result;
use crate::forecaster::plans::Observe;

/// What happens to tokens older than the model's context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Window {
    /// As the reference: the window is computed anew for every step.
    #[default]
    Exact,
    /// Old keys and values are dropped, the others stay as they are: one token per step, but not the reference's
    /// digits, because kept hidden states have seen what was dropped.
    Streaming,
}

/// What a plan is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// A plan whose window slides serves exactly this context, others any shorter one.
    pub(crate) capacity: Live,
    pub(crate) horizon: usize,
    /// Tokens in the window; at least the horizon.
    pub(crate) max_context: usize,
    pub(crate) window: Window,
    /// What is kept for inspection.
    pub(crate) observe: Observe,
}

impl Shape {
    /// Whether context and future together outgrow the window.
    pub(crate) fn slides(&self) -> bool {
        self.capacity.context + self.horizon > self.max_context
    }
}

/// A plan and the tensors that the host writes and reads.
pub(crate) struct KronosPlan {
    pub(crate) plan: Arc<Plan>,
    /// `[series, context, 6]`, normalised and clipped.
    pub(crate) candles: Tensor,
    /// `[series, context + horizon, 5]` i32: minute, hour, weekday, day, month.
    pub(crate) stamps: Tensor,
    /// `[series]` i32
    pub(crate) streams: Tensor,
    /// `[series, samples, horizon, 6]`, normalised.
    pub(crate) output: Tensor,
    /// Stages by the names of the goldens, if observed.
    pub(crate) observed: Vec<(String, Tensor)>,
    /// The KV caches of the predictor's blocks and of the attention between tokens, kept if the state is observed.
    pub(crate) caches: Vec<LayerCache>,
}

/// A plan being written down.
pub(super) struct Forward<'a> {
    pub(super) model: &'a Kronos,
    pub(super) shape: Shape,
    pub(super) plan: PlanBuilder,
    /// Tokens of context of one series.
    pub(super) context: Rows,
    pub(super) stamps: Tensor,
    streams: Tensor,
    /// `[series, samples, horizon · 2]` i32
    pub(super) generated: Tensor,
    pub(super) observed: Vec<(String, Tensor)>,
    pub(super) kept_caches: Vec<LayerCache>,
}

/// The newest token of every series or path: what the next one is drawn from.
struct Newest {
    /// Hidden state behind the last norm.
    hidden: Tensor,
    s1_logits: Tensor,
    /// Whether rows are per series: nothing has been drawn yet.
    shared: bool,
    /// Keys and values that the coarse token asks.
    dependency: LayerCache,
    /// Oldest tokens in the caches that it does not see.
    hidden_tokens: usize,
}

impl Kronos {
    /// Writes down one forecast.
    pub(super) fn write_plan(&self, shape: Shape) -> Result<KronosPlan> {
        let mut forward = Forward::new(self, shape);
        let candles = forward.plan.input(Element::F32, forward.context.times_batch(), CANDLE_FIELDS);
        let tokens = forward.encode(candles);
        let decoder = forward.decode_context(tokens);
        forward.generate(tokens);
        let output = forward.decode_generated(&decoder);
        forward.plan.keep(output);
        let Forward { plan, stamps, streams, observed, kept_caches: caches, .. } = forward;
        let plan = Arc::new(plan.finish().map_err(|error| crate::Error::Memory(error.to_string()))?);
        Ok(KronosPlan { plan, candles, stamps, streams, output, observed, caches })
    }
}

impl<'a> Forward<'a> {
    pub(super) fn new(model: &'a Kronos, shape: Shape) -> Self {
        let mut plan = PlanBuilder::new(shape.capacity, !model.options.eager);
        let context = match shape.slides() {
            true => Rows::fixed(shape.capacity.context),
            false => Rows::fixed(1).times_context(0),
        };
        let stamps = plan.input(Element::I32, context.plus(shape.horizon).times_batch(), TIME_TABLES.len());
        let streams = plan.input(Element::I32, Rows::batch(), 1);
        let generated = plan.tensor_of(Element::I32, Rows::batch().times_samples(), 2 * shape.horizon);
        Self { model, shape, plan, context, stamps, streams, generated, observed: Vec::new(), kept_caches: Vec::new() }
    }

    /// Keeps a stage for comparison.
    pub(super) fn observe(&mut self, name: impl Into<String>, tensor: Tensor) {
        self.observe_at(Observe::Stages, name, tensor);
    }

    /// Keeps what later steps go on from.
    fn observe_state(&mut self, name: impl Into<String>, tensor: Tensor) {
        self.observe_at(Observe::State, name, tensor);
    }

    fn observe_at(&mut self, level: Observe, name: impl Into<String>, tensor: Tensor) {
        if self.shape.observe >= level {
            self.plan.keep(tensor);
            self.observed.push((name.into(), tensor));
        }
    }

    pub(super) fn paths(&self) -> Rows {
        Rows::batch().times_samples()
    }

    /// Context tokens that have left the window once a path has this many tokens of its own.
    pub(super) fn dropped(&self, own: usize) -> usize {
        (self.shape.capacity.context + own).saturating_sub(self.shape.max_context)
    }

    /// Context tokens that are in the window beside this many own ones.
    pub(super) fn shared(&self, own: usize) -> Rows {
        match self.dropped(own) {
            0 => self.context,
            dropped => Rows::fixed(self.shape.capacity.context.saturating_sub(dropped)),
        }
    }

    /// Candles to tokens, `[series, context, 2]`: every candle, whatever the window.
    pub(super) fn encode(&mut self, candles: Tensor) -> Tensor {
        let weights = &self.model.tokenizer;
        self.plan.stage("tokenizer encoder");
        let mut x = self.plan.linear(weights.embed, candles);
        let caches = self.caches(&weights.encoder, self.context, 0);
        let pass = self.shared_pass(&weights.encoder, self.context);
        for (index, cache) in caches.iter().enumerate() {
            self.plan.stage(format!("tokenizer encoder block {index}"));
            x = self.block(&weights.encoder, index, x, cache, pass);
            self.observe(format!("encoder_out.{index}"), x);
        }
        self.plan.stage("tokenizer quantiser");
        let z = self.plan.linear(weights.quant_embed, x);
        self.observe_state("z", z);
        let tokens = self.plan.tensor_of(Element::I32, z.rows, 2);
        let first_bits = self.model.tokenizer_config.bits.s1;
        self.plan.push(Operation::QuantiseBits(operation::QuantiseBits { input: z, first_bits, output: tokens }));
        self.observe_state("tokens", tokens);
        tokens
    }

    /// Keys and values in the tokenizer's decoder of the context tokens that stand before the generated ones.
    fn decode_context(&mut self, tokens: Tensor) -> Vec<LayerCache> {
        let stack = &self.model.tokenizer.decoder;
        let horizon = self.shape.horizon;
        let shared = self.shared(horizon);
        let caches = self.caches(stack, shared, horizon);
        let Some(last) = caches.len().checked_sub(1).filter(|_| shared != Rows::fixed(0)) else { return caches };
        let pass = self.shared_pass(stack, shared);
        self.plan.stage("tokenizer decoder of the context");
        let rows = TokenRows::of_context(tokens, self.dropped(horizon), shared);
        let mut x = self.embed_codes(rows);
        for (index, cache) in caches[..last].iter().enumerate() {
            x = self.block(stack, index, x, cache, pass);
        }
        self.keys_and_values(stack, last, x, &caches[last], pass);
        caches
    }

    /// Generated tokens to candles, `[series, samples, horizon, 6]`.
    fn decode_generated(&mut self, caches: &[LayerCache]) -> Tensor {
        let stack = &self.model.tokenizer.decoder;
        let horizon = self.shape.horizon;
        let own = Span::Own { first: 0, tokens: horizon, hidden: 0 };
        let pass = self.own_pass(stack, self.shared(horizon), own);
        self.plan.stage("tokenizer decoder");
        let rows = TokenRows::of_paths(self.generated, 0, horizon);
        let mut x = self.embed_codes(rows);
        for (index, cache) in caches.iter().enumerate() {
            x = self.block(stack, index, x, cache, pass);
        }
        let output = self.plan.linear(self.model.tokenizer.head, x);
        self.observe_state("preds_norm", output);
        output
    }

    /// Draws one pair of tokens after the other for every path.
    fn generate(&mut self, tokens: Tensor) {
        let stack = &self.model.predictor.stack;
        let horizon = self.shape.horizon;
        let window = self.shared(0);
        let mut caches = self.caches(stack, window, horizon - 1);
        caches.push(self.dependency_cache(window, horizon - 1));
        if self.shape.observe >= Observe::State {
            caches.iter().flat_map(LayerCache::tensors).for_each(|tensor| self.plan.keep(tensor));
            self.kept_caches.clone_from(&caches);
        }
        let hidden = self.hidden_of_context(tokens, 0, &caches);
        let first = self.newest(hidden, Rows::batch(), &caches);
        self.plan.begin_decode();
        self.draw(&first, 0);
        // The first window that has moved is the longest: the others fit its memory.
        let mut moved: Option<Vec<LayerCache>> = None;
        for step in 1..horizon {
            let dropped = self.dropped(step) - self.dropped(0);
            let newest = if dropped > 0 && self.shape.window == Window::Exact {
                let shared = self.shared(step);
                let plan = &mut self.plan;
                let memory =
                    moved.get_or_insert_with(|| caches.iter().map(|cache| cache.beside(plan, shared)).collect());
                let caches: Vec<_> = memory.iter().map(|cache| cache.with_context(shared)).collect();
                self.hidden_of_context(tokens, step, &caches);
                self.predict(shared, Span::Own { first: 0, tokens: step, hidden: 0 }, &caches)
            } else {
                let own = Span::Own { first: step - 1, tokens: 1, hidden: dropped };
                self.predict(window.plus(step - 1), own, &caches)
            };
            self.draw(&newest, step);
        }
        let generated = self.generated;
        self.observe_state("generated", generated);
    }

    /// The context tokens that are in the window beside `own` own ones, through all layers into the caches.
    pub(super) fn hidden_of_context(&mut self, tokens: Tensor, own: usize, caches: &[LayerCache]) -> Tensor {
        let stack = &self.model.predictor.stack;
        let shared = self.shared(own);
        let pass = self.shared_pass(stack, shared);
        let first = self.dropped(own);
        self.plan.stage("embedding of the context");
        let mut x = self.embed_tokens(TokenRows::of_context(tokens, first, shared), Some(Rows::fixed(first)));
        for (index, cache) in caches[..stack.blocks.len()].iter().enumerate() {
            self.plan.stage(format!("block {index} of the context"));
            x = self.block(stack, index, x, cache, pass);
            if own == 0 {
                self.observe(format!("layer_out.{index}"), x);
            }
        }
        let hidden = self.norm(x);
        if own == 0 {
            self.observe("context", hidden);
        }
        self.append_dependency(hidden, caches, CachePart::Context);
        hidden
    }

    /// Own tokens of every path, the first at a position, up to the logits of the newest.
    fn predict(&mut self, position: Rows, span: Span, caches: &[LayerCache]) -> Newest {
        let Span::Own { first, tokens, hidden: hidden_tokens } = span else { unreachable!("these are own tokens") };
        let stack = &self.model.predictor.stack;
        let pass: Pass = self.own_pass(stack, position, span);
        let stamps = self.context.plus(first);
        let step = first + tokens;
        self.plan.stage(format!("embedding of step {step}"));
        let mut x = self.embed_tokens(TokenRows::of_paths(self.generated, first, tokens), Some(stamps));
        for (index, cache) in caches[..stack.blocks.len()].iter().enumerate() {
            self.plan.stage(format!("block {index} of step {step}"));
            x = self.block(stack, index, x, cache, pass);
        }
        let hidden = self.norm(x);
        self.append_dependency(hidden, caches, CachePart::Suffix { first, tokens });
        Newest { hidden_tokens, ..self.newest(hidden, self.paths(), caches) }
    }

    /// The last token of each series or path, and the logits of the coarse token after it.
    fn newest(&mut self, hidden: Tensor, rows: Rows, caches: &[LayerCache]) -> Newest {
        let hidden = if hidden.rows == rows { hidden } else { self.plan.last_row(hidden, rows) };
        let s1_logits = self.plan.linear(self.model.predictor.s1_head, hidden);
        let dependency = caches[self.model.predictor.stack.blocks.len()];
        Newest { hidden, s1_logits, shared: rows == Rows::batch(), dependency, hidden_tokens: 0 }
    }

    /// Draws the coarse token, asks the context what it makes of it, and draws the fine one.
    fn draw(&mut self, newest: &Newest, step: usize) {
        self.plan.stage(format!("draw of step {step}"));
        self.sample(newest.s1_logits, newest.shared, step, 0);
        let query = self.dependency_query(TokenRows::of_paths(self.generated, step, 1));
        let output = self.plan.tensor(query.rows, query.width);
        self.plan.push(Operation::AttendPaths(operation::AttendPaths {
            query,
            query_column: 0,
            cache: newest.dependency,
            output,
            tokens: 1,
            seen: step,
            hidden: newest.hidden_tokens,
        }));
        let mut hidden = newest.hidden;
        if newest.shared {
            hidden = self.plan.tensor(self.paths(), hidden.width);
            self.plan.push(Operation::RepeatRows(operation::RepeatRows { input: newest.hidden, output: hidden }));
        }
        let s2_logits = self.fine_logits(output, hidden);
        self.sample(s2_logits, false, step, 1);
        self.observe_state(format!("s1_logits.{step}"), newest.s1_logits);
        self.observe_state(format!("s2_logits.{step}"), s2_logits);
    }

    fn sample(&mut self, logits: Tensor, shared: bool, step: usize, position: usize) {
        let weights = self.plan.tensor_of(Element::F64, logits.rows, logits.width);
        self.plan.push(Operation::SampleToken(operation::SampleToken {
            logits,
            weights,
            shared,
            streams: self.streams,
            tokens: self.generated,
            column: 2 * step + position,
            step,
            position,
        }));
    }
}
