//! One panel: a frame with a time axis and an axis of values. What is drawn inside knows only [`Axes`].

use jiff::civil::DateTime;
use nowcast::data::Stamp;

use super::calendar::{self, Mark};
use super::scene::{Anchor, Point, Scene, Shape, Text, text_width};
use super::style::{AXIS, GRID, INK, LABEL_SIZE, QUIET_INK};
use super::ticks::Ticks;
use crate::output::Timeline;

/// Pixels between two grid lines, at least.
const GRID_PITCH: f64 = 36.0;
/// Pixels below the frame: two lines of labels.
pub(super) const LABELS_HEIGHT: f64 = 38.0;
/// Pixels between a label of a value and the frame.
const LABEL_GAP: f64 = 8.0;

/// A rectangle in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Frame {
    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// The steps of time that a panel shows: those of a time axis from `first` on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window<'a> {
    pub(super) timeline: &'a Timeline,
    pub(super) first: usize,
}

impl Window<'_> {
    pub(super) fn steps(&self) -> usize {
        self.timeline.len() - self.first
    }
}

/// Where a time step and a value are in pixels.
///
/// Every step takes the same room, whatever the clock says: a model sees steps, and markets close at night.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axes {
    pub(super) frame: Frame,
    steps: usize,
    low: f64,
    high: f64,
}

impl Axes {
    /// Pixels between two steps.
    pub(super) fn pitch(&self) -> f64 {
        self.frame.width / self.steps as f64
    }

    /// The middle of a step's room.
    pub(super) fn x(&self, step: usize) -> f64 {
        self.frame.left + (step as f64 + 0.5) * self.pitch()
    }

    /// The boundary before a step.
    pub(super) fn x_before(&self, step: usize) -> f64 {
        self.frame.left + step as f64 * self.pitch()
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.frame.bottom() - (value - self.low) / (self.high - self.low) * self.frame.height
    }

    pub(super) fn point(&self, step: usize, value: f64) -> Point {
        (self.x(step), self.y(value))
    }
}

/// The values that a panel shows and the round numbers among them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ValueAxis {
    low: f64,
    high: f64,
    ticks: Ticks,
}

impl ValueAxis {
    /// From the lowest to the highest value, and a little room beyond, on so many pixels.
    pub(super) fn around(range: (f64, f64), height: f64) -> Self {
        let (low, high) = with_room(range);
        Self::new(low, high, height)
    }

    /// From zero to a little above the highest value.
    pub(super) fn from_zero(high: f64, height: f64) -> Self {
        Self::new(0.0, with_room((0.0, high)).1, height)
    }

    fn new(low: f64, high: f64, height: f64) -> Self {
        Self { low, high, ticks: Ticks::between(low, high, ((height / GRID_PITCH) as usize).max(2)) }
    }

    /// Pixels that the labels take beside the frame.
    pub(super) fn label_width(&self) -> f64 {
        self.ticks.labels.iter().map(|label| text_width(label, LABEL_SIZE)).fold(0.0, f64::max) + LABEL_GAP
    }
}

/// Draws grid, axes and their labels into `outer` and returns where things are.
///
/// `range` is the lowest and highest value to show; some room is added to it.
pub(super) fn draw(scene: &mut Scene, outer: Frame, window: Window<'_>, range: (f64, f64)) -> Axes {
    let height = outer.height - LABELS_HEIGHT;
    let values = ValueAxis::around(range, height);
    let left = outer.left + values.label_width();
    let axes = draw_frame(scene, Frame { left, top: outer.top, width: outer.right() - left, height }, window, &values);
    draw_times(scene, &axes, window);
    axes
}

/// Draws the grid and the labels of the values, without a time axis.
pub(super) fn draw_frame(scene: &mut Scene, frame: Frame, window: Window<'_>, values: &ValueAxis) -> Axes {
    let axes = Axes { frame, steps: window.steps(), low: values.low, high: values.high };
    for (&value, label) in values.ticks.values.iter().zip(&values.ticks.labels) {
        let y = axes.y(value);
        scene.line(vec![(frame.left, y), (frame.right(), y)], GRID);
        let at = (frame.left - LABEL_GAP, y + LABEL_SIZE * 0.36);
        scene.text(Text::new(at, label.as_str(), LABEL_SIZE, QUIET_INK).anchored(Anchor::End));
    }
    axes
}

/// Draws the time axis below a frame.
pub(super) fn draw_times(scene: &mut Scene, axes: &Axes, window: Window<'_>) {
    draw_marks(scene, axes, &marks(window, axes.pitch()));
}

/// The range with a little room on both sides; a range without width gets one.
fn with_room((low, high): (f64, f64)) -> (f64, f64) {
    let largest = low.abs().max(high.abs());
    let width = high - low;
    let room = match width > largest * 1e-9 {
        true => width * 0.05,
        false if largest > 0.0 => largest * 0.05,
        false => 1.0,
    };
    (low - room, high + room)
}

