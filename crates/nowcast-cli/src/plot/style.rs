//! Colours and sizes of all charts. Blue and vermilion are told apart by colour-blind readers (Okabe and Ito).

use super::scene::{Paint, Stroke};

/// Titles and labels that must be read first.
pub(super) const INK: Paint = Paint::opaque(0x1f, 0x23, 0x28);
/// Labels that may be read later.
pub(super) const QUIET_INK: Paint = Paint::opaque(0x5f, 0x66, 0x6d);
/// Lines that only guide the eye.
pub(super) const GRID: Stroke = Stroke::solid(Paint::opaque(0xe7, 0xe9, 0xec), 1.0);
/// The time axis.
pub(super) const AXIS: Stroke = Stroke::solid(Paint::opaque(0xa3, 0xa9, 0xb0), 1.0);
/// Where the past ends.
pub(super) const NOW: Stroke = Stroke { paint: Paint::opaque(0xa3, 0xa9, 0xb0), width: 1.0, dash: Some((3.0, 3.0)) };
/// What was observed.
pub(super) const PAST: Stroke = Stroke::solid(Paint::opaque(0x3a, 0x40, 0x47), 1.4);
/// The middle of the forecast.
pub(super) const MIDDLE: Stroke = Stroke::solid(Paint::opaque(0x00, 0x4c, 0x86), 1.8);
/// A point forecast other than the middle.
pub(super) const POINT: Stroke = Stroke { paint: Paint::opaque(0xd5, 0x5e, 0x00), width: 1.6, dash: Some((5.0, 3.0)) };
/// One band of the fan; narrower bands lie on wider ones and so are darker.
pub(super) const BAND: Paint = Paint::opaque(0x00, 0x72, 0xb2).with_opacity(0.2);

/// A bar that closes at or above its open: blue, with a hollow body.
pub(super) const UP: Paint = Paint::opaque(0x00, 0x72, 0xb2);
/// A bar that closes below its open: vermilion, with a solid body.
pub(super) const DOWN: Paint = Paint::opaque(0xd5, 0x5e, 0x00);
/// The body of a bar that closes above its open.
pub(super) const PAPER: Paint = Paint::opaque(0xff, 0xff, 0xff);
/// One band of closes behind forecast bars, which are blue and vermilion themselves.
pub(super) const CLOSE_BAND: Paint = Paint::opaque(0x5b, 0x6b, 0x7d).with_opacity(0.17);
/// What was traded in a bar of the past; the bars to come are lighter.
pub(super) const VOLUME_OPACITY: [f32; 2] = [0.75, 0.4];

pub(super) const TITLE_SIZE: f64 = 18.0;
pub(super) const PANEL_TITLE_SIZE: f64 = 13.0;
pub(super) const TEXT_SIZE: f64 = 12.0;
pub(super) const LABEL_SIZE: f64 = 11.0;
