//! Rows that move, and what lies between integers and integers.

use super::case::{Case, live, scattered};
use crate::extent::Rows;
use crate::operation::{self, Operation};
use crate::plan::Element;
use crate::scaler::{STATE_WIDTH, Scaler};

/// Labels, last rows, sums, known futures, roundings and samples in order.
pub fn moving<'a>(samples: usize) -> Case<'a> {
    let mut case = Case::new(live(2, 5, samples));
    let series = Rows::batch().times(3);
    let input = case.input(series.times_context(0), 6, 1.0);
    let output = case.plan.tensor(series.times_context(1), 6);
    let target = case.list.vector((0..6).map(|i| i as f32 + 0.5).collect());
    let exogenous = case.list.vector((0..6).map(|i| -(i as f32)).collect());
    case.plan.push(Operation::PrependLabel(operation::PrependLabel {
        input,
        output,
        target,
        exogenous,
        variates: 3,
        exogenous_variates: 1,
        series,
    }));
    case.output("labelled", output);
    let last = case.plan.last_row(output, series);
    case.output("last", last);
    let sum = case.plan.tensor(series, 6);
    case.plan.push(Operation::Add(operation::Add { left: last, right: last, output: sum }));
    case.output("sum", sum);

    let future = case.input(Rows::batch().times(1), 8, 3.0);
    let values = case.input(series.times_samples(), 8, 1.0);
    let mask = case.input(series.times_samples(), 8, 1.0);
    let last = case.floats.len() - 1;
    case.floats[last].1.fill(1.0);
    case.plan.begin_decode();
    let rows = series.times_samples();
    let scaled = case.plan.tensor(rows, 8);
    let [paths, scale] = [(); 2].map(|()| case.plan.tensor_of(Element::F64, rows, 8));
    let last = [(); 2].map(|()| case.plan.tensor_of(Element::F64, rows, 8));
    let state = case.plan.tensor_of(Element::F64, rows, STATE_WIDTH);
    let scaler = Scaler::Causal;
    case.plan.push(Operation::ScaleContext(operation::ScaleContext {
        scaler,
        values,
        mask,
        scaled,
        location: paths,
        scale,
        last,
        state,
        series: rows,
    }));
    case.plan.push(Operation::OverwriteExogenous(operation::OverwriteExogenous {
        paths,
        future,
        columns: 2..5,
        variates: 3,
        exogenous: 1,
    }));
    case.output("paths", paths);
    let rounded = case.plan.tensor(rows, 8);
    case.plan.push(Operation::Round(operation::Round { input: paths, output: rounded }));
    case.output("rounded", rounded);
    let sorted = case.plan.tensor(rows.times(8), 1);
    case.plan.push(Operation::SortSamples(operation::SortSamples { paths, sorted, series }));
    case.output("sorted", sorted);
    case
}

/// Everything between integers and integers, every draw under one filter.
pub fn tokens<'a>(shared: bool, bits: usize) -> Case<'a> {
    let mut case = Case::new(live(2, 5, 11));
    let vocabulary = 1 << bits;
    let tables: Vec<_> = (0..10)
        .map(|salt| {
            let width = if salt % 2 == 0 { 12 } else { 20 };
            case.list.table(width, (0..vocabulary * width).map(|i| scattered(i, salt)).collect())
        })
        .collect();
    let series = Rows::batch();
    let signs = case.input(series.times_context(0), 2 * bits, 1.0);
    let pairs = case.plan.tensor_of(Element::I32, series.times_context(0), 2);
    case.plan.push(Operation::QuantiseBits(operation::QuantiseBits { input: signs, first_bits: bits, output: pairs }));
    case.output("pairs", pairs);
    let stamps = case.integers(Rows::fixed(7).times_context(0), 3, |index| (index * 37 % 128) as i32);
    let embedded = case.plan.tensor(series.times_context(0), 32);
    let terms = tables.iter().enumerate().map(|(which, &table)| operation::EmbedTerm {
        table,
        index: if which < 5 { pairs } else { stamps },
        groups: if which < 5 { series } else { Rows::fixed(1) },
        first: if which < 5 { Rows::fixed(0) } else { Rows::fixed(2) },
        column: which % 2,
        output_column: if which % 2 == 0 { 0 } else { 12 },
    });
    let terms = terms.collect();
    let tokens = Rows::fixed(1).times_context(0);
    case.plan.push(Operation::Embed(operation::Embed { terms, tokens, output: embedded }));
    case.output("embedded", embedded);
    let last = case.plan.last_row(embedded, series);
    let streams = case.integers(series, 1, |index| index as i32 - 9);
    let paths = series.times_samples();
    let rows = if shared { series } else { paths };
    let logits = case.input(rows, vocabulary, 4.0);
    case.plan.begin_decode();
    let repeated = case.plan.tensor(paths, 32);
    case.plan.push(Operation::RepeatRows(operation::RepeatRows { input: last, output: repeated }));
    case.output("repeated", repeated);
    let weights = case.plan.tensor_of(Element::F64, rows, vocabulary);
    let tokens = case.plan.tensor_of(Element::I32, paths, 2);
    for position in 0..2 {
        case.plan.push(Operation::SampleToken(operation::SampleToken {
            logits,
            weights,
            shared,
            streams,
            tokens,
            column: position,
            step: 3,
            position,
        }));
    }
    case.output("weights", weights);
    case.output("tokens", tokens);
    // Ties, of which top-p keeps some.
    let logits = case.floats.last_mut().expect("the logits were the last input");
    logits.1.iter_mut().for_each(|logit| *logit = (*logit * 4.0).round() / 4.0);
    case
}
