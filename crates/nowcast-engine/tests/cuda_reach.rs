//! Rows that are cut where they are made, by one power of two for all of them: against sums in f64, against the same rows when
//! somebody else reads them too, and in other company.
//!
//! The kernels run compiled for this processor (everywhere a C++ compiler is), and on a GPU where there is one.

mod devices;
mod layers;
mod numbers;
mod passes;

use devices::devices;
use layers::{Layer, Maker};
use nowcast_engine::device::Device;
use nowcast_engine::dtype::Dtype;
use nowcast_engine::extent::Live;
use nowcast_engine::rotary::Pairing;
use numbers::bits;

/// bf16, which needs no powers of two, has tests of its own in `cuda_tensor_cores` and `cuda_own_tokens`.
const DTYPES: [Dtype; 2] = [Dtype::F32, Dtype::Tf32];

/// A layer in several companies, series, tokens, room for tokens and samples of each: all within their tolerance, whoever cuts
/// the rows, and the first path's with the same digits in each.
fn compare(layer: Layer, companies: &[[usize; 4]]) {
    for device in devices() {
        let mut first: Option<Vec<u64>> = None;
        for &[batch, context, room, samples] in companies {
            let live = Live { batch, context, samples };
            let name = format!("{}: {layer:?} {live:?}", device.describe());
            let [handed, kept] = [false, true].map(|keeps| layer.run(&device, live, room, keeps));
            for (pass, (handed, kept)) in handed.iter().zip(&kept).enumerate() {
                let worst = layer.check(&name, kept);
                eprintln!("{name}, pass {pass}: {worst:.3} of what is allowed");
                assert_eq!(bits(&handed[1]), bits(&kept[1]), "{name}, pass {pass}: a reader changes digits");
            }
            let digits = bits(&handed[1][1][..layer.outputs]);
            assert_eq!(*first.get_or_insert_with(|| digits.clone()), digits, "{name}: company changes digits");
        }
    }
}

const GATED: Layer =
    Layer { dtype: Dtype::F32, maker: Maker::Gate, inputs: 160, width: 2848, outputs: 2144, outlier: 0.0 };

/// Rows that stream past weights, and such as blocks share out and rings take; the test of tile.rs says which.
#[test]
fn gated_rows() {
    for dtype in DTYPES {
        compare(Layer { dtype, ..GATED }, &[[1, 6, 8, 1], [1, 3, 3, 70]]);
        compare(Layer { dtype, outputs: 72, ..GATED }, &[[1, 6, 8, 5]]);
        compare(Layer { dtype, inputs: 512, width: 512, outputs: 1280, ..GATED }, &[[1, 3, 3, 150]]);
    }
}

/// One column that could be so large that a power of two for all rows would leave nothing of the others, but never is.
#[test]
fn rows_that_could_reach_far_have_their_own_powers_of_two() {
    for maker in [Maker::Gate, attention(3)] {
        let layer = Layer { maker, width: 192, outputs: 40, outlier: 1e7, ..GATED };
        compare(layer, &[[1, 4, 4, 5], [2, 4, 24, 30]]);
    }
}

fn attention(heads: usize) -> Maker {
    Maker::Attention { heads, pairing: Pairing::Interleaved }
}

/// Contexts of a few tokens, with and without company.
#[test]
fn tokens_that_attend_to_themselves() {
    for dtype in [Dtype::F32, Dtype::Tf32, Dtype::Bf16] {
        let layer = Layer { dtype, maker: attention(3), inputs: 192, width: 192, outputs: 72, outlier: 0.0 };
        compare(layer, &[[1, 4, 4, 1], [1, 4, 8, 5], [3, 4, 5, 40]]);
    }
}

/// Contexts of a chunk and of several, with few paths and many. The test of tile.rs says which products take rows that are
/// cut.
#[test]
fn paths_of_longer_contexts() {
    for dtype in DTYPES {
        let layer = Layer { dtype, maker: attention(8), inputs: 160, width: 512, outputs: 1280, outlier: 0.0 };
        compare(layer, &[[1, 130, 140, 1], [1, 130, 140, 200]]);
        compare(layer, &[[2, 60, 64, 75]]);
        // Heads that end within a step of sixteen components.
        compare(Layer { maker: attention(16), width: 832, outputs: 832, ..layer }, &[[1, 70, 70, 192]]);
    }
}

/// Warps that attend for sixteen rows each.
#[test]
fn many_paths_of_short_contexts() {
    for dtype in DTYPES {
        let layer = Layer { dtype, maker: attention(12), inputs: 160, width: 768, outputs: 640, outlier: 0.0 };
        compare(layer, &[[22, 20, 20, 39]]);
    }
}
