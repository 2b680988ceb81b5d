//! The comparison of modes passes what is right, and a device that errs fails the check that is about its error.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::ToSpan;
use jiff::civil::date;
use nowcast::checkpoint::ModelSource;
use nowcast::device::{CpuDevice, Device, Dtype};
use nowcast::equivalence::{Report, Scope, Way, verify_candles, verify_series};
use nowcast::kronos::KronosSource;
use nowcast::{CandleColumns, Candles, Series};
use nowcast_engine::device::{Activity, Executable, Launch, Resident};
use nowcast_engine::error::Result;
use nowcast_engine::extent::Live;
use nowcast_engine::plan::{Element, Plan, Section, Tensor};
use nowcast_engine::weights::WeightList;

/// What a device does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Error {
    Nothing,
    /// The first value read of every f32 tensor is off by a thousandth.
    WrongDigit,
    /// A late digit of what is read differs where more than one item runs.
    LateDigitInCompany,
    /// The newest key of the context is the one before it.
    StaleCacheRow,
    /// Further sample paths are not computed: what stands there is the paths before.
    SkippedStep,
    /// The host waits in every run.
    Waits,
    /// Twice the memory.
    Wastes,
}

struct Erring {
    inner: Arc<dyn Device>,
    error: Error,
}

struct ErringWeights {
    inner: Arc<dyn Resident>,
    error: Error,
}

struct ErringRun {
    inner: Box<dyn Executable>,
    error: Error,
    live: Option<Live>,
    runs: u64,
    /// What was last looked at.
    viewed: Vec<f32>,
}

impl Device for Erring {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn load(&self, weights: WeightList<'_>) -> Result<Arc<dyn Resident>> {
        Ok(Arc::new(ErringWeights { inner: self.inner.load(weights)?, error: self.error }))
    }
}

impl Resident for ErringWeights {
    fn bytes(&self) -> usize {
        if self.error == Error::Wastes { 2 * self.inner.bytes() } else { self.inner.bytes() }
    }

    fn plan_bytes(&self, plan: &Plan) -> Result<usize> {
        let bytes = self.inner.plan_bytes(plan)?;
        Ok(if self.error == Error::Wastes { 2 * bytes } else { bytes })
    }

    fn prepare(self: Arc<Self>, plan: Arc<Plan>) -> Result<Box<dyn Executable>> {
        let inner = Arc::clone(&self.inner).prepare(plan)?;
        Ok(Box::new(ErringRun { inner, error: self.error, live: None, runs: 0, viewed: Vec::new() }))
    }
}

impl ErringRun {
    /// The last two tokens of the first kept cache of keys: `[series, heads, head_dim, capacity]`, read as one row for each
    /// component.
    fn make_stale(&mut self, live: Live) {
        let capacity = self.inner.plan().capacity().context;
        let is_keys = |tensor: &&Tensor| {
            tensor.element == Element::F32 && CACHE_ROWS.iter().any(|rows| rows * capacity == tensor.width)
        };
        let Some(keys) = self.inner.plan().kept().iter().find(is_keys).copied() else { return };
        let mut values = vec![0.0; keys.rows.count(live) * keys.width];
        self.inner.read(keys, &mut values);
        for row in values.chunks_mut(capacity) {
            row[live.context - 1] = row[live.context - 2];
        }
        self.inner.write(keys, &values.iter().map(|&value| value as f32).collect::<Vec<_>>());
    }
}

/// Heads times components of a head, of the Toto and of the Kronos model below.
const CACHE_ROWS: [usize; 2] = [64, 48];

impl Executable for ErringRun {
    fn plan(&self) -> &Plan {
        self.inner.plan()
    }

    fn input(&mut self, tensor: Tensor) -> &mut [f32] {
        self.inner.input(tensor)
    }

    fn write_integers(&mut self, tensor: Tensor, values: &[i32]) {
        self.inner.write_integers(tensor, values);
    }

