//! A scene as a PNG image.

use ab_glyph::{Font, FontRef, GlyphId, OutlineCurve};
use nowcast::{Error, Result};
use tiny_skia::{Color, FillRule, LineCap, LineJoin, Path, PathBuilder, Pixmap, Rect, StrokeDash, Transform};

use super::scene::{Anchor, Paint, Point, Scene, Shape, Stroke, Text};

/// Pixels of the image per pixel of the scene, for sharp text on fine screens.
pub(super) const SCALE: f32 = 2.0;

const REGULAR: &[u8] = include_bytes!("../../assets/inter/Inter-Regular.ttf");
const BOLD: &[u8] = include_bytes!("../../assets/inter/Inter-SemiBold.ttf");

/// Paints the scene at twice its size.
///
/// # Errors
/// A scene without area or too large for memory.
pub(super) fn render(scene: &Scene) -> Result<Vec<u8>> {
    let failed =
        |what: &dyn std::fmt::Display| Error::Setting(format!("cannot draw the chart as PNG: {what}; try SVG"));
    let size = |pixels: u32| pixels.saturating_mul(SCALE as u32);
    let image = Pixmap::new(size(scene.width), size(scene.height));
    let image = image.ok_or_else(|| failed(&format!("{} x {} pixels", size(scene.width), size(scene.height))))?;
    let font = |bytes| FontRef::try_from_slice(bytes).map_err(|error| failed(&error));
    let mut canvas = Canvas { image, regular: font(REGULAR)?, bold: font(BOLD)? };
    canvas.image.fill(Color::WHITE);
    scene.shapes.iter().for_each(|shape| canvas.draw(shape));
    canvas.image.encode_png().map_err(|error| failed(&error))
}

struct Canvas {
    image: Pixmap,
    regular: FontRef<'static>,
    bold: FontRef<'static>,
}

impl Canvas {
    fn draw(&mut self, shape: &Shape) {
        match shape {
            Shape::Rectangle { from, size, paint } => {
                let rectangle = Rect::from_xywh(from.0 as f32, from.1 as f32, size.0 as f32, size.1 as f32);
                self.fill(rectangle.map(PathBuilder::from_rect), *paint);
            }
            Shape::Circle { centre, radius, paint } => {
                self.fill(PathBuilder::from_circle(centre.0 as f32, centre.1 as f32, *radius as f32), *paint);
            }
            Shape::Line { points, stroke } => self.stroke(path(points, false), stroke),
            Shape::Area { points, paint } => self.fill(path(points, true), *paint),
            Shape::Text(text) => self.text(text),
        }
    }

    /// Fills a path; what has no area is `None` and leaves no trace.
    fn fill(&mut self, path: Option<Path>, paint: Paint) {
        if let Some(path) = path {
            self.image.fill_path(&path, &pigment(paint), FillRule::Winding, Transform::from_scale(SCALE, SCALE), None);
        }
    }

    fn stroke(&mut self, path: Option<Path>, stroke: &Stroke) {
        let Some(path) = path else { return };
        let style = tiny_skia::Stroke {
            width: stroke.width as f32,
            line_cap: LineCap::Butt,
            line_join: LineJoin::Round,
            dash: stroke.dash.and_then(|(dash, gap)| StrokeDash::new(vec![dash as f32, gap as f32], 0.0)),
            ..Default::default()
        };
        self.image.stroke_path(&path, &pigment(stroke.paint), &style, Transform::from_scale(SCALE, SCALE), None);
    }

    fn text(&mut self, text: &Text) {
        let font = if text.bold { &self.bold } else { &self.regular };
        let scale = text.size as f32 / font.units_per_em().unwrap_or(2048.0);
        let glyphs: Vec<GlyphId> = text.content.chars().map(|letter| font.glyph_id(letter)).collect();
        let width: f32 = glyphs.iter().map(|&glyph| font.h_advance_unscaled(glyph) * scale).sum();
        let mut x = text.at.0 as f32
            - match text.anchor {
                Anchor::Start => 0.0,
                Anchor::Middle => width / 2.0,
                Anchor::End => width,
            };
        let mut outlines = PathBuilder::new();
        for glyph in glyphs {
            if let Some(outline) = font.outline(glyph) {
                push_outline(&mut outlines, &outline.curves, (x, text.at.1 as f32), scale);
            }
            x += font.h_advance_unscaled(glyph) * scale;
        }
        self.fill(outlines.finish(), text.paint);
    }
}

