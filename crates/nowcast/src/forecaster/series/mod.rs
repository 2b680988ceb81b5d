//! Toto's way of the data: series are padded to patches, grouped by shape, run through plans, and answered.

mod options;
pub(crate) mod prepare;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nowcast_engine::cpu::CpuDevice;
use nowcast_engine::cpu::pool::ThreadPool;
use nowcast_engine::device::{Device, Launch};
use nowcast_engine::extent::Live;
use nowcast_engine::operation::{MixtureQuantiles, SortSamples};
use nowcast_engine::plan::Section;
use nowcast_engine::student_t::HeadParameters;
use nowcast_engine::token_sampling::TokenSampling;

pub use options::{DEFAULT_SAMPLES, Decode, ForecastOptions, Xpos};

use super::budget::MemoryBudget;
use super::keeper::{Keeper, Load};
use super::plans::{Observe, Planned, Ready, bucket};
use super::{Counters, memory};
use crate::checkpoint::{HubOptions, ModelSource, resolve};
use crate::forecast::{Distribution, Forecast, VariateForecast};
use crate::series::Series;
use crate::toto::config::TotoConfig;
use crate::toto::forward::{self, MixtureTensors, Output, PathTensors, Shape};
use crate::toto::{LoadOptions, Toto};
use crate::{Error, Result};
use prepare::{Prepared, prepare};

/// Steps of history that suit a published Toto checkpoint; it was trained on up to this many.
const TOTO_CONTEXT: usize = 4096;
/// Steps of history that suit the shipped model.
const NANO_CONTEXT: usize = 512;

/// Values of an answer that one thread gathers sooner than two.
const GRAIN_VALUES: usize = 1 << 16;

/// A model ready to forecast; the [crate documentation](crate) shows one at work.
pub struct Forecaster {
    config: TotoConfig,
    keeper: Keeper<Toto>,
    default_context: usize,
}

impl Forecaster {
    /// Loads a model onto the CPU: `nano`, a directory, or the id of a Hugging Face repository.
    ///
    /// # Errors
    /// The model cannot be found or does not fit its config.
    pub fn load(model: &str) -> Result<Self> {
        let source = resolve(model, &HubOptions::from_environment())?;
        Self::load_with(&source, Arc::new(CpuDevice::new(None)), LoadOptions::default())
    }

    /// Loads a model onto a device.
    ///
    /// # Errors
    /// The checkpoint does not fit its config, or the device has no room for it.
    pub fn load_with(source: &ModelSource, device: Arc<dyn Device>, options: LoadOptions) -> Result<Self> {
        let config = TotoConfig::from_json(&source.config()?)?;
        let default_context = match source {
            ModelSource::BuiltIn { .. } => NANO_CONTEXT,
            ModelSource::Folder(_) => TOTO_CONTEXT,
        };
        let (source, shape) = (source.clone(), config.clone());
        let load = move || Toto::load(shape.clone(), &source.checkpoint()?, &*device, options);
        Self::new(config, default_context, Box::new(load))
    }

    /// A forecaster whose model is brought onto its device by `load`.
    pub(crate) fn new(config: TotoConfig, default_context: usize, load: Load<Toto>) -> Result<Self> {
        Ok(Self { config, keeper: Keeper::new(load)?, default_context })
    }

    /// Shares a memory budget with other forecasters.
    ///
    /// # Errors
    /// The weights alone exceed it.
    pub fn with_budget(mut self, budget: &MemoryBudget) -> Result<Self> {
        self.keeper.join(budget)?;
        Ok(self)
    }

    /// Gives the memory of weights and plans back; the next forecast loads the weights again.
    pub fn unload(&mut self) {
        self.keeper.unload();
    }

    /// The architecture.
    pub fn config(&self) -> &TotoConfig {
        &self.config
    }

    /// Bytes of the weights on the device, also while they are unloaded.
    pub fn weight_bytes(&self) -> usize {
        self.keeper.weight_bytes()
    }

    /// Bytes of weights and plans that are held now.
    pub fn held_bytes(&self) -> usize {
        self.keeper.held_bytes()
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.keeper.counters()
    }

    /// Past steps looked at when [`ForecastOptions::context`] is `None`.
    pub fn default_context(&self) -> usize {
        self.default_context
    }

