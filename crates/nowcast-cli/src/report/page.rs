//! The page: a summary of all symbols, then a section for each.

use nowcast::backtest::{Ledger, Trading, drawdowns};

use super::chart::{Band, Chart, Line};
use super::tables;
use crate::output::{BacktestAnswer, PERFORMANCE, SCORES};
use crate::plot::escaped;

const STYLE: &str = include_str!("page.css");
/// Colours of models and of references in the style.
const COLOURS: usize = 4;
/// Closes shown before the last window, in horizons.
const PAST_HORIZONS: usize = 4;

pub(super) fn render(answer: &BacktestAnswer) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Backtest: {}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>Backtest</h1>\n<p>{}</p>\n",
        escaped(&names(answer)),
        escaped(&answer.headline())
    );
    html += &legend(answer);
    if answer.backtest.symbols().len() > 1 {
        html += "<h2>All symbols</h2>\n<p>Means over the symbols; RankIC over the symbols that share dates.</p>\n";
        html += &tables::overall(answer);
        for strategy in 0..answer.evaluations[0].trading.len() {
            html += &portfolio(answer, strategy);
        }
    }
    for symbol in 0..answer.backtest.symbols().len() {
        html += &section(answer, symbol);
    }
    html += "<h2>How this came about</h2>\n";
    html += RULES;
    if !answer.notes.is_empty() {
        html += "<ul>\n";
        answer.notes.iter().for_each(|note| html += &format!("<li>{}</li>\n", escaped(note)));
        html += "</ul>\n";
    }
    html += "<details open=\"\"><summary>Every parameter</summary>\n";
    html += &tables::settings(answer);
    html + "</details>\n</body>\n</html>\n"
}

/// What a reader must know to trust the numbers.
const RULES: &str = "<p>Every forecast and every order was made from bars before its origin alone. Market orders fill at the \
    open of the next bar with slippage; limits fill only where a bar trades beyond them, and a target never on the bar of its \
    entry. Accounts begin with 1 and trade all of it.</p>\n";

fn names(answer: &BacktestAnswer) -> String {
    answer.backtest.symbols().iter().map(|symbol| symbol.name()).collect::<Vec<_>>().join(", ")
}

/// The colour of a forecaster.
fn colour(answer: &BacktestAnswer, evaluation: usize) -> String {
    match evaluation.checked_sub(answer.models) {
        None => format!("var(--m{})", evaluation % COLOURS),
        Some(reference) => format!("var(--r{})", reference % COLOURS),
    }
}

fn legend(answer: &BacktestAnswer) -> String {
    let entry = |(place, evaluation): (usize, &nowcast::backtest::Evaluation)| {
        format!("<span><i style=\"background:{}\"></i>{}</span>", colour(answer, place), escaped(&evaluation.name))
    };
    let entries: String = answer.evaluations.iter().enumerate().map(entry).collect();
    format!("<p class=\"legend\">{entries}</p>\n")
}

fn section(answer: &BacktestAnswer, place: usize) -> String {
    let symbol = &answer.backtest.symbols()[place];
    let origins = answer.backtest.origins(place);
    let (first, last) = (symbol.stamp_text(origins[0] - 1), symbol.stamp_text(origins[origins.len() - 1] - 1));
    let mut html = format!(
        "<h2>{}</h2>\n<p>{} windows, from {} to {}</p>\n<h3>Forecasts</h3>\n",
        escaped(symbol.name()),
        origins.len(),
        escaped(&first),
        escaped(&last)
    );
    html += &tables::figures(answer, &SCORES, |evaluation| Some(&answer.evaluations[evaluation].scores[place]));
    for model in 0..answer.models {
        html += &fan(answer, place, model);
    }
    for (strategy, trading) in answer.evaluations[0].trading.iter().enumerate() {
        html += &format!("<h3>Strategy {}</h3>\n", escaped(&trading.strategy.to_string()));
        if trading.performance[place].is_none() {
            html += "<p>Not traded: a price is not above zero.</p>\n";
            continue;
        }
        let of = |evaluation: usize| &answer.evaluations[evaluation].trading[strategy];
        html += &tables::figures(answer, &PERFORMANCE, |evaluation| of(evaluation).performance[place].as_ref());
        let ledgers: Vec<&Ledger> =
            (0..answer.evaluations.len()).filter_map(|evaluation| of(evaluation).ledgers[place].as_ref()).collect();
        let first = ledgers[0].first_bar;
        let times: Vec<String> = (first..first + ledgers[0].equity.len()).map(|bar| symbol.stamp_text(bar)).collect();
        let curves: Vec<&[f64]> = ledgers.iter().map(|ledger| ledger.equity.as_slice()).collect();
        html += &curves_of(answer, &format!("{}, strategy {}", symbol.name(), trading.strategy), &times, &curves);
    }
    html
}

