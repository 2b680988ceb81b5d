//! The inputs of a comparison: stretches of a caller's data, each under a name of its own.

use super::Cell;
use crate::candles::Candles;
use crate::series::Series;
use crate::{Error, Result};

/// Items of the same source end this many steps apart.
const SHIFT: usize = 7;

/// Where the items of a batch end: one in each source that is long enough, then the same earlier. `None` where no source
/// is long enough.
fn ends(lengths: &[usize], cell: Cell) -> Option<Vec<(usize, usize)>> {
    let enough: Vec<usize> = (0..lengths.len()).filter(|&source| lengths[source] >= cell.context).collect();
    let end = |item: usize| {
        let source = *enough.get(item % enough.len())?;
        let room = lengths[source] - cell.context + 1;
        Some((source, lengths[source] - item / enough.len() * SHIFT % room))
    };
    if enough.is_empty() { None } else { (0..cell.batch).map(end).collect() }
}

/// A batch of series.
pub(super) fn of_series(series: &[Series], cell: Cell) -> Result<Option<Vec<Series>>> {
    let lengths: Vec<usize> = series.iter().map(Series::length).collect();
    let cut = |(item, (source, end)): (usize, (usize, usize))| {
        let series = &series[source];
        let of_variate = |(variate, name): (usize, &String)| {
            let values = &series.values(variate)[end - cell.context..end];
            if values.iter().any(|value| value.is_finite()) {
                return Ok((format!("{name} {item}"), values.to_vec()));
            }
            Err(Error::Data(format!("{name:?} has no value in {} steps: choose other columns", cell.context)))
        };
        let variates = series.names().iter().enumerate().map(of_variate).collect::<Result<Vec<_>>>()?;
        Series::multivariate(variates)
    };
    ends(&lengths, cell).map(|ends| ends.into_iter().enumerate().map(cut).collect()).transpose()
}

/// A batch of markets.
pub(super) fn of_markets(markets: &[Candles], cell: Cell) -> Option<Vec<Candles>> {
    let lengths: Vec<usize> = markets.iter().map(Candles::len).collect();
    let cut = |(item, (source, end)): (usize, (usize, usize))| {
        let market = &markets[source];
        market.before(end).tail(cell.context).renamed(format!("{} {item}", market.name()))
    };
    ends(&lengths, cell).map(|ends| ends.into_iter().enumerate().map(cut).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_come_from_every_source_that_is_long_enough() {
        let cell = Cell { context: 10, batch: 5 };
        assert_eq!(ends(&[30, 9, 12], cell), Some(vec![(0, 30), (2, 12), (0, 23), (2, 11), (0, 16)]));
        assert_eq!(ends(&[9], cell), None);
        let series = [Series::new("a", (0..12).map(|value| value as f32).collect()).unwrap()];
        let windows = of_series(&series, Cell { context: 10, batch: 2 }).unwrap().unwrap();
        assert_eq!((windows[0].values(0)[9], windows[1].values(0)[9]), (11.0, 10.0));
        assert_ne!(windows[0].names(), windows[1].names(), "their random numbers differ");
    }
}
