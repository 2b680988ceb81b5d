//! A candlestick fan chart: the bars of the past, the forecast bars over the bands of their close, and what was traded.
//!
//! Bodies are hollow where a bar closes at or above its open and solid where it closes below, so that the chart reads
//! without its colours too.

use nowcast::Result;

use super::fan::{BANDS, band};
use super::panel::{self, Axes, Frame, LABELS_HEIGHT, ValueAxis, Window};
use super::scene::{Point, Scene, Shape, Stroke, Text};
use super::style::{CLOSE_BAND, DOWN, LABEL_SIZE, NOW, PAPER, QUIET_INK, UP, VOLUME_OPACITY};
use crate::output::{Answer, Market, Timeline};

/// Part of the height that the volume takes, and pixels between it and the prices.
const VOLUME_SHARE: f64 = 0.2;
const VOLUME_GAP: f64 = 20.0;
/// Part of its room that a body takes, and the widest body in pixels.
const BODY_SHARE: f64 = 0.66;
const WIDEST_BODY: f64 = 13.0;
/// Bodies narrower than this have no room for an outline.
const NARROW_BODY: f64 = 2.6;

/// Past bars for each bar of the horizon, bars in all as long as the past does not fall short, and past bars at least.
const PAST_PER_BAR: usize = 3;
const BARS_AT_MOST: usize = 240;
const PAST_AT_LEAST: usize = 72;

/// How many past bars a chart of this horizon shows of a market, if there are as many.
pub fn past_bars_shown(horizon: usize) -> usize {
    horizon.saturating_mul(PAST_PER_BAR).min(BARS_AT_MOST.saturating_sub(horizon)).max(PAST_AT_LEAST)
}

/// One bar.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bar {
    open: f64,
    high: f64,
    low: f64,
    close: f64,
    volume: f64,
}

/// What the chart of one market shows, in numbers.
#[derive(Debug)]
pub(super) struct CandleChart<'a> {
    timeline: &'a Timeline,
    /// Steps of the timeline before those shown.
    first: usize,
    past: Vec<Bar>,
    future: Vec<Bar>,
    /// Lower and upper ends of the close for each of the [`BANDS`].
    bands: Vec<[Vec<f64>; 2]>,
    /// The volume between its quantiles 0.1 and 0.9, `[lower, upper]`.
    volumes: [Vec<f64>; 2],
}

impl<'a> CandleChart<'a> {
    /// Gathers the numbers of a market.
    pub(super) fn new(answer: &'a Answer, market: &Market) -> Result<Self> {
        let fields = answer.fields(market);
        let [close, volume] = [3, 4].map(|field| fields[field].forecast());
        let history = fields[0].history().len();
        let first = history - past_bars_shown(fields[0].horizon()).min(history);
        let bar = |of: &dyn Fn(usize) -> f64| {
            let [open, high, low, close, volume] = std::array::from_fn(of);
            Bar { open, high, low, close, volume }
        };
        let past = (first..history).map(|step| bar(&|field| f64::from(fields[field].history()[step]))).collect();
        let future = (0..fields[0].horizon()).map(|step| bar(&|field| fields[field].point()[step])).collect();
        let levels: Vec<f64> = BANDS.iter().flat_map(|(_, ends)| *ends).collect();
        let mut quantiles = close.quantiles(&levels)?.into_iter();
        let mut bands = Vec::with_capacity(BANDS.len());
        while let (Some(lower), Some(upper)) = (quantiles.next(), quantiles.next()) {
            bands.push([lower, upper]);
        }
        let volumes = [volume.quantile(0.1)?, volume.quantile(0.9)?];
        Ok(Self { timeline: fields[0].timeline(), first, past, future, bands, volumes })
    }

