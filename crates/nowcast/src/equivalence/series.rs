//! Toto: the mixture of the first patch, the mean path of a few, and the KV caches behind both.

use std::sync::Arc;

use nowcast_engine::device::{Device, Launch};
use nowcast_engine::extent::Live;
use nowcast_engine::plan::{Section, Tensor};
use nowcast_engine::token_sampling::TokenSampling;

use super::company::{Forecasts, Request};
use super::grid::{self, Case, Family};
use super::rounding::Rounding;
use super::state::{Items, Part, Ran, cache_error};
use super::{Cell, Report, Scope, Way, Worst, windows};
use crate::checkpoint::ModelSource;
use crate::forecaster::plans::{Observe, Ready};
use crate::forecaster::prepare_series::{prepare, write};
use crate::forecaster::{Counters, ForecastOptions, Forecaster};
use crate::series::Series;
use crate::toto::config::TotoConfig;
use crate::toto::forward::{Decode, MixtureTensors, Output, Shape};
use crate::toto::{LoadOptions, Toto};
use crate::{Forecast, Result};

/// Patches that are decoded, each fed back into the next.
const STEPS: usize = 3;

/// In units of the scaler, the deviation of what it has seen: the least scale of a path.
const DEVIATION: f64 = 1.0;

/// Sample paths of whole forecasts.
const SAMPLES: usize = 24;

/// Sample paths of the forecast whose memory is compared: many, as what a driver takes for a graph grows with kernels and would
/// outweigh the data of few.
const SAMPLES_OF_MEMORY: usize = 1024;

/// Compares every way to run a Toto model with the eager f32 mode on `baseline`, over stretches of `series`.
///
/// `progress` hears `(done, total)`.
///
/// # Errors
/// The model cannot be loaded, the series are shorter than the shortest context, or memory runs out.
pub fn verify_series(
    source: &ModelSource,
    series: &[Series],
    (baseline, ways): (Arc<dyn Device>, &[Way]),
    scope: &Scope,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Report> {
    let config = TotoConfig::from_json(&source.config()?)?;
    grid::verify(&Toto1 { source, series, config }, baseline, ways, scope, progress)
}

/// A model and the data it is compared on.
struct Toto1<'a> {
    source: &'a ModelSource,
    series: &'a [Series],
    config: TotoConfig,
}

/// The plans of one patch and of several.
struct Runs {
    one: Ran<Toto>,
    several: Ran<Toto>,
}

impl Toto1<'_> {
    fn options(&self, way: &Way) -> LoadOptions {
        LoadOptions { eager: way.eager, variate_labels: false, dtype: way.dtype }
    }

    fn ran(&self, model: &Toto, items: &[Series], decode: Decode, horizon: usize) -> Result<Ran<Toto>> {
        let prepared =
            items.iter().map(|item| prepare(item, usize::MAX, self.config.patch_size)).collect::<Result<Vec<_>>>()?;
        let live = Live { batch: items.len(), context: prepared[0].patches, samples: 1 };
        let shape = Shape {
            capacity: live,
            variates: items[0].variates(),
            exogenous: 0,
            known_future: false,
            horizon,
            decode,
            uncached_xpos: false,
            levels: 0,
            sorted: false,
            observe: Observe::State,
        };
        let mut ready = Ready::new(model, shape)?;
        write(&mut ready, prepared.iter());
        let launch = Launch { live, seed: 0, first_sample: 0, token_sampling: TokenSampling::default() };
        for section in [Section::Prefill, Section::Decode] {
            ready.run(section, &launch)?;
        }
        Ok(Ran { ready, live })
    }

    fn rounding(&self) -> Rounding {
        let TotoConfig { embed_dim, mlp_hidden, ref layers, .. } = self.config;
        Rounding { sublayers: 2 * layers.len() + 3, longest: embed_dim.max(mlp_hidden) }
    }
}

