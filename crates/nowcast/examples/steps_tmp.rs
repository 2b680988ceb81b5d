use nowcast::checkpoint::Checkpoint;
fn main() {
    let d = std::env::args().nth(1).unwrap();
    let r = nowcast::golden::mean_for_debug(std::path::Path::new(&d));
    let c = Checkpoint::open(&std::path::Path::new(&d).join("golden.safetensors")).unwrap();
    let f32v = c.tensor("mean_kv").unwrap().to_f64().unwrap();
    let f64v = c.tensor("mean_kv_f64").unwrap().to_f64().unwrap();
    for s in 0..4 {
        let mut e = 0.0f64;
        let mut p = 0.0f64;
        let (mut e2, mut p2) = (0.0f64, 0.0);
        for i in s * 16..((s + 1) * 16).min(f64v.len()) {
            e = e.max((r[i] - f64v[i]).abs());
            p = p.max((f32v[i] - f64v[i]).abs());
            e2 += (r[i] - f64v[i]).powi(2);
            p2 += (f32v[i] - f64v[i]).powi(2);
        }
        println!(
            "step {s} ours max {e:.2e} rms {:.2e} torch max {p:.2e} rms {:.2e}",
            (e2 / 16.0).sqrt(),
            (p2 / 16.0).sqrt()
        );
    }
}
