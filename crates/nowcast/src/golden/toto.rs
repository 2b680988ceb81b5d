//! Cases of Toto 1.0.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use nowcast_engine::device::{Device, Launch};
use nowcast_engine::extent::Live;
use nowcast_engine::plan::Section;
use nowcast_engine::student_t::{HeadParameters, Mixture};
use nowcast_engine::token_sampling::TokenSampling;
use serde::Deserialize;

use super::compare::{SampledQuantile, Stored, against_double, against_single, largest, mutual_bound, sampled};
use super::{Check, Setting};
use crate::checkpoint::{Checkpoint, ModelSource};
use crate::forecaster::plans::{Observe, Ready};
use crate::forecaster::prepare_series::{prepare, write};
use crate::forecaster::{Decode, ForecastOptions, Forecaster, Xpos};
use crate::series::Series;
use crate::toto::config::TotoConfig;
use crate::toto::forward::{self, Output, Shape};
use crate::toto::{LoadOptions, Toto};
use crate::{Error, Forecast, Result};

/// The part of `case.json` that the comparison needs.
#[derive(Debug, Deserialize)]
struct CaseFile {
    args: Arguments,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    prediction_length: usize,
    num_samples: usize,
    num_exogenous_variables: usize,
    labels: bool,
}

/// Scales of variates that differ by more than this make one error for all of them meaningless.
const COMPARABLE_SCALES: f64 = 1e3;

/// One case with its stored tensors.
struct Case<'a> {
    folder: &'a Path,
    arguments: Arguments,
    stored: Checkpoint,
    setting: &'a Setting,
}

pub(super) fn verify(folder: &Path, setting: &Setting) -> Result<Vec<Check>> {
    let path = folder.join("case.json");
    let text = std::fs::read_to_string(&path).map_err(|error| Error::file(&path, error))?;
    let file: CaseFile =
        serde_json::from_str(&text).map_err(|error| Error::Data(format!("{}: {error}", path.display())))?;
    let stored = Checkpoint::open(&folder.join("golden.safetensors"))?;
    let case = Case { folder, arguments: file.args, stored, setting };
    let mut checks = case.compare("", case.arguments.labels)?;
    if case.arguments.labels {
        checks.extend(case.compare("nolabels.", false)?);
    }
    Ok(checks)
}

/// The case's model on a device.
fn load(device: &dyn Device, folder: &Path, config: TotoConfig, options: LoadOptions) -> Result<Toto> {
    let checkpoint = Checkpoint::open(&folder.join("model.safetensors"))?;
    Toto::load(config, &checkpoint, device, options)
}

/// Our outputs by the names of the stored ones.
type Outputs = BTreeMap<String, Vec<f64>>;

