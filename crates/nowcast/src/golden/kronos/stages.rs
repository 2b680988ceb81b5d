//! Tokenizer and predictor over one context, stage by stage.

use nowcast_engine::extent::Live;

use super::super::compare::{Stored as Tensor, against_double, against_single, largest, mutual_bound};
use super::super::{Check, Setting};
use super::{Model, Stored, equal, of_pairs, run};
use crate::Result;
use crate::forecaster::plans::{Observe, Ready};
use crate::kronos::config::CANDLE_FIELDS;
use crate::kronos::forward::Shape;
use crate::kronos::{Window, time_entries};

pub(super) fn verify(model: &Model, stored: &Stored, setting: &Setting) -> Result<Vec<Check>> {
    let kronos = model.load(setting)?;
    let [batch, context, fields] = stored.series("x")?;
    stored.same_size("x", fields, CANDLE_FIELDS)?;
    let live = Live { batch, context, samples: 1 };
    let shape =
        Shape { capacity: live, horizon: 1, max_context: usize::MAX, window: Window::Exact, observe: Observe::Stages };
    let mut ready = Ready::of_tensors(&kronos, kronos.plan_stages(shape)?)?;
    let candles: Vec<f32> = stored.tensor("x")?.iter().map(|&value| value as f32).collect();
    let stamps = stored.bounded("stamp", batch * context * 5, &time_entries())?;
    // One stamp more than there are candles: no future candle is asked for here.
    let width = stamps.len() / batch;
    let padded = stamps.chunks(width).flat_map(|series| series.iter().copied().chain([0, 0, 0, 1, 1]));
    ready.executable.write(ready.tensors.candles, &candles);
    ready.executable.write_integers(ready.tensors.stamps, &padded.map(|value| value as i32).collect::<Vec<_>>());
    let coarse_tokens = [model.predictor.0.bits.vocabularies()[0]];
    let coarse: Vec<i32> =
        stored.bounded("step_s1", batch, &coarse_tokens)?.iter().flat_map(|&token| [token as i32, 0]).collect();
    ready.executable.write_integers(ready.tensors.streams, &coarse);
    let named = ready.tensors.observed.clone();
    let ours = run(&mut ready, live, &named)?;

    let mut checks = vec![
        equal("tok.s1_ids", &of_pairs(&ours["tokens"], 0), &stored.integers("tok.s1_ids")?),
        equal("tok.s2_ids", &of_pairs(&ours["tokens"], 1), &stored.integers("tok.s2_ids")?),
    ];
    // Stages in between are stored in f32 only: they may be off by what their stack's end is off by.
    let end = |stored_name: &str, ours: &[f64], single: &str| -> Result<Check> {
        let single = stored.sized(single, ours.len())?;
        let double = stored.sized(&format!("{stored_name}_f64"), ours.len())?;
        Ok(against_double(&Tensor { name: stored_name, single: &single, double: &double }, ours))
    };
    let bound = |check: &Check, name: &str| -> Result<f64> {
        Ok(mutual_bound(check) / largest(&stored.tensor(&format!("{name}_f64"))?).max(f64::MIN_POSITIVE))
    };
    let z = end("tok.z", &ours["z"], "tok.z")?;
    // The reference decodes and runs its forward pass to the same values.
    let decoded = end("tok.forward_z", &ours["decode"], "tok.decode")?;
    let hidden = end("lm.context", &ours["context"], "lm.context")?;
    let s1_logits = end("lm.s1_logits", &ours["s1_logits"], "lm.s1_logits")?;
    let mut inner = Vec::new();
    for (name, stored_name, bound) in [
        ("encoder_out", "tok.encoder_out", bound(&z, "tok.z")?),
        ("layer_out", "lm.layer_out", bound(&hidden, "lm.context")?),
    ] {
        for index in 0.. {
            let Some(values) = ours.get(&format!("{name}.{index}")) else { break };
            let name = format!("{stored_name}.{index}");
            let single = stored.tensor(&name)?;
            stored.same_size(&name, single.len(), values.len())?;
            inner.push(against_single(&name, values, &single, bound * largest(&single)));
        }
    }
    // Of the fine logits only those after the last candle enter a forecast.
    let width = ours["s2_logits_step"].len() / batch;
    let all = stored.sized("lm.s2_logits_step", batch * context * width)?;
    let last: Vec<f64> =
        all.chunks(context * width).flat_map(|series| &series[(context - 1) * width..]).copied().collect();
    let logits_bound = bound(&s1_logits, "lm.s1_logits")? * largest(&last);
    inner.push(against_single("lm.s2_logits_step[last]", &ours["s2_logits_step"], &last, logits_bound));
    checks.extend([z, decoded, hidden, s1_logits]);
    checks.extend(inner);
    Ok(checks)
}
