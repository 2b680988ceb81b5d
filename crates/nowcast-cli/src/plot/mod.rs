//! Charts of an answer: fans of quantile bands, one panel per series, as SVG or PNG.
//!
//! A chart is first a list of shapes. SVG is that list written down; PNG is that list painted with an embedded font.
//! Both therefore show the same, and no chart library decides how a fan looks.

mod calendar;
mod fan;
mod panel;
#[cfg(feature = "png")]
mod png;
mod scene;
mod style;
mod svg;
mod ticks;

use std::path::Path;

use nowcast::forecast::{Aggregation, Distribution};
use nowcast::{Error, Result};

pub use fan::past_shown;

use crate::output::Answer;
use fan::{BANDS, Fan};
use panel::Frame;
use scene::{Scene, Shape, Stroke, Text, shortened, text_width};
use style::{BAND, INK, LABEL_SIZE, MIDDLE, PANEL_TITLE_SIZE, PAST, POINT, QUIET_INK, TEXT_SIZE, TITLE_SIZE};

/// More panels than this help nobody.
const PANELS_AT_MOST: usize = 60;
/// Pixels around everything and between panels.
const MARGIN: f64 = 28.0;
/// Pixels from the upper edge to the panels: title, headline and legend.
const HEADER_HEIGHT: f64 = 104.0;
/// Pixels for the title of a panel.
const PANEL_TITLE_HEIGHT: f64 = 26.0;
/// Width of every chart in pixels.
const WIDTH: f64 = 960.0;

/// How a chart is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartFormat {
    /// Scalable vector graphics.
    Svg,
    /// Pixels, twice as many in each direction as the SVG has.
    #[cfg(feature = "png")]
    Png,
}

impl ChartFormat {
    /// The format a file name asks for: `.svg` or `.png`, in any case.
    ///
    /// # Errors
    /// Another ending, or `.png` in a build without the feature `png`.
    pub fn of(path: &Path) -> Result<Self> {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        match extension.as_deref() {
            Some("svg") => Ok(Self::Svg),
            #[cfg(feature = "png")]
            Some("png") => Ok(Self::Png),
            #[cfg(not(feature = "png"))]
            Some("png") => Err(Error::Setting("this build of nowcast draws no PNG: name the chart .svg".into())),
            _ => Err(Error::Setting(format!("{}: a chart is .svg or .png", path.display()))),
        }
    }
}

/// Whether a chart can show so many series.
///
/// # Errors
/// No series, or more than 60.
pub fn check_panels(count: usize) -> Result<()> {
    if (1..=PANELS_AT_MOST).contains(&count) {
        return Ok(());
    }
    Err(Error::Setting(format!("a chart shows 1 to {PANELS_AT_MOST} series, not {count}: choose some with --columns")))
}

/// Draws one panel per series.
///
/// # Errors
/// No series, or more than 60.
pub fn render(answer: &Answer, format: ChartFormat) -> Result<Vec<u8>> {
    let scene = compose(answer)?;
    match format {
        ChartFormat::Svg => Ok(svg::render(&scene).into_bytes()),
        #[cfg(feature = "png")]
        ChartFormat::Png => png::render(&scene),
    }
}

/// How panels are arranged: number of columns and height of one panel, for so many panels.
fn arrangement(panels: usize) -> (usize, f64) {
    match panels {
        1 => (1, 400.0),
        2 => (1, 270.0),
        3..=8 => (2, 250.0),
        _ => (3, 220.0),
    }
}

fn compose(answer: &Answer) -> Result<Scene> {
    let series = answer.series();
    let count = series.len();
    check_panels(count)?;
    let fans = series.iter().map(|series| Fan::new(series, answer.question().point)).collect::<Result<Vec<_>>>()?;
    let (columns, panel_height) = arrangement(count);
    let title_height = if count > 1 { PANEL_TITLE_HEIGHT } else { 0.0 };
    let rows = count.div_ceil(columns);
    let row_height = title_height + panel_height + MARGIN;
    let height = HEADER_HEIGHT + rows as f64 * row_height;
    let title = if count > 1 { format!("{count} forecasts") } else { series[0].name().to_string() };
    let mut scene = Scene {
        width: WIDTH as u32,
        height: height as u32,
        title: format!("{title}. {}", answer.headline()),
        shapes: Vec::new(),
    };
    draw_header(&mut scene, answer, &title);

    let width = (WIDTH - (columns as f64 + 1.0) * MARGIN) / columns as f64;
    for (at, (fan, series)) in fans.iter().zip(series).enumerate() {
        let left = MARGIN + (at % columns) as f64 * (width + MARGIN);
        let top = HEADER_HEIGHT + (at / columns) as f64 * row_height;
        if count > 1 {
            let name = shortened(series.name(), PANEL_TITLE_SIZE, width);
            scene.text(Text::new((left, top + 10.0), name, PANEL_TITLE_SIZE, INK).bold());
        }
        fan.draw(&mut scene, Frame { left, top: top + title_height, width, height: panel_height });
    }
    Ok(scene)
}

fn draw_header(scene: &mut Scene, answer: &Answer, title: &str) {
    let width = WIDTH - 2.0 * MARGIN;
    let title = shortened(title, TITLE_SIZE, width);
    scene.text(Text::new((MARGIN, 36.0), title, TITLE_SIZE, INK).bold());
    let headline = shortened(&answer.headline(), TEXT_SIZE, width);
    scene.text(Text::new((MARGIN, 57.0), headline, TEXT_SIZE, QUIET_INK));
    draw_legend(scene, answer, (MARGIN, 80.0));
}

/// What each line and each band stands for.
fn draw_legend(scene: &mut Scene, answer: &Answer, (mut x, y): (f64, f64)) {
    let has_spread = !matches!(answer.series()[0].forecast().distribution(), Distribution::Mean(_));
    let mut lines: Vec<(String, Stroke)> = vec![("past".into(), PAST)];
    lines.push((if has_spread { "median" } else { "mean" }.into(), MIDDLE));
    let rule = answer.question().point;
    if has_spread && rule != Aggregation::Median {
        lines.push((rule.to_string(), POINT));
    }
    let key = (22.0, 10.0);
    let label = |scene: &mut Scene, x: &mut f64, text: &str| {
        *x += key.0 + 7.0;
        scene.text(Text::new((*x, y), text, LABEL_SIZE, QUIET_INK));
        *x += text_width(text, LABEL_SIZE) + 18.0;
    };
    for (name, stroke) in lines {
        scene.line(vec![(x, y - 4.0), (x + key.0, y - 4.0)], stroke);
        label(scene, &mut x, &name);
    }
    if has_spread {
        for (depth, (name, _)) in BANDS.iter().enumerate().rev() {
            // As many layers as lie on one another in the chart.
            for _ in 0..=depth {
                scene.shapes.push(Shape::Rectangle { from: (x, y - 9.0), size: key, paint: BAND });
            }
            label(scene, &mut x, name);
        }
    }
}

#[cfg(test)]
mod tests;
