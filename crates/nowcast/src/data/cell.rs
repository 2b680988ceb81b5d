//! One cell of a text table: a number, a missing value, or text.

/// What a cell holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell {
    /// A number, and what had to be taken off to read it.
    Number(f64, Dressing),
    /// No value: blank, `null`, `NaN`, `N/A`, `--` and their like.
    Missing,
    /// Neither.
    Text,
}

/// What people put around the digits of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Dressing {
    /// Separators between thousands.
    pub(super) thousands: bool,
    /// A currency sign.
    pub(super) currency: bool,
    /// A percent sign: `5%` reads as 5.
    pub(super) percent: bool,
    /// `K`, `M`, `B` or `T` after the digits: thousand, million, billion, trillion.
    pub(super) suffix: bool,
}

/// Which character stands before the fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decimal {
    Point,
    Comma,
}

/// Spellings of "no value", in lower case.
const MISSING: [&str; 18] = [
    "", "null", "nan", "na", "n/a", "#n/a", "<na>", "none", "nil", "nat", "-nan", "-", "--", "---", ".", "?", "\\n",
    "missing",
];

/// Longer cells are text without a look: no number needs so many characters.
const LONGEST_NUMBER: usize = 400;

/// Reads one cell.
pub(super) fn read(text: &str, decimal: Decimal) -> Cell {
    let text = text.trim();
    // The usual cell needs one pass: what parses as it stands and starts like a number is one.
    if decimal == Decimal::Point
        && text.as_bytes().last().is_some_and(|last| last.is_ascii_digit() || *last == b'.')
        && let Ok(value) = text.parse()
    {
        return Cell::Number(value, Dressing::default());
    }
    if is_missing(text) {
        return Cell::Missing;
    }
    if text.len() > LONGEST_NUMBER {
        return Cell::Text;
    }
    dressed(text, decimal).map_or(Cell::Text, |(value, dressing)| Cell::Number(value, dressing))
}

/// Whether the cell stands for "no value".
pub(super) fn is_missing(text: &str) -> bool {
    let text = text.trim();
    text.len() <= 7 && MISSING.iter().any(|missing| text.eq_ignore_ascii_case(missing))
}

/// Which decimal separator this cell proves, if any: `1,5` or `1.234,5` a comma, `1.5` or `1,234.5` a point,
/// `1,234` and `1.234` neither.
pub(super) fn proves(text: &str) -> Option<Decimal> {
    let digits = text.trim().trim_start_matches(['+', '-']);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b',' || byte == b'.') {
        return None;
    }
    let (commas, points) = (digits.matches(',').count(), digits.matches('.').count());
    match (digits.rfind(','), digits.rfind('.')) {
        (Some(comma), Some(point)) if comma > point && commas == 1 => Some(Decimal::Comma),
        (Some(comma), Some(point)) if comma < point && points == 1 => Some(Decimal::Point),
        (Some(_), None) if commas == 1 && !is_grouped(digits, ',') => Some(Decimal::Comma),
        (None, Some(_)) if points == 1 && !is_grouped(digits, '.') => Some(Decimal::Point),
        _ => None,
    }
}

/// Which decimal separator a cell that proves none is likely to use: the one it has, as thousands are rarely marked.
pub(super) fn suggests(text: &str) -> Option<Decimal> {
    let digits = text.trim().trim_start_matches(['+', '-']);
    if is_grouped(digits, ',') && digits.contains(',') {
        return Some(Decimal::Comma);
    }
    (is_grouped(digits, '.') && digits.contains('.')).then_some(Decimal::Point)
}

/// A number with signs, units or separators around its digits.
fn dressed(text: &str, decimal: Decimal) -> Option<(f64, Dressing)> {
    let mut dressing = Dressing::default();
    let (mut negative, mut rest) = (false, text);
    if let Some(inner) = rest.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        (negative, rest) = (true, inner.trim());
    }
    // At most one sign and one currency sign, in either order.
    let mut signed = negative;
    while let Some(first) = rest.chars().next() {
        match first {
            '+' | '-' | '\u{2212}' if !signed => {
                (signed, negative) = (true, first != '+');
            }
            '$' | '€' | '£' | '¥' | '₹' if !dressing.currency => dressing.currency = true,
            _ => break,
        }
        rest = rest[first.len_utf8()..].trim_start();
    }
    if let Some(inner) = rest.strip_suffix('%') {
        (dressing.percent, rest) = (true, inner.trim_end());
    }
    if let Some(inner) = rest.strip_suffix(['$', '€', '£', '¥', '₹']).filter(|_| !dressing.currency) {
        (dressing.currency, rest) = (true, inner.trim_end());
    }
    let mut factor = 1.0;
    if let Some(last) = rest.chars().last().filter(|_| !dressing.percent) {
        factor = match last {
            'K' => 1e3,
            'M' => 1e6,
            'B' => 1e9,
            'T' => 1e12,
            _ => 1.0,
        };
        if factor > 1.0 {
            (dressing.suffix, rest) = (true, rest[..rest.len() - 1].trim_end());
        }
    }
    let (plain, thousands) = without_thousands(rest, decimal)?;
    dressing.thousands = thousands;
    let value: f64 = plain.parse().ok()?;
    Some((if negative { -value * factor } else { value * factor }, dressing))
}

