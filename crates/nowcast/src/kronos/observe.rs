//! A plan that no forecast needs: every stage over a context, for comparison with the reference's.

use std::sync::Arc;

use nowcast_engine::extent::Rows;
use nowcast_engine::operation::{self, Operation};
use nowcast_engine::plan::Element;

use super::Kronos;
use super::config::CANDLE_FIELDS;
use super::embedding::TokenRows;
use super::forward::{Forward, KronosPlan, Shape};
use crate::forecaster::plans::Observe;
use crate::{Error, Result};

impl Kronos {
    /// Tokens, their decoding, hidden states, and logits after the last candle. The coarse tokens that the fine logits
    /// follow are written to `streams`, `[series, 2]`, each with a fine one that is not looked at. Other than in a forecast, `output` is `[series, context, 6]`.
    pub(crate) fn plan_stages(&self, shape: Shape) -> Result<KronosPlan> {
        let mut forward = Forward::new(self, Shape { horizon: 1, observe: Observe::Stages, ..shape });
        let context = forward.context;
        let candles = forward.plan.input(Element::F32, context.times_batch(), CANDLE_FIELDS);
        let coarse = forward.plan.input(Element::I32, Rows::batch(), 2);
        let tokens = forward.encode(candles);

        let decoder = &self.tokenizer.decoder;
        let rows = TokenRows::of_context(tokens, 0, context);
        let mut x = forward.embed_codes(rows);
        let caches = forward.caches(decoder, context, 0);
        let pass = forward.shared_pass(decoder, context);
        for (index, cache) in caches.iter().enumerate() {
            x = forward.block(decoder, index, x, cache, pass);
        }
        let output = forward.plan.linear(self.tokenizer.head, x);
        forward.observe("decode", output);

        let stack = &self.predictor.stack;
        let mut caches = forward.caches(stack, context, 0);
        caches.push(forward.dependency_cache(context, 0));
        let hidden = forward.hidden_of_context(tokens, 0, &caches);
        let s1_logits = forward.plan.linear(self.predictor.s1_head, hidden);
        forward.observe("s1_logits", s1_logits);

        let query = forward.dependency_query(TokenRows::of_paths(coarse, 0, 1));
        let answer = forward.plan.tensor(Rows::batch(), query.width);
        forward.plan.push(Operation::AttendPaths(operation::AttendPaths {
            query,
            query_column: 0,
            cache: caches[stack.blocks.len()],
            output: answer,
            tokens: 1,
            seen: 0,
            hidden: 0,
        }));
        let last = forward.plan.last_row(hidden, Rows::batch());
        let s2_logits = forward.fine_logits(answer, last);
        forward.observe("s2_logits_step", s2_logits);

        let Forward { plan, stamps, observed, kept_caches: caches, .. } = forward;
        let plan = Arc::new(plan.finish().map_err(|error| Error::Memory(error.to_string()))?);
        Ok(KronosPlan { plan, candles, stamps, streams: coarse, output, observed, caches })
    }
}
