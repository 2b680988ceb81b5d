//! From series to the rows a plan takes: the tail of the history, padded on the left to whole patches.

use nowcast_engine::random::series_key;

use crate::forecaster::plans::Ready;
use crate::series::Series;
use crate::toto::Toto;
use crate::{Error, Result};

/// One series, ready for a plan.
pub(crate) struct Prepared<'a> {
    series: &'a Series,
    /// Steps that are looked at, the last ones.
    context: usize,
    patch: usize,
    pub(crate) patches: usize,
}

/// Takes the last `context` steps of a series.
pub(crate) fn prepare(series: &Series, context: usize, patch: usize) -> Result<Prepared<'_>> {
    let context = context.min(series.length());
    let prepared = Prepared { series, context, patch, patches: context.div_ceil(patch) };
    for (variate, name) in series.names().iter().enumerate() {
        if !prepared.values(variate).iter().any(|value| value.is_finite()) {
            return Err(Error::Data(format!(
                "{name:?} has no value among its last {context} steps: choose another column or a longer context"
            )));
        }
    }
    Ok(prepared)
}

impl Prepared<'_> {
    fn values(&self, variate: usize) -> &[f32] {
        &self.series.values(variate)[self.series.length() - self.context..]
    }

    fn valid(&self, variate: usize) -> &[bool] {
        &self.series.valid(variate)[self.series.length() - self.context..]
    }
}

/// Hands a batch to its plan, straight into its inputs; the future of exogenous variates apart.
pub(crate) fn write<'a>(ready: &mut Ready<Toto>, batch: impl Iterator<Item = &'a Prepared<'a>> + Clone) {
    let (executable, tensors) = (&mut ready.executable, &ready.tensors);
    write_rows(executable.input(tensors.values), batch.clone(), write_values);
    write_rows(executable.input(tensors.mask), batch.clone(), write_mask);
    let groups: Vec<i32> = batch.clone().flat_map(|one| group_indices(one.series.groups())).collect();
    let streams: Vec<i32> = batch.flat_map(|one| streams(one.series.names())).collect();
    executable.write_integers(tensors.groups, &groups);
    executable.write_integers(tensors.streams, &streams);
}

/// Writes `[variates, patches, patch]` of every series, padded with zeros on the left.
fn write_rows<'a>(
    mut places: &mut [f32],
    batch: impl Iterator<Item = &'a Prepared<'a>>,
    write: impl Fn(&Prepared, usize, &mut [f32]),
) {
    for one in batch {
        for variate in 0..one.series.variates() {
            let (row, behind) = places.split_at_mut(one.patches * one.patch);
            let (padding, row) = row.split_at_mut(row.len() - one.context);
            padding.fill(0.0);
            write(one, variate, row);
            places = behind;
        }
    }
}

/// Missing points are masked, yet the embedding reads them: they repeat the value before them (or, at the start, the
/// first one), which says the least.
fn write_values(one: &Prepared, variate: usize, row: &mut [f32]) {
    let values = one.values(variate);
    row.copy_from_slice(values);
    // Several at once, where the loop below goes one by one.
    if values.iter().fold(true, |all, value| all & value.is_finite()) {
        return;
    }
    let mut last = values.iter().copied().find(|value| value.is_finite()).unwrap_or(0.0);
    for value in row {
        if value.is_finite() {
            last = *value;
        }
        *value = last;
    }
}

/// 1 for valid points, 0 for masked ones.
fn write_mask(one: &Prepared, variate: usize, row: &mut [f32]) {
    row.iter_mut().zip(one.valid(variate)).for_each(|(place, &valid)| *place = f32::from(u8::from(valid)));
}

/// The random streams of variates.
fn streams(names: &[String]) -> impl Iterator<Item = i32> {
    names.iter().enumerate().map(|(index, name)| stream(name, index))
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

    /// Values and mask as a plan finds them, where something else stood before.
    fn rows(prepared: &Prepared) -> [Vec<f32>; 2] {
        let rows = |write: fn(&Prepared, usize, &mut [f32])| {
            let mut places = vec![7.0; prepared.series.variates() * prepared.patches * prepared.patch];
            write_rows(&mut places, std::iter::once(prepared), write);
            places
        };
        [rows(write_values), rows(write_mask)]
    }

    #[test]
    fn the_tail_is_padded_on_the_left_and_holes_repeat_the_value_before() {
        let series = Series::new("a", vec![9.0, f32::NAN, 1.0, f32::NAN, 3.0]).unwrap();
        let prepared = prepare(&series, 4, 3).unwrap();
        assert_eq!(prepared.patches, 2);
        assert_eq!(rows(&prepared), [[0.0, 0.0, 1.0, 1.0, 1.0, 3.0], [0.0, 0.0, 0.0, 1.0, 0.0, 1.0]]);
    }

    #[test]
    fn variates_follow_each_other_and_masked_points_keep_their_values() {
        let variates = vec![("a".into(), vec![8.0, 1.0, 2.0]), ("b".into(), vec![9.0, 3.0, f32::INFINITY])];
        let series = Series::multivariate(variates).unwrap().with_mask(&[true, false, true, true, true, true]).unwrap();
        let prepared = prepare(&series, 2, 3).unwrap();
        assert_eq!(rows(&prepared), [[0.0, 1.0, 2.0, 0.0, 3.0, 3.0], [0.0, 0.0, 1.0, 0.0, 1.0, 0.0]]);
    }

    #[test]
    fn a_series_without_values_is_refused() {
        let series = Series::new("a", vec![f32::NAN; 5]).unwrap();
        assert!(prepare(&series, 5, 4).is_err());
        let series = Series::new("a", vec![1.0, f32::NAN]).unwrap();
        assert!(prepare(&series, 1, 4).is_err(), "the value is outside of the context");
    }

    #[test]
    fn equal_names_in_one_series_have_streams_of_their_own() {
        let both: Vec<i32> = streams(&["a".into(), "a".into()]).collect();
        assert_ne!(both[0], both[1]);
        assert_eq!(streams(&["a".into()]).collect::<Vec<_>>(), both[..1]);
    }

    #[test]
    fn groups_keep_their_equalities() {
        assert_eq!(group_indices(&[i64::MAX, 7, i64::MAX, -1]), [0, 1, 0, 2]);
    }
}
