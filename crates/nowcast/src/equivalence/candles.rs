//! Kronos: tokens, logits and candles, always taking the likeliest token, and the KV caches behind them.
//!
//! A token is a choice: where two computations differ by their rounding alone, one may decide a tie otherwise. A choice
//! that differs is excused only if the baseline's own numbers for both are closer than the limit; what comes after it
//! has another past and is not compared.

use std::sync::Arc;

use nowcast_engine::device::{Device, Launch};
use nowcast_engine::dtype::Dtype;
use nowcast_engine::extent::Live;
use nowcast_engine::plan::{Section, Tensor};
use nowcast_engine::token_sampling::TokenSampling;

use super::company::{Forecasts, Request};
use super::grid::{self, Case, Family};
use super::rounding::Rounding;
use super::state::{Items, Part, Ran, cache_error};
use super::{Cell, Report, Scope, Way, Worst, windows};
use crate::candles::Candles;
use crate::forecaster::plans::{Observe, Ready};
use crate::forecaster::prepare_candles::{prepare, write};
use crate::forecaster::{CandleForecaster, CandleOptions, Counters};
use crate::golden::KronosTwin;
use crate::kronos::config::{PredictorConfig, TokenizerConfig, Transformer};
use crate::kronos::forward::Shape;
use crate::kronos::{Kronos, KronosSource, LoadOptions, Window};
use crate::{Error, Forecast, Result};

/// Bars that are generated, each fed back into the next.
const STEPS: usize = 4;

/// In normalised units, the deviation of a context: the least scale of what is forecast of it.
const DEVIATION: f64 = 1.0;

/// Sample paths of whole forecasts.
const SAMPLES: usize = 6;

/// Sample paths of the forecast whose memory is compared: many, as what a driver takes for a graph grows with kernels and would
/// outweigh the data of few.
const SAMPLES_OF_MEMORY: usize = 1024;

/// Normalised values beyond this are clipped, as in the reference.
const CLIP: f32 = 5.0;

/// Bars of the comparison with f64.
const CONTEXT_IN_DOUBLE: usize = 64;

/// The largest model that plain loops in f64 finish in seconds.
const MOST_PARAMETERS_IN_DOUBLE: u64 = 30_000_000;

/// Compares every way to run a Kronos model with the eager f32 mode on `baseline`, over stretches of `markets`; small
/// models also with their formulas in f64. Contexts beyond the model's window are left out.
///
/// `progress` hears `(done, total)`.
///
/// # Errors
/// The model cannot be loaded, the markets are shorter than the shortest context, or memory runs out.
pub fn verify_candles(
    source: &KronosSource,
    markets: &[Candles],
    (baseline, ways): (Arc<dyn Device>, &[Way]),
    scope: &Scope,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Report> {
    let (tokenizer, predictor) = source.configs()?;
    let window = predictor.default_max_context();
    let (inside, beyond): (Vec<_>, Vec<_>) = scope.contexts.iter().partition(|&&context| context <= window);
    let scope = Scope { contexts: inside, batch_context: scope.batch_context.min(window), ..scope.clone() };
    let mut report =
        grid::verify(&Kronos1 { source, markets, tokenizer, predictor }, baseline, ways, &scope, progress)?;
    for context in beyond {
        report.note(format!("context {context}: the model's window holds {window} bars, left out"));
    }
    Ok(report)
}

/// A model and the data it is compared on.
struct Kronos1<'a> {
    source: &'a KronosSource,
    markets: &'a [Candles],
    tokenizer: TokenizerConfig,
    predictor: PredictorConfig,
}

/// Stages of a run by their names.
impl Ran<Kronos> {
    fn stage(&self, name: &str) -> Tensor {
        let stages = &self.ready.tensors.observed;
        let found = stages.iter().find(|(other, _)| other == name);
        found.unwrap_or_else(|| unreachable!("{name} is kept")).1
    }