    /// Draws prices and volume into `outer`.
    pub(super) fn draw(&self, scene: &mut Scene, outer: Frame) {
        let window = Window { timeline: self.timeline, first: self.first };
        let height = outer.height - LABELS_HEIGHT;
        let traded = self.highest_volume();
        let volume_height = if traded > 0.0 { height * VOLUME_SHARE } else { 0.0 };
        let price_height = if traded > 0.0 { height - volume_height - VOLUME_GAP } else { height };
        let prices = ValueAxis::around(self.price_range(), price_height);
        let volumes = ValueAxis::from_zero(traded.max(1.0), volume_height);
        let labels = prices.label_width().max(if traded > 0.0 { volumes.label_width() } else { 0.0 });
        let left = outer.left + labels;
        let frame = |top: f64, height: f64| Frame { left, top, width: outer.right() - left, height };

        let axes = panel::draw_frame(scene, frame(outer.top, price_height), window, &prices);
        self.draw_now(scene, &axes);
        self.draw_prices(scene, &axes);
        if traded > 0.0 {
            let top = outer.top + price_height + VOLUME_GAP;
            let axes = panel::draw_frame(scene, frame(top, volume_height), window, &volumes);
            scene.text(Text::new((left, top - 3.0), "volume", LABEL_SIZE, QUIET_INK));
            self.draw_now(scene, &axes);
            self.draw_volumes(scene, &axes);
            panel::draw_times(scene, &axes, window);
        } else {
            panel::draw_times(scene, &axes, window);
        }
    }

    /// The line between the past and the future.
    fn draw_now(&self, scene: &mut Scene, axes: &Axes) {
        if !self.past.is_empty() {
            let now = axes.x_before(self.past.len());
            scene.line(vec![(now, axes.frame.top), (now, axes.frame.bottom())], NOW);
        }
    }

    fn draw_prices(&self, scene: &mut Scene, axes: &Axes) {
        // The fan opens where the past ends.
        let (start, close): (usize, Vec<f64>) = match self.past.last() {
            Some(last) => (self.past.len() - 1, vec![last.close]),
            None => (0, Vec::new()),
        };
        for [lower, upper] in &self.bands {
            let [lower, upper] = [lower, upper].map(|ends| [close.as_slice(), ends].concat());
            scene.shapes.push(band(axes, start, &lower, &upper, CLOSE_BAND));
        }
        for (step, bar) in self.past.iter().chain(&self.future).enumerate() {
            draw_bar(scene, axes, step, bar);
        }
    }

    fn draw_volumes(&self, scene: &mut Scene, axes: &Axes) {
        let width = body_width(axes);
        for (step, bar) in self.past.iter().chain(&self.future).enumerate() {
            let opacity = VOLUME_OPACITY[usize::from(step >= self.past.len())];
            let from = (axes.x(step) - width / 2.0, axes.y(bar.volume.max(0.0)));
            let size = (width, axes.frame.bottom() - from.1);
            scene.shapes.push(Shape::Rectangle { from, size, paint: paint(bar).with_opacity(opacity) });
        }
        if width < NARROW_BODY {
            return;
        }
        let [lower, upper] = &self.volumes;
        for (step, (bar, (lower, upper))) in self.future.iter().zip(lower.iter().zip(upper)).enumerate() {
            let x = axes.x(self.past.len() + step);
            let ends = [lower, upper].map(|end| (x, axes.y(end.max(0.0))));
            scene.line(ends.to_vec(), Stroke::solid(paint(bar), 1.0));
        }
    }

    fn price_range(&self) -> (f64, f64) {
        let bars = self.past.iter().chain(&self.future);
        let prices = bars.flat_map(|bar| [bar.open, bar.high, bar.low, bar.close]);
        let shown = prices.chain(self.bands.iter().flatten().flatten().copied());
        shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    }

    /// The highest volume shown; zero where the past has none, and the model gives back the noise of nothing.
    fn highest_volume(&self) -> f64 {
        if !self.past.is_empty() && self.past.iter().all(|bar| bar.volume == 0.0) {
            return 0.0;
        }
        let bars = self.past.iter().chain(&self.future).map(|bar| bar.volume);
        bars.chain(self.volumes[1].iter().copied()).fold(0.0, f64::max)
    }
}

/// A bar as a key of the legend, its baseline at a point.
pub(super) fn draw_bar_key(scene: &mut Scene, (x, y): Point, rises: bool) {
    let (open, close) = if rises { (0.0, 1.0) } else { (1.0, 0.0) };
    let bar = Bar { open, high: 1.6, low: -0.6, close, volume: 0.0 };
    let height = |value: f64| y - 1.5 - value * 5.0;
    draw_body(scene, x, 6.0, &bar, height);
}

