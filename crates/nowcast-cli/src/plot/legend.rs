//! What each line, each band and each bar of a chart stands for.

use nowcast::forecast::{Aggregation, Distribution};

use super::candles::draw_bar_key;
use super::fan::BANDS;
use super::scene::{Paint, Point, Scene, Shape, Stroke, Text, text_width};
use super::style::{BAND, CLOSE_BAND, LABEL_SIZE, MIDDLE, PAST, POINT, QUIET_INK};
use crate::output::Answer;

/// Width and height of a key in pixels.
const KEY: (f64, f64) = (22.0, 10.0);
/// Pixels between a key and its label, and between a label and the next key.
const GAPS: (f64, f64) = (7.0, 18.0);

/// Draws the legend of an answer from a point on its baseline.
pub(super) fn draw(scene: &mut Scene, answer: &Answer, at: Point) {
    let legend = Legend { scene, at };
    if answer.markets().is_empty() { legend.series(answer) } else { legend.markets(answer) }
}

struct Legend<'a> {
    scene: &'a mut Scene,
    at: Point,
}

impl Legend<'_> {
    fn series(mut self, answer: &Answer) {
        let has_spread = !matches!(answer.series()[0].forecast().distribution(), Distribution::Mean(_));
        self.line("past", PAST);
        self.line(if has_spread { "median" } else { "mean" }, MIDDLE);
        let rule = answer.question().point;
        if has_spread && rule != Aggregation::Median {
            self.line(&rule.to_string(), POINT);
        }
        if has_spread {
            self.bands("", BAND);
        }
    }

    fn markets(mut self, answer: &Answer) {
        for (rises, name) in [(true, "up"), (false, "down")] {
            draw_bar_key(self.scene, (self.at.0 + 4.0, self.at.1), rises);
            self.label(10.0, name);
        }
        self.bands("of closes", CLOSE_BAND);
        self.text(&format!("ahead: {} of the paths", answer.question().point));
    }

    fn line(&mut self, name: &str, stroke: Stroke) {
        let (x, y) = (self.at.0, self.at.1 - 4.0);
        self.scene.line(vec![(x, y), (x + KEY.0, y)], stroke);
        self.label(KEY.0, name);
    }

    /// The bands, narrow to wide; `of` says what they hold.
    fn bands(&mut self, of: &str, paint: Paint) {
        for (depth, (name, _)) in BANDS.iter().enumerate().rev() {
            // As many layers as lie on one another in the chart.
            for _ in 0..=depth {
                self.scene.shapes.push(Shape::Rectangle { from: (self.at.0, self.at.1 - 9.0), size: KEY, paint });
            }
            let last = depth == 0 && !of.is_empty();
            self.label(KEY.0, &if last { format!("{name} {of}") } else { (*name).to_string() });
        }
    }

    /// The text of a key so many pixels wide.
    fn label(&mut self, key: f64, text: &str) {
        self.at.0 += key + GAPS.0;
        self.text(text);
    }

    fn text(&mut self, text: &str) {
        self.scene.text(Text::new(self.at, text, LABEL_SIZE, QUIET_INK));
        self.at.0 += text_width(text, LABEL_SIZE) + GAPS.1;
    }
}
