//! Probabilities after temperature, top-k and top-p.

use nowcast_engine::token_sampling::{Filter, TokenSampling};
use serde::Deserialize;

use super::super::Check;
use super::super::compare::against_single;
use super::Stored;
use crate::{Error, Result};

#[derive(Deserialize)]
struct CaseFile {
    args: Arguments,
}

#[derive(Deserialize)]
struct Arguments {
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    name: String,
    logits: String,
    #[serde(rename = "T")]
    temperature: f32,
    top_k: usize,
    top_p: f64,
}

pub(super) fn verify(text: &str, stored: &Stored) -> Result<Vec<Check>> {
    let file: CaseFile = serde_json::from_str(text).map_err(|error| Error::Data(format!("case.json: {error}")))?;
    let mut checks = Vec::new();
    for Run { name, logits, temperature, top_k, top_p } in &file.args.runs {
        let width = stored.shape(logits)?.last().copied().unwrap_or(0).max(1);
        let logits: Vec<f32> = stored.tensor(logits)?.iter().map(|&logit| logit as f32).collect();
        let sampling =
            TokenSampling { temperature: *temperature, top_k: *top_k, top_p: *top_p, filter: Filter::Reference };
        let ours: Vec<f64> = logits.chunks(width).flat_map(|row| sampling.probabilities(row)).collect();
        let name = format!("probs.{name}");
        let theirs = stored.tensor(&name)?;
        stored.same_size(&name, theirs.len(), ours.len())?;
        // A softmax in f32 is off by a few roundings of its largest value, below the least limit.
        checks.push(against_single(&name, &ours, &theirs, 0.0));
        let kept = ours.iter().zip(&theirs).filter(|(ours, theirs)| (**ours > 0.0) != (**theirs > 0.0)).count();
        checks.push(Check::new(format!("{name} (tokens kept by one side only)"), kept as f64, None, 0.0));
    }
    Ok(checks)
}
