//! Whole charts: what they contain, and that every renderer can write them.

use nowcast::forecast::{Aggregation, Distribution, VariateForecast};

use super::scene::Shape;
use super::*;
use crate::output::{Question, Timeline, example};

/// An answer of `count` numbered series with the given distribution.
fn answer(count: usize, distribution: Distribution, rule: Aggregation) -> Answer {
    let horizon = VariateForecast::new("any", distribution.clone()).unwrap().horizon();
    let question = Question { point: rule, levels: Vec::new(), horizon, ..example::question() };
    let mut answer = Answer::new(question).unwrap();
    for k in 0..count {
        let forecast = VariateForecast::new(format!("series <{k}>"), distribution.clone()).unwrap();
        let history: Vec<f32> = (0..100).map(|step| (step as f32 / 7.0).sin()).collect();
        answer.push(history, Timeline::Numbered(0..100 + horizon as i64), forecast).unwrap();
    }
    answer
}

fn paths() -> Distribution {
    Distribution::Paths { samples: 8, values: (0..8 * 12).map(|k| (k % 13) as f32 / 6.0 - 1.0).collect() }
}

fn svg(answer: &Answer) -> String {
    String::from_utf8(render(answer, ChartFormat::Svg).unwrap()).unwrap()
}

fn texts(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).unwrap();
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|node| node.text().unwrap_or_default().to_string()).collect()
}

fn count(svg: &str, element: &str) -> usize {
    roxmltree::Document::parse(svg).unwrap().descendants().filter(|node| node.has_tag_name(element)).count()
}

#[test]
fn a_fan_has_title_legend_axes_and_bands() {
    let svg = svg(&answer(1, paths(), Aggregation::Median));
    let texts = texts(&svg);
    for text in [
        "series <0>",
        "nano: 12 steps ahead from 4 past values, 8 sample paths",
        "past",
        "median",
        "50%",
        "80%",
        "95%",
        "100",
        "0.50",
        "−0.50",
    ] {
        assert!(texts.iter().any(|found| found == text), "{text} is not in {texts:?}");
    }
    assert_eq!(count(&svg, "polygon"), 3);
    assert!(!texts.iter().any(|text| text == "mean"));
}

#[test]
fn another_point_forecast_has_its_own_line() {
    let rule = Aggregation::Quantile(0.4);
    let (with, without) = (svg(&answer(1, paths(), rule)), svg(&answer(1, paths(), Aggregation::Median)));
    assert!(texts(&with).contains(&"quantile_0.4".to_string()));
    assert_eq!(count(&with, "polyline"), count(&without, "polyline") + 2);
}

#[test]
fn a_mean_path_has_no_bands() {
    let svg = svg(&answer(1, Distribution::Mean(vec![0.5; 6].into()), Aggregation::Mean));
    assert_eq!(count(&svg, "polygon"), 0);
    assert!(texts(&svg).contains(&"mean".to_string()) && !texts(&svg).contains(&"95%".to_string()));
}

#[test]
fn a_market_has_bars_bands_and_its_volume() {
    let answer = example::market();
    let drawing = svg(&answer);
    let texts = texts(&drawing);
    for text in ["kline", "up", "down", "50%", "95% of closes", "ahead: mean of the paths", "2 Jan 2024"] {
        assert!(texts.iter().any(|found| found == text), "{text} is not in {texts:?}");
    }
    // One band for each share of the closes.
    assert_eq!(count(&drawing, "polygon"), 3);
    // All seven bars rise: a hollow body in the price panel, an outline around it, a solid one in the volume panel.
    let filled = |colour: &str| drawing.matches(&format!("fill=\"{colour}\"")).count();
    assert_eq!(filled("#0072b2"), 7, "volumes");
    // The sheet, the key of the legend, and the bodies.
    assert_eq!(filled("#ffffff"), 1 + 1 + 7);
    assert_eq!(filled("#d55e00"), 1, "the key of the legend alone falls");
}

#[test]
fn every_series_has_a_panel() {
    for panels in [2, 5, 9, 60] {
        let svg = svg(&answer(panels, paths(), Aggregation::Median));
        assert_eq!(count(&svg, "polygon"), 3 * panels);
        let texts = texts(&svg);
        assert!((0..panels).all(|k| texts.contains(&format!("series <{k}>"))));
    }
    let message =
        |count| render(&answer(count, paths(), Aggregation::Median), ChartFormat::Svg).unwrap_err().to_string();
    assert_eq!(message(61), "a chart shows 1 to 60 series, not 61: choose some with --columns, or give fewer files");
    assert_eq!(message(0), "a chart shows 1 to 60 series, not 0: choose some with --columns, or give fewer files");
}

#[test]
fn dated_series_and_missing_values_are_drawn() {
    let texts = texts(&svg(&example::answer()));
    assert!(texts.contains(&"2 Jan 2024".to_string()), "{texts:?}");
}

#[test]
fn a_single_future_step_without_a_past_is_drawn() {
    let mut answer = Answer::new(Question { horizon: 1, ..example::question() }).unwrap();
    let forecast = VariateForecast::new("x", Distribution::Paths { samples: 1, values: vec![3.5].into() }).unwrap();
    answer.push(Vec::new(), Timeline::Numbered(0..1), forecast).unwrap();
    let svg = svg(&answer);
    assert_eq!(count(&svg, "polygon"), 3);
    assert_eq!(count(&svg, "circle"), 1);
}

#[test]
fn nothing_lies_outside_the_sheet() {
    let fans = [1, 2, 4, 12].map(|panels| answer(panels, paths(), Aggregation::Mean));
    for answer in fans.iter().chain([&example::market()]) {
        let scene = compose(answer).unwrap();
        let inside = |(x, y): (f64, f64)| {
            (0.0..=f64::from(scene.width)).contains(&x) && (0.0..=f64::from(scene.height)).contains(&y)
        };
        for shape in &scene.shapes {
            let points = match shape {
                Shape::Rectangle { from, size, .. } => vec![*from, (from.0 + size.0, from.1 + size.1)],
                Shape::Circle { centre, .. } => vec![*centre],
                Shape::Line { points, .. } | Shape::Area { points, .. } => points.clone(),
                Shape::Text(text) => vec![text.at],
            };
            assert!(points.into_iter().all(inside), "{shape:?}");
        }
    }
}

#[test]
fn names_of_files_choose_the_format() {
    assert_eq!(ChartFormat::of(Path::new("a/b.SVG")).unwrap(), ChartFormat::Svg);
    for name in ["chart", "chart.pdf", ".svg"] {
        assert_eq!(
            ChartFormat::of(Path::new(name)).unwrap_err().to_string(),
            format!("{name}: a chart is .svg or .png")
        );
    }
}

#[cfg(feature = "png")]
#[test]
fn the_image_is_twice_as_large_as_the_drawing() {
    assert_eq!(ChartFormat::of(Path::new("x.png")).unwrap(), ChartFormat::Png);
    let answer = answer(4, paths(), Aggregation::Median);
    let image = tiny_skia::Pixmap::decode_png(&render(&answer, ChartFormat::Png).unwrap()).unwrap();
    let scene = compose(&answer).unwrap();
    assert_eq!((image.width(), image.height()), (2 * scene.width, 2 * scene.height));
    let blue = image.pixels().iter().filter(|pixel| pixel.blue() > pixel.red().saturating_add(40)).count();
    assert!(blue > 1000, "{blue} bluish pixels");
}
