//! From series to the rows a plan takes: the tail of the history, padded on the left to whole patches.

use nowcast_engine::random::series_key;

use crate::forecaster::plans::Ready;
use crate::series::Series;
use crate::toto::Toto;
use crate::{Error, Result};

/// One series, ready for a plan.
pub(crate) struct Prepared {
    /// `[variates, patches, patch]`
    pub(crate) values: Vec<f32>,
    /// 1 for valid points, 0 for masked and padded ones.
    pub(crate) mask: Vec<f32>,
    pub(crate) groups: Vec<i32>,
    pub(crate) streams: Vec<i32>,
    pub(crate) patches: usize,
}

/// Takes the last `context` steps of a series.
pub(crate) fn prepare(series: &Series, context: usize, patch: usize) -> Result<Prepared> {
    let series = series.tail(context);
    let patches = series.length().div_ceil(patch);
    let padding = patches * patch - series.length();
    let mut values = Vec::with_capacity(series.variates() * patches * patch);
    let mut mask = Vec::with_capacity(values.capacity());
    for variate in 0..series.variates() {
        if !series.values(variate).iter().any(|value| value.is_finite()) {
            return Err(Error::Data(format!(
                "{:?} has no value among its last {} steps: choose another column or a longer context",
                series.names()[variate],
                series.length()
            )));
        }
        values.resize(values.len() + padding, 0.0);
        mask.resize(mask.len() + padding, 0.0);
        append_filled(series.values(variate), &mut values);
        mask.extend(series.valid(variate).iter().map(|&valid| if valid { 1.0 } else { 0.0 }));
    }
    let streams = series.names().iter().enumerate().map(|(index, name)| stream(name, index)).collect();
    Ok(Prepared { values, mask, groups: group_indices(series.groups()), streams, patches })
}

/// Hands a batch to its plan; the future of exogenous variates apart.
pub(crate) fn write<'a>(ready: &mut Ready<Toto>, batch: impl Iterator<Item = &'a Prepared> + Clone) {
    let floats = |part: fn(&Prepared) -> &[f32]| batch.clone().map(part).collect::<Vec<_>>().concat();
    let integers = |part: fn(&Prepared) -> &[i32]| batch.clone().map(part).collect::<Vec<_>>().concat();
    ready.executable.write(ready.tensors.values, &floats(|one| &one.values));
    ready.executable.write(ready.tensors.mask, &floats(|one| &one.mask));
    ready.executable.write_integers(ready.tensors.groups, &integers(|one| &one.groups));
    ready.executable.write_integers(ready.tensors.streams, &integers(|one| &one.streams));
}

/// Missing points are masked, yet the embedding reads them: they repeat the value before them (or, at the start, the
/// first one), which says the least.
fn append_filled(values: &[f32], out: &mut Vec<f32>) {
    let mut last = values.iter().copied().find(|value| value.is_finite()).unwrap_or(0.0);
    out.extend(values.iter().map(|&value| {
        if value.is_finite() {
            last = value;
        }
        last
    }));
}

/// A random stream of its own for each name; equal names within one series are told apart by their place.
fn stream(name: &str, index: usize) -> i32 {
    const GOLDEN: u32 = 0x9e37_79b9;
    series_key(name).wrapping_add((index as u32).wrapping_mul(GOLDEN)) as i32
}

/// Group ids only matter by equality: numbered in order of appearance they fit 32 bits.
fn group_indices(groups: &[i64]) -> Vec<i32> {
    let mut seen: Vec<i64> = Vec::new();
    groups
        .iter()
        .map(|group| match seen.iter().position(|other| other == group) {
            Some(index) => index as i32,
            None => {
                seen.push(*group);
                seen.len() as i32 - 1
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_padded_on_the_left_and_holes_repeat_the_value_before() {
        let series = Series::new("a", vec![9.0, f32::NAN, 1.0, f32::NAN, 3.0]).unwrap();
        let prepared = prepare(&series, 4, 3).unwrap();
        assert_eq!(prepared.patches, 2);
        assert_eq!(prepared.values, [0.0, 0.0, 1.0, 1.0, 1.0, 3.0]);
        assert_eq!(prepared.mask, [0.0, 0.0, 0.0, 1.0, 0.0, 1.0]);
    }

    #[test]
    fn a_series_without_values_is_refused() {
        let series = Series::new("a", vec![f32::NAN; 5]).unwrap();
        assert!(prepare(&series, 5, 4).is_err());
    }

    #[test]
    fn equal_names_in_one_series_have_streams_of_their_own() {
        let series = Series::multivariate(vec![("a".into(), vec![1.0]), ("a".into(), vec![2.0])]).unwrap();
        let prepared = prepare(&series, 1, 1).unwrap();
        assert_ne!(prepared.streams[0], prepared.streams[1]);
        let alone = prepare(&Series::new("a", vec![1.0]).unwrap(), 1, 1).unwrap();
        assert_eq!(alone.streams[0], prepared.streams[0]);
    }

    #[test]
    fn groups_keep_their_equalities() {
        assert_eq!(group_indices(&[i64::MAX, 7, i64::MAX, -1]), [0, 1, 0, 2]);
    }
}
