//! Charts of an answer: fans of quantile bands, one panel per series, or candles, one panel per market, as SVG or PNG.
//!
//! A chart is first a list of shapes. SVG is that list written down; PNG is that list painted with an embedded font.
//! Both therefore show the same, and no chart library decides how a fan looks.

mod calendar;
mod candles;
mod fan;
mod legend;
mod panel;
#[cfg(feature = "png")]
mod png;
mod scene;
mod style;
mod svg;
pub(crate) mod ticks;

use std::path::Path;

use nowcast::{Error, Result};

pub use candles::past_bars_shown;
pub use fan::past_shown;
pub(crate) use svg::escaped;

use crate::output::Answer;
use candles::CandleChart;
use fan::Fan;
use panel::Frame;
use scene::{Scene, Text, shortened};
use style::{INK, PANEL_TITLE_SIZE, QUIET_INK, TEXT_SIZE, TITLE_SIZE};

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

/// Whether a chart can show so many series or markets.
///
/// # Errors
/// None, or more than 60.
pub fn check_panels(count: usize) -> Result<()> {
    if (1..=PANELS_AT_MOST).contains(&count) {
        return Ok(());
    }
    Err(Error::Setting(format!(
        "a chart shows 1 to {PANELS_AT_MOST} series, not {count}: choose some with --columns, or give fewer files"
    )))
}

/// Draws one panel per series, or per market.
///
/// # Errors
/// No panel, or more than 60.
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

/// One panel of a chart.
enum Panel<'a> {
    Fan(Fan<'a>),
    Candles(CandleChart<'a>),
}

impl Panel<'_> {
    fn draw(&self, scene: &mut Scene, outer: Frame) {
        match self {
            Self::Fan(fan) => fan.draw(scene, outer),
            Self::Candles(chart) => chart.draw(scene, outer),
        }
    }
}

/// The panels of an answer with their names: its markets or, where there are none, its series.
fn panels(answer: &Answer) -> Result<Vec<(&str, Panel<'_>)>> {
    let markets = answer.markets();
    check_panels(if markets.is_empty() { answer.series().len() } else { markets.len() })?;
    if !markets.is_empty() {
        let panel = |market| CandleChart::new(answer, market).map(Panel::Candles);
        return markets.iter().map(|market| Ok((market.name.as_str(), panel(market)?))).collect();
    }
    let rule = answer.question().point;
    answer.series().iter().map(|series| Ok((series.name(), Panel::Fan(Fan::new(series, rule)?)))).collect()
}

fn compose(answer: &Answer) -> Result<Scene> {
    let panels = panels(answer)?;
    let count = panels.len();
    let (columns, panel_height) = arrangement(count);
    let title_height = if count > 1 { PANEL_TITLE_HEIGHT } else { 0.0 };
    let rows = count.div_ceil(columns);
    let row_height = title_height + panel_height + MARGIN;
    let height = HEADER_HEIGHT + rows as f64 * row_height;
    let title = if count > 1 { format!("{count} forecasts") } else { panels[0].0.to_string() };
    let mut scene = Scene {
        width: WIDTH as u32,
        height: height as u32,
        title: format!("{title}. {}", answer.headline()),
        shapes: Vec::new(),
    };
    draw_header(&mut scene, answer, &title);

    let width = (WIDTH - (columns as f64 + 1.0) * MARGIN) / columns as f64;
    for (at, (name, panel)) in panels.iter().enumerate() {
        let left = MARGIN + (at % columns) as f64 * (width + MARGIN);
        let top = HEADER_HEIGHT + (at / columns) as f64 * row_height;
        if count > 1 {
            let name = shortened(name, PANEL_TITLE_SIZE, width);
            scene.text(Text::new((left, top + 10.0), name, PANEL_TITLE_SIZE, INK).bold());
        }
        panel.draw(&mut scene, Frame { left, top: top + title_height, width, height: panel_height });
    }
    Ok(scene)
}

fn draw_header(scene: &mut Scene, answer: &Answer, title: &str) {
    let width = WIDTH - 2.0 * MARGIN;
    let title = shortened(title, TITLE_SIZE, width);
    scene.text(Text::new((MARGIN, 36.0), title, TITLE_SIZE, INK).bold());
    let headline = shortened(&answer.headline(), TEXT_SIZE, width);
    scene.text(Text::new((MARGIN, 57.0), headline, TEXT_SIZE, QUIET_INK));
    legend::draw(scene, answer, (MARGIN, 80.0));
}

#[cfg(test)]
mod tests;
