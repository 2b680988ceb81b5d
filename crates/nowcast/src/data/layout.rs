//! Decides what each column is for: the time, a value to read, or nothing.

use super::ReadOptions;
use super::cell::{self, Cell, Decimal};
use super::clock_text;
use super::header::{is_epoch, listed, plain};
use super::notes::Notes;
use super::raw::Source;
use super::stamp_text::{self, Reading};
use crate::Result;

/// What the cells of a column look like, judged by the first rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looks {
    /// Calendar dates, with or without a time of day; `days` where none has one.
    Dates {
        /// No time of day.
        days: bool,
    },
    /// Times of day without a date.
    Clock,
    /// Large whole numbers that could date a moment.
    Epoch,
    /// Numbers from 0 or 1 upwards, one by one.
    Counter,
    /// Other numbers.
    Numbers,
    /// Anything else.
    Text,
    /// Nothing at all.
    Empty,
}

/// One column before it is read.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) name: String,
    pub(super) looks: Looks,
}

/// Which columns to read and as what.
#[derive(Debug, PartialEq)]
pub(super) struct Layout {
    /// The time column, and a second one with the time of day where the table splits them.
    pub(super) time: Option<(usize, Option<usize>)>,
    /// Value columns in the order they are returned.
    pub(super) values: Vec<usize>,
    /// Remarks for the user.
    pub(super) notes: Notes,
}

/// Names that mean time whatever the cells look like, best first.
const TIME_NAMES: [&str; 14] = [
    "timestamp",
    "timestamps",
    "datetime",
    "date",
    "ds",
    "opentime",
    "time",
    "observationdate",
    "tradedate",
    "pricedate",
    "unix",
    "unixtime",
    "epoch",
    "closetime",
];

/// The columns of a candle that are forecast unless others are named.
const CANDLE: [&str; 5] = ["open", "high", "low", "close", "volume"];

impl Looks {
    /// Judges a column by its first cells.
    pub(super) fn judge<'a>(cells: impl Iterator<Item = &'a str> + Clone, decimal: Decimal) -> Looks {
        let cells = cells.filter(|cell| !cell::is_missing(cell));
        let all = cells.clone().count();
        // A stray cell does not change what a column is; it gets its own message later.
        let most = |test: &dyn Fn(&str) -> bool| cells.clone().filter(|cell| test(cell)).count() * 2 > all;
        let calendar = |cell: &str| match stamp_text::read(cell) {
            Some((Reading::Calendar(calendar), _)) => Some(calendar),
            _ => None,
        };
        if all == 0 {
            Looks::Empty
        } else if most(&|cell| calendar(cell).is_some()) {
            Looks::Dates { days: cells.clone().filter_map(calendar).all(|c| c.nanoseconds == 0) }
        } else if most(&|cell| cell.contains(':') && clock_text::is_time_of_day(cell)) {
            Looks::Clock
        } else if most(&is_epoch) {
            Looks::Epoch
        } else if most(&|cell| matches!(cell::read(cell, decimal), Cell::Number(..))) {
            let start = usize::from(cells.clone().next() == Some("1"));
            let counts = cells.clone().enumerate().all(|(row, cell)| cell.trim().parse() == Ok(row + start));
            if counts { Looks::Counter } else { Looks::Numbers }
        } else {
            Looks::Text
        }
    }

    fn is_numeric(self) -> bool {
        matches!(self, Looks::Epoch | Looks::Counter | Looks::Numbers)
    }
}

impl Layout {
    /// Assigns the columns.
    ///
    /// # Errors
    /// A named column does not exist, exists twice, or is the time column.
    pub(super) fn choose(candidates: &[Candidate], options: &ReadOptions, source: &Source) -> Result<Layout> {
        let mut notes = Notes::default();
        let time = match &options.time {
            Some(name) => {
                let all: Vec<&str> = candidates.iter().map(|candidate| candidate.name.as_str()).collect();
                Some((find(name, candidates, &all, "columns", source)?, None))
            }
            None => find_time(candidates),
        };
        let is_time = |index: usize| time.is_some_and(|(date, clock)| index == date || Some(index) == clock);
        let mut values = Vec::new();
        for name in &options.columns {
            let numeric: Vec<&str> = candidates
                .iter()
                .enumerate()
                .filter(|(index, candidate)| candidate.looks.is_numeric() && !is_time(*index))
                .map(|(_, candidate)| candidate.name.as_str())
                .collect();
            let index = find(name, candidates, &numeric, "numeric columns", source)?;
            if is_time(index) {
                return Err(source.error(format_args!(
                    "column {name:?} is the time column; name one of the numeric columns {}",
                    listed(&numeric)
                )));
            }
            if !values.contains(&index) {
                values.push(index);
            }
        }
        if options.columns.is_empty() {
            values = default_values(candidates, is_time, &mut notes);
        }
        Ok(Layout { time, values, notes })
    }
}

