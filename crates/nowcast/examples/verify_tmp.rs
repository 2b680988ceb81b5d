fn main() {
    let eager = std::env::args().nth(2).is_some();
    let r =
        nowcast::golden::verify(std::path::Path::new(&std::env::args().nth(1).unwrap()), None, eager, &mut |_, _| ())
            .unwrap();
    for c in &r.cases {
        println!("== {} pass={} {}", c.case, c.pass, c.failure.clone().unwrap_or_default());
        for k in &c.checks {
            println!(
                "  {} {:40} {:.3e} ref {:?} limit {:.3e}",
                if k.pass { "ok  " } else { "FAIL" },
                k.tensor,
                k.error,
                k.reference_error.map(|x| (x * 1e9).round() / 1e9),
                k.limit
            );
        }
    }
    println!("{} passed {} failed", r.passed, r.failed);
}
