//! `nowcast baseline`: how good forecasts were, kept, and whether they still are.

mod compare;
mod file;
mod fingerprint;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use nowcast::family::Located;
use nowcast::{Error, ModelFamily, Result};
use nowcast_cli::output::{check_target, same_file, write_file};
use serde_json::json;

use super::columns::aligned;
use super::evaluation::{Model, Paths, Scores, Study, symbols};
use super::ways::Choice;
use super::{input, print, print_json};
use crate::arguments::{
    BaselineAction, BaselineArguments, CheckArguments, ColumnArguments, DtypeName, Given, ModeName, RunArguments,
    SaveArguments, StudyArguments, spelled,
};
use crate::device::{self, Care};
use crate::progress::Progress;
use crate::{message, model};
use compare::{Moved, check_same, moved};
use file::{Baseline, Data, Measured, Score, Settings};

pub(crate) fn run(arguments: &BaselineArguments) -> Result<ExitCode> {
    match &arguments.action {
        BaselineAction::Save(arguments) => save(arguments).map(|()| ExitCode::SUCCESS),
        BaselineAction::Check(arguments) => check(arguments),
    }
}

fn save(arguments: &SaveArguments) -> Result<()> {
    check_target(&arguments.file)?;
    if let Some(input) = arguments.data.iter().find(|input| same_file(input, &arguments.file)) {
        return Err(Error::Setting(format!(
            "{} would be overwritten by the baseline: name a new file",
            input.display()
        )));
    }
    let StudyArguments { horizon, context, windows, samples } = arguments.study;
    let settings = Settings {
        columns: arguments.columns.columns.clone(),
        context,
        dtype: spelled(&arguments.run.dtype),
        horizon,
        mode: arguments.run.mode.map(|mode| spelled(&mode)),
        samples,
        seed: arguments.seed,
        time: arguments.columns.time.clone(),
        tolerance: arguments.tolerance,
        windows,
    };
    let baseline = measure(settings, &arguments.models, &arguments.data, &arguments.run)?;
    write_file(&arguments.file, &baseline.text()?)?;
    print(scores(&baseline).as_bytes())?;
    message::say("note", &format!("{} holds the baseline", arguments.file.display()));
    Ok(())
}

fn check(arguments: &CheckArguments) -> Result<ExitCode> {
    let before = Baseline::read(&arguments.file)?;
    let tolerance = arguments.tolerance.unwrap_or(before.settings.tolerance);
    same_settings(&before.settings, &arguments.run)?;
    let models: Vec<String> = before.models.keys().cloned().collect();
    // Hashes first: what cannot be compared is not computed.
    let known = identify(before.settings.clone(), &models, &arguments.data, &arguments.run)?;
    check_same(&before, &known)?;
    let now = measure(before.settings.clone(), &models, &arguments.data, &arguments.run)?;
    let moved = moved(&before, &now, tolerance);
    let compared = 4 * before.models.values().map(|model| model.symbols.len()).sum::<usize>();
    if arguments.json {
        print_json(&json!({
            "baseline": arguments.file, "tolerance": tolerance, "scores": compared, "moved": moved, "now": now,
        }))?;
    } else {
        print(differences(&moved, compared, tolerance).as_bytes())?;
    }
    Ok(ExitCode::from(u8::from(!moved.is_empty())))
}

/// The baseline's own settings are used; a flag that says otherwise is a mistake.
fn same_settings(settings: &Settings, run: &Given<RunArguments>) -> Result<()> {
    let given = |flag: &str| run.given().iter().any(|given| given == flag);
    let mode = run.mode.map(|mode| spelled(&mode));
    let dtype = Some(spelled(&run.dtype));
    for (flag, asked, saved) in
        [("--mode", mode, settings.mode.clone()), ("--dtype", dtype, Some(settings.dtype.clone()))]
    {
        if given(flag) && asked != saved {
            let asked = asked.unwrap_or_default();
            let saved = saved.unwrap_or_else(|| "the device's own mode".into());
            return Err(Error::Setting(format!(
                "{flag} {asked}: the baseline was made with {saved}; leave {flag} out, or save a new baseline"
            )));
        }
    }
    Ok(())
}

/// Hashes alone.
fn identify(settings: Settings, models: &[String], files: &[PathBuf], run: &RunArguments) -> Result<Baseline> {
    let mut baseline = Baseline::new(settings);
    for path in files {
        let columns =
            ColumnArguments { columns: baseline.settings.columns.clone(), time: baseline.settings.time.clone() };
        let rows = input::tables(std::slice::from_ref(path), &columns)?.iter().map(|table| table.rows()).sum();
        let data = Data { rows, sha256: fingerprint::of_file(path)? };
        if baseline.data.insert(name_of(path), data).is_some() {
            return Err(Error::Setting(format!("two files are called {}: rename one", name_of(path))));
        }
    }
    for name in models {
        let located = model::locate(name, run)?;
        let sha256 = fingerprint::of_model(&located)?;
        let measured = Measured { context: 0, paths: 0, sha256, symbols: BTreeMap::new() };
        baseline.models.insert(name.clone(), measured);
    }
    Ok(baseline)
}

