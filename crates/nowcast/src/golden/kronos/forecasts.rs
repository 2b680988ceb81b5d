//! Whole forecasts, always taking the most probable token.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use nowcast_engine::extent::Live;
use serde::Deserialize;

use super::super::compare::{Stored as Tensor, against_double};
use super::super::{Check, Setting};
use super::twin::{Matrix, Twin};
use super::{Model, Stored, equal, of_pairs, run};
use crate::candles::{CandleColumns, Candles};
use crate::forecaster::CandleOptions;
use crate::forecaster::plans::{Observe, Ready};
use crate::forecaster::prepare_candles::{Prepared, prepare};
use crate::kronos::forward::Shape;
use crate::kronos::{Kronos, Window, time_entries};
use crate::{Error, Result};

#[derive(Deserialize)]
struct CaseFile {
    args: Arguments,
}

#[derive(Deserialize)]
struct Arguments {
    max_context: usize,
    clip: f32,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    name: String,
    columns: Vec<String>,
    pred_len: usize,
}

impl Arguments {
    /// What a forecast's options would refuse, and what they never see.
    fn check(&self, run: &Run) -> Result<()> {
        let mut options = CandleOptions::new(run.pred_len);
        (options.max_context, options.clip) = (Some(self.max_context), f64::from(self.clip));
        options.check(self.max_context)
    }
}

pub(super) fn verify(text: &str, model: &Model, stored: &Stored, setting: &Setting) -> Result<Vec<Check>> {
    let file: CaseFile = serde_json::from_str(text).map_err(|error| Error::Data(format!("case.json: {error}")))?;
    let kronos = model.load(setting)?;
    let mut checks = Vec::new();
    for run in &file.args.runs {
        file.args.check(run)?;
        checks.extend(Comparison { arguments: &file.args, run, stored }.verify(&kronos, &model.twin())?);
    }
    Ok(checks)
}

/// One run of a case.
struct Comparison<'a> {
    arguments: &'a Arguments,
    run: &'a Run,
    stored: &'a Stored,
}

