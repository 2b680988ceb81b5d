//! What the values of a Parquet column mean: its type as the schema tells it.

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as PhysicalType};
use parquet::schema::types::ColumnDescriptor;

/// What the values of a column mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// Whole numbers; those of decimals are to be divided.
    Whole { unsigned: bool, divisor: f64 },
    /// Floating point numbers.
    Real,
    /// Two bytes of IEEE 754 half precision.
    Half,
    /// A decimal as big-endian bytes.
    BigEndian { divisor: f64 },
    /// Days since 1970.
    Days,
    /// So many nanoseconds each since 1970; by the clock of nowhere in particular, or UTC.
    Moments { nanoseconds: i128, utc: bool },
    /// UTF-8.
    Text,
    /// Lists, intervals, truth values and whatever else no forecast is made of.
    Other,
}

/// One value.
pub(super) enum Value<'a> {
    Missing,
    Number(f64),
    Whole(i64),
    Nanoseconds(i128),
    Text(&'a str),
}

impl Kind {
    pub(super) fn of(column: &ColumnDescriptor) -> Kind {
        if column.max_rep_level() > 0 {
            return Kind::Other;
        }
        // Decimals have at most 38 digits.
        let divisor = 10_f64.powi(column.type_scale().clamp(0, 38));
        let decimal = column.converted_type() == ConvertedType::DECIMAL
            || matches!(column.logical_type_ref(), Some(LogicalType::Decimal(_)));
        match (column.physical_type(), column.logical_type_ref(), column.converted_type()) {
            (PhysicalType::INT32, Some(LogicalType::Date), _) | (PhysicalType::INT32, _, ConvertedType::DATE) => {
                Kind::Days
            }
            (PhysicalType::INT64, Some(LogicalType::Timestamp(stamp)), _) => {
                let nanoseconds = match stamp.unit {
                    TimeUnit::MILLIS => 1_000_000,
                    TimeUnit::MICROS => 1_000,
                    TimeUnit::NANOS => 1,
                };
                Kind::Moments { nanoseconds, utc: stamp.is_adjusted_to_u_t_c }
            }
            (PhysicalType::INT64, _, ConvertedType::TIMESTAMP_MILLIS) => {
                Kind::Moments { nanoseconds: 1_000_000, utc: true }
            }
            (PhysicalType::INT64, _, ConvertedType::TIMESTAMP_MICROS) => {
                Kind::Moments { nanoseconds: 1_000, utc: true }
            }
            // The old 12-byte stamp has no zone; the programs that write it mean their own clock.
            (PhysicalType::INT96, ..) => Kind::Moments { nanoseconds: 1, utc: false },
            (_, Some(LogicalType::Time(_)), _) | (_, _, ConvertedType::TIME_MILLIS | ConvertedType::TIME_MICROS) => {
                Kind::Other
            }
            (PhysicalType::INT32 | PhysicalType::INT64, logical, converted) => {
                let unsigned = matches!(logical, Some(LogicalType::Integer(integer)) if !integer.is_signed)
                    || matches!(
                        converted,
                        ConvertedType::UINT_8
                            | ConvertedType::UINT_16
                            | ConvertedType::UINT_32
                            | ConvertedType::UINT_64
                    );
                Kind::Whole { unsigned, divisor: if decimal { divisor } else { 1.0 } }
            }
            (PhysicalType::FLOAT | PhysicalType::DOUBLE, ..) => Kind::Real,
            (PhysicalType::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Float16), _) => Kind::Half,
            (PhysicalType::FIXED_LEN_BYTE_ARRAY | PhysicalType::BYTE_ARRAY, ..) if decimal => {
                Kind::BigEndian { divisor }
            }
            (PhysicalType::BYTE_ARRAY, ..) => Kind::Text,
            (PhysicalType::FIXED_LEN_BYTE_ARRAY | PhysicalType::BOOLEAN, ..) => Kind::Other,
        }
    }
}

/// A two's complement number of up to 16 bytes.
pub(super) fn big_endian(bytes: &[u8]) -> Option<i128> {
    let (&first, count) = (bytes.first()?, bytes.len());
    if count > 16 {
        return None;
    }
    let sign = if first & 0x80 == 0 { 0 } else { -1 };
    Some(bytes.iter().fold(sign, |value, &byte| (value << 8) | i128::from(byte)))
}

/// Nanoseconds since 1970 of the old 12-byte stamp: nanoseconds of the day, then the Julian day.
pub(super) fn int96(parts: &[u32]) -> i128 {
    const JULIAN_DAY_OF_1970: i128 = 2_440_588;
    let [low, high, day] = [0, 1, 2].map(|index| i128::from(parts.get(index).copied().unwrap_or(0)));
    (day - JULIAN_DAY_OF_1970) * 86_400_000_000_000 + (high << 32 | low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_any_length() {
        assert_eq!(big_endian(&[0x01, 0x00]), Some(256));
        assert_eq!(big_endian(&[0xff]), Some(-1));
        assert_eq!(big_endian(&[0x80, 0x00]), Some(-32_768));
        assert_eq!(big_endian(&[0x7f; 16]), Some(0x7f7f_7f7f_7f7f_7f7f_7f7f_7f7f_7f7f_7f7f));
        assert_eq!((big_endian(&[]), big_endian(&[0; 17])), (None, None));
    }

    #[test]
    fn the_old_stamp() {
        assert_eq!(int96(&[0, 0, 2_440_588]), 0);
        assert_eq!(int96(&[1, 1, 2_440_589]), 86_400_000_000_000 + (1 << 32) + 1);
        assert_eq!(int96(&[0, 0, 2_440_587]), -86_400_000_000_000);
    }
}