/// The digits with a point before the fraction and nothing between thousands; whether something stood there.
fn without_thousands(text: &str, decimal: Decimal) -> Option<(String, bool)> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || first == '.' || first == ',') {
        // `inf` stays a number so that the caller can say what is wrong with it.
        return matches!(text.to_ascii_lowercase().as_str(), "inf" | "infinity").then(|| ("inf".to_string(), false));
    }
    let point = if decimal == Decimal::Point { '.' } else { ',' };
    let (whole, fraction) = match text.find([point, 'e', 'E']) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    if fraction.contains(|c: char| !(c.is_ascii_digit() || c == point || matches!(c, 'e' | 'E' | '+' | '-'))) {
        return None;
    }
    let fraction = fraction.replacen(',', ".", 1);
    if whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some((format!("{whole}{fraction}"), false));
    }
    let separators = if decimal == Decimal::Point {
        [',', '\'', ' ', '\u{a0}', '\u{202f}']
    } else {
        ['.', '\'', ' ', '\u{a0}', '\u{202f}']
    };
    let separator = whole.chars().find(|c| !c.is_ascii_digit()).filter(|c| separators.contains(c))?;
    is_grouped(whole, separator).then(|| (format!("{}{fraction}", whole.replace(separator, "")), true))
}

/// Whether all groups but the first have three digits, and the first one to three: `1,234,567`.
fn is_grouped(text: &str, separator: char) -> bool {
    let mut groups = text.split(separator);
    let first = groups.next().unwrap_or_default();
    let digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    (1..=3).contains(&first.len()) && digits(first) && groups.all(|group| group.len() == 3 && digits(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str, decimal: Decimal) -> Option<f64> {
        match read(text, decimal) {
            Cell::Number(value, _) => Some(value),
            _ => None,
        }
    }

    #[test]
    fn numbers_with_a_decimal_point() {
        for (text, value) in [
            ("1", 1.0),
            (" -2.5 ", -2.5),
            ("+3", 3.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e-3", 1e-3),
            ("1.5E+3", 1500.0),
            ("1,234.5", 1234.5),
            ("-12,345,678", -12_345_678.0),
            ("1 234.5", 1234.5),
            ("1'234", 1234.0),
            ("1\u{a0}234", 1234.0),
            ("$1,234.50", 1234.5),
            ("-$3", -3.0),
            ("$-3", -3.0),
            ("(1,234.5)", -1234.5),
            ("\u{2212}7", -7.0),
            ("5.5%", 5.5),
            ("12 €", 12.0),
            ("1.5M", 1.5e6),
            ("2K", 2e3),
            ("3.25B", 3.25e9),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
        ] {
            assert_eq!(number(text, Decimal::Point), Some(value), "{text:?}");
        }
    }

    #[test]
    fn numbers_with_a_decimal_comma() {
        for (text, value) in
            [("1,5", 1.5), ("1.234,5", 1234.5), ("-1.234.567", -1_234_567.0), ("7", 7.0), ("2,5e3", 2500.0)]
        {
            assert_eq!(number(text, Decimal::Comma), Some(value), "{text:?}");
        }
        assert_eq!(read("12.5", Decimal::Comma), Cell::Text);
    }

    #[test]
    fn text_is_not_a_number() {
        for text in [
            "1,23",
            "1,2345",
            "1.2.3",
            "abc",
            "12abc",
            "0x10",
            "1e",
            "--5",
            "$",
            "%",
            "M",
            "1,234,",
            "1 2",
            "()",
            "(-5)",
            "1_000",
            "2024-01-01",
            "e5",
            "True",
            "1e5e5",
            "١",
        ] {
            assert_eq!(read(text, Decimal::Point), Cell::Text, "{text:?}");
        }
        assert_eq!(read(&"9".repeat(500), Decimal::Comma), Cell::Text);
    }

    #[test]
    fn missing_values() {
        for text in
            ["", "  ", "null", "NULL", "NaN", "nan", "N/A", "#N/A", "<NA>", "None", "-", "--", ".", "?", "\\N", "NaT"]
        {
            assert_eq!(read(text, Decimal::Point), Cell::Missing, "{text:?}");
        }
    }

    #[test]
    fn what_a_cell_proves_about_the_decimal_separator() {
        for (text, proof) in [
            ("1,5", Some(Decimal::Comma)),
            ("1.234,5", Some(Decimal::Comma)),
            ("1.5", Some(Decimal::Point)),
            ("1,234.5", Some(Decimal::Point)),
            ("1,234", None),
            ("1.234", None),
            ("12", None),
            ("2024-01-01", None),
            ("01.02.2024", None),
        ] {
            assert_eq!(proves(text), proof, "{text:?}");
        }
    }
}