impl Case<'_> {
    fn compare(&self, prefix: &str, labels: bool) -> Result<Vec<Check>> {
        let ours = self.compute(labels)?;
        let mut checks = Vec::new();
        let mut bounds = BTreeMap::new();
        let mut only_single = Vec::new();
        let by_variate = self.scales_differ()?;
        for (name, values) in &ours {
            let full = format!("{prefix}{name}");
            let Some(single) = self.optional(&full)? else { continue };
            if single.len() != values.len() {
                return Err(Error::Data(format!(
                    "{full} holds {} values where {} are computed",
                    single.len(),
                    values.len()
                )));
            }
            let Some(double) = self.optional(&format!("{full}_f64"))? else {
                only_single.push((full, values, single));
                continue;
            };
            same_size(&[&single, &double], &full)?;
            if by_variate && name.starts_with("mean_") {
                let width = self.arguments.prediction_length;
                for variate in 0..values.len() / width {
                    let range = variate * width..(variate + 1) * width;
                    let name = format!("{full}[{variate}]");
                    let stored = Stored { name: &name, single: &single[range.clone()], double: &double[range.clone()] };
                    checks.push(against_double(&stored, &values[range]));
                }
            } else {
                let check = against_double(&Stored { name: &full, single: &single, double: &double }, values);
                bounds.insert(name.clone(), mutual_bound(&check) / largest(&double).max(f64::MIN_POSITIVE));
                checks.push(check);
            }
        }
        for (name, values, single) in only_single {
            // Layers come before `hidden`. A mean or a deviation moves no further than the points it is taken of, here
            // the forecast mean.
            let bound = match name.starts_with("ext_") {
                true => self.mean_bound()?,
                false => bounds.get("hidden").copied().unwrap_or(0.0) * largest(&single),
            };
            checks.push(against_single(&name, values, &single, bound));
        }
        if prefix.is_empty() {
            checks.extend(self.exact_quantiles(&ours)?);
            if self.arguments.num_samples > 0 {
                checks.extend(self.sampled_quantiles(labels)?);
            }
        }
        Ok(checks)
    }

    fn optional(&self, name: &str) -> Result<Option<Vec<f64>>> {
        self.stored.tensor(name).map(|tensor| tensor.to_f64()).transpose()
    }

    fn tensor(&self, name: &str) -> Result<Vec<f64>> {
        self.optional(name)?.ok_or_else(|| Error::Data(format!("{} stores no {name}", self.stored.origin())))
    }

    fn integers(&self, name: &str) -> Result<Vec<i64>> {
        match self.stored.tensor(name) {
            Some(tensor) => tensor.to_i64(),
            None => Err(Error::Data(format!("{} stores no {name}", self.stored.origin()))),
        }
    }

    fn scales_differ(&self) -> Result<bool> {
        let scales = self.tensor("affine_scale_f64")?;
        let least = scales.iter().copied().fold(f64::INFINITY, f64::min);
        Ok(largest(&scales) > COMPARABLE_SCALES * least)
    }

    fn mean_bound(&self) -> Result<f64> {
        let (single, double) = (self.tensor("mean_kv")?, self.tensor("mean_kv_f64")?);
        same_size(&[&single, &double], "mean_kv")?;
        let check = against_double(&Stored { name: "mean_kv", single: &single, double: &double }, &single);
        Ok(mutual_bound(&check))
    }

    fn config(&self) -> Result<TotoConfig> {
        TotoConfig::from_json(&ModelSource::Folder(self.folder.to_owned()).config()?)
    }

    fn load(&self, labels: bool) -> Result<Toto> {
        let options = LoadOptions { eager: self.setting.eager, variate_labels: labels, dtype: self.setting.dtype };
        load(&*self.setting.device, self.folder, self.config()?, options)
    }

    fn forecaster(&self, labels: bool) -> Result<Forecaster> {
        let (folder, config) = (self.folder.to_owned(), self.config()?);
        let options = LoadOptions { eager: self.setting.eager, variate_labels: labels, dtype: self.setting.dtype };
        let (shape, device) = (config.clone(), Arc::clone(&self.setting.device));
        Forecaster::new(config, usize::MAX, Box::new(move || load(&*device, &folder, shape.clone(), options)))
    }

    /// `[batch]` items of `[variate, time]`.
    fn series(&self) -> Result<Vec<Series>> {
        let Some(tensor) = self.stored.tensor("series") else {
            return Err(Error::Data(format!("{} stores no series", self.stored.origin())));
        };
        let &[_, variates, length] = tensor.shape else {
            return Err(Error::Data(format!("series has shape {:?} instead of [batch, variate, time]", tensor.shape)));
        };
        let values = tensor.to_f32()?;
        let mask = self.integers("padding_mask")?;
        let groups = self.integers("id_mask")?;
        if mask.len() != values.len() || groups.len() != values.len() || values.is_empty() {
            return Err(Error::Data("series, padding_mask and id_mask differ in size".into()));
        }
        let exogenous = self.arguments.num_exogenous_variables;
        if exogenous >= variates {
            return Err(Error::Data(format!("{exogenous} of {variates} variates are exogenous: none is forecast")));
        }
        let future = self.optional("future_exog")?.unwrap_or_default();
        let items = values.chunks(variates * length).enumerate();
        items
            .map(|(item, values)| {
                let points = item * variates * length..(item + 1) * variates * length;
                let named = values.chunks(length).enumerate().map(|(v, values)| (format!("v{v}"), values.to_vec()));
                let valid: Vec<bool> = mask[points.clone()].iter().map(|&flag| flag != 0).collect();
                let ids = groups[points].chunks(length).map(|ids| ids[0]).collect();
                let series = Series::multivariate(named.collect())?.with_mask(&valid)?.with_groups(ids)?;
                if exogenous == 0 {
                    return Ok(series);
                }
                let width = exogenous * self.arguments.prediction_length;
                let future = future.get(item * width..(item + 1) * width).unwrap_or_default();
                series.with_exogenous(exogenous, future.iter().map(|&value| value as f32).collect())
            })
            .collect()
    }

    fn compute(&self, labels: bool) -> Result<Outputs> {
        let series = self.series()?;
        let mut outputs = self.observe(labels, &series)?;
        let mut forecaster = self.forecaster(labels)?;
        for (name, xpos) in [("mean_kv", Xpos::Cached), ("mean_nokv", Xpos::Uncached)] {
            let options = ForecastOptions { decode: Decode::Mean, xpos, ..self.options() };
            let forecasts = forecaster.forecast(&series, &options)?;
            outputs.insert(name.into(), flatten(&forecasts, |variate| variate.mean()));
        }
        Ok(outputs)
    }

    fn options(&self) -> ForecastOptions {
        ForecastOptions { context: Some(usize::MAX), ..ForecastOptions::new(self.arguments.prediction_length) }
    }

    /// Every stage of the prefill and of the decode steps, from plans that keep them.
    fn observe(&self, labels: bool, series: &[Series]) -> Result<Outputs> {
        let model = self.load(labels)?;
        let patch = model.config().patch_size;
        self.options().check(patch)?;
        let steps = self.arguments.prediction_length.div_ceil(patch);
        let mut outputs = Outputs::new();
        let first = self.arguments.prediction_length.min(patch);
        outputs.extend(self.stages(&model, series, forward::Decode::Exact, first, false)?);
        let mean = mixture_mean(&outputs, model.config().head.components());
        outputs.insert("prefill_mean".into(), mean);
        for (suffix, uncached) in [("kv", false), ("nokv", true)] {
            let stages =
                self.stages(&model, series, forward::Decode::Mean, self.arguments.prediction_length, uncached)?;
            let width = model.config().embed_dim;
            let hidden: Vec<&Vec<f64>> = (0..steps - 1).map(|step| &stages[&format!("decode_hidden.{step}")]).collect();
            if let Some(rows) = hidden.first().map(|hidden| hidden.len() / width) {
                let row =
                    |row| hidden.iter().flat_map(move |step| step[row * width..(row + 1) * width].iter().copied());
                outputs.insert(format!("decode_hidden_{suffix}"), (0..rows).flat_map(row).collect());
            }
            if suffix == "kv" {
                for name in ["loc", "scale"] {
                    let whole = self.arguments.prediction_length / patch;
                    let context = stages[name].len() / (series.len() * series[0].variates());
                    let extended = stages[name].chunks(context).enumerate().flat_map(|(row, context)| {
                        let stages = &stages;
                        let step =
                            move |step: usize| &stages[&format!("ext_{name}.{step}")][row * patch..(row + 1) * patch];
                        context.iter().copied().chain((0..whole.min(steps - 1)).flat_map(step).copied())
                    });
                    // The last whole patch enters no further step: only where the horizon ends inside a patch are all seen.
                    if whole == steps - 1 && whole > 0 {
                        outputs.insert(format!("ext_{name}"), extended.collect());
                    }
                }
            }
        }
        Ok(outputs)
    }

    fn stages(
        &self,
        model: &Toto,
        series: &[Series],
        decode: forward::Decode,
        horizon: usize,
        uncached_xpos: bool,
    ) -> Result<Outputs> {
        let prepared =
            series.iter().map(|one| prepare(one, usize::MAX, model.config().patch_size)).collect::<Result<Vec<_>>>()?;
        let live = Live { batch: series.len(), context: prepared[0].patches, samples: 1 };
        let shape = Shape {
            capacity: live,
            variates: series[0].variates(),
            exogenous: series[0].exogenous(),
            known_future: !series[0].future().is_empty(),
            horizon,
            decode,
            uncached_xpos,
            levels: 0,
            sorted: false,
            observe: Observe::Stages,
        };
        let mut ready = Ready::new(model, shape)?;
        write(&mut ready, prepared.iter());
        let executable = &mut ready.executable;
        if let Some(future) = ready.tensors.future {
            let known = self.arguments.prediction_length;
            let rows = series.iter().flat_map(|one| one.future().chunks(known));
            executable.write(future, &rows.flat_map(|row| row[..horizon].iter().copied()).collect::<Vec<_>>());
        }
        let launch = Launch { live, seed: 0, first_sample: 0, token_sampling: TokenSampling::default() };
        for section in [Section::Prefill, Section::Decode] {
            executable.run(section, &launch).map_err(|error| Error::Memory(error.to_string()))?;
        }
        let mut named: Vec<(String, _)> = ready.tensors.observed.clone();
        if let Output::Mixture(tensors) = ready.tensors.output {
            named.extend([
                ("mix_df".into(), tensors.degrees_of_freedom),
                ("mix_loc".into(), tensors.location),
                ("mix_scale".into(), tensors.scale),
                ("mix_logits".into(), tensors.logits),
                ("affine_loc".into(), tensors.affine_location),
                ("affine_scale".into(), tensors.affine_scale),
            ]);
        }
        Ok(named
            .into_iter()
            .map(|(name, tensor)| {
                let mut values = vec![0.0; tensor.rows.count(live) * tensor.width];
                executable.read(tensor, &mut values);
                (name, values)
            })
            .collect())
    }

    /// Exact quantiles of the first patch; the reference's own error is that of its f32 parameters.
    fn exact_quantiles(&self, ours: &Outputs) -> Result<Option<Check>> {
        const NAME: &str = "first_patch_quantiles_exact_f64";
        let (Some(double), Some(levels)) = (self.optional(NAME)?, self.optional("quantile_levels")?) else {
            return Ok(None);
        };
        let mut reference = Outputs::new();
        for name in ["mix_df", "mix_loc", "mix_scale", "mix_logits", "affine_loc", "affine_scale"] {
            let tensor = self.tensor(name)?;
            if tensor.len() != ours[name].len() {
                let (found, needed) = (tensor.len(), ours[name].len());
                return Err(Error::Data(format!("{name} holds {found} values where {needed} are computed")));
            }
            reference.insert(name.into(), tensor);
        }
        let components = reference["mix_df"].len() / reference["affine_loc"].len();
        let config = TotoConfig::from_json(&ModelSource::Folder(self.folder.to_owned()).config()?)?;
        let (patch, first) = (config.patch_size, config.patch_size.min(self.arguments.prediction_length));
        let single = mixture_quantiles(&reference, components, &levels, patch, first)?;
        let ours = mixture_quantiles(ours, components, &levels, patch, first)?;
        same_size(&[&double, &ours], NAME)?;
        Ok(Some(against_double(&Stored { name: NAME, single: &single, double: &double }, &ours)))
    }

    fn sampled_quantiles(&self, labels: bool) -> Result<Vec<Check>> {
        let (Some(levels), Some(quantiles)) = (self.optional("quantile_levels")?, self.optional("sample_quantiles")?)
        else {
            return Ok(Vec::new());
        };
        let options = ForecastOptions { samples: Some(self.arguments.num_samples), paths: true, ..self.options() };
        let forecasts = self.forecaster(labels)?.forecast(&self.series()?, &options)?;
        let horizon = self.arguments.prediction_length;
        let rows: usize = forecasts.iter().map(|forecast| forecast.variates().len()).sum();
        if levels.is_empty() || quantiles.len() != levels.len() * rows * horizon {
            let (found, levels) = (quantiles.len(), levels.len());
            return Err(Error::Data(format!(
                "sample_quantiles holds {found} values for {levels} levels of {rows} x {horizon} points"
            )));
        }
        let mut errors = Vec::new();
        let variates = forecasts.iter().flat_map(Forecast::variates);
        let points = quantiles.len() / levels.len();
        for (row, variate) in variates.enumerate() {
            let paths: Vec<&[f32]> = variate.paths().into_iter().flatten().collect();
            for step in 0..horizon {
                let mut samples: Vec<f32> = paths.iter().map(|path| path[step]).collect();
                samples.sort_unstable_by(f32::total_cmp);
                for (index, &level) in levels.iter().enumerate() {
                    let reference = quantiles[index * points + row * horizon + step];
                    let reference_samples = self.arguments.num_samples;
                    let one = SampledQuantile { level, reference, reference_samples, samples: &samples };
                    errors.push(one.standard_errors());
                }
            }
        }
        Ok(sampled("sample_quantiles", &errors).into())
    }
}