impl Comparison<'_> {
    fn name(&self, tensor: &str) -> String {
        format!("{}.{tensor}", self.run.name)
    }

    fn tensor(&self, name: &str) -> Result<Vec<f64>> {
        self.stored.tensor(&self.name(name))
    }

    fn sized(&self, name: &str, count: usize) -> Result<Vec<f64>> {
        self.stored.sized(&self.name(name), count)
    }

    fn integers(&self, name: &str) -> Result<Vec<i64>> {
        self.stored.integers(&self.name(name))
    }

    fn check(&self, name: &str, ours: &[f64], single: &[f64], double: &[f64]) -> Result<Check> {
        self.stored.same_size(name, single.len(), ours.len())?;
        self.stored.same_size(name, double.len(), ours.len())?;
        Ok(against_double(&Tensor { name: &self.name(name), single, double }, ours))
    }

    fn verify(&self, kronos: &Kronos, twin: &Twin<'_>) -> Result<Vec<Check>> {
        let horizon = self.run.pred_len;
        let markets = self.markets()?;
        let prepared: Vec<Prepared> = markets
            .iter()
            .map(|market| prepare(market, usize::MAX, horizon, self.arguments.clip))
            .collect::<Result<_>>()?;
        let [batch, context, _] = self.stored.series(&self.name("rows"))?;
        for one in &prepared {
            self.stored.same_size(&self.name("rows"), one.context, context)?;
        }
        let live = Live { batch, context, samples: 1 };
        let max_context = self.arguments.max_context;
        let shape = Shape { capacity: live, horizon, max_context, window: Window::Exact, observe: Observe::Stages };
        let mut ready = Ready::new(kronos, shape)?;
        let gather = |part: fn(&Prepared) -> &[f32]| -> Vec<f32> { prepared.iter().flat_map(part).copied().collect() };
        let candles = gather(|one| &one.candles);
        let stamps: Vec<i32> = prepared.iter().flat_map(|one| &one.stamps).copied().collect();
        let streams: Vec<i32> = prepared.iter().map(|one| one.stream).collect();
        ready.executable.write(ready.tensors.candles, &candles);
        ready.executable.write_integers(ready.tensors.stamps, &stamps);
        ready.executable.write_integers(ready.tensors.streams, &streams);
        let named = ready.tensors.observed.clone();
        let ours = run(&mut ready, live, &named)?;

        let mut checks = self.inputs(&prepared, &stamps)?;
        let truth = self.normalised_truth(batch, context)?;
        checks.push(self.check(
            "x_norm",
            &candles.iter().map(|&x| f64::from(x)).collect::<Vec<_>>(),
            &self.tensor("x_norm")?,
            &truth.concat().concat(),
        )?);
        let z: Vec<Matrix> = truth.iter().map(|series| twin.encode(series)).collect::<Result<_>>()?;
        checks.push(self.check("ctx_z", &ours["z"], &self.tensor("ctx_z")?, &z.concat().concat())?);
        for (name, ours, position) in [
            ("ctx", &ours["tokens"], 0),
            ("ctx", &ours["tokens"], 1),
            ("gen", &ours["generated"], 0),
            ("gen", &ours["generated"], 1),
        ] {
            let name = format!("{name}_s{}", position + 1);
            checks.push(equal(&self.name(&name), &of_pairs(ours, position), &self.integers(&name)?));
        }
        checks.extend(self.generation(&ours, twin, batch, context)?);
        Ok(checks)
    }

    /// Markets as a caller would hand them over.
    fn markets(&self) -> Result<Vec<Candles>> {
        let [batch, context, width] = self.stored.series(&self.name("rows"))?;
        self.stored.same_size("columns", self.run.columns.len(), width)?;
        let rows = self.tensor("rows")?;
        let (past, future) = (self.integers("x_time_s")?, self.integers("y_time_s")?);
        let column = |series: usize, name: &str| -> Option<Vec<f64>> {
            let field = self.run.columns.iter().position(|column| column == name)?;
            Some((0..context).map(|row| rows[(series * context + row) * width + field]).collect())
        };
        let of_series = |series: usize| {
            let price = |name: &str| column(series, name).unwrap_or_default();
            let columns = CandleColumns {
                open: price("open"),
                high: price("high"),
                low: price("low"),
                close: price("close"),
                volume: column(series, "volume"),
                amount: column(series, "amount"),
            };
            let times = |seconds: &[i64]| -> Result<Vec<DateTime>> {
                let length = seconds.len() / batch;
                seconds[series * length..(series + 1) * length].iter().map(|&second| clock(second)).collect()
            };
            Candles::new(format!("{} {series}", self.run.name), columns, times(&past)?, times(&future)?)
        };
        (0..batch).map(of_series).collect()
    }

    /// Time features and the units of each series.
    fn inputs(&self, prepared: &[Prepared], stamps: &[i32]) -> Result<Vec<Check>> {
        let batch = prepared.len();
        let context = prepared[0].context;
        let stamp =
            |name: &str, count: usize| self.stored.bounded(&self.name(name), batch * count * 5, &time_entries());
        let (past, future) = (stamp("x_stamp", context)?, stamp("y_stamp", self.run.pred_len)?);
        let stored: Vec<i64> = past
            .chunks(past.len() / batch)
            .zip(future.chunks(future.len() / batch))
            .flat_map(|(past, future)| past.iter().chain(future).copied())
            .collect();
        let ours: Vec<i64> = stamps.iter().map(|&stamp| i64::from(stamp)).collect();
        let mut checks = vec![equal(&self.name("stamps"), &ours, &stored)];
        let (mean, mean_f64) = (self.tensor("x_mean")?, self.tensor("x_mean_f64")?);
        let (deviation, deviation_f64) = (self.tensor("x_std")?, self.tensor("x_std_f64")?);
        for (field, name) in Candles::FIELDS.into_iter().enumerate() {
            let of_field = |values: &[f64]| values.chunks(6).map(|row| row[field]).collect::<Vec<_>>();
            let location: Vec<f64> = prepared.iter().map(|one| f64::from(one.units.location[field])).collect();
            let ours: Vec<f64> = prepared.iter().map(|one| f64::from(one.units.deviation[field])).collect();
            checks.push(self.check(&format!("x_mean.{name}"), &location, &of_field(&mean), &of_field(&mean_f64))?);
            checks.push(self.check(
                &format!("x_std.{name}"),
                &ours,
                &of_field(&deviation),
                &of_field(&deviation_f64),
            )?);
        }
        Ok(checks)
    }

    /// The model's input in f64, one matrix for each series.
    fn normalised_truth(&self, batch: usize, context: usize) -> Result<Vec<Matrix>> {
        let raw = self.sized("x_raw", batch * context * 6)?;
        let (mean, deviation) = (self.sized("x_mean_f64", batch * 6)?, self.sized("x_std_f64", batch * 6)?);
        let clip = f64::from(self.arguments.clip);
        let of_series = |(series, rows): (usize, &[f64])| {
            let field = |(field, value): (usize, &f64)| {
                let at = series * 6 + field;
                ((value - mean[at]) / (deviation[at] + 1e-5)).clamp(-clip, clip)
            };
            rows.chunks(6).map(|row| row.iter().enumerate().map(field).collect()).collect()
        };
        Ok(raw.chunks(raw.len() / batch).enumerate().map(of_series).collect())
    }

    /// Logits of every step and the decoded candles, against the formulas in f64 over the stored tokens.
    fn generation(
        &self,
        ours: &std::collections::BTreeMap<String, Vec<f64>>,
        twin: &Twin<'_>,
        batch: usize,
        context: usize,
    ) -> Result<Vec<Check>> {
        let (horizon, most) = (self.run.pred_len, self.arguments.max_context);
        let vocabularies = twin.predictor.0.bits.vocabularies();
        let pair = |name: &str, count: usize| -> Result<Vec<[i64; 2]>> {
            let [s1, s2] = [0, 1].map(|half| {
                let name = self.name(&format!("{name}_s{}", half + 1));
                self.stored.bounded(&name, batch * count, &vocabularies[half..=half])
            });
            Ok(s1?.into_iter().zip(s2?).map(|(s1, s2)| [s1, s2]).collect())
        };
        let (past, generated) = (pair("ctx", context)?, pair("gen", horizon)?);
        let times =
            |name: &str, count: usize| self.stored.bounded(&self.name(name), batch * count * 5, &time_entries());
        let (of_past, of_future) = (times("x_stamp", context)?, times("y_stamp", horizon)?);
        let [mut s1_logits, mut s2_logits, mut decoded] = [(); 3].map(|()| Vec::new());
        for series in 0..batch {
            let tokens = [&past[series * context..][..context], &generated[series * horizon..][..horizon]].concat();
            let times =
                [&of_past[series * context * 5..][..context * 5], &of_future[series * horizon * 5..][..horizon * 5]]
                    .concat();
            let times: Vec<[i64; 5]> = times.chunks(5).map(|stamp| std::array::from_fn(|index| stamp[index])).collect();
            for step in 0..horizon {
                let end = context + step;
                let window = end.saturating_sub(most)..end;
                let hidden = twin.context(&tokens[window.clone()], &times[window])?;
                s1_logits.extend(twin.s1_logits(&hidden[hidden.len() - 1])?);
                s2_logits.extend(twin.s2_logits(&hidden, tokens[end][0])?);
            }
            let all = twin.decode(&tokens[tokens.len().saturating_sub(most)..])?;
            decoded.extend(all[all.len() - horizon..].concat());
        }
        let by_series = |name: &str| -> Vec<f64> {
            let steps: Vec<&Vec<f64>> = (0..horizon).map(|step| &ours[&format!("{name}.{step}")]).collect();
            let width = steps[0].len() / batch;
            (0..batch)
                .flat_map(|series| steps.iter().flat_map(move |step| &step[series * width..][..width]))
                .copied()
                .collect()
        };
        let mut checks = vec![
            self.check("s1_logits", &by_series("s1_logits"), &self.tensor("s1_logits")?, &s1_logits)?,
            self.check("s2_logits", &by_series("s2_logits"), &self.tensor("s2_logits")?, &s2_logits)?,
            self.check("preds_norm", &ours["preds_norm"], &self.tensor("preds_norm")?, &decoded)?,
        ];
        checks.extend(self.predictions(&ours["preds_norm"], &decoded, batch)?);
        Ok(checks)
    }

    /// Candles in real units, field by field: prices and volumes have scales of their own.
    fn predictions(&self, ours: &[f64], truth: &[f64], batch: usize) -> Result<Vec<Check>> {
        let (mean, deviation) = (self.sized("x_mean_f64", batch * 6)?, self.sized("x_std_f64", batch * 6)?);
        let (single_mean, single_deviation) = (self.sized("x_mean", batch * 6)?, self.sized("x_std", batch * 6)?);
        let stored = self.sized("preds", ours.len())?;
        let rows = ours.len() / 6 / batch;
        let restored = |values: &[f64], mean: &[f64], deviation: &[f64], field: usize| -> Vec<f64> {
            let restore = |(row, values): (usize, &[f64])| {
                let at = row / rows * 6 + field;
                values[field] * (deviation[at] + 1e-5) + mean[at]
            };
            values.chunks(6).enumerate().map(restore).collect()
        };
        let of_field = |(field, name): (usize, &str)| {
            let single: Vec<f64> = stored.chunks(6).map(|row| row[field]).collect();
            let double = restored(truth, &mean, &deviation, field);
            self.check(
                &format!("preds.{name}"),
                &restored(ours, &single_mean, &single_deviation, field),
                &single,
                &double,
            )
        };
        Candles::FIELDS.into_iter().enumerate().map(of_field).collect()
    }
}

/// The wall clock that seconds since 1970 show in UTC.
fn clock(second: i64) -> Result<DateTime> {
    let stamp = Timestamp::from_second(second).map_err(|error| Error::Data(format!("time {second}: {error}")))?;
    Ok(stamp.to_zoned(TimeZone::UTC).datetime())
}
