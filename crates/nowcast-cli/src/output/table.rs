//! Aligned columns for people.

use super::decimals::Notation;
use super::{Answer, Question, SeriesAnswer, Timeline, candle_table};

/// Spaces between two columns.
const GAP: usize = 2;

/// The headline, then one block of rows per series.
///
/// Columns that do not fit into `width` continue in a further block below, with the stamps repeated.
pub(super) fn render(answer: &Answer, width: Option<usize>) -> String {
    let mut text = answer.headline();
    text.push('\n');
    for market in answer.markets() {
        candle_table::push(&mut text, answer, market, width);
    }
    if !answer.markets().is_empty() {
        return text;
    }
    for series in answer.series() {
        text.push('\n');
        text.extend(series.name().chars().map(printable));
        text.push('\n');
        push_columns(&mut text, &stamp_column(series), &number_columns(answer, series), width);
    }
    text
}

/// Names come from files: what would move a terminal's cursor or change its colours is replaced.
pub(super) fn printable(letter: char) -> char {
    if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter }
}

/// Cells of one column from the top, all of the same width.
pub(super) struct Column {
    cells: Vec<String>,
    width: usize,
}

impl Column {
    fn new(header: String, rows: impl Iterator<Item = String>, align: fn(&str, usize) -> String) -> Self {
        let cells: Vec<String> = std::iter::once(header).chain(rows).collect();
        let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        Self { cells: cells.iter().map(|cell| align(cell, width)).collect(), width }
    }
}

pub(super) fn stamp_column(series: &SeriesAnswer) -> Column {
    let stamps = (0..series.horizon()).map(|step| series.future_stamp(step));
    match series.timeline() {
        Timeline::Dated { .. } => Column::new("timestamp".into(), stamps, |cell, width| format!("{cell:<width$}")),
        Timeline::Numbered(_) => Column::new("step".into(), stamps, |cell, width| format!("{cell:>width$}")),
    }
}

fn number_columns(answer: &Answer, series: &SeriesAnswer) -> Vec<Column> {
    let numbers: Vec<&[f64]> =
        std::iter::once(series.point()).chain(series.quantiles().iter().map(Vec::as_slice)).collect();
    let Question { point, levels, .. } = answer.question();
    let headers = std::iter::once(point.to_string()).chain(levels.iter().map(|&level| percent(level)));
    aligned(headers.zip(numbers).collect())
}

/// Columns of numbers that share their number of decimals.
pub(super) fn aligned(columns: Vec<(String, &[f64])>) -> Vec<Column> {
    let notation = Notation::of(columns.iter().flat_map(|(_, numbers)| numbers.iter().copied()));
    let column = |(header, numbers): (String, &[f64])| {
        let rows = numbers.iter().map(|&number| notation.write(number));
        Column::new(header, rows, |cell, width| format!("{cell:>width$}"))
    };
    columns.into_iter().map(column).collect()
}

/// A quantile level as people say it: `0.025` is `2.5%`.
pub(super) fn percent(level: f64) -> String {
    // Rounded far below any level in use, so that 0.07 is 7% and not 7.000000000000001%.
    let digits = format!("{:.9}", level * 100.0);
    format!("{}%", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// Cuts the columns into runs that fit beside the stamps; each run holds at least one column.
fn blocks<'a>(stamps: &Column, columns: &'a [Column], width: usize) -> Vec<&'a [Column]> {
    let mut blocks = Vec::new();
    let mut first = 0;
    let mut used = stamps.width;
    for (at, column) in columns.iter().enumerate() {
        if at > first && used + GAP + column.width > width {
            blocks.push(&columns[first..at]);
            first = at;
            used = stamps.width;
        }
        used += GAP + column.width;
    }
    blocks.push(&columns[first..]);
    blocks
}

/// Rows of stamps and numbers; columns that do not fit continue in a further block.
pub(super) fn push_columns(text: &mut String, stamps: &Column, columns: &[Column], width: Option<usize>) {
    for block in blocks(stamps, columns, width.unwrap_or(usize::MAX)) {
        push_rows(text, stamps, block);
    }
}

fn push_rows(text: &mut String, stamps: &Column, columns: &[Column]) {
    for (row, stamp) in stamps.cells.iter().enumerate() {
        text.push_str(stamp);
        for column in columns {
            text.extend(std::iter::repeat_n(' ', GAP));
            text.push_str(&column.cells[row]);
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use nowcast::forecast::{Distribution, VariateForecast};

    use super::super::example;
    use super::*;

    #[test]
    fn one_block_per_series() {
        let expected = "\
nano: 3 steps ahead from 4 past values, 4 sample paths

close
timestamp          median      10%      50%      90%
2024-01-02 10:00  101.500  100.300  101.500  103.400
2024-01-02 11:00  102.500  101.300  102.500  104.400
2024-01-02 12:00  103.500  102.300  103.500  105.400

load, \"north\"
step  median     10%     50%    90%
   4  -0.250  -0.425  -0.250  0.100
   5   0.000   0.000   0.000  0.000
   6   0.500   0.075   0.500  0.925
";
        assert_eq!(render(&example::answer(), None), expected);
    }

    #[test]
    fn narrow_terminals_get_several_blocks() {
        let expected = "\
nano: 3 steps ahead from 4 past values, 4 sample paths

close
timestamp          median      10%
2024-01-02 10:00  101.500  100.300
2024-01-02 11:00  102.500  101.300
2024-01-02 12:00  103.500  102.300
timestamp             50%      90%
2024-01-02 10:00  101.500  103.400
2024-01-02 11:00  102.500  104.400
2024-01-02 12:00  103.500  105.400
";
        assert_eq!(render(&example::dated(example::question()), Some(40)), expected);
    }

    #[test]
    fn names_cannot_command_the_terminal() {
        let mut answer = Answer::new(Question { levels: Vec::new(), ..example::question() }).unwrap();
        let forecast = VariateForecast::new("red\u{1b}[31m\n", Distribution::Mean(vec![1.0; 3].into())).unwrap();
        answer.push(Vec::new(), Timeline::Numbered(0..3), forecast).unwrap();
        let text = render(&answer, None);
        assert_eq!(text.lines().nth(2), Some("red\u{fffd}[31m\u{fffd}"));
    }

    #[test]
    fn no_width_is_too_small() {
        let rows = render(&example::answer(), Some(0)).lines().count();
        assert_eq!(rows, 1 + 2 * (2 + 4 * 4));
    }

    #[test]
    fn levels_read_as_percentages() {
        for (level, text) in [(0.1, "10%"), (0.07, "7%"), (0.025, "2.5%"), (0.5, "50%"), (0.999, "99.9%")] {
            assert_eq!(percent(level), text);
        }
    }
}