    fn named(&mut self, name: &str) -> Vec<f64> {
        self.read(self.stage(name))
    }
}

/// Choices that differ: those that no tie explains, and who still has the baseline's past.
struct Choices {
    unexplained: usize,
    same: Items,
}

impl Choices {
    /// Notes that an item chose otherwise where the baseline's numbers are this far apart.
    fn differs(&mut self, item: usize, gap: f64, limit: f64) {
        self.same.0[item] = false;
        // A NaN explains nothing.
        let tie = gap <= limit;
        self.unexplained += usize::from(!tie);
    }
}

impl Kronos1<'_> {
    fn options(&self, way: &Way) -> LoadOptions {
        LoadOptions { eager: way.eager, dtype: way.dtype }
    }

    fn rounding(blocks: usize, transformer: Transformer) -> Rounding {
        Rounding { sublayers: 2 * blocks + 4, longest: transformer.width.max(transformer.hidden) }
    }

    /// Bits of the context's tokens, from the signs of the tokenizer's codes.
    fn tokens(&self, case: Case<'_>, ours: &mut Ran<Kronos>, baseline: &mut Ran<Kronos>, report: &mut Report) -> Items {
        let limit = Self::rounding(self.tokenizer.encoder_blocks, self.tokenizer.transformer).limit(Dtype::F32, 1);
        let batch = ours.live.batch;
        let (our_codes, codes) = (ours.named("z"), baseline.named("z"));
        let error = Items::all(batch).relative_error(&our_codes, &codes);
        report.push(case, "1 step: codes of the context", error, limit);

        let (our_tokens, tokens) = (ours.named("tokens"), baseline.named("tokens"));
        let largest = codes.iter().fold(0.0f64, |largest, code| largest.max(code.abs()));
        let mut choices = Choices { unexplained: 0, same: Items::all(batch) };
        let [first_bits, bits] = [self.tokenizer.bits.s1, self.tokenizer.bits.total()];
        let pairs = our_tokens.chunks(2).zip(tokens.chunks(2)).zip(codes.chunks(bits)).enumerate();
        for (bar, ((ours, baseline), codes)) in pairs.filter(|(_, ((ours, baseline), _))| ours != baseline) {
            let flipped = |token: usize| ours[token] as u64 ^ baseline[token] as u64;
            let flipped = flipped(0) | flipped(1) << first_bits;
            for (_, code) in codes.iter().enumerate().filter(|(bit, _)| flipped >> bit & 1 == 1) {
                choices.differs(bar * batch / (tokens.len() / 2), code.abs() / largest, limit);
            }
        }
        report.push(case, "1 step: bits of tokens that no tie explains", choices.unexplained as f64, 0.0);
        choices.same
    }

    /// Logits and tokens of every step, as long as an item has the baseline's past.
    fn steps(&self, case: Case<'_>, same: Items, runs: [&mut Ran<Kronos>; 2], report: &mut Report) -> Items {
        let [ours, baseline] = runs;
        let rounding = Self::rounding(self.predictor.blocks, self.predictor.transformer);
        let (our_tokens, tokens) = (ours.named("generated"), baseline.named("generated"));
        let mut choices = Choices { unexplained: 0, same };
        let mut worst = Worst::default();
        for step in 0..STEPS {
            let limit = rounding.limit(case.way.dtype, step + 1);
            for (position, name) in [format!("s1_logits.{step}"), format!("s2_logits.{step}")].iter().enumerate() {
                if choices.same.none() {
                    report.note(format!(
                        "{}, {}: every item decided a tie otherwise before step {}: later steps are not compared",
                        case.way.name,
                        case.setting,
                        step + 1
                    ));
                    break;
                }
                let (our_logits, logits) = (ours.named(name), baseline.named(name));
                // In units of the limit, which grows with the steps.
                worst.include(choices.same.relative_error(&our_logits, &logits) / limit, || name.clone());
                if step == 0 && position == 0 {
                    report.push(case, "1 step: logits", worst.error * limit, limit);
                }
                let largest = logits.iter().fold(0.0f64, |largest, logit| largest.max(logit.abs()));
                let width = logits.len() / choices.same.0.len();
                for item in 0..choices.same.0.len() {
                    let at = item * 2 * STEPS + 2 * step + position;
                    let [ours, baseline] = [our_tokens[at], tokens[at]].map(|token| token as usize);
                    if choices.same.0[item] && ours != baseline {
                        let of_item = &logits[item * width..(item + 1) * width];
                        // Either logit may be off by the limit.
                        choices.differs(item, (of_item[ours] - of_item[baseline]).abs() / largest, 2.0 * limit);
                    }
                }
            }
        }
        report.push_worst(case, "4 steps: logits, in units of their limit", worst, 1.0);
        report.push(case, "4 steps: tokens that no tie explains", choices.unexplained as f64, 0.0);
        choices.same
    }
}