    fn write_doubles(&mut self, tensor: Tensor, values: &[f64]) {
        self.inner.write_doubles(tensor, values);
    }

    fn run(&mut self, section: Section, launch: &Launch) -> Result<()> {
        self.live = Some(launch.live);
        self.runs += 1;
        if self.error == Error::SkippedStep && launch.first_sample > 0 {
            return Ok(());
        }
        self.inner.run(section, launch)?;
        if self.error == Error::StaleCacheRow && section == Section::Prefill {
            self.make_stale(launch.live);
        }
        Ok(())
    }

    fn read(&mut self, tensor: Tensor, values: &mut [f64]) {
        self.inner.read(tensor, values);
        match self.error {
            Error::WrongDigit if tensor.element == Element::F32 => values[0] *= 1.001,
            Error::LateDigitInCompany if self.live.is_some_and(|live| live.batch > 1) => {
                // Less than any limit, more than the last digit of an answer.
                values[0] *= if tensor.element == Element::F64 { 1.0 + 2e-7 } else { 1.0 + 2e-6 };
            }
            _ => {}
        }
    }

    fn view(&mut self, tensor: Tensor) -> &[f32] {
        self.viewed = self.inner.view(tensor).to_vec();
        let are_candles = tensor.width == Candles::FIELDS.len();
        match self.error {
            Error::WrongDigit if are_candles => self.viewed[0] *= 1.001,
            Error::LateDigitInCompany if self.live.is_some_and(|live| live.batch > 1) => {
                // Candles are restored from smaller numbers: theirs is as late where it is read.
                self.viewed[0] *= if are_candles { 1.0 + 2e-6 } else { 1.0 + 2.0 * f32::EPSILON };
            }
            _ => {}
        }
        &self.viewed
    }

    fn activity(&self) -> Activity {
        let host_syncs = if self.error == Error::Waits { self.runs } else { 0 };
        Activity { host_syncs, ..self.inner.activity() }
    }
}

fn cpu(threads: usize, error: Error) -> Arc<dyn Device> {
    let inner = Arc::new(CpuDevice::new(Some(threads)).with_poisoned_memory());
    Arc::new(Erring { inner, error })
}

fn ways(error: Error) -> [Way; 2] {
    let way = |name: &str, same_digits| Way {
        name: name.into(),
        device: cpu(2, error),
        one_thread: Some(cpu(1, error)),
        eager: false,
        dtype: Dtype::F32,
        same_digits,
    };
    [way("default f32 cpu", false), way("reduce-overhead f32 cpu", true)]
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../goldens").join(name)
}

fn scope() -> Scope {
    Scope { contexts: vec![64, 100, 1_000_000], batches: vec![1, 5], batch_context: 64 }
}

fn walk(length: usize) -> impl Iterator<Item = f64> {
    let mut state = 3u64;
    (0..length).scan(50.0, move |level, _| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *level += (state >> 40) as f64 / f64::from(1 << 23) - 1.0;
        Some(*level)
    })
}

fn toto(error: Error) -> Report {
    let series = [Series::new("walk", walk(400).map(|value| value as f32).collect()).unwrap()];
    let source = ModelSource::Folder(golden("toto-univariate"));
    let devices = (cpu(2, Error::Nothing), &ways(error)[..]);
    verify_series(&source, &series, devices, &scope(), &mut |done, total| assert!(done <= total)).unwrap()
}

fn kronos(error: Error) -> Report {
    let close: Vec<f64> = walk(300).collect();
    let [open, high, low] = [-0.1, 0.6, -0.7].map(|shift| close.iter().map(|value| value + shift).collect());
    let volume = Some(walk(300).map(|value| value * 10.0).collect());
    let columns = CandleColumns { open, high, low, close, volume, amount: None };
    let stamps = |range: std::ops::Range<i64>| range.map(|day| date(2024, 1, 1).at(9, 0, 0, 0) + day.days()).collect();
    let markets = [Candles::new("walk", columns, stamps(0..300), stamps(300..310)).unwrap()];
    let folder = golden("kronos-predict");
    let [tokenizer, predictor] = ["tokenizer", "model"].map(|half| ModelSource::Folder(folder.join(half)));
    let devices = (cpu(2, Error::Nothing), &ways(error)[..]);
    verify_candles(&KronosSource { tokenizer, predictor }, &markets, devices, &scope(), &mut |_, _| ()).unwrap()
}