/// The name that a file has in any folder.
fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Scores every symbol with every model.
fn measure(settings: Settings, models: &[String], files: &[PathBuf], run: &Given<RunArguments>) -> Result<Baseline> {
    if settings.windows == 0 || settings.horizon == 0 {
        return Err(Error::Setting("--windows and --horizon: give at least 1 each".into()));
    }
    let mut baseline = identify(settings, models, files, run)?;
    let columns = ColumnArguments { columns: baseline.settings.columns.clone(), time: baseline.settings.time.clone() };
    let tables = input::tables(files, &columns)?;
    let choice = choice(&baseline.settings, run)?;
    let mut progress = Progress::new("scoring");
    for (done, name) in models.iter().enumerate() {
        let located = model::locate(name, run)?;
        if located.family() == ModelFamily::Kronos {
            model::refuse_series_flags(name, &[], run)?;
        }
        let symbols = symbols(&tables, &columns, located.family(), baseline.settings.horizon)?;
        let (study, paths, mut model) = prepare(&located, &baseline.settings, run, &choice)?;
        let mut scored = BTreeMap::new();
        for (at, symbol) in symbols.iter().enumerate() {
            progress.update(done * symbols.len() + at, models.len() * symbols.len());
            let windows = symbol.windows(study, model.family())?;
            let seed = baseline.settings.seed;
            let forecasts = model.forecast(&windows.inputs, study.horizon, paths, seed, run.memory_limit)?;
            let scores = Scores::of(&symbol.name, &windows.actual, &forecasts)?;
            scored.insert(symbol.name.clone(), Score::of(scores));
        }
        if let Some(measured) = baseline.models.get_mut(name) {
            let paths = if let Paths::Sampled(samples) = paths { samples } else { 0 };
            *measured = Measured { context: study.context, paths, symbols: scored, ..measured.clone() };
        }
    }
    Ok(baseline)
}

fn prepare(
    located: &Located,
    settings: &Settings,
    run: &RunArguments,
    choice: &Choice,
) -> Result<(Study, Paths, Model)> {
    let model = Model::load(located, run, choice)?;
    let Settings { horizon, windows, .. } = *settings;
    let paths = match settings.samples {
        None if model.is_exact(horizon) => Paths::Exact,
        samples => Paths::Sampled(samples.unwrap_or(model.default_paths())),
    };
    let context = settings.context.unwrap_or(model.context(horizon));
    Ok((Study { context, horizon, windows }, paths, model))
}

/// Mode, dtype and device of the settings.
fn choice(settings: &Settings, run: &RunArguments) -> Result<Choice> {
    let unknown =
        |name: &str| Error::Data(format!("the baseline was made with {name}, which this version does not know"));
    let mode = match &settings.mode {
        Some(name) => ModeName::from_str(name, false).map_err(|_| unknown(name))?,
        None => device::open(&run.device, run.threads, None, Care::default())?.1,
    };
    let dtype = DtypeName::from_str(&settings.dtype, false).map_err(|_| unknown(&settings.dtype))?;
    Ok(Choice { mode, dtype, device: run.device.clone() })
}

fn scores(baseline: &Baseline) -> String {
    let heading = ["model", "symbol", "MAE", "of mean price", "WQL", "80% covers", ""];
    let rows = baseline.models.iter().flat_map(|(model, measured)| {
        measured.symbols.iter().map(move |(symbol, score)| {
            vec![
                model.clone(),
                symbol.clone(),
                format!("{:.6}", score.mae),
                format!("{:.3}%", score.mae_percent),
                format!("{:.6}", score.wql),
                format!("{:.1}%", 100.0 * score.coverage_80),
                score.verdict.clone(),
            ]
        })
    });
    aligned(&heading, 2, &rows.collect::<Vec<_>>())
}

fn differences(moved: &[Moved], compared: usize, tolerance: f64) -> String {
    let tolerance = 100.0 * tolerance;
    if moved.is_empty() {
        return format!("none of {compared} scores moved by more than {tolerance}%\n");
    }
    let heading = ["model", "symbol", "score", "before", "now", "moved by"];
    let row = |moved: &Moved| {
        let Moved { model, symbol, score, before, now, by } = moved;
        let by = format!("{:+.3}%", 100.0 * by);
        vec![model.clone(), symbol.clone(), (*score).to_string(), format!("{before:.6}"), format!("{now:.6}"), by]
    };
    let rows: Vec<Vec<String>> = moved.iter().map(row).collect();
    format!("{}{} of {compared} scores moved by more than {tolerance}%\n", aligned(&heading, 3, &rows), moved.len())
}
