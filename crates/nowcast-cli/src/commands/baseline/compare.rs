//! What moved between two baselines.

use nowcast::{Error, Result};
use serde::Serialize;

use super::file::Baseline;

/// A score that is not what it was.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Moved {
    pub(super) model: String,
    pub(super) symbol: String,
    pub(super) score: &'static str,
    pub(super) before: f64,
    pub(super) now: f64,
    /// The difference as a share of what it was.
    pub(super) by: f64,
}

/// Refuses to compare what is not comparable: another model, other data.
///
/// # Errors
/// One line that names the first thing that differs.
pub(super) fn check_same(before: &Baseline, now: &Baseline) -> Result<()> {
    let differs =
        |what: String| Err(Error::Data(format!("{what}: save a new baseline, or go back to what it was made of")));
    for (name, data) in &before.data {
        match now.data.get(name) {
            None => return Err(Error::Data(format!("the baseline was made of {name} too: name that file as well"))),
            Some(found) if found.sha256 != data.sha256 => {
                return differs(format!(
                    "{name} is not the file of the baseline ({} rows then, {} now, SHA-256 {}... then, {}... now)",
                    data.rows,
                    found.rows,
                    short(&data.sha256),
                    short(&found.sha256)
                ));
            }
            Some(_) => {}
        }
    }
    if let Some(name) = now.data.keys().find(|name| !before.data.contains_key(*name)) {
        return Err(Error::Data(format!("the baseline knows no {name}: leave that file out, or save a new baseline")));
    }
    for (name, model) in &before.models {
        let found = now.models.get(name).map_or("", |model| &model.sha256);
        if found != model.sha256 {
            let (then, now) = (short(&model.sha256), short(found));
            return differs(format!("{name} is not the model of the baseline (SHA-256 {then}... then, {now}... now)"));
        }
    }
    Ok(())
}

/// Enough of a hash to tell it by; hashes of damaged files may hold anything.
fn short(hash: &str) -> String {
    hash.chars().take(12).collect()
}

/// Every score that moved by more than the tolerance.
pub(super) fn moved(before: &Baseline, now: &Baseline, tolerance: f64) -> Vec<Moved> {
    let mut moved = Vec::new();
    for (model, measured) in &before.models {
        for (symbol, score) in &measured.symbols {
            let found = now.models.get(model).and_then(|measured| measured.symbols.get(symbol));
            for (at, (name, before)) in score.numbers().into_iter().enumerate() {
                let now = found.map_or(f64::NAN, |score| score.numbers()[at].1);
                let by = if now == before { 0.0 } else { (now - before) / before.abs() };
                // A score that is gone has moved too.
                let within = by.abs() <= tolerance;
                if !within {
                    let (model, symbol) = (model.clone(), symbol.clone());
                    moved.push(Moved { model, symbol, score: name, before, now, by });
                }
            }
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::super::file::{Data, Measured, Score, Settings};
    use super::*;

    fn baseline(mae: f64) -> Baseline {
        let settings = Settings {
            columns: Vec::new(),
            context: None,
            dtype: "f32".into(),
            horizon: 8,
            mode: None,
            samples: None,
            seed: 0,
            time: None,
            tolerance: 0.01,
            windows: 4,
        };
        let score = Score { coverage_80: 0.8, mae, mae_percent: 2.0, verdict: "excellent".into(), wql: 0.0 };
        let mut baseline = Baseline::new(settings);
        baseline.data.insert("a.csv".into(), Data { rows: 3, sha256: "11".into() });
        let symbols = [("a".to_string(), score)].into();
        baseline.models.insert("nano".into(), Measured { context: 512, paths: 0, sha256: "22".into(), symbols });
        baseline
    }

    #[test]
    fn only_what_moved_beyond_the_tolerance_is_named() {
        assert_eq!(moved(&baseline(2.0), &baseline(2.0), 0.0), []);
        assert_eq!(moved(&baseline(2.0), &baseline(2.01), 0.01), []);
        let found = moved(&baseline(2.0), &baseline(2.1), 0.01);
        assert_eq!((found.len(), found[0].score, found[0].symbol.as_str()), (1, "mae", "a"));
        assert!((found[0].by - 0.05).abs() < 1e-12);
        let mut gone = baseline(2.0);
        gone.models.get_mut("nano").unwrap().symbols.clear();
        assert_eq!(moved(&baseline(2.0), &gone, 0.5).len(), 4);
    }

    #[test]
    fn other_data_and_other_models_are_refused_by_name() {
        let before = baseline(2.0);
        assert!(check_same(&before, &before).is_ok());
        let refused = |change: fn(&mut Baseline)| {
            let mut now = before.clone();
            change(&mut now);
            check_same(&before, &now).unwrap_err().to_string()
        };
        let other = refused(|now| now.data.get_mut("a.csv").unwrap().sha256 = "12".into());
        assert!(other.contains("a.csv is not the file"), "{other}");
        assert!(refused(|now| now.data.clear()).contains("made of a.csv"));
        let more = refused(|now| drop(now.data.insert("b.csv".into(), Data { rows: 1, sha256: "3".into() })));
        assert!(more.contains("no b.csv"), "{more}");
        let model = refused(|now| now.models.get_mut("nano").unwrap().sha256 = "23".into());
        assert!(model.contains("nano is not the model"), "{model}");
    }
}
