//! `nowcast inspect`: a model, and the memory of a forecast before it runs.

use std::fmt::Write;

use nowcast::data::{MAX_COLUMNS, MAX_ROWS};
use nowcast::forecaster::memory::in_words;
use nowcast::toto::config::{Head, LayerKind};
use nowcast::{Error, ForecastOptions, Result};
use serde_json::json;

use super::{print, print_json};
use crate::arguments::{InspectArguments, spelled};
use crate::model;

pub(crate) fn run(arguments: &InspectArguments) -> Result<()> {
    for (flag, value, most) in [("context", arguments.context, MAX_ROWS), ("variates", arguments.variates, MAX_COLUMNS)]
    {
        if !(1..=most).contains(&value) {
            return Err(Error::Setting(format!("--{flag} {value}: choose 1 to {most}, as many as a table can have")));
        }
    }
    let (forecaster, mode) = model::load(&arguments.model, &arguments.run)?;
    let mut options = ForecastOptions::new(arguments.horizon);
    options.samples = arguments.samples;
    options.memory_limit = arguments.run.memory_limit;
    let plan = forecaster.planned_bytes(arguments.context, arguments.variates, &options)?;
    let Some(paths) = forecaster.path_bytes(arguments.variates, &options) else {
        return Err(Error::Setting("the sample paths need more than the address space: choose fewer".into()));
    };
    let weights = forecaster.weight_bytes();
    let total = weights.saturating_add(plan).saturating_add(paths);
    let config = forecaster.config();
    let time = config.layers.iter().filter(|kind| **kind == LayerKind::Time).count();
    let space = config.layers.len() - time;
    let head = match config.head {
        Head::StudentT => "one Student-t".to_string(),
        Head::Mixture { components } => format!("mixture of {components} Student-t"),
    };
    if arguments.json {
        return print_json(&json!({
            "model": arguments.model,
            "parameters": config.parameters(),
            "patch_size": config.patch_size,
            "embed_dim": config.embed_dim,
            "heads": config.heads,
            "mlp_hidden": config.mlp_hidden,
            "time_layers": time,
            "space_layers": space,
            "head": head,
            "mode": spelled(&mode),
            "context": arguments.context,
            "horizon": arguments.horizon,
            "samples": arguments.samples,
            "variates": arguments.variates,
            "weight_bytes": weights,
            "planned_bytes": plan,
            "path_bytes": paths,
            "total_bytes": total,
        }));
    }
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<12} {value}");
    };
    line("model", format!("{}: Toto 1.0, {} parameters", arguments.model, config.parameters()));
    line("layers", format!("{time} over time, {space} over variates"));
    line("width", format!("{} in {} heads, hidden {}", config.embed_dim, config.heads, config.mlp_hidden));
    line("patch", format!("{} steps", config.patch_size));
    line("head", head);
    line("weights", format!("{weights} bytes ({})", in_words(weights)));
    line("plan", format!("{plan} bytes ({})", in_words(plan)));
    line("paths", format!("{paths} bytes ({})", in_words(paths)));
    line("total", format!("{total} bytes ({})", in_words(total)));
    print(text.as_bytes())
}
