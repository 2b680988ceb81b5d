//! Small answers with numbers that can be checked by eye.

use jiff::civil::date;
use nowcast::data::{Precision, Stamp, Style, Zone};
use nowcast::forecast::{Aggregation, Distribution, VariateForecast};
use serde_json::json;

use super::{Answer, SeriesAnswer, Timeline};

const LEVELS: [f64; 3] = [0.1, 0.5, 0.9];

fn series(name: &str, timeline: Timeline, values: Vec<f32>) -> SeriesAnswer {
    let forecast = VariateForecast::new(name, Distribution::Paths { samples: 4, values }).unwrap();
    SeriesAnswer::new(vec![98.0, 99.0, f32::NAN, 100.0], timeline, forecast, Aggregation::Median, &LEVELS).unwrap()
}

/// Two series of three future steps: a dated one whose four paths rise by one per step, and a numbered one.
pub(crate) fn answer() -> Answer {
    let stamps = (6..13).map(|hour| Stamp::civil(date(2024, 1, 2).at(hour, 0, 0, 0))).collect();
    let style = Style { precision: Precision::Minute, separator: ' ', zone: Zone::None };
    let rising = [100.0, 101.0, 102.0, 104.0].iter().flat_map(|&first| [first, first + 1.0, first + 2.0]).collect();
    let mixed = vec![-0.25, 0.0, 1.0, 0.25, 0.0, 0.75, -0.5, 0.0, 0.0, -0.25, 0.0, 0.25];
    Answer {
        model: "nano".into(),
        horizon: 3,
        context: 4,
        point: Aggregation::Median,
        levels: LEVELS.to_vec(),
        paths: false,
        settings: vec![("seed".into(), json!(7)), ("mode".into(), json!("default"))],
        series: vec![
            series("close", Timeline::Dated { stamps, style }, rising),
            series("load, \"north\"", Timeline::Numbered(0..7), mixed),
        ],
        stats: Vec::new(),
        notes: vec!["1 missing value masked".into()],
    }
}

/// One numbered series without a past whose forecast is a single path.
pub(crate) fn one_path(values: Vec<f32>) -> Answer {
    let horizon = values.len();
    let forecast = VariateForecast::new("load", Distribution::Paths { samples: 1, values }).unwrap();
    let timeline = Timeline::Numbered(0..horizon as i64);
    let series = SeriesAnswer::new(Vec::new(), timeline, forecast, Aggregation::Median, &[]).unwrap();
    Answer { horizon, levels: Vec::new(), paths: true, series: vec![series], ..answer() }
}