fn draw_bar(scene: &mut Scene, axes: &Axes, step: usize, bar: &Bar) {
    draw_body(scene, axes.x(step), body_width(axes), bar, |value| axes.y(value));
}

/// Wick and body; `y` places a price.
fn draw_body(scene: &mut Scene, x: f64, width: f64, bar: &Bar, y: impl Fn(f64) -> f64) {
    let paint = paint(bar);
    let stroke = Stroke::solid(paint, (width * 0.5).clamp(0.4, 1.1));
    let (top, bottom) = (y(bar.open.max(bar.close)), y(bar.open.min(bar.close)));
    // Sampled bars may contradict themselves: their wick reaches from what they call low to what they call high.
    let (highest, lowest) = (y(bar.high.max(bar.low)), y(bar.low.min(bar.high)));
    if highest < top {
        scene.line(vec![(x, highest), (x, top)], stroke);
    }
    if lowest > bottom {
        scene.line(vec![(x, bottom), (x, lowest)], stroke);
    }
    let (left, right) = (x - width / 2.0, x + width / 2.0);
    if bottom - top < 1.0 {
        // Open and close are one: a dash.
        let middle = (top + bottom) / 2.0;
        scene.line(vec![(left, middle), (right, middle)], stroke);
        return;
    }
    let from = (left, top);
    let size = (width, bottom - top);
    if bar.close < bar.open || width < NARROW_BODY {
        scene.shapes.push(Shape::Rectangle { from, size, paint });
        return;
    }
    scene.shapes.push(Shape::Rectangle { from, size, paint: PAPER });
    scene.line(vec![(left, top), (right, top), (right, bottom), (left, bottom), (left, top)], stroke);
}

fn body_width(axes: &Axes) -> f64 {
    (axes.pitch() * BODY_SHARE).min(WIDEST_BODY)
}

fn paint(bar: &Bar) -> super::scene::Paint {
    if bar.close < bar.open { DOWN } else { UP }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_is_long_beside_a_short_horizon_only() {
        for (horizon, shown) in [(1, 72), (24, 72), (40, 120), (60, 180), (100, 140), (200, 72), (usize::MAX, 72)] {
            assert_eq!(past_bars_shown(horizon), shown, "{horizon}");
        }
    }

    #[test]
    fn bars_that_contradict_themselves_are_drawn() {
        let mut scene = Scene { width: 20, height: 20, title: String::new(), shapes: Vec::new() };
        let bar = Bar { open: 2.0, high: 1.0, low: 5.0, close: 3.0, volume: -1.0 };
        draw_body(&mut scene, 10.0, 6.0, &bar, |price| 20.0 - 2.0 * price);
        // A hollow body from 2 to 3 with its outline, and wicks up to 5 and down to 1.
        let lines: Vec<&Vec<Point>> = scene
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Line { points, .. } => Some(points),
                _ => None,
            })
            .collect();
        assert_eq!(lines[0], &[(10.0, 10.0), (10.0, 14.0)]);
        assert_eq!(lines[1], &[(10.0, 16.0), (10.0, 18.0)]);
        assert_eq!(lines[2].len(), 5);
    }

    #[test]
    fn bodies_are_hollow_up_solid_down_and_a_dash_in_between() {
        let shapes = |open: f64, close: f64, width: f64| {
            let mut scene = Scene { width: 20, height: 20, title: String::new(), shapes: Vec::new() };
            let bar = Bar { open, high: 2.0, low: 1.0, close, volume: 0.0 };
            draw_body(&mut scene, 10.0, width, &bar, |price| 20.0 - 8.0 * price);
            scene.shapes
        };
        let fills = |shapes: &[Shape]| -> Vec<_> {
            shapes
                .iter()
                .filter_map(|shape| if let Shape::Rectangle { paint, .. } = shape { Some(*paint) } else { None })
                .collect()
        };
        assert_eq!(fills(&shapes(1.0, 2.0, 6.0)), [PAPER]);
        assert_eq!(fills(&shapes(2.0, 1.0, 6.0)), [DOWN]);
        assert_eq!(fills(&shapes(1.0, 2.0, 1.0)), [UP]);
        assert_eq!(fills(&shapes(1.5, 1.5, 6.0)), []);
    }
}