impl Family for Kronos1<'_> {
    type Model = Kronos;
    type Item = Candles;
    type Runs = Ran<Kronos>;

    fn longest(&self) -> usize {
        self.markets.iter().map(Candles::len).max().unwrap_or(0)
    }

    fn items(&self, cell: Cell) -> Result<Option<Vec<Candles>>> {
        Ok(windows::of_markets(self.markets, cell))
    }

    fn load(&self, way: &Way) -> Result<Kronos> {
        Kronos::open(self.source, &*way.device, self.options(way))
    }

    fn run(&self, model: &Kronos, items: &[Candles]) -> Result<Ran<Kronos>> {
        let prepared = items.iter().map(|item| prepare(item, usize::MAX, STEPS, CLIP)).collect::<Result<Vec<_>>>()?;
        let live = Live { batch: items.len(), context: prepared[0].context, samples: 1 };
        let max_context = self.predictor.default_max_context();
        let shape =
            Shape { capacity: live, horizon: STEPS, max_context, window: Window::Exact, observe: Observe::State };
        let mut ready = Ready::new(model, shape)?;
        write(&mut ready, prepared.iter());
        let launch = Launch { live, seed: 0, first_sample: 0, token_sampling: TokenSampling::GREEDY };
        for section in [Section::Prefill, Section::Decode] {
            ready.run(section, &launch)?;
        }
        Ok(Ran { ready, live })
    }

    fn compare(&self, case: Case<'_>, ours: &mut Ran<Kronos>, baseline: &mut Ran<Kronos>, report: &mut Report) {
        let rounding = Self::rounding(self.predictor.blocks, self.predictor.transformer);
        let caches = |ran: &Ran<Kronos>| ran.ready.tensors.caches.clone();
        let (our_caches, baseline_caches) = (caches(ours), caches(baseline));
        let cache = |part, items: &Items, ours: &mut Ran<Kronos>, baseline: &mut Ran<Kronos>| {
            cache_error(part, items, (ours, &our_caches), (baseline, &baseline_caches))
        };
        let same = self.tokens(case, ours, baseline, report);
        if same.none() {
            report.note(format!(
                "{}, {}: every context has a tied bit, nothing behind it is compared",
                case.way.name, case.setting
            ));
            return;
        }
        let worst = cache(Part::Context, &same, ours, baseline);
        report.push_worst(case, "1 step: KV cache of the context", worst, rounding.limit(case.way.dtype, 1));
        let same = self.steps(case, same, [ours, baseline], report);
        if same.none() {
            return;
        }
        let worst = cache(Part::Suffix, &same, ours, baseline);
        report.push_worst(case, "4 steps: KV cache of the path", worst, rounding.limit(case.way.dtype, STEPS));
        let decoded = Self::rounding(self.tokenizer.decoder_blocks, self.tokenizer.transformer);
        let error = same.error_in_units(&ours.named("preds_norm"), &baseline.named("preds_norm"), DEVIATION);
        report.push(case, "4 steps: candles of equal tokens", error, decoded.limit(Dtype::F32, 1));
    }

    fn forecasts(&self, way: &Way, device: Arc<dyn Device>, items: Vec<Candles>) -> Result<Box<dyn Forecasts>> {
        let forecaster = CandleForecaster::load_with(self.source, device, self.options(way))?;
        let mut options = CandleOptions::new(STEPS);
        options.samples = Some(SAMPLES);
        Ok(Box::new(CandleForecasts { forecaster, items, options }))
    }

    /// The logits after a short context against the formulas in f64, where the model is small enough for plain loops.
    fn against_double(&self, way: &Way, model: &Kronos, report: &mut Report) -> Result<()> {
        let parameters = self.tokenizer.parameters() + self.predictor.parameters();
        let Some(items) = self.items(Cell { context: CONTEXT_IN_DOUBLE, batch: 1 })? else { return Ok(()) };
        if parameters > MOST_PARAMETERS_IN_DOUBLE {
            report.note(format!(
                "{parameters} parameters are too many for a comparison with f64 (up to {MOST_PARAMETERS_IN_DOUBLE})"
            ));
            return Ok(());
        }
        let mut ran = self.run(model, &items)?;
        let prepared = prepare(&items[0], usize::MAX, STEPS, CLIP)?;
        let pairs: Vec<[i64; 2]> = ran.named("tokens").chunks(2).map(|pair| [pair[0] as i64, pair[1] as i64]).collect();
        let stamps: Vec<[i64; 5]> = prepared
            .stamps
            .chunks(5)
            .take(pairs.len())
            .map(|stamp| std::array::from_fn(|at| stamp[at].into()))
            .collect();
        let (tokenizer, predictor) = (self.source.tokenizer.checkpoint()?, self.source.predictor.checkpoint()?);
        let twin = KronosTwin { tokenizer: (self.tokenizer, &tokenizer), predictor: (self.predictor, &predictor) };
        let hidden = twin.context(&pairs, &stamps)?;
        let last = hidden.last().ok_or_else(|| Error::Data("a context without bars".into()))?;
        let truth = twin.s1_logits(last)?;
        let error = Items::all(1).relative_error(&ran.named("s1_logits.0"), &truth);
        let limit = Self::rounding(self.predictor.blocks, self.predictor.transformer).limit(way.dtype, 1);
        let setting = format!("context {CONTEXT_IN_DOUBLE}, batch 1");
        report.push(Case { way, setting: &setting }, "1 step: logits against f64", error, limit);
        Ok(())
    }
}