/// Every column that is not some kind of time or row number; of a candle archive, the candle.
fn default_values(candidates: &[Candidate], is_time: impl Fn(usize) -> bool, notes: &mut Notes) -> Vec<usize> {
    let names: Vec<String> = candidates.iter().map(|candidate| plain(&candidate.name)).collect();
    let has = |name: &str| names.iter().any(|other| other == name);
    let candle = has("opentime") && has("closetime") && CANDLE.iter().all(|name| has(name));
    if candle {
        notes
            .push("of this candle archive open, high, low, close and volume are read; name others to read them".into());
    }
    let mut values = Vec::new();
    for (index, (candidate, name)) in candidates.iter().zip(&names).enumerate() {
        if is_time(index) || (candle && !CANDLE.contains(&name.as_str())) {
            continue;
        }
        let unnamed =
            name.is_empty() || name.starts_with("unnamed") || name == "index" || name.starts_with("indexlevel");
        if TIME_NAMES.contains(&name.as_str()) || matches!(candidate.looks, Looks::Dates { .. } | Looks::Clock) {
            notes.push_column("left out as times", &candidate.name);
        } else if unnamed && candidate.looks == Looks::Counter {
            notes.push_column("left out as row numbers", &candidate.name);
        } else {
            values.push(index);
        }
    }
    values
}

/// The time column: by name if its cells can be times, else the first column of dates.
fn find_time(candidates: &[Candidate]) -> Option<(usize, Option<usize>)> {
    let position = |test: &dyn Fn(&Candidate) -> bool| candidates.iter().position(test);
    let named = |accept: &dyn Fn(Looks) -> bool| {
        TIME_NAMES.iter().find_map(|name| position(&|c| plain(&c.name) == *name && accept(c.looks)))
    };
    let can_be_time = |looks| matches!(looks, Looks::Dates { .. } | Looks::Epoch | Looks::Counter | Looks::Numbers);
    let unnamed = |name: &str| name.is_empty() || name.starts_with("column_");
    let date = named(&|looks| matches!(looks, Looks::Dates { .. } | Looks::Epoch))
        .or_else(|| position(&|c| matches!(c.looks, Looks::Dates { .. })))
        .or_else(|| named(&can_be_time))
        .or_else(|| position(&|c| c.looks == Looks::Epoch && unnamed(&c.name)))
        .or_else(|| named(&|looks| looks != Looks::Clock))?;
    let clock = position(&|c| c.looks == Looks::Clock);
    Some((date, clock.filter(|_| candidates[date].looks == Looks::Dates { days: true })))
}

/// A column by its exact name, else by its name in any case.
fn find(name: &str, candidates: &[Candidate], known: &[&str], what: &str, source: &Source) -> Result<usize> {
    if let Some(index) = candidates.iter().position(|candidate| candidate.name == name) {
        return Ok(index);
    }
    let wanted = name.trim().to_lowercase();
    let matches: Vec<usize> =
        (0..candidates.len()).filter(|&index| candidates[index].name.to_lowercase() == wanted).collect();
    match matches[..] {
        [index] => Ok(index),
        [] => {
            let hint = closest(&wanted, known).map_or(String::new(), |near| format!(" (did you mean {near:?}?)"));
            Err(source.error(format_args!("there is no column {name:?}{hint}; the {what} are {}", listed(known))))
        }
        _ => {
            let names: Vec<&str> = matches.iter().map(|&index| candidates[index].name.as_str()).collect();
            Err(source.error(format_args!("column {name:?} may be any of {}; write one exactly", listed(&names))))
        }
    }
}

/// The known name that differs least, if it is near enough to be a slip.
fn closest<'a>(wanted: &str, known: &[&'a str]) -> Option<&'a str> {
    const LONGEST: usize = 64;
    let near = |name: &&&str| name.len() <= LONGEST && wanted.len() <= LONGEST;
    let distance = |name: &str| {
        if plain(name) == plain(wanted) { 0 } else { edit_distance(&name.to_lowercase(), wanted) }
    };
    let best = known.iter().filter(near).map(|name| (distance(name), *name)).min_by_key(|(distance, _)| *distance)?;
    (best.0 <= 1 + wanted.chars().count() / 4).then_some(best.1)
}