/// Adds the contours of a glyph, given in font units with the vertical axis up, at a point of the baseline.
fn push_outline(builder: &mut PathBuilder, curves: &[OutlineCurve], origin: (f32, f32), scale: f32) {
    let place = |point: ab_glyph::Point| (origin.0 + point.x * scale, origin.1 - point.y * scale);
    let mut pen = None;
    for curve in curves {
        let (start, end) = match curve {
            OutlineCurve::Line(start, end) => (*start, *end),
            OutlineCurve::Quad(start, _, end) => (*start, *end),
            OutlineCurve::Cubic(start, _, _, end) => (*start, *end),
        };
        if pen != Some(start) {
            let (x, y) = place(start);
            builder.move_to(x, y);
        }
        let (x, y) = place(end);
        match curve {
            OutlineCurve::Line(..) => builder.line_to(x, y),
            OutlineCurve::Quad(_, control, _) => {
                let (control_x, control_y) = place(*control);
                builder.quad_to(control_x, control_y, x, y);
            }
            OutlineCurve::Cubic(_, first, second, _) => {
                let ((first_x, first_y), (second_x, second_y)) = (place(*first), place(*second));
                builder.cubic_to(first_x, first_y, second_x, second_y, x, y);
            }
        }
        pen = Some(end);
    }
}

fn path(points: &[Point], closed: bool) -> Option<Path> {
    let mut builder = PathBuilder::new();
    for (at, point) in points.iter().enumerate() {
        let (x, y) = (point.0 as f32, point.1 as f32);
        if at == 0 { builder.move_to(x, y) } else { builder.line_to(x, y) }
    }
    if closed {
        builder.close();
    }
    builder.finish()
}

fn pigment(paint: Paint) -> tiny_skia::Paint<'static> {
    let [red, green, blue] = paint.rgb;
    let mut pigment = tiny_skia::Paint { anti_alias: true, ..Default::default() };
    pigment.set_color_rgba8(red, green, blue, (paint.opacity * 255.0).round() as u8);
    pigment
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(shapes: Vec<Shape>) -> Pixmap {
        let scene = Scene { width: 40, height: 20, title: String::new(), shapes };
        Pixmap::decode_png(&render(&scene).unwrap()).unwrap()
    }

    fn rgb(image: &Pixmap, x: u32, y: u32) -> [u8; 3] {
        let pixel = image.pixel(x, y).unwrap();
        [pixel.red(), pixel.green(), pixel.blue()]
    }

    #[test]
    fn shapes_cover_their_pixels() {
        let red = Paint::opaque(255, 0, 0);
        let image = image(vec![
            Shape::Rectangle { from: (0.0, 0.0), size: (10.0, 10.0), paint: red },
            Shape::Line { points: vec![(20.0, 5.0), (40.0, 5.0)], stroke: Stroke::solid(red, 2.0) },
            Shape::Area {
                points: vec![(0.0, 12.0), (8.0, 12.0), (8.0, 20.0), (0.0, 20.0)],
                paint: red.with_opacity(0.5),
            },
        ]);
        assert_eq!((image.width(), image.height()), (80, 40));
        assert_eq!(rgb(&image, 10, 10), [255, 0, 0]);
        assert_eq!(rgb(&image, 60, 10), [255, 0, 0]);
        assert_eq!(rgb(&image, 60, 20), [255, 255, 255]);
        let [full, half, other] = rgb(&image, 8, 32);
        assert!(full == 255 && (126..=128).contains(&half) && other == half);
    }

    #[test]
    fn texts_keep_to_their_anchor() {
        let inked = |anchor| {
            let text = Text::new((20.0, 15.0), "Hé", 12.0, Paint::opaque(0, 0, 0)).anchored(anchor);
            let image = image(vec![Shape::Text(text)]);
            let dark = |x: u32| (0..40).any(|y| rgb(&image, x, y)[0] < 128);
            let columns: Vec<u32> = (0..80).filter(|&x| dark(x)).collect();
            (columns[0], columns[columns.len() - 1])
        };
        let (start, middle, end) = (inked(Anchor::Start), inked(Anchor::Middle), inked(Anchor::End));
        assert!(start.0 >= 40 && end.1 <= 40 && middle.0 < 40 && middle.1 > 40, "{start:?} {middle:?} {end:?}");
    }

    #[test]
    fn the_fonts_know_every_letter_of_a_chart() {
        for bytes in [REGULAR, BOLD] {
            let font = FontRef::try_from_slice(bytes).unwrap();
            for letter in "AZaz09.,:;%()[]-+−…·–\"'/_&@#$€£¥₿éüßñøłžΩµдя".chars() {
                assert_ne!(font.glyph_id(letter), GlyphId(0), "{letter}");
            }
        }
    }

    #[test]
    fn an_empty_sheet_is_an_error() {
        let scene = Scene { width: 0, height: 20, title: String::new(), shapes: Vec::new() };
        let message = render(&scene).unwrap_err().to_string();
        assert_eq!(message, "cannot draw the chart as PNG: 0 x 40 pixels; try SVG");
    }
}
