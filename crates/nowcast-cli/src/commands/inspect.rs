//! `nowcast inspect`: a model, and the memory of a forecast before it runs.

use std::fmt::Write;

use nowcast::checkpoint::ModelSource;
use nowcast::data::{MAX_COLUMNS, MAX_ROWS};
use nowcast::family::Located;
use nowcast::forecaster::memory::in_words;
use nowcast::kronos::KronosSource;
use nowcast::toto::config::{Head, LayerKind};
use nowcast::{CandleForecaster, Error, ForecastOptions, Result};
use serde_json::{Value, json};

use super::{print, print_json};
use crate::arguments::{InspectArguments, ModeName, spelled};
use crate::model;

pub(crate) fn run(arguments: &InspectArguments) -> Result<()> {
    for (flag, value, most) in [("context", arguments.context, MAX_ROWS), ("variates", arguments.variates, MAX_COLUMNS)]
    {
        if !(1..=most).contains(&value) {
            return Err(Error::Setting(format!("--{flag} {value}: choose 1 to {most}, as many as a table can have")));
        }
    }
    let found = match model::locate(&arguments.model, &arguments.run)? {
        Located::Toto(source) => toto(arguments, &source)?,
        Located::Kronos(source) => kronos(arguments, &source)?,
    };
    if arguments.json { print_json(&found.json(arguments)) } else { print(found.text(arguments).as_bytes()) }
}

/// What is told about a model.
struct Found {
    family: &'static str,
    mode: ModeName,
    parameters: u64,
    /// The architecture, as JSON and in lines for people.
    architecture: Value,
    lines: Vec<(&'static str, String)>,
    weights: usize,
    plan: usize,
    paths: usize,
}

fn toto(arguments: &InspectArguments, source: &ModelSource) -> Result<Found> {
    model::refuse_candle_flags(&arguments.model, &[arguments.candles.given()])?;
    let (forecaster, mode) = model::load_series(source, &arguments.run)?;
    let mut options = ForecastOptions::new(arguments.horizon);
    options.samples = arguments.samples;
    options.memory_limit = arguments.run.memory_limit;
    let plan = forecaster.planned_bytes(arguments.context, arguments.variates, &options)?;
    let paths = counted(forecaster.path_bytes(arguments.variates, &options))?;
    let config = forecaster.config();
    let time = config.layers.iter().filter(|kind| **kind == LayerKind::Time).count();
    let space = config.layers.len() - time;
    let head = match config.head {
        Head::StudentT => "one Student-t".to_string(),
        Head::Mixture { components } => format!("mixture of {components} Student-t"),
    };
    Ok(Found {
        family: "Toto 1.0",
        mode,
        parameters: config.parameters(),
        architecture: json!({
            "patch_size": config.patch_size,
            "embed_dim": config.embed_dim,
            "heads": config.heads,
            "mlp_hidden": config.mlp_hidden,
            "time_layers": time,
            "space_layers": space,
            "head": head,
        }),
        lines: vec![
            ("layers", format!("{time} over time, {space} over variates")),
            ("width", format!("{} in {} heads, hidden {}", config.embed_dim, config.heads, config.mlp_hidden)),
            ("patch", format!("{} steps", config.patch_size)),
            ("head", head),
        ],
        weights: forecaster.weight_bytes(),
        plan,
        paths,
    })
}

fn kronos(arguments: &InspectArguments, source: &KronosSource) -> Result<Found> {
    let variates = if arguments.variates == 1 { Vec::new() } else { vec!["--variates".to_string()] };
    model::refuse_series_flags(&arguments.model, &variates, &arguments.run)?;
    let (forecaster, mode) = model::load_candles(source, &arguments.run)?;
    let mut options = arguments.candles.options(arguments.horizon);
    options.context = Some(arguments.context);
    options.samples = arguments.samples;
    options.memory_limit = arguments.run.memory_limit;
    let plan = forecaster.planned_bytes(arguments.context, &options)?;
    let paths = counted(CandleForecaster::path_bytes(1, &options))?;
    let (tokenizer, predictor) = (forecaster.tokenizer_config(), forecaster.predictor_config());
    let [coder, model] = [tokenizer.transformer, predictor.transformer];
    let (blocks, bits) = (tokenizer.encoder_blocks + tokenizer.decoder_blocks, predictor.bits);
    let window = options.max_context.unwrap_or(forecaster.max_context());
    Ok(Found {
        family: "Kronos",
        mode,
        parameters: tokenizer.parameters() + predictor.parameters(),
        architecture: json!({
            "tokenizer": {
                "parameters": tokenizer.parameters(),
                "width": coder.width,
                "heads": coder.heads,
                "hidden": coder.hidden,
                "encoder_blocks": tokenizer.encoder_blocks,
                "decoder_blocks": tokenizer.decoder_blocks,
            },
            "predictor": {
                "parameters": predictor.parameters(),
                "width": model.width,
                "heads": model.heads,
                "hidden": model.hidden,
                "blocks": predictor.blocks,
            },
            "s1_bits": bits.s1,
            "s2_bits": bits.s2,
            "max_context": window,
        }),
        lines: vec![
            (
                "tokenizer",
                format!(
                    "{} parameters, {blocks} blocks of width {} in {} heads, hidden {}",
                    tokenizer.parameters(),
                    coder.width,
                    coder.heads,
                    coder.hidden
                ),
            ),
            (
                "predictor",
                format!(
                    "{} parameters, {} blocks of width {} in {} heads, hidden {}",
                    predictor.parameters(),
                    predictor.blocks,
                    model.width,
                    model.heads,
                    model.hidden
                ),
            ),
            ("tokens", format!("{} + {} bits for each bar, a window of {window}", bits.s1, bits.s2)),
        ],
        weights: forecaster.weight_bytes(),
        plan,
        paths,
    })
}

fn counted(path_bytes: Option<usize>) -> Result<usize> {
    path_bytes.ok_or_else(|| Error::Setting("the sample paths need more than the address space: choose fewer".into()))
}

impl Found {
    fn total(&self) -> usize {
        self.weights.saturating_add(self.plan).saturating_add(self.paths)
    }

    fn json(&self, arguments: &InspectArguments) -> Value {
        let mut document = json!({
            "model": arguments.model,
            "family": self.family,
            "parameters": self.parameters,
            "mode": spelled(&self.mode),
            "dtype": spelled(&arguments.run.dtype),
            "context": arguments.context,
            "horizon": arguments.horizon,
            "samples": arguments.samples,
            "variates": arguments.variates,
            "weight_bytes": self.weights,
            "planned_bytes": self.plan,
            "path_bytes": self.paths,
            "total_bytes": self.total(),
        });
        if let (Some(document), Some(architecture)) = (document.as_object_mut(), self.architecture.as_object()) {
            document.extend(architecture.clone());
        }
        document
    }

    fn text(&self, arguments: &InspectArguments) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<12} {value}");
        };
        line("model", format!("{}: {}, {} parameters", arguments.model, self.family, self.parameters));
        self.lines.iter().for_each(|(name, value)| line(name, value.clone()));
        for (name, bytes) in
            [("weights", self.weights), ("plan", self.plan), ("paths", self.paths), ("total", self.total())]
        {
            line(name, format!("{bytes} bytes ({})", in_words(bytes)));
        }
        text
    }
}