    /// Bytes of the plan that would serve one series of `context` steps and this many variates.
    ///
    /// # Errors
    /// The options are out of range, or sizes overflow.
    pub fn planned_bytes(&self, context: usize, variates: usize, options: &ForecastOptions) -> Result<usize> {
        options.check(self.patch_size())?;
        let patches = context.div_ceil(self.patch_size()).max(1);
        let group = Group { variates, exogenous: 0, known_future: false, patches };
        let results = self.path_bytes(variates, options).unwrap_or(usize::MAX);
        let work = self.keeper.at_work()?;
        let model = work.model();
        let bytes = |shape| model.resident().plan_bytes(&model.plan(shape)?.plan).map_err(Error::of_device);
        let limit = work.plan_limit(results, options.memory_limit)?;
        bytes(memory::fit(self.shape(group, 1, options), limit, bytes)?)
    }

    /// Forecasts every series on its own; each answer has the digits it would have alone.
    ///
    /// # Errors
    /// Options out of range, a series without values, or not enough memory.
    pub fn forecast(&mut self, series: &[Series], options: &ForecastOptions) -> Result<Vec<Forecast>> {
        self.forecast_with_progress(series, options, &mut |_, _| ())
    }

    /// As [`Self::forecast`]; `progress` hears how much of the work is done, as `(done, total)`.
    ///
    /// # Errors
    /// As [`Self::forecast`].
    pub fn forecast_with_progress(
        &mut self,
        series: &[Series],
        options: &ForecastOptions,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Forecast>> {
        options.check(self.patch_size())?;
        let context = options.context.unwrap_or(self.default_context);
        let variates: usize = series.iter().map(Series::variates).sum();
        let results = memory::check_results(self.path_bytes(variates, options), options.memory_limit)?;
        let mut groups: BTreeMap<Group, Vec<(usize, Prepared)>> = BTreeMap::new();
        for (index, one) in series.iter().enumerate() {
            let prepared = prepare(one, context, self.patch_size())?;
            groups.entry(Group::of(one, prepared.patches)).or_default().push((index, prepared));
        }
        let samples = self.samples(options);
        let (mut done, total) = (0, series.len() * samples);
        let mut forecasts: Vec<Option<Forecast>> = series.iter().map(|_| None).collect();
        let mut work = self.keeper.at_work()?;
        let pool = Arc::clone(&work.model().pool);
        let mut room = work.room(results, options.memory_limit)?;
        for (group, members) in groups {
            let mut wanted = self.shape(group, members.len(), options);
            let mut rest = &members[..];
            while !rest.is_empty() {
                let (shape, ready, counters) = work.ready(wanted, &mut room)?;
                let (batch, behind) = rest.split_at(shape.capacity.batch.min(rest.len()));
                (wanted, rest) = (shape, behind);
                let chunks = samples.div_ceil(shape.capacity.samples) as u64;
                let before = ready.executable.activity();
                let run = Run { series, batch, options, shape, samples, pool: &pool };
                let answers = run.forecast(ready, self.config.head.components(), &mut |paths| {
                    done += paths;
                    progress(done, total);
                })?;
                counters.add(before, ready.executable.activity());
                let plan = ready.executable.plan();
                counters.operations_run += plan.operations(Section::Prefill).len() as u64
                    + chunks * plan.operations(Section::Decode).len() as u64;
                for ((index, _), answer) in batch.iter().zip(answers) {
                    forecasts[*index] = Some(answer);
                }
            }
        }
        Ok(forecasts.into_iter().map(|forecast| forecast.expect("every series belongs to one group")).collect())
    }

    fn patch_size(&self) -> usize {
        self.config.patch_size
    }

    /// Paths of every series: 1 where nothing is sampled.
    fn samples(&self, options: &ForecastOptions) -> usize {
        let sampled = options.decode == Decode::Sample && !options.is_exact(self.patch_size());
        if sampled { options.samples.unwrap_or(DEFAULT_SAMPLES) } else { 1 }
    }

    /// Bytes of the answer's paths for this many variates; `None` where they overflow.
    pub fn path_bytes(&self, variates: usize, options: &ForecastOptions) -> Option<usize> {
        let values = variates.checked_mul(self.samples(options))?.checked_mul(options.horizon)?;
        values.checked_mul(size_of::<f32>())
    }

    /// Whether the device solves for quantiles.
    fn solves(&self, decode: forward::Decode) -> bool {
        decode == forward::Decode::Exact && self.config.head.components() <= MixtureQuantiles::MOST_COMPONENTS
    }

    /// The shape of a group as a whole, whether or not it fits.
    fn shape(&self, group: Group, batch: usize, options: &ForecastOptions) -> Shape {
        let decode = match options.decode {
            Decode::Mean => forward::Decode::Mean,
            Decode::Sample if options.is_exact(self.patch_size()) => forward::Decode::Exact,
            Decode::Sample => forward::Decode::Sample,
        };
        let sorted = decode == forward::Decode::Sample && !options.paths;
        let most_samples = if sorted { SortSamples::MOST_SAMPLES } else { usize::MAX };
        let samples = self.samples(options).min(most_samples);
        Shape {
            capacity: Live { batch: bucket(batch), context: bucket(group.patches), samples },
            variates: group.variates,
            exogenous: group.exogenous,
            known_future: group.known_future,
            horizon: options.horizon,
            decode,
            uncached_xpos: options.xpos == Xpos::Uncached,
            levels: if self.solves(decode) { options.quantiles.len() } else { 0 },
            sorted,
            observe: Observe::Nothing,
        }
    }
}

/// What series must share to run in one plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    variates: usize,
    exogenous: usize,
    known_future: bool,
    patches: usize,
}

