//! A market as rows of bars for people: the four prices, the quantiles of the close, volume and amount.

use super::table::{self, Column};
use super::{Answer, Market};

/// The name, what the columns hold, and one row for each future bar.
///
/// Prices share their number of decimals. A market whose past has no volume has no columns for it.
pub(super) fn push(text: &mut String, answer: &Answer, market: &Market, width: Option<usize>) {
    let fields = answer.fields(market);
    let [open, high, low, close, volume, amount] = fields else { return };
    let question = answer.question();
    text.push('\n');
    text.extend(market.name.chars().map(table::printable));
    let of_close = if question.levels.is_empty() { "" } else { ", and quantiles of the close" };
    text.push_str(&format!(" ({} of the paths{of_close})\n", question.point));
    let prices = [("open", open), ("high", high), ("low", low), ("close", close)];
    let mut numbers: Vec<(String, &[f64])> =
        prices.iter().map(|(name, field)| ((*name).to_string(), field.point())).collect();
    let levels = question.levels.iter().zip(close.quantiles());
    numbers.extend(levels.map(|(&level, quantile)| (table::percent(level), quantile.as_slice())));
    let mut columns: Vec<Column> = table::aligned(numbers);
    for (name, field) in [("volume", volume), ("amount", amount)] {
        let traded = field.history().is_empty() || field.history().iter().any(|value| *value != 0.0);
        if traded {
            columns.extend(table::aligned(vec![(name.into(), field.point())]));
        }
    }
    table::push_columns(text, &table::stamp_column(open), &columns, width);
}

#[cfg(test)]
mod tests {
    use super::super::{Format, example, render};

    #[test]
    fn one_row_per_bar() {
        let expected = "\
nano: 3 bars ahead from 4 past bars, 4 sample paths

kline (mean of the paths, and quantiles of the close)
timestamp           open    high     low   close     10%     50%     90%  volume     amount
2024-01-02 10:00  11.500  12.500  10.500  12.000  10.800  12.000  13.200  1001.5  10001.500
2024-01-02 11:00  12.500  13.500  11.500  13.000  11.800  13.000  14.200  1002.5  10002.500
2024-01-02 12:00  13.500  14.500  12.500  14.000  12.800  14.000  15.200   752.8  10003.500
";
        let text = String::from_utf8(render(&example::market(), Format::Table, None).unwrap()).unwrap();
        assert_eq!(text, expected);
    }
}
