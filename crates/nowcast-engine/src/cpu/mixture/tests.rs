//! (timing first)
use super::*;
#[test]
fn time() {
    let k = 24;
    let positions = 64;
    let rows = 256;
    let mut state = 12345u64;
    let raw: Vec<f32> = (0..rows * positions * 4 * k)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 40) as f32 / 16777216.0 - 0.5) * 4.0
        })
        .collect();
    let loc = [1.0f32];
    let scale = [2.0f32];
    let input = HeadOutput {
        head: Head::Mixture { components: k },
        raw: &raw,
        row_stride: positions * 4 * k,
        positions,
        affine: Affine { location: &loc, scale: &scale, row_stride: 0, position_stride: 0 },
    };
    let mut out = vec![0.0; rows * positions];
    for shared in [true, false] {
        let draws = Draws { seed: 1, step: 0, series_keys: &[7], samples: rows, first_sample: 0, shared };
        for _ in 0..8 {
            let t = std::time::Instant::now();
            sample(&input, &draws, 0..rows, &mut Output { values: &mut out, row_stride: positions }).unwrap();
            eprintln!("{shared} {:?} {}", t.elapsed(), out[5]);
        }
    }
}