/// What failed anywhere.
fn failures(report: &Report) -> BTreeSet<&str> {
    assert_eq!(report.checks.iter().filter(|check| !check.pass).count(), report.failed);
    report.checks.iter().filter(|check| !check.pass).map(|check| check.what.as_str()).collect()
}

#[test]
fn what_is_right_passes_and_what_is_left_out_is_said() {
    for (report, family) in [(toto(Error::Nothing), "toto"), (kronos(Error::Nothing), "kronos")] {
        assert_eq!(failures(&report), BTreeSet::new(), "{family}");
        assert!(report.passed > 25, "{family}: {}", report.passed);
        assert!(report.notes.iter().any(|note| note.contains("1000000")), "{:?}", report.notes);
        for what in
            ["1 step: KV cache of the context", "digits that change in pieces", "memory beyond eager, as a share"]
        {
            assert!(report.checks.iter().any(|check| check.what == what), "{family}: {what}");
        }
        // Folding saves, it does not cost.
        let memory = report.checks.iter().filter(|check| check.what.starts_with("memory"));
        assert!(memory.clone().count() == 2 && memory.clone().all(|check| check.measured < 0.3), "{family}");
    }
    assert!(kronos(Error::Nothing).checks.iter().any(|check| check.what == "1 step: logits against f64"));
}

#[test]
fn a_wrong_digit_fails_every_comparison_with_the_baseline() {
    let expected = ["1 step: KV cache of the context", "1 step: mixture of the patch", "3 steps: KV cache of the path"];
    assert_eq!(failures(&toto(Error::WrongDigit)), expected.into());
    let report = kronos(Error::WrongDigit);
    assert!(
        failures(&report).is_superset(&["1 step: codes of the context", "1 step: logits"].into()),
        "{:?}",
        failures(&report)
    );
}

#[test]
fn a_late_digit_that_depends_on_company_is_seen() {
    for report in [toto(Error::LateDigitInCompany), kronos(Error::LateDigitInCompany)] {
        // A forecast in pieces is items in other company.
        assert_eq!(failures(&report), ["digits that change in company", "digits that change in pieces"].into());
    }
}

#[test]
fn a_stale_cache_row_is_seen_in_the_cache_and_behind_it() {
    let report = toto(Error::StaleCacheRow);
    assert_eq!(
        failures(&report),
        ["1 step: KV cache of the context", "3 steps: KV cache of the path", "3 steps: mean path"].into()
    );
    let cache = report.checks.iter().find(|check| !check.pass && check.what.contains("context")).unwrap();
    assert_eq!(cache.worst.as_deref(), Some("keys of attention 1"));
    let report = kronos(Error::StaleCacheRow);
    assert!(failures(&report).contains("1 step: KV cache of the context"), "{:?}", failures(&report));
    assert!(!failures(&report).contains("1 step: codes of the context"));
}

#[test]
fn a_skipped_step_shows_in_the_pieces_of_a_forecast() {
    for report in [toto(Error::SkippedStep), kronos(Error::SkippedStep)] {
        assert_eq!(failures(&report), ["digits that change in pieces"].into());
    }
}

#[test]
fn waiting_and_wasting_are_counted() {
    assert_eq!(failures(&toto(Error::Waits)), ["host synchronisations inside a forecast"].into());
    assert_eq!(failures(&kronos(Error::Wastes)), ["memory beyond eager, as a share"].into());
}
