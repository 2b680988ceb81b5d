//! Small answers with numbers that can be checked by eye.

use jiff::civil::date;
use nowcast::data::{Precision, Stamp, Style, Zone};
use nowcast::forecast::{Aggregation, Distribution, VariateForecast};
use serde_json::json;

use super::{Answer, Question, Timeline};

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
    let forecast = VariateForecast::new(name, Distribution::Paths { samples: values.len() / 3, values }).unwrap();
    answer.push(HISTORY.to_vec(), timeline, forecast).unwrap();
}

/// A series `close` by the hour whose four paths rise by one per step.
pub(crate) fn push_dated(answer: &mut Answer) {
    let stamps = (6..13).map(|hour| Stamp::civil(date(2024, 1, 2).at(hour, 0, 0, 0))).collect();
    let style = Style { precision: Precision::Minute, separator: ' ', zone: Zone::None };
    let rising = [100.0, 101.0, 102.0, 104.0].iter().flat_map(|&first| [first, first + 1.0, first + 2.0]).collect();
    push(answer, "close", Timeline::Dated { stamps, style }, rising);
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
