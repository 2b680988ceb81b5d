//! `bench --roofline`: what the processor can do, and what each operation makes of it.

use serde_json::Value;

use crate::answer::{parse, run};
use crate::program::{Call, kronos, model};

const RUNS: &str = "3";

fn roofline<'a>(model: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let fixed = ["bench", "--roofline", "--model", model, "--context", "64", "--horizon", "20", "--samples", "8"];
    let own = ["--runs", RUNS, "--threads", "2", "--device", "cpu"];
    [&fixed[..], &own, more].concat()
}

fn number(line: &Value, key: &str) -> f64 {
    line[key].as_f64().unwrap_or_else(|| panic!("{key} in {line}"))
}

/// Multiplications and additions of `rows x inputs -> outputs`.
fn flops_of(shape: &str) -> f64 {
    let numbers: Vec<f64> =
        shape.split(|letter: char| !letter.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    2.0 * numbers[0] * numbers[1] * numbers[2]
}

#[test]
fn every_operation_stands_beside_its_limit() {
    for (model, samplers) in [(model(), "sample mixture"), (kronos(), "sample token")] {
        let answer = parse(&run(&roofline(&model, &["--json"])));
        let limits = &answer["limits"];
        let memory = number(limits, "memory_gigabytes_per_second");
        let peak = number(&limits["gigaflops"], "f32");
        assert!(memory > 0.0 && peak > 0.0, "{limits}");
        let bandwidth = number(limits, "weights_gigabytes_per_second").max(memory);

        let operations = answer["operations"].as_array().unwrap();
        assert!(operations.iter().any(|line| line["operation"] == samplers), "{model}");
        let mut ms = 0.0;
        for line in operations {
            ms += number(line, "ms");
            let least = (number(line, "bytes") / bandwidth / 1e6).max(number(line, "flops") / peak / 1e6);
            let limit = least.min(number(line, "ms"));
            // A handful of f64 roundings on the way.
            assert!((number(line, "limit_ms") - limit).abs() <= 1e-9 * limit, "{line}");
            assert!((0.0..=1.0).contains(&number(line, "share_of_limit")), "{line}");
            if line["operation"] == "linear" {
                let expected = number(line, "calls") * flops_of(line["shape"].as_str().unwrap());
                assert!((number(line, "flops") - expected).abs() <= 1e-9 * expected, "{line}");
            }
        }
        assert!((number(&answer["all_operations"], "ms") - ms).abs() <= 1e-9 * ms);
        assert!(number(&answer, "outside_ms") > 0.0, "a forecast is more than its operations");
        assert_eq!(answer["settings"]["runs"].to_string(), RUNS);
        let [median, p99, sigma] = ["median_ms", "p99_ms", "sigma_ms"].map(|key| number(&answer["control"], key));
        assert!(0.0 < median && median <= p99 && sigma >= 0.0, "{}", answer["control"]);
    }
}

#[test]
fn people_get_a_table() {
    let text = run(&roofline(&model(), &[])).stdout;
    for words in ["GB/s", "GFLOPS", "linear", "products", "all operations", "over 3 runs", "read as often"] {
        assert!(text.contains(words), "{words} in\n{text}");
    }
}

#[test]
fn a_gpu_has_no_roofline_here() {
    let arguments = ["bench", "--roofline", "--model", &model(), "--device", "cuda"];
    let run = Call::new(&arguments).run();
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("--roofline") && run.stderr.contains("--device cpu"), "{}", run.stderr);
}