impl Group {
    fn of(series: &Series, patches: usize) -> Self {
        Self {
            variates: series.variates(),
            exogenous: series.exogenous(),
            known_future: !series.future().is_empty(),
            patches,
        }
    }
}

/// Nothing is left half-done where a task panics: the caller panics too.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One batch on its way through a plan.
struct Run<'a> {
    series: &'a [Series],
    batch: &'a [(usize, Prepared)],
    options: &'a ForecastOptions,
    shape: Shape,
    samples: usize,
    pool: &'a ThreadPool,
}

impl Run<'_> {
    fn forecast(
        &self,
        ready: &mut Ready<Toto>,
        components: usize,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Vec<Forecast>> {
        self.write(ready);
        let live = Live { batch: self.batch.len(), context: self.batch[0].1.patches, samples: 1 };
        let token_sampling = TokenSampling::default();
        let mut launch = Launch { live, seed: self.options.seed, first_sample: 0, token_sampling };
        ready.run(Section::Prefill, &launch)?;
        match ready.tensors.output {
            Output::Mixture(tensors) => {
                ready.run(Section::Decode, &launch)?;
                progress(self.batch.len());
                self.mixtures(ready, tensors, components)
            }
            Output::Paths(PathTensors { answer, .. }) => {
                let horizon = self.options.horizon;
                let rows = self.batch.len() * self.shape.variates;
                let paths: Vec<_> = (0..rows).map(|_| Mutex::new(Vec::with_capacity(self.samples * horizon))).collect();
                for first in (0..self.samples).step_by(self.shape.capacity.samples) {
                    let live_samples = self.shape.capacity.samples.min(self.samples - first);
                    launch.live.samples = live_samples;
                    launch.first_sample = first as u32;
                    ready.run(Section::Decode, &launch)?;
                    let length = live_samples * horizon;
                    let values = ready.executable.view(answer);
                    self.for_each_row(length, |row| {
                        lock(&paths[row]).extend_from_slice(&values[row * length..][..length]);
                    });
                    progress(self.batch.len() * live_samples);
                }
                self.assemble(self.samples * horizon, |row, name| {
                    let values = std::mem::take(&mut *lock(&paths[row]));
                    let distribution = match self.options.decode {
                        Decode::Mean => Distribution::Mean(values),
                        Decode::Sample if self.shape.sorted => {
                            Distribution::Samples { samples: self.samples, values: self.merged(values) }
                        }
                        Decode::Sample => Distribution::Paths { samples: self.samples, values },
                    };
                    VariateForecast::new(name, distribution)
                })
            }
        }
    }

    fn write(&self, ready: &mut Ready<Toto>) {
        prepare::write(ready, self.batch.iter().map(|(_, prepared)| prepared));
        if let Output::Mixture(MixtureTensors { quantiles: Some(quantiles), .. }) = ready.tensors.output {
            ready.executable.write_doubles(quantiles.levels, &self.options.quantiles);
        }
        if let Some(future) = ready.tensors.future {
            let values: Vec<f32> = self.batch.iter().flat_map(|(index, _)| self.future(&self.series[*index])).collect();
            ready.executable.write(future, &values);
        }
    }

    /// Known future of one series, `[exogenous, horizon]`: cut to the horizon, zero past its end.
    fn future(&self, series: &Series) -> Vec<f32> {
        let horizon = self.options.horizon;
        let known = series.future().len() / series.exogenous().max(1);
        let mut values = vec![0.0; series.exogenous() * horizon];
        for (row, future) in values.chunks_mut(horizon).zip(series.future().chunks(known.max(1))) {
            let length = known.min(horizon);
            row[..length].copy_from_slice(&future[..length]);
        }
        values
    }

    fn mixtures(&self, ready: &mut Ready<Toto>, tensors: MixtureTensors, components: usize) -> Result<Vec<Forecast>> {
        let rows = self.batch.len() * self.shape.variates;
        let positions = self.options.horizon;
        let mut read = |tensor, width: usize| {
            let mut values = vec![0.0f64; rows * width];
            ready.executable.read(tensor, &mut values);
            values
        };
        let width = positions * components;
        let degrees = read(tensors.degrees_of_freedom, width);
        let locations = read(tensors.location, width);
        let scales = read(tensors.scale, width);
        let logits = read(tensors.logits, width);
        let patch = tensors.affine_location.width;
        let affine_locations = read(tensors.affine_location, patch);
        let affine_scales = read(tensors.affine_scale, patch);
        let levels = &self.options.quantiles;
        let solved = tensors.quantiles.map_or(Vec::new(), |quantiles| read(quantiles.solved, levels.len() * positions));
        self.assemble(width, |row, name| {
            let steps = (0..positions).map(|position| {
                let at = (row * positions + position) * components..(row * positions + position + 1) * components;
                let scale = affine_scales[row * patch + position];
                let location = affine_locations[row * patch + position];
                let parameters = HeadParameters {
                    degrees_of_freedom: &degrees[at.clone()],
                    locations: &locations[at.clone()],
                    scales: &scales[at.clone()],
                    logits: &logits[at],
                };
                parameters
                    .mixture(location, scale)
                    .map_err(|error| Error::Data(format!("the forecast of {name:?} is not finite: {error}")))
            });
            let forecast = VariateForecast::new(name, Distribution::Mixture(steps.collect::<Result<_>>()?))?;
            let quantiles = solved.chunks_exact(positions).map(<[f64]>::to_vec).skip(row * levels.len());
            Ok(forecast.with_quantiles(levels.iter().copied().zip(quantiles).collect()))
        })
    }

    /// The samples of each step in ascending order, `[horizon, samples]`, from those of the chunks, each sorted by itself.
    fn merged(&self, chunks: Vec<f32>) -> Vec<f32> {
        let (horizon, most) = (self.options.horizon, self.shape.capacity.samples);
        if self.samples <= most {
            return chunks;
        }
        let mut merged = Vec::with_capacity(chunks.len());
        for step in 0..horizon {
            let start = merged.len();
            for chunk in chunks.chunks(most * horizon) {
                let samples = chunk.len() / horizon;
                merged.extend_from_slice(&chunk[step * samples..][..samples]);
            }
            // A stable sort finds the runs and merges them.
            merged[start..].sort_by(f32::total_cmp);
        }
        merged
    }

    /// Puts the forecasts of rows together, each made from `values` numbers; exogenous variates with a known future answer
    /// with it.
    fn assemble(
        &self,
        values: usize,
        forecast: impl Fn(usize, &str) -> Result<VariateForecast> + Sync,
    ) -> Result<Vec<Forecast>> {
        let (variates, horizon) = (self.shape.variates, self.options.horizon);
        let answers: Vec<_> = (0..self.batch.len() * variates).map(|_| Mutex::new(None)).collect();
        self.for_each_row(values, |row| {
            let (series, variate) = (&self.series[self.batch[row / variates].0], row % variates);
            let name = &series.names()[variate];
            let known = (variate + series.exogenous()).checked_sub(variates).filter(|_| !series.future().is_empty());
            let answer = match known {
                Some(known) => {
                    let values = self.future(series)[known * horizon..][..horizon].to_vec();
                    let distribution = match self.shape.sorted {
                        true => Distribution::Samples { samples: 1, values },
                        false => Distribution::Paths { samples: 1, values },
                    };
                    VariateForecast::new(name, distribution)
                }
                None => forecast(row, name),
            };
            *lock(&answers[row]) = Some(answer);
        });
        let answer = |answer: &Mutex<Option<_>>| lock(answer).take().expect("every row is visited");
        answers.chunks(variates).map(|item| Forecast::new(item.iter().map(answer).collect::<Result<_>>()?)).collect()
    }

    /// Visits every row of the batch once; threads share rows of this many values where there are enough of them.
    fn for_each_row(&self, values: usize, visit: impl Fn(usize) + Sync) {
        let rows = self.batch.len() * self.shape.variates;
        self.pool.for_each_chunk(rows, GRAIN_VALUES.div_ceil(values.max(1)), |range| range.for_each(&visit));
    }
}