/// Insertions, deletions and replacements that turn one text into the other (Levenshtein 1966).
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATES: Looks = Looks::Dates { days: true };

    fn candidates(columns: &[(&str, Looks)]) -> Vec<Candidate> {
        columns.iter().map(|&(name, looks)| Candidate { name: name.into(), looks }).collect()
    }

    fn choose(columns: &[(&str, Looks)], names: &[&str]) -> Result<Layout> {
        let options =
            ReadOptions { columns: names.iter().map(|name| name.to_string()).collect(), ..Default::default() };
        Layout::choose(&candidates(columns), &options, &Source("t.csv".into()))
    }

    #[test]
    fn looks() {
        let judge = |cells: &[&str]| Looks::judge(cells.iter().copied(), Decimal::Point);
        assert_eq!(judge(&["2024-01-01", "null"]), DATES);
        assert_eq!(judge(&["2024-01-01 10:00"]), Looks::Dates { days: false });
        assert_eq!(judge(&["10:00", "10:05"]), Looks::Clock);
        assert_eq!(judge(&["1704067200000"]), Looks::Epoch);
        assert_eq!(judge(&["0", "1", "2"]), Looks::Counter);
        assert_eq!(judge(&["1", "2"]), Looks::Counter);
        assert_eq!(judge(&["1.5", "2", "x"]), Looks::Numbers);
        assert_eq!(judge(&["BTC", "1"]), Looks::Text);
        assert_eq!(judge(&["", "null"]), Looks::Empty);
    }

    #[test]
    fn time_is_found_by_name_then_by_looks() {
        let time = |columns: &[(&str, Looks)]| find_time(&candidates(columns));
        let n = Looks::Numbers;
        assert_eq!(time(&[("open", n), ("Date", DATES)]), Some((1, None)));
        assert_eq!(time(&[("unix", Looks::Epoch), ("date", DATES), ("close", n)]), Some((1, None)));
        assert_eq!(time(&[("close", n), ("when", DATES)]), Some((1, None)));
        assert_eq!(time(&[("DATE", DATES), ("TIME", Looks::Clock), ("OPEN", n)]), Some((0, Some(1))));
        assert_eq!(time(&[("time", Looks::Counter), ("y", n)]), Some((0, None)));
        assert_eq!(time(&[("column_1", Looks::Epoch), ("column_2", n)]), Some((0, None)));
        assert_eq!(time(&[("volume", Looks::Epoch), ("y", n)]), None);
        assert_eq!(time(&[("a", n), ("b", n)]), None);
    }

    #[test]
    fn columns_by_exact_name_first() {
        let columns = [("date", DATES), ("Close", Looks::Numbers), ("close", Looks::Numbers)];
        assert_eq!(choose(&columns, &["close"]).expect("found").values, [2]);
        assert_eq!(choose(&columns[..2], &["CLOSE", "close"]).expect("found").values, [1]);
        let error = choose(&columns, &["CLOSE"]).expect_err("ambiguous").to_string();
        assert_eq!(error, "t.csv: column \"CLOSE\" may be any of \"Close\", \"close\"; write one exactly");
    }

    #[test]
    fn unknown_columns_get_a_hint() {
        let columns = [("date", DATES), ("Adj Close", Looks::Numbers), ("symbol", Looks::Text)];
        let error = choose(&columns, &["adj_close"]).expect_err("unknown").to_string();
        assert_eq!(
            error,
            "t.csv: there is no column \"adj_close\" (did you mean \"Adj Close\"?); the numeric columns are \"Adj Close\""
        );
        let error = choose(&columns, &["temperature"]).expect_err("unknown").to_string();
        assert!(!error.contains("did you mean"), "{error}");
        let error = choose(&columns, &["Date"]).expect_err("time").to_string();
        assert!(error.contains("is the time column"), "{error}");
    }

    #[test]
    fn without_names_every_value_column_is_read() {
        let n = Looks::Numbers;
        let columns =
            [("", Looks::Counter), ("unix", Looks::Epoch), ("date", DATES), ("symbol", Looks::Text), ("close", n)];
        let layout = choose(&columns, &[]).expect("a layout");
        assert_eq!(layout.values, [3, 4]);
        assert_eq!(layout.notes.into_lines(), ["left out as row numbers: \"\"", "left out as times: \"unix\""]);
    }

    #[test]
    fn edit_distances() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(closest("clsoe", &["open", "close"]), Some("close"));
    }
}