/// Stored tensors that are compared with each other must be of one size.
fn same_size(tensors: &[&[f64]], name: &str) -> Result<()> {
    match tensors.iter().all(|tensor| tensor.len() == tensors[0].len()) {
        true => Ok(()),
        false => Err(Error::Data(format!("{name} is not stored in the size it has elsewhere"))),
    }
}

fn flatten(forecasts: &[Forecast], values: impl Fn(&crate::forecast::VariateForecast) -> Vec<f64>) -> Vec<f64> {
    forecasts.iter().flat_map(Forecast::variates).flat_map(values).collect()
}

/// Mixture of point `index`, in real units.
fn mixture(outputs: &Outputs, components: usize, index: usize) -> Result<Mixture> {
    let (location, scale) = (outputs["affine_loc"][index], outputs["affine_scale"][index]);
    let part = |name: &str| &outputs[name][index * components..(index + 1) * components];
    let parameters = HeadParameters {
        degrees_of_freedom: part("mix_df"),
        locations: part("mix_loc"),
        scales: part("mix_scale"),
        logits: part("mix_logits"),
    };
    parameters.mixture(location, scale).map_err(|error| Error::Data(error.to_string()))
}

fn mixture_mean(outputs: &Outputs, components: usize) -> Vec<f64> {
    let points = outputs["affine_loc"].len();
    (0..points).map(|index| mixture(outputs, components, index).map_or(f64::NAN, |mixture| mixture.mean())).collect()
}

/// `[levels, variates, first]`: the first `first` points of each variate's `patch` points.
fn mixture_quantiles(
    outputs: &Outputs,
    components: usize,
    levels: &[f64],
    patch: usize,
    first: usize,
) -> Result<Vec<f64>> {
    let variates = outputs["affine_loc"].len() / patch;
    let rows = variates * first;
    let mut quantiles = vec![f64::NAN; levels.len() * rows];
    for row in 0..rows {
        let index = row / first * patch + row % first;
        for (level, quantile) in mixture(outputs, components, index)?.quantiles(levels).into_iter().enumerate() {
            quantiles[level * rows + row] = quantile;
        }
    }
    Ok(quantiles)
}
