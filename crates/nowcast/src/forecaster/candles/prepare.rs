//! From candles to what a plan takes.

use nowcast_engine::random::series_key;

use crate::candles::{Candles, time_features};
use crate::forecaster::plans::Ready;
use crate::kronos::Kronos;
use crate::kronos::normalise::Units;
use crate::{Error, Result};

/// One market, ready for a plan.
pub(crate) struct Prepared {
    pub(crate) units: Units,
    /// `[context, 6]`, normalised and clipped.
    pub(crate) candles: Vec<f32>,
    /// `[context + horizon, 5]`
    pub(crate) stamps: Vec<i32>,
    pub(crate) stream: i32,
    /// Candles of context.
    pub(crate) context: usize,
}

/// Hands a batch to its plan.
pub(crate) fn write<'a>(ready: &mut Ready<Kronos>, batch: impl Iterator<Item = &'a Prepared> + Clone) {
    let mut places = ready.executable.input(ready.tensors.candles);
    for one in batch.clone() {
        let (candles, behind) = places.split_at_mut(one.candles.len());
        candles.copy_from_slice(&one.candles);
        places = behind;
    }
    let stamps: Vec<i32> = batch.clone().flat_map(|one| &one.stamps).copied().collect();
    let streams: Vec<i32> = batch.map(|one| one.stream).collect();
    ready.executable.write_integers(ready.tensors.stamps, &stamps);
    ready.executable.write_integers(ready.tensors.streams, &streams);
}

/// Takes the last `context` candles of a market.
pub(crate) fn prepare(market: &Candles, context: usize, horizon: usize, clip: f32) -> Result<Prepared> {
    if market.future().len() < horizon {
        return Err(Error::Data(format!(
            "{:?} tells the times of {} future candles where {horizon} are asked for: give one for each",
            market.name(),
            market.future().len()
        )));
    }
    let first = market.len().saturating_sub(context);
    // The reference casts to f32 before it normalises.
    let rows: Vec<[f32; 6]> = market.rows()[first..].iter().map(|row| row.map(|value| value as f32)).collect();
    let units = Units::of(&rows);
    let candles = units.normalise(&rows, clip).into_flattened();
    let times = market.stamps()[first..].iter().chain(&market.future()[..horizon]);
    let stamps = times.flat_map(time_features).collect();
    Ok(Prepared { units, candles, stamps, stream: series_key(market.name()) as i32, context: rows.len() })
}
