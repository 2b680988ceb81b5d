//! Sorting samples on the CPU against a plain loop.

use nowcast_engine::check::{live, moving};
use nowcast_engine::cpu::CpuDevice;

/// The values in ascending order, each put where it belongs among those before it.
fn inserted(values: impl Iterator<Item = f32>) -> Vec<f32> {
    let mut sorted: Vec<f32> = Vec::new();
    for value in values {
        let place = sorted.iter().position(|other| *other > value).unwrap_or(sorted.len());
        sorted.insert(place, value);
    }
    sorted
}

#[test]
fn samples_of_each_step_are_in_order() {
    let lives = [live(2, 3, 77), live(1, 2, 64), live(2, 1, 1)];
    let case = moving(77);
    let names: Vec<&str> = case.outputs.iter().map(|(name, _)| *name).collect();
    let place = |name| names.iter().position(|other| *other == name).unwrap();
    let (paths, sorted) = (place("paths"), place("sorted"));
    let (results, _) = case.run(&CpuDevice::new(Some(2)).with_poisoned_memory(), &lives).unwrap();
    let mut moved = 0;
    for (results, live) in results.chunks(names.len()).zip(lives) {
        // [series, samples, steps] and [series, steps, samples]
        let steps = results[paths].len() / (live.batch * 3 * live.samples);
        let mut found = results[sorted].chunks_exact(live.samples);
        for series in results[paths].chunks_exact(live.samples * steps) {
            for step in 0..steps {
                let drawn: Vec<f32> = series[step..].iter().step_by(steps).map(|&value| value as f32).collect();
                let expected = inserted(drawn.iter().copied());
                let found: Vec<f32> = found.next().unwrap().iter().map(|&value| value as f32).collect();
                moved += usize::from(expected != drawn);
                assert_eq!(found, expected);
            }
        }
        assert!(found.next().is_none());
    }
    assert!(moved > 30, "{moved} steps were out of order");
}