/// All symbols with equal weights, where they can be traded together.
fn portfolio(answer: &BacktestAnswer, strategy: usize) -> String {
    let of = |evaluation: usize| -> &Trading { &answer.evaluations[evaluation].trading[strategy] };
    let Some((portfolio, _)) = &of(0).portfolio else { return String::new() };
    let title = format!("Equal weights, strategy {}", of(0).strategy);
    let mut html = format!("<h3>{}</h3>\n", escaped(&title));
    let figures = |evaluation: usize| of(evaluation).portfolio.as_ref().map(|(_, figures)| figures);
    html += &tables::figures(answer, &PERFORMANCE, figures);
    let date = |time: &i128| {
        let second = i64::try_from(time / 1_000_000_000).unwrap_or(0);
        jiff::Timestamp::from_second(second)
            .map_or_else(|_| String::new(), |stamp| stamp.strftime("%Y-%m-%d").to_string())
    };
    let times: Vec<String> = portfolio.times.iter().map(date).collect();
    let curves: Vec<&[f64]> = (0..answer.evaluations.len())
        .filter_map(|evaluation| of(evaluation).portfolio.as_ref().map(|(curve, _)| curve.equity.as_slice()))
        .collect();
    html + &curves_of(answer, &title, &times, &curves)
}

/// Equity and drawdown of every forecaster.
fn curves_of(answer: &BacktestAnswer, title: &str, times: &[String], curves: &[&[f64]]) -> String {
    let losses: Vec<Vec<f64>> =
        curves.iter().map(|curve| drawdowns(curve).iter().map(|loss| -loss).collect()).collect();
    let chart = |what: &str, height: f64, percent: bool, values: Vec<&[f64]>| {
        // References first, so that models lie above them.
        let order = (answer.models..values.len()).chain(0..answer.models.min(values.len()));
        let line = |place: usize| Line {
            class: if place < answer.models { "model" } else { "reference" },
            colour: colour(answer, place),
            values: values[place],
            start: 0,
        };
        let chart = Chart {
            title: format!("{what}: {title}"),
            height,
            times,
            lines: order.map(line).collect(),
            bands: Vec::new(),
            mark: None,
            percent,
        };
        format!("<figure><figcaption>{what}</figcaption>\n{}</figure>\n", chart.render())
    };
    let losses = losses.iter().map(Vec::as_slice).collect();
    chart("Equity, from 1", 260.0, false, curves.to_vec()) + &chart("Loss from the peak", 130.0, true, losses)
}

/// What a model said at the last origin, and what came.
fn fan(answer: &BacktestAnswer, place: usize, model: usize) -> String {
    let backtest = &answer.backtest;
    let (symbol, question) = (&backtest.symbols()[place], backtest.question());
    let origins = backtest.origins(place);
    let origin = origins[origins.len() - 1];
    let evaluation = &answer.evaluations[model];
    let prediction = &evaluation.predictions[place][origins.len() - 1];
    let first = origin.saturating_sub(PAST_HORIZONS * question.horizon);
    let times: Vec<String> = (first..origin + question.horizon).map(|bar| symbol.stamp_text(bar)).collect();
    let closes = &symbol.closes()[first..origin + question.horizon];
    let known = origin - first;
    let interval = backtest.options().interval;
    let band = |share: f64| {
        let edge = |sign: f64| prediction.quantiles[question.level(0.5 + sign * share / 2.0)].as_slice();
        Band { colour: colour(answer, model), low: edge(-1.0), high: edge(1.0), start: known }
    };
    let chart = Chart {
        title: format!("{}: the last window as {} saw it", symbol.name(), evaluation.name),
        height: 240.0,
        times: &times,
        lines: vec![
            Line { class: "past", colour: "var(--ink)".into(), values: &closes[..known], start: 0 },
            Line { class: "came", colour: "var(--ink)".into(), values: &closes[known - 1..], start: known - 1 },
            Line { class: "model", colour: colour(answer, model), values: &prediction.close, start: known },
        ],
        bands: vec![band(interval), band(0.4)],
        mark: Some(known - 1),
        percent: false,
    };
    format!(
        "<figure><figcaption>The last window as {} saw it: point forecast, 40% and {}% bands; dashed what came</figcaption>\n{}</figure>\n",
        escaped(&evaluation.name),
        (interval * 1e6).round() / 1e4,
        chart.render()
    )
}
