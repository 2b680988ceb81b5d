//! One batch on its way through a plan: inputs written, sections run, answers put together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nowcast_engine::cpu::pool::ThreadPool;
use nowcast_engine::device::Launch;
use nowcast_engine::extent::Live;
use nowcast_engine::plan::{Section, Tensor};
use nowcast_engine::student_t::HeadParameters;
use nowcast_engine::token_sampling::TokenSampling;

use super::options::{Decode, ForecastOptions};
use super::prepare::{self, Prepared};
use crate::forecast::{Distribution, Forecast, Values, VariateForecast};
use crate::forecaster::plans::Ready;
use crate::series::Series;
use crate::toto::Toto;
use crate::toto::forward::{MixtureTensors, Output, PathTensors, Shape};
use crate::{Error, Result};

/// Values of an answer that one thread gathers sooner than two.
const GRAIN_VALUES: usize = 1 << 16;

/// One batch on its way through a plan.
pub(super) struct Run<'a> {
    pub(super) series: &'a [Series],
    pub(super) batch: &'a [(usize, Prepared<'a>)],
    pub(super) options: &'a ForecastOptions,
    pub(super) shape: Shape,
    pub(super) samples: usize,
    pub(super) pool: &'a ThreadPool,
}

impl Run<'_> {
    pub(super) fn forecast(
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
            Output::Paths(PathTensors { answer, .. }) => self.paths(ready, answer, &mut launch, progress),
        }
    }

    /// Decodes as many samples at a time as the plan has room for, and gathers them.
    fn paths(
        &self,
        ready: &mut Ready<Toto>,
        answer: Tensor,
        launch: &mut Launch,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Vec<Forecast>> {
        let (horizon, most) = (self.options.horizon, self.shape.capacity.samples);
        let rows = self.batch.len() * self.shape.variates;
        let mut decode = |ready: &mut Ready<Toto>, first: usize| {
            launch.live.samples = most.min(self.samples - first);
            launch.first_sample = first as u32;
            ready.run(Section::Decode, launch)?;
            progress(self.batch.len() * launch.live.samples);
            Ok::<_, Error>(launch.live.samples * horizon)
        };
        if self.samples <= most {
            let length = decode(ready, 0)?;
            if let Some(kept) = ready.executable.keep(answer) {
                // Nothing is copied, and looked at only where the device did not: too little work for threads.
                let per_row = if kept.is_finite { 1 } else { length };
                return self.assemble(per_row, |row, name| {
                    let values = Values::shared(Arc::clone(&kept.values), row * length..(row + 1) * length);
                    let distribution = self.distribution(values);
                    match kept.is_finite {
                        true => VariateForecast::of_checked(name, distribution),
                        false => VariateForecast::new(name, distribution),
                    }
                });
            }
            let values = ready.executable.view(answer);
            return self.assemble(length, |row, name| {
                VariateForecast::new(name, self.distribution(values[row * length..][..length].to_vec().into()))
            });
        }
        let gathered: Vec<_> = (0..rows).map(|_| Mutex::new(Vec::with_capacity(self.samples * horizon))).collect();
        for first in (0..self.samples).step_by(most) {
            let length = decode(ready, first)?;
            let values = ready.executable.view(answer);
            self.for_each_row(length, |row| {
                lock(&gathered[row]).extend_from_slice(&values[row * length..][..length]);
            });
        }
        self.assemble(self.samples * horizon, |row, name| {
            let values = std::mem::take(&mut *lock(&gathered[row]));
            VariateForecast::new(
                name,
                self.distribution(if self.shape.sorted { self.merged(values) } else { values }.into()),
            )
        })
    }

    /// What the values of one row are.
    fn distribution(&self, values: Values) -> Distribution {
        match self.options.decode {
            Decode::Mean => Distribution::Mean(values),
            Decode::Sample if self.shape.sorted => Distribution::Samples { samples: self.samples, values },
            Decode::Sample => Distribution::Paths { samples: self.samples, values },
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
                    let values = self.future(series)[known * horizon..][..horizon].to_vec().into();
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

/// Nothing is left half-done where a task panics: the caller panics too.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