/// The tensors of a mixture by their names.
fn mixture(ran: &Ran<Toto>) -> [(&'static str, Tensor); 6] {
    let Output::Mixture(MixtureTensors {
        degrees_of_freedom,
        location,
        scale,
        logits,
        affine_location,
        affine_scale,
        ..
    }) = ran.ready.tensors.output
    else {
        unreachable!("an exact plan ends in a mixture")
    };
    [
        ("degrees of freedom", degrees_of_freedom),
        ("locations", location),
        ("scales", scale),
        ("logits", logits),
        ("location of the patch", affine_location),
        ("scale of the patch", affine_scale),
    ]
}

/// Mean paths `[series, horizon]` in units of the scaler, `[series, patch]`, as the context's last step has it.
fn in_units(paths: &[f64], locations: &[f64], scales: &[f64], patch: usize) -> Vec<f64> {
    let units = locations.chunks(patch).zip(scales.chunks(patch));
    let rows = paths.chunks(STEPS * patch).zip(units);
    rows.flat_map(|(path, (location, scale))| {
        path.iter().map(move |value| (value - location[patch - 1]) / scale[patch - 1])
    })
    .collect()
}

impl Family for Toto1<'_> {
    type Model = Toto;
    type Item = Series;
    type Runs = Runs;

    fn longest(&self) -> usize {
        self.series.iter().map(Series::length).max().unwrap_or(0)
    }

    fn items(&self, cell: Cell) -> Result<Option<Vec<Series>>> {
        windows::of_series(self.series, cell)
    }

    fn load(&self, way: &Way) -> Result<Toto> {
        Toto::load(self.config.clone(), &self.source.checkpoint()?, &*way.device, self.options(way))
    }

    fn run(&self, model: &Toto, items: &[Series]) -> Result<Runs> {
        let patch = self.config.patch_size;
        let one = self.ran(model, items, Decode::Exact, patch)?;
        Ok(Runs { one, several: self.ran(model, items, Decode::Mean, STEPS * patch)? })
    }

    fn compare(&self, case: Case<'_>, ours: &mut Runs, baseline: &mut Runs, report: &mut Report) {
        let items = Items::all(ours.one.live.batch);
        let limit = |steps| self.rounding().limit(case.way.dtype, steps);
        let mut worst = Worst::default();
        for ((name, our_tensor), (_, tensor)) in mixture(&ours.one).into_iter().zip(mixture(&baseline.one)) {
            let error = items.relative_error(&ours.one.read(our_tensor), &baseline.one.read(tensor));
            worst.include(error, || name.into());
        }
        report.push_worst(case, "1 step: mixture of the patch", worst, limit(1));

        let caches = |runs: &Runs| runs.several.ready.tensors.caches.clone();
        let (our_caches, baseline_caches) = (caches(ours), caches(baseline));
        for (part, what, steps) in [
            (Part::Context, "1 step: KV cache of the context", 1),
            (Part::Suffix, "3 steps: KV cache of the path", STEPS),
        ] {
            let (ours, baseline) = (&mut ours.several, &mut baseline.several);
            let worst = cache_error(part, &items, (ours, &our_caches), (baseline, &baseline_caches));
            report.push_worst(case, what, worst, limit(steps));
        }

        let [.., (_, location), (_, scale)] = mixture(&baseline.one);
        let (location, scale) = (baseline.one.read(location), baseline.one.read(scale));
        let path = |ran: &mut Ran<Toto>| match ran.ready.tensors.output {
            Output::Paths(paths) => in_units(&ran.read(paths.exact), &location, &scale, self.config.patch_size),
            Output::Mixture(_) => unreachable!("a mean plan ends in paths"),
        };
        let error = items.error_in_units(&path(&mut ours.several), &path(&mut baseline.several), DEVIATION);
        report.push(case, "3 steps: mean path", error, limit(STEPS));
    }

    fn forecasts(&self, way: &Way, device: Arc<dyn Device>, items: Vec<Series>) -> Result<Box<dyn Forecasts>> {
        let forecaster = Forecaster::load_with(self.source, device, self.options(way))?;
        let mut options = ForecastOptions::new(2 * self.config.patch_size);
        options.samples = Some(SAMPLES);
        options.paths = true;
        Ok(Box::new(SeriesForecasts { forecaster, items, options }))
    }
}

/// Whole forecasts of series.
struct SeriesForecasts {
    forecaster: Forecaster,
    items: Vec<Series>,
    options: ForecastOptions,
}

impl Forecasts for SeriesForecasts {
    fn forecast(&mut self, request: Request<'_>) -> Result<Vec<Forecast>> {
        let items: Vec<Series> = request.items.iter().map(|&item| self.items[item].clone()).collect();
        let Request { seed, memory_limit, .. } = request;
        let samples = request.samples.or(self.options.samples);
        self.forecaster.forecast(&items, &ForecastOptions { samples, seed, memory_limit, ..self.options.clone() })
    }

    fn counters(&self) -> Counters {
        self.forecaster.counters()
    }

    fn weight_bytes(&self) -> usize {
        self.forecaster.weight_bytes()
    }

    fn planned_bytes(&self) -> Result<usize> {
        let options = ForecastOptions { samples: Some(SAMPLES_OF_MEMORY), ..self.options.clone() };
        self.forecaster.planned_bytes(512, 1, &options)
    }

    fn least_bytes(&self) -> Result<usize> {
        let longest = self.items.iter().map(Series::length).max().unwrap_or(1);
        let options = ForecastOptions { samples: Some(1), ..self.options.clone() };
        self.forecaster.planned_bytes(longest, 1, &options)
    }
}
