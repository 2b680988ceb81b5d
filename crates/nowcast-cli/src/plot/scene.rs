//! A drawing as a list of shapes, and the two ways to write it down.

/// An opaque colour and how much of it covers what lies below.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Paint {
    /// Red, green and blue, 0 to 255.
    pub(super) rgb: [u8; 3],
    /// 0 (invisible) to 1 (opaque).
    pub(super) opacity: f32,
}

impl Paint {
    pub(super) const fn opaque(red: u8, green: u8, blue: u8) -> Self {
        Self { rgb: [red, green, blue], opacity: 1.0 }
    }

    pub(super) const fn with_opacity(self, opacity: f32) -> Self {
        Self { opacity, ..self }
    }
}

/// A point in pixels from the upper left corner.
pub(super) type Point = (f64, f64);

/// Which point of a text its position names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// One line of text; the position is on its baseline.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Text {
    pub(super) at: Point,
    pub(super) content: String,
    pub(super) size: f64,
    pub(super) bold: bool,
    pub(super) anchor: Anchor,
    pub(super) paint: Paint,
}

impl Text {
    /// Regular text that starts at a point.
    pub(super) fn new(at: Point, content: impl Into<String>, size: f64, paint: Paint) -> Self {
        Self { at, content: content.into(), size, bold: false, anchor: Anchor::Start, paint }
    }

    pub(super) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(super) fn anchored(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stroke {
    pub(super) paint: Paint,
    pub(super) width: f64,
    /// Lengths of dash and gap; `None` for a solid line.
    pub(super) dash: Option<(f64, f64)>,
}

impl Stroke {
    pub(super) const fn solid(paint: Paint, width: f64) -> Self {
        Self { paint, width, dash: None }
    }
}

/// One thing to draw.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Rectangle {
        from: Point,
        size: (f64, f64),
        paint: Paint,
    },
    Circle {
        centre: Point,
        radius: f64,
        paint: Paint,
    },
    /// An open line through at least two points.
    Line {
        points: Vec<Point>,
        stroke: Stroke,
    },
    /// A filled area within a closed line through at least three points.
    Area {
        points: Vec<Point>,
        paint: Paint,
    },
    Text(Text),
}

/// Shapes in the order they are painted, on a white sheet of whole pixels.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scene {
    pub(super) width: u32,
    pub(super) height: u32,
    /// What the drawing shows, for readers who cannot see it.
    pub(super) title: String,
    pub(super) shapes: Vec<Shape>,
}

impl Scene {
    pub(super) fn text(&mut self, text: Text) {
        self.shapes.push(Shape::Text(text));
    }

    pub(super) fn line(&mut self, points: Vec<Point>, stroke: Stroke) {
        self.shapes.push(Shape::Line { points, stroke });
    }
}

/// A generous width of a text in pixels: what the charts' own font needs, and more than most others do.
pub(super) fn text_width(content: &str, size: f64) -> f64 {
    let ems = content.chars().map(|letter| match letter {
        ' ' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | 'i' | 'l' | 'I' | 'j' => 0.30,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.98,
        'A'..='Z' => 0.74,
        '0'..='9' => 0.645,
        'a'..='z' | '-' => 0.60,
        '\u{0}'..='\u{4ff}' => 0.75,
        _ => 1.0,
    });
    ems.sum::<f64>() * size
}

/// The text itself or, where it is wider than `width` pixels, its beginning and an ellipsis.
pub(super) fn shortened(content: &str, size: f64, width: f64) -> String {
    if text_width(content, size) <= width {
        return content.to_string();
    }
    let mut kept = String::new();
    for letter in content.chars() {
        kept.push(letter);
        if text_width(&kept, size) + size > width {
            kept.pop();
            break;
        }
    }
    kept.truncate(kept.trim_end().len());
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_end_in_an_ellipsis() {
        assert_eq!(shortened("close", 12.0, 100.0), "close");
        let name = "a very long name of a very long series";
        let short = shortened(name, 12.0, 100.0);
        assert!(short.ends_with('…') && name.starts_with(short.trim_end_matches('…')), "{short}");
        assert!(text_width(&short, 12.0) <= 100.0 + 12.0);
        assert_eq!(shortened("名前", 12.0, 0.0), "…");
    }
}
