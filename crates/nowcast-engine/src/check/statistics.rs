//! Scalers, and mixtures in real units.

use super::case::{Case, live};
use crate::extent::Rows;
use crate::head::Head;
use crate::operation::{self, Operation};
use crate::plan::Element;
use crate::scaler::{STATE_WIDTH, Scaler};

/// Every kind of statistics.
pub const SCALERS: [Scaler; 4] = [
    Scaler::Global,
    Scaler::Causal,
    Scaler::CausalPatch { stabilise_exponent: None },
    Scaler::CausalPatch { stabilise_exponent: Some(10.0) },
];

/// The statistics of a context, continued over two patches of every path.
pub fn scaling<'a>(scaler: Scaler, patch: usize) -> Case<'a> {
    let mut case = Case::new(live(2, 9, 5));
    let (series, context) = (Rows::batch().times(3), Rows::batch().times(3).times_context(0));
    let values = case.input(context, patch, 1.0);
    let mask = case.input(context, patch, 1.0);
    let last = case.floats.len();
    case.floats[last - 2].1.iter_mut().for_each(|value| *value = 1000.0 + 20.0 * *value);
    case.floats[last - 1].1.iter_mut().for_each(|mask| *mask = f32::from(*mask > -0.7));
    let scaled = case.plan.tensor(context, patch);
    let [location, scale] = [(); 2].map(|()| case.plan.tensor_of(Element::F64, context, patch));
    let last = [(); 2].map(|()| case.plan.tensor_of(Element::F64, series, patch));
    let state = case.plan.tensor_of(Element::F64, series, STATE_WIDTH);
    case.plan.push(Operation::ScaleContext(operation::ScaleContext {
        scaler,
        values,
        mask,
        scaled,
        location,
        scale,
        last,
        state,
        series,
    }));
    for (name, tensor) in [("scaled", scaled), ("location", location), ("scale", scale)] {
        case.output(name, tensor);
    }
    case.output("last location", last[0]);
    case.output("last scale", last[1]);
    let parameters = case.input(series, 2 * patch * 3, 1.0);
    let streams = case.integers(series, 1, |index| index as i32 * 77 - 5);
    case.plan.begin_decode();
    let rows = series.times_samples();
    let paths = case.plan.tensor_of(Element::F64, rows, 2 * patch);
    let path_state = case.plan.tensor_of(Element::F64, rows, STATE_WIDTH);
    for step in 0..2 {
        case.plan.push(Operation::SampleMixture(operation::DrawMixture {
            parameters,
            location: last[0],
            scale: last[1],
            shared: true,
            head: Head::StudentT,
            positions: patch,
            streams,
            paths,
            column: step * patch,
            step,
            series,
        }));
        let scaled = case.plan.tensor(rows, patch);
        let [location, scale] = [(); 2].map(|()| case.plan.tensor_of(Element::F64, rows, patch));
        case.plan.push(Operation::ScaleStep(operation::ScaleStep {
            scaler,
            paths,
            column: step * patch,
            context_state: (step == 0).then_some(state),
            state: path_state,
            scaled,
            location,
            scale,
        }));
        for (name, tensor) in [("step scaled", scaled), ("step location", location), ("step scale", scale)] {
            case.output(name, tensor);
        }
    }
    case.output("paths", paths);
    case
}

/// Levels of quantiles, in no order, from the middle to the tails.
const LEVELS: [f64; 5] = [0.9, 0.5, 0.1, 1e-9, 0.999_999];

/// Mixtures from wide and narrow distributions, with weights of every size.
pub fn drawing<'a>(head: Head, shared: bool) -> Case<'a> {
    const POSITIONS: usize = 7;
    let mut case = Case::new(live(3, 1, 37));
    let (series, paths_rows) = (Rows::batch(), Rows::batch().times_samples());
    let rows = if shared { series } else { paths_rows };
    let parameters = case.input(rows, POSITIONS * head.values(), 9.0);
    let streams = case.integers(series, 1, |index| index as i32 * 0x0123_4567 - 3);
    let location = case.input(rows, POSITIONS, 100.0);
    let mask = case.input(rows, POSITIONS, 1.0);
    let last = case.floats.len() - 1;
    case.floats[last].1.fill(1.0);
    if !shared {
        case.plan.begin_decode();
    }
    // Affine parameters are f64: those of a scaler.
    let scaled = case.plan.tensor(rows, POSITIONS);
    let [affine_location, affine_scale] = [(); 2].map(|()| case.plan.tensor_of(Element::F64, rows, POSITIONS));
    let last = [(); 2].map(|()| case.plan.tensor_of(Element::F64, rows, POSITIONS));
    let state = case.plan.tensor_of(Element::F64, rows, STATE_WIDTH);
    case.plan.push(Operation::ScaleContext(operation::ScaleContext {
        scaler: Scaler::Causal,
        values: location,
        mask,
        scaled,
        location: affine_location,
        scale: affine_scale,
        last,
        state,
        series: rows,
    }));
    let wide = POSITIONS * head.components();
    let [degrees_of_freedom, location, scale, logits] = [(); 4].map(|()| case.plan.tensor(rows, wide));
    case.plan.push(Operation::ActivateMixture(operation::ActivateMixture {
        parameters,
        head,
        positions: POSITIONS,
        degrees_of_freedom,
        location,
        scale,
        logits,
    }));
    for (name, tensor) in
        [("degrees of freedom", degrees_of_freedom), ("location", location), ("scale", scale), ("logits", logits)]
    {
        case.output(name, tensor);
    }
    let levels = case.doubles(&LEVELS);
    let quantiles = case.plan.tensor_of(Element::F64, rows, LEVELS.len() * POSITIONS);
    case.plan.push(Operation::MixtureQuantiles(operation::MixtureQuantiles {
        head,
        positions: POSITIONS,
        parameters: [degrees_of_freedom, location, scale, logits],
        affine: [affine_location, affine_scale],
        levels,
        quantiles,
    }));
    case.output("quantiles", quantiles);
    if shared {
        case.plan.begin_decode();
    }
    let paths = case.plan.tensor_of(Element::F64, paths_rows, POSITIONS + 2);
    let draw = operation::DrawMixture {
        parameters,
        location: affine_location,
        scale: affine_scale,
        shared,
        head,
        positions: POSITIONS,
        streams,
        paths,
        column: 0,
        step: 5,
        series,
    };
    // The columns behind are drawn too, so that none is left unwritten.
    for column in [2, 0] {
        case.plan.push(Operation::SampleMixture(operation::DrawMixture { column, ..draw.clone() }));
    }
    case.output("samples", paths);
    if !shared {
        let means = case.plan.tensor_of(Element::F64, paths_rows, POSITIONS);
        case.plan.push(Operation::MeanMixture(operation::DrawMixture { paths: means, ..draw }));
        case.output("means", means);
    }
    case
}
