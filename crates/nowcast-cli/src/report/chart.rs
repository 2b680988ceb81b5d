//! Lines and bands over a common axis of time, as SVG that takes its colours from the page.

use std::fmt::Write;

use crate::plot::escaped;
use crate::plot::ticks::Ticks;

const WIDTH: f64 = 1000.0;
/// Room for labels: left of the values, below the times, above and to the right.
const MARGINS: [f64; 4] = [64.0, 22.0, 8.0, 12.0];
/// More points than this on a line are thinned out: finer than any screen shows.
const MOST_POINTS: usize = 800;

/// One line, or the upper or lower edge of a band; NaN where there is nothing.
pub(super) struct Line<'a> {
    /// Class and colour in the page's style.
    pub(super) class: &'static str,
    pub(super) colour: String,
    /// One value for each place on the axis, from `start` on.
    pub(super) values: &'a [f64],
    pub(super) start: usize,
}

/// An area between two lines of equal length.
pub(super) struct Band<'a> {
    pub(super) colour: String,
    pub(super) low: &'a [f64],
    pub(super) high: &'a [f64],
    pub(super) start: usize,
}

/// What one chart shows.
pub(super) struct Chart<'a> {
    /// What it shows, for readers who cannot see it.
    pub(super) title: String,
    pub(super) height: f64,
    /// The times along the axis, as text.
    pub(super) times: &'a [String],
    pub(super) lines: Vec<Line<'a>>,
    pub(super) bands: Vec<Band<'a>>,
    /// Where a vertical line stands.
    pub(super) mark: Option<usize>,
    /// Whether values are shares, written as percent.
    pub(super) percent: bool,
}

impl Chart<'_> {
    /// The chart as SVG.
    pub(super) fn render(&self) -> String {
        let [left, bottom, top, right] = MARGINS;
        let (low, high) = self.range();
        let places = (self.times.len().max(2) - 1) as f64;
        let x = |place: usize| left + (WIDTH - left - right) * place as f64 / places;
        let y = |value: f64| top + (self.height - top - bottom) * (high - value) / (high - low);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\"><title>{}</title>\n",
            self.height,
            escaped(&self.title)
        );
        let scale = if self.percent { 100.0 } else { 1.0 };
        let ticks = Ticks::between(low * scale, high * scale, 5);
        // Writing to a String cannot fail.
        for (value, label) in ticks.values.iter().zip(&ticks.labels) {
            let (at, unit) = (y(value / scale), if self.percent { "%" } else { "" });
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{left}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>",
                WIDTH - right
            );
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}{unit}</text>",
                left - 8.0,
                at + 4.0
            );
        }
        self.label_times(&mut svg, &x);
        for band in &self.bands {
            let upper = band.high.iter().enumerate().map(|(place, value)| (x(band.start + place), y(*value)));
            let lower = band.low.iter().enumerate().rev().map(|(place, value)| (x(band.start + place), y(*value)));
            let _ = writeln!(
                svg,
                "<polygon class=\"band\" fill=\"{}\" points=\"{}\"/>",
                band.colour,
                points(upper.chain(lower).collect())
            );
        }
        if let Some(place) = self.mark {
            let (at, end) = (x(place), self.height - bottom);
            let _ = writeln!(svg, "<line class=\"now\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{end}\"/>");
        }
        for line in &self.lines {
            let all: Vec<(f64, f64)> = thinned(line.values.len())
                .filter(|place| line.values[*place].is_finite())
                .map(|place| (x(line.start + place), y(line.values[place])))
                .collect();
            let (class, colour) = (line.class, &line.colour);
            let _ = writeln!(svg, "<polyline class=\"{class}\" style=\"stroke:{colour}\" points=\"{}\"/>", points(all));
        }
        svg + "</svg>\n"
    }

    fn label_times(&self, svg: &mut String, x: &impl Fn(usize) -> f64) {
        let last = self.times.len().saturating_sub(1);
        let labels = 4.min(last);
        for label in 0..=labels {
            let place = last * label / labels.max(1);
            let anchor = ["start", "middle", "end"][usize::from(label > 0) + usize::from(label == labels && label > 0)];
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
                x(place),
                self.height - 5.0,
                escaped(&self.times[place])
            );
        }
    }

    /// The lowest and the highest value, with some room; never an empty range.
    fn range(&self) -> (f64, f64) {
        let lines = self.lines.iter().flat_map(|line| line.values);
        let bands = self.bands.iter().flat_map(|band| band.low.iter().chain(band.high));
        let finite = || lines.clone().chain(bands.clone()).copied().filter(|value| value.is_finite());
        let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
        if low > high {
            return (0.0, 1.0);
        }
        let room = ((high - low) * 0.04).max(high.abs().max(1e-9) * 1e-3);
        (low - room, high + room)
    }
}

/// The places of a line that are drawn: all, or evenly spread ones and the last.
fn thinned(length: usize) -> impl Iterator<Item = usize> {
    let step = length.div_ceil(MOST_POINTS).max(1);
    (0..length).filter(move |place| place % step == 0 || place + 1 == length)
}

fn points(all: Vec<(f64, f64)>) -> String {
    let mut text = String::with_capacity(all.len() * 12);
    for (x, y) in all {
        let _ = write!(text, "{x:.1},{y:.1} ");
    }
    text.truncate(text.trim_end().len());
    text
}