fn marks(window: Window<'_>, pitch: f64) -> Vec<Mark> {
    match window.timeline {
        Timeline::Dated { stamps, .. } => {
            let clocks: Vec<DateTime> = stamps[window.first..].iter().map(Stamp::clock).collect();
            calendar::marks(&clocks, pitch, LABEL_SIZE)
        }
        Timeline::Numbered(numbers) => {
            let first = numbers.start as f64 + window.first as f64;
            let last = first + window.steps() as f64 - 1.0;
            let widest = text_width(&format!("{last:.0}"), LABEL_SIZE).max(30.0);
            let room = (pitch * window.steps() as f64 / (widest * 2.0)) as usize;
            let ticks = Ticks::whole_between(first, last, room);
            let mark = |(&value, label): (&f64, String)| Mark { step: (value - first) as usize, label, context: None };
            ticks.values.iter().zip(ticks.labels.clone()).map(mark).collect()
        }
    }
}

fn draw_marks(scene: &mut Scene, axes: &Axes, marks: &[Mark]) {
    let frame = axes.frame;
    scene.line(vec![(frame.left, frame.bottom()), (frame.right(), frame.bottom())], AXIS);
    for mark in marks {
        let x = axes.x(mark.step);
        scene.line(vec![(x, frame.bottom()), (x, frame.bottom() + 4.0)], AXIS);
        let lines = [(Some(&mark.label), QUIET_INK), (mark.context.as_ref(), INK)];
        for (row, (text, paint)) in lines.into_iter().enumerate() {
            let Some(text) = text else { continue };
            // A label at the edge moves inwards rather than leave the sheet.
            let half = text_width(text, LABEL_SIZE) / 2.0;
            let x = x.min(frame.right() - half + 8.0).max(frame.left + half - 8.0);
            let y = frame.bottom() + 17.0 + row as f64 * 15.0;
            scene.text(Text::new((x, y), text.as_str(), LABEL_SIZE, paint).anchored(Anchor::Middle));
        }
    }
}

/// Draws values from a step on; NaN interrupts the line, and a value alone between gaps becomes a dot.
pub(super) fn draw_line(scene: &mut Scene, axes: &Axes, first: usize, values: &[f64], stroke: super::scene::Stroke) {
    let mut run: Vec<Point> = Vec::new();
    for (step, value) in values.iter().copied().chain([f64::NAN]).enumerate() {
        if value.is_finite() {
            run.push(axes.point(first + step, value));
            continue;
        }
        match std::mem::take(&mut run) {
            points if points.len() > 1 => scene.line(points, stroke),
            points => points.into_iter().for_each(|centre| {
                scene.shapes.push(Shape::Circle { centre, radius: stroke.width * 1.2, paint: stroke.paint });
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::style::PAST;
    use super::*;

    fn empty() -> Scene {
        Scene { width: 400, height: 300, title: String::new(), shapes: Vec::new() }
    }

    const OUTER: Frame = Frame { left: 10.0, top: 10.0, width: 380.0, height: 280.0 };

    #[test]
    fn values_and_steps_lie_inside_the_frame() {
        let timeline = Timeline::Numbered(0..20);
        let mut scene = empty();
        let axes = draw(&mut scene, OUTER, Window { timeline: &timeline, first: 5 }, (-3.0, 8.0));
        for step in 0..15 {
            assert!(axes.frame.left < axes.x(step) && axes.x(step) < axes.frame.right());
        }
        assert!(axes.frame.top < axes.y(8.0) && axes.y(8.0) < axes.y(-3.0) && axes.y(-3.0) < axes.frame.bottom());
        let texts = scene.shapes.iter().filter(|shape| matches!(shape, Shape::Text(_))).count();
        assert!(texts >= 6, "{scene:?}");
    }

    #[test]
    fn constants_and_extremes_have_axes() {
        let timeline = Timeline::Numbered(0..2);
        for range in [(0.0, 0.0), (7.0, 7.0), (-3e38, 3e38), (1e-40, 2e-40), (1e8, 1e8 + 1e-7)] {
            let mut scene = empty();
            let axes = draw(&mut scene, OUTER, Window { timeline: &timeline, first: 0 }, range);
            assert!(axes.y(range.0).is_finite() && axes.y(range.1).is_finite());
            let labels = scene.shapes.iter().filter(|shape| matches!(shape, Shape::Text(_))).count();
            assert!((3..40).contains(&labels), "{range:?}: {labels}");
        }
    }

    #[test]
    fn gaps_interrupt_a_line() {
        let timeline = Timeline::Numbered(0..7);
        let mut scene = empty();
        let axes = draw(&mut scene, OUTER, Window { timeline: &timeline, first: 0 }, (0.0, 1.0));
        scene.shapes.clear();
        draw_line(&mut scene, &axes, 0, &[0.0, 1.0, f64::NAN, 0.5, f64::NAN, 0.0, 1.0], PAST);
        assert!(
            matches!(
                scene.shapes.as_slice(),
                [Shape::Line { points: first, .. }, Shape::Circle { .. }, Shape::Line { points: second, .. }]
                    if first.len() == 2 && second.len() == 2
            ),
            "{scene:?}"
        );
    }
}
