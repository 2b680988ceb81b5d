//! Products of weights, taken once when a model loads, in f64.

use std::sync::Mutex;
use std::thread;

use crate::Result;
use crate::checkpoint::TensorView;
use crate::weights::folding::{Right, multiply};

/// The output head as one matrix: `unembed` followed by the distribution's projections, both linear.
///
/// `unembed` is `[patch · width, width]` and `heads` `[outputs, width]`; the result is `[patch · outputs, width]`.
#[derive(Debug)]
pub(super) struct FoldedHead {
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

/// The distribution's projections stacked: df, location, scale and, for a mixture, logits.
#[derive(Debug, Clone)]
pub(super) struct Heads {
    pub(super) outputs: usize,
    pub(super) weight: Vec<f64>,
    pub(super) bias: Vec<f64>,
}

/// Folds `heads` after `unembed`, the patch positions shared out to threads.
pub(super) fn fold_head(
    heads: &Heads,
    unembed: &TensorView<'_>,
    bias: &[f64],
    patch: usize,
    threads: usize,
) -> Result<FoldedHead> {
    let width = unembed.row_length();
    let outputs = heads.outputs;
    let mut folded = FoldedHead { weight: vec![0.0; patch * outputs * width], bias: vec![0.0; patch * outputs] };
    let positions = folded.weight.chunks_mut(outputs * width).zip(folded.bias.chunks_mut(outputs)).enumerate();
    let queue = Mutex::new(positions);
    let work = || -> Result<()> {
        let mut row = vec![0.0f32; width];
        let mut block = vec![0.0f64; width * width];
        let mut product = vec![0.0f64; outputs * width];
        loop {
            let next = queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
            let Some((position, (weight, folded_bias))) = next else { return Ok(()) };
            for (index, target) in block.chunks_mut(width).enumerate() {
                unembed.weight_row(position * width + index, &mut row)?;
                target.iter_mut().zip(&row).for_each(|(wide, &narrow)| *wide = f64::from(narrow));
            }
            multiply(&heads.weight, Right::Plain(&block), &mut product, width);
            weight.iter_mut().zip(&product).for_each(|(narrow, &wide)| *narrow = wide as f32);
            let bias = &bias[position * width..(position + 1) * width];
            for (output, value) in folded_bias.iter_mut().enumerate() {
                let head = &heads.weight[output * width..(output + 1) * width];
                let product: f64 = head.iter().zip(bias).map(|(a, b)| a * b).sum();
                *value = (heads.bias[output] + product) as f32;
            }
        }
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(patch)).map(|_| scope.spawn(work)).collect();
        let mine = work();
        let joined =
            others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.fold(mine, Result::and)
    })?;
    Ok(folded)
}