/// Whole forecasts of markets.
struct CandleForecasts {
    forecaster: CandleForecaster,
    items: Vec<Candles>,
    options: CandleOptions,
}

impl Forecasts for CandleForecasts {
    fn forecast(&mut self, request: Request<'_>) -> Result<Vec<Forecast>> {
        let items: Vec<Candles> = request.items.iter().map(|&item| self.items[item].clone()).collect();
        let Request { seed, memory_limit, .. } = request;
        let samples = request.samples.or(self.options.samples);
        self.forecaster.forecast(&items, &CandleOptions { samples, seed, memory_limit, ..self.options.clone() })
    }

    fn counters(&self) -> Counters {
        self.forecaster.counters()
    }

    fn weight_bytes(&self) -> usize {
        self.forecaster.weight_bytes()
    }

    fn planned_bytes(&self) -> Result<usize> {
        let options = CandleOptions { samples: Some(SAMPLES_OF_MEMORY), ..self.options.clone() };
        self.forecaster.planned_bytes(256, &options)
    }

    fn least_bytes(&self) -> Result<usize> {
        let longest = self.items.iter().map(Candles::len).max().unwrap_or(1);
        let options = CandleOptions { samples: Some(1), ..self.options.clone() };
        self.forecaster.planned_bytes(longest, &options)
    }
}
