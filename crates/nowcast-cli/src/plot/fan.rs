//! A fan chart: the recent past as a line, the forecast as its median within bands that widen with the uncertainty.

use nowcast::Result;
use nowcast::forecast::{Aggregation, Distribution};

use super::panel::{self, Axes, Frame, Window};
use super::scene::{Paint, Scene, Shape};
use super::style::{BAND, MIDDLE, NOW, PAST, POINT};
use crate::output::SeriesAnswer;

/// The bands, wide to narrow: what share of the future each holds, and the levels it lies between.
pub(super) const BANDS: [(&str, [f64; 2]); 3] = [("95%", [0.025, 0.975]), ("80%", [0.1, 0.9]), ("50%", [0.25, 0.75])];

/// Past values shown for each step of the horizon, and how many at least.
const PAST_PER_STEP: usize = 3;
const PAST_AT_LEAST: usize = 72;

/// How many past values a chart of this horizon shows, if there are as many.
pub fn past_shown(horizon: usize) -> usize {
    horizon.saturating_mul(PAST_PER_STEP).max(PAST_AT_LEAST)
}

/// What one panel shows, in numbers: all that is needed before the first line is drawn.
#[derive(Debug)]
pub(super) struct Fan<'a> {
    series: &'a SeriesAnswer,
    past: Vec<f64>,
    /// Median or, of a mean path, that path.
    middle: Vec<f64>,
    /// Lower and upper ends of the [`BANDS`]; none for a mean path.
    bands: Vec<[Vec<f64>; 2]>,
    /// The point forecast, where it is not the middle.
    point: Option<&'a [f64]>,
}

impl<'a> Fan<'a> {
    /// Gathers the numbers; `rule` is the one behind the point forecast of the series.
    pub(super) fn new(series: &'a SeriesAnswer, rule: Aggregation) -> Result<Self> {
        let forecast = series.forecast();
        let shown = past_shown(series.horizon()).min(series.history().len());
        let past = series.history()[series.history().len() - shown..].iter().copied().map(f64::from).collect();
        let (mut middle, mut bands) = (forecast.median(), Vec::new());
        let has_spread = !matches!(forecast.distribution(), Distribution::Mean(_));
        if has_spread {
            let levels: Vec<f64> = std::iter::once(0.5).chain(BANDS.iter().flat_map(|(_, ends)| *ends)).collect();
            let mut quantiles = forecast.quantiles(&levels)?.into_iter();
            middle = quantiles.next().unwrap_or(middle);
            while let (Some(lower), Some(upper)) = (quantiles.next(), quantiles.next()) {
                bands.push([lower, upper]);
            }
        }
        let point = (has_spread && rule != Aggregation::Median).then(|| series.point());
        Ok(Self { series, past, middle, bands, point })
    }

    /// Draws the panel into `outer`.
    pub(super) fn draw(&self, scene: &mut Scene, outer: Frame) {
        let timeline = self.series.timeline();
        let window = Window { timeline, first: self.series.history().len() - self.past.len() };
        let axes = panel::draw(scene, outer, window, self.range());
        if let Some(last) = self.past.len().checked_sub(1) {
            let now = axes.x(last);
            scene.line(vec![(now, axes.frame.top), (now, axes.frame.bottom())], NOW);
        }
        for [lower, upper] in &self.bands {
            let (left, lower) = self.joined(lower);
            let (_, upper) = self.joined(upper);
            scene.shapes.push(band(&axes, left, &lower, &upper, BAND));
        }
        panel::draw_line(scene, &axes, 0, &self.past, PAST);
        let (left, middle) = self.joined(&self.middle);
        panel::draw_line(scene, &axes, left, &middle, MIDDLE);
        if let Some(point) = self.point {
            let (left, point) = self.joined(point);
            panel::draw_line(scene, &axes, left, &point, POINT);
        }
    }

    /// Future values, and before them the last past value where it is known: the fan opens where the past ends.
    fn joined(&self, future: &[f64]) -> (usize, Vec<f64>) {
        match self.past.last() {
            Some(last) if last.is_finite() => (self.past.len() - 1, [&[*last], future].concat()),
            _ => (self.past.len(), future.to_vec()),
        }
    }

    /// Lowest and highest of all that is drawn.
    fn range(&self) -> (f64, f64) {
        let future = self.middle.iter().chain(self.bands.iter().flatten().flatten());
        let point = self.point.into_iter().flatten();
        let shown = self.past.iter().chain(future).chain(point).copied().filter(|value| value.is_finite());
        shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    }
}

/// The area between two lines from a step on; a single step is given the width of its room.
pub(super) fn band(axes: &Axes, first: usize, lower: &[f64], upper: &[f64], paint: Paint) -> Shape {
    let line = |values: &[f64]| -> Vec<_> {
        match values {
            [value] => [axes.x_before(first), axes.x_before(first + 1)].map(|x| (x, axes.y(*value))).to_vec(),
            _ => values.iter().enumerate().map(|(step, &value)| axes.point(first + step, value)).collect(),
        }
    };
    let mut points = line(upper);
    points.extend(line(lower).into_iter().rev());
    Shape::Area { points, paint }
}
