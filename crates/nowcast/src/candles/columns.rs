//! Which columns of a table are the fields of a candle.

use super::{CandleColumns, Candles};
use crate::data::{Table, listed, plain};
use crate::{Error, Result};

/// The columns of a candle, and what was decided about them.
pub(crate) struct Found {
    pub(crate) columns: CandleColumns,
    /// Which column of the table each field is.
    pub(crate) places: [Option<usize>; 6],
    pub(crate) notes: Vec<String>,
}

/// Names of each field, best first, as [`plain`] writes them: lower-case letters and digits only.
const NAMES: [&[&str]; 6] = [
    &["open", "openprice", "o", "1open", "开盘", "开盘价"],
    &["high", "highprice", "max", "h", "2high", "最高", "最高价"],
    &["low", "lowprice", "min", "l", "3low", "最低", "最低价"],
    &["close", "closeprice", "last", "c", "4close", "收盘", "收盘价"],
    &["volume", "vol", "v", "5volume", "tickvol", "tickvolume", "成交量"],
    &["amount", "amt", "quotevolume", "quoteassetvolume", "turnover", "成交额"],
];

/// The fields by name; adjusted prices are other columns.
///
/// # Errors
/// One of the four prices has no column.
pub(crate) fn by_name(table: &Table) -> Result<Found> {
    let names: Vec<String> = table.columns.iter().map(|column| plain(&column.name)).collect();
    let places = NAMES.map(|known| known.iter().find_map(|name| names.iter().position(|other| other == name)));
    let lacking: Vec<&str> =
        (0..4).filter(|&field| places[field].is_none()).map(|field| Candles::FIELDS[field]).collect();
    if !lacking.is_empty() {
        let found: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        return Err(Error::Data(format!(
            "{}: Kronos needs open, high, low and close, and no column is called {}; name the four, and perhaps volume and \
             amount, in this order with --columns (the columns are {})",
            table.name,
            lacking.join(" or "),
            listed(&found)
        )));
    }
    let mut notes = Vec::new();
    let unused: Vec<&str> = table
        .columns
        .iter()
        .enumerate()
        .filter(|(place, _)| !places.contains(&Some(*place)))
        .map(|(_, column)| column.name.as_str())
        .collect();
    if !unused.is_empty() {
        notes.push(format!("no field of a candle and left out: {}", listed(&unused)));
    }
    Ok(found(table, places, notes))
}

/// The fields of columns that somebody chose: by name if every name is known, else in the order of the fields.
///
/// # Errors
/// Fewer than four columns or more than six.
pub(super) fn chosen(table: &Table) -> Result<Found> {
    let count = table.columns.len();
    if !(4..=6).contains(&count) {
        return Err(Error::Data(format!(
            "{}: {count} column(s) are no candle; name four to six: open, high, low, close, then perhaps volume and amount",
            table.name
        )));
    }
    if let Some(found) = known(table) {
        return Ok(found);
    }
    let places = std::array::from_fn(|field| (field < count).then_some(field));
    let taken: Vec<String> = table
        .columns
        .iter()
        .zip(Candles::FIELDS)
        .map(|(column, field)| format!("{field} is {:?}", column.name))
        .collect();
    Ok(found(table, places, vec![format!("columns are taken in the order given: {}", taken.join(", "))]))
}

/// The fields of a table every column of which is one by its name, adjusted prices included; else `None`.
pub(crate) fn known(table: &Table) -> Option<Found> {
    let mut places = [None; 6];
    for (place, column) in table.columns.iter().enumerate() {
        let name = plain(&column.name);
        let raw = ["adjusted", "adj"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(&name);
        let field = NAMES.iter().position(|known| known.contains(&raw))?;
        if places[field].replace(place).is_some() {
            return None;
        }
    }
    (!places[..4].contains(&None)).then(|| found(table, places, Vec::new()))
}

fn found(table: &Table, places: [Option<usize>; 6], mut notes: Vec<String>) -> Found {
    let values = |field: usize| places[field].map(|place: usize| table.columns[place].values.clone());
    let price = |field: usize| values(field).unwrap_or_default();
    let columns = CandleColumns {
        open: price(0),
        high: price(1),
        low: price(2),
        close: price(3),
        volume: values(4),
        amount: values(5),
    };
    match (&columns.volume, &columns.amount) {
        (None, None) => notes.push("there is no volume: volume and amount count as 0".into()),
        (None, Some(_)) => notes.push("there is no volume: volume counts as 0, and so does the amount given".into()),
        (Some(_), None) => notes.push("there is no amount: it is volume times the mean of the four prices".into()),
        (Some(_), Some(_)) => {}
    }
    Found { columns, places, notes }
}
