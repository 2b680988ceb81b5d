//! The time column of a Parquet table.

use super::cell;
use super::epoch::epoch_stamp;
use super::parquet_kind::{Kind, Value};
use super::stamp::{Precision, Stamp, Style, Zone};
use super::stamp_column::{BadStamp, StampColumn, Times};

/// The cells of the time column while they are read.
pub(super) enum TimeCells {
    /// Numbers or text, settled like the column of a text table.
    Written(StampColumn),
    /// Typed stamps.
    Typed { stamps: Vec<Stamp>, days: bool, utc: bool },
}

impl TimeCells {
    pub(super) fn new(kind: Kind) -> Self {
        let typed = |days, utc| TimeCells::Typed { stamps: Vec::new(), days, utc };
        match kind {
            Kind::Days => typed(true, false),
            Kind::Moments { utc, .. } => typed(false, utc),
            _ => TimeCells::Written(StampColumn::default()),
        }
    }

    pub(super) fn push(&mut self, value: Value<'_>, line: u64) -> Result<(), BadStamp> {
        let bad = |problem: &str| BadStamp { line, problem: problem.to_string() };
        match (self, value) {
            (TimeCells::Typed { stamps, utc, .. }, Value::Nanoseconds(nanoseconds)) => {
                let stamp = epoch_stamp(nanoseconds)
                    .ok_or_else(|| bad("the time is outside the years -9999 to 9999; correct it"))?;
                stamps.push(if *utc { stamp } else { Stamp::civil(stamp.clock()) });
                Ok(())
            }
            (TimeCells::Written(column), Value::Whole(value)) => column.push(&value.to_string(), line),
            (TimeCells::Written(column), Value::Number(value)) => column.push(&value.to_string(), line),
            (TimeCells::Written(column), Value::Text(text)) if !cell::is_missing(text) => column.push(text, line),
            _ => Err(bad("the row has no time; fill it in, delete the row, or name another time column")),
        }
    }

    pub(super) fn settle(self) -> Result<Times, BadStamp> {
        let (stamps, days, utc) = match self {
            TimeCells::Written(column) => return column.settle(),
            TimeCells::Typed { stamps, days, utc } => (stamps, days, utc),
        };
        // Stamps without zone that all fall on midnight are dates, as the usual tools print them.
        let midnight = stamps.iter().all(|stamp| stamp.clock().time() == jiff::civil::Time::midnight());
        let fraction = |unit: i32| stamps.iter().all(|stamp| stamp.clock().time().subsec_nanosecond() % unit == 0);
        let precision = if days || (midnight && !utc) {
            Precision::Day
        } else {
            [(1_000_000_000, Precision::Second), (1_000_000, Precision::Fraction(3)), (1_000, Precision::Fraction(6))]
                .into_iter()
                .find(|(unit, _)| fraction(*unit))
                .map_or(Precision::Fraction(9), |(_, precision)| precision)
        };
        let (separator, zone) = if utc { ('T', Zone::Zero("Z")) } else { (' ', Zone::None) };
        Ok(Times::Stamps { stamps, style: Style { precision, separator, zone }, notes: Vec::new() })
    }
}
