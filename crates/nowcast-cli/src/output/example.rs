//! Small answers with numbers that can be checked by eye.

use jiff::civil::date;
use nowcast::candles::Consistency;
use nowcast::data::{Precision, Stamp, Style, Zone};
use nowcast::forecast::{Aggregation, Distribution, VariateForecast};
use nowcast::{CandleColumns, Candles, Forecast};
use serde_json::json;

use super::{Answer, MarketForecast, Question, Timeline};

const HISTORY: [f32; 4] = [98.0, 99.0, f32::NAN, 100.0];

/// Three steps ahead, median and three quantiles, no paths.
pub(crate) fn question() -> Question {
    Question {
        model: "nano".into(),
        horizon: 3,
        context: 4,
        point: Aggregation::Median,
        levels: vec![0.1, 0.5, 0.9],
        paths: false,
        settings: vec![("seed".into(), json!(7)), ("mode".into(), json!("default"))],
    }
}

fn push(answer: &mut Answer, name: &str, timeline: Timeline, values: Vec<f32>) {
    let forecast =
        VariateForecast::new(name, Distribution::Paths { samples: values.len() / 3, values: values.into() }).unwrap();
    answer.push(HISTORY.to_vec(), timeline, forecast).unwrap();
}

/// Four past hours and three future ones.
fn hours() -> Timeline {
    let stamps = (6..13).map(|hour| Stamp::civil(date(2024, 1, 2).at(hour, 0, 0, 0))).collect();
    Timeline::Dated { stamps, style: Style { precision: Precision::Minute, separator: ' ', zone: Zone::None } }
}

/// A market by the hour whose four paths rise by one per bar; one of its twelve bars has a negative volume.
pub(crate) fn market() -> Answer {
    let mut answer = Answer::new(Question { point: Aggregation::Mean, ..question() }).unwrap();
    let past = [10.0, 11.0, 9.0, 10.5, 1000.0, 10000.0];
    let one = || vec![1.0];
    let columns =
        CandleColumns { open: one(), high: one(), low: one(), close: one(), volume: Some(one()), amount: Some(one()) };
    let candles = Candles::new("kline", columns, vec![date(2024, 1, 2).at(9, 0, 0, 0)], Vec::new()).unwrap();
    let variates = Candles::FIELDS.iter().zip(past).map(|(field, first)| {
        let bar = |path: usize, step: usize| match (*field, path, step) {
            ("volume", 0, 2) => -1.0,
            _ => first + path as f32 + step as f32,
        };
        let values = (0..4).flat_map(|path| (0..3).map(move |step| bar(path, step))).collect();
        VariateForecast::new(*field, Distribution::Paths { samples: 4, values }).unwrap()
    });
    let forecast = Forecast::new(variates.collect()).unwrap();
    let consistency = Consistency::of_forecast(&forecast, &candles).unwrap();
    let history = past.map(|first| (0..4).map(|step| first + step as f32 - 4.0).collect());
    let market =
        MarketForecast { name: "kline".into(), history, timeline: hours(), forecast, consistency, repaired: false };
    answer.push_market(market).unwrap();
    answer
}

/// A series `close` by the hour whose four paths rise by one per step.
pub(crate) fn push_dated(answer: &mut Answer) {
    let rising = [100.0, 101.0, 102.0, 104.0].iter().flat_map(|&first| [first, first + 1.0, first + 2.0]).collect();
    push(answer, "close", hours(), rising);
}

/// A series without stamps, with four paths.
pub(crate) fn push_numbered(answer: &mut Answer) {
    let mixed = vec![-0.25, 0.0, 1.0, 0.25, 0.0, 0.75, -0.5, 0.0, 0.0, -0.25, 0.0, 0.25];
    push(answer, "load, \"north\"", Timeline::Numbered(0..7), mixed);
}

/// A series without stamps and with a single path.
pub(crate) fn push_one_path(answer: &mut Answer, values: [f32; 3]) {
    push(answer, "single", Timeline::Numbered(0..7), values.to_vec());
}

/// The dated series alone.
pub(crate) fn dated(question: Question) -> Answer {
    let mut answer = Answer::new(question).unwrap();
    push_dated(&mut answer);
    answer.notes.push("1 missing value masked".into());
    answer
}

/// The dated series and the numbered one.
pub(crate) fn answer() -> Answer {
    let mut answer = dated(question());
    push_numbered(&mut answer);
    answer
}
