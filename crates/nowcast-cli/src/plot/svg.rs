//! A scene as an SVG document.

use std::fmt::Write;

use super::scene::{Anchor, Paint, Point, Scene, Shape, Stroke, Text};

/// The charts' own font where it is installed, else the reader's usual one.
const FONTS: &str = "Inter, 'Segoe UI', 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif";

/// Writes the scene as a document of its own; coordinates are rounded to hundredths of a pixel.
pub(super) fn render(scene: &Scene) -> String {
    let (width, height) = (scene.width, scene.height);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"{FONTS}\">\n<title>{}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
        escaped(&scene.title)
    );
    for shape in &scene.shapes {
        push_shape(&mut svg, shape);
    }
    svg.push_str("</svg>\n");
    svg
}

fn push_shape(svg: &mut String, shape: &Shape) {
    // Writing to a String cannot fail.
    let _ = match shape {
        Shape::Rectangle { from, size, paint } => writeln!(
            svg,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>",
            number(from.0),
            number(from.1),
            number(size.0),
            number(size.1),
            fill(*paint)
        ),
        Shape::Circle { centre, radius, paint } => writeln!(
            svg,
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\"{}/>",
            number(centre.0),
            number(centre.1),
            number(*radius),
            fill(*paint)
        ),
        Shape::Line { points, stroke } => {
            writeln!(svg, "<polyline points=\"{}\" fill=\"none\"{}/>", joined(points), line(stroke))
        }
        Shape::Area { points, paint } => writeln!(svg, "<polygon points=\"{}\"{}/>", joined(points), fill(*paint)),
        Shape::Text(text) => push_text(svg, text),
    };
}

fn push_text(svg: &mut String, text: &Text) -> std::fmt::Result {
    let anchor = match text.anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let weight = if text.bold { " font-weight=\"600\"" } else { "" };
    writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{weight}{anchor}{}>{}</text>",
        number(text.at.0),
        number(text.at.1),
        number(text.size),
        fill(text.paint),
        escaped(&text.content)
    )
}

fn fill(paint: Paint) -> String {
    let [red, green, blue] = paint.rgb;
    match paint.opacity {
        1.0 => format!(" fill=\"#{red:02x}{green:02x}{blue:02x}\""),
        opacity => format!(" fill=\"#{red:02x}{green:02x}{blue:02x}\" fill-opacity=\"{opacity}\""),
    }
}

fn line(stroke: &Stroke) -> String {
    let mut attributes = fill(stroke.paint).replace("fill", "stroke");
    let _ = write!(attributes, " stroke-width=\"{}\" stroke-linejoin=\"round\"", number(stroke.width));
    if let Some((dash, gap)) = stroke.dash {
        let _ = write!(attributes, " stroke-dasharray=\"{} {}\"", number(dash), number(gap));
    }
    attributes
}

fn joined(points: &[Point]) -> String {
    let mut text = String::with_capacity(points.len() * 14);
    for (x, y) in points {
        let _ = write!(text, "{}{},{}", if text.is_empty() { "" } else { " " }, number(*x), number(*y));
    }
    text
}

/// At most two decimals, and none that are zero.
fn number(value: f64) -> f64 {
    // Adding zero turns a negative zero into a positive one.
    (value * 100.0).round() / 100.0 + 0.0
}

/// Text that XML can hold: markup escaped, characters XML forbids replaced.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\t' | '\n' | '\r' => safe.push(' '),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            _ => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_has_its_element() {
        let grey = Paint::opaque(0x80, 0x80, 0x80);
        let dashed = Stroke { dash: Some((4.0, 3.0)), ..Stroke::solid(grey, 1.5) };
        let scene = Scene {
            width: 100,
            height: 50,
            title: "a < b".into(),
            shapes: vec![
                Shape::Rectangle { from: (1.0, 2.0), size: (3.0, 4.125), paint: grey.with_opacity(0.5) },
                Shape::Circle { centre: (5.0, 6.0), radius: 2.0, paint: grey },
                Shape::Line { points: vec![(0.0, -0.001), (1.0, 2.346)], stroke: dashed },
                Shape::Area { points: vec![(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)], paint: grey },
                Shape::Text(Text::new((1.0, 9.0), "A & \"B\"\u{1}", 11.0, grey).bold().anchored(Anchor::End)),
            ],
        };
        let expected = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="100" height="50" viewBox="0 0 100 50" role="img" font-family="{FONTS}">
<title>a &lt; b</title>
<rect width="100" height="50" fill="#ffffff"/>
<rect x="1" y="2" width="3" height="4.13" fill="#808080" fill-opacity="0.5"/>
<circle cx="5" cy="6" r="2" fill="#808080"/>
<polyline points="0,0 1,2.35" fill="none" stroke="#808080" stroke-width="1.5" stroke-linejoin="round" stroke-dasharray="4 3"/>
<polygon points="0,0 1,0 0,1" fill="#808080"/>
<text x="1" y="9" font-size="11" font-weight="600" text-anchor="end" fill="#808080">A &amp; &quot;B&quot;{}</text>
</svg>
"##,
            '\u{fffd}'
        );
        let svg = render(&scene);
        assert_eq!(svg, expected);
        assert_eq!(roxmltree::Document::parse(&svg).unwrap().root_element().children().count(), 15);
    }
}
