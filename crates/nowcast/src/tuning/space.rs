//! What a search may choose, and which choice comes when: a pure function of the seed.

use nowcast_engine::random::Stream;

use super::Choice;
use crate::ModelFamily;

/// Contexts that are tried, where the history is long enough.
const CONTEXTS: [usize; 8] = [32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Point forecasts that are tried.
const POINTS: [&str; 9] = [
    "median",
    "mean",
    "trimmed_mean_0.1",
    "trimmed_mean_0.25",
    "quantile_0.4",
    "quantile_0.45",
    "quantile_0.55",
    "quantile_0.6",
    "mean_quantile_mix_0.5_0.5",
];
/// Sample paths of Toto; `None` is exact within one patch.
const SERIES_SAMPLES: [Option<usize>; 4] = [None, Some(64), Some(256), Some(1024)];
const CANDLE_SAMPLES: [usize; 4] = [10, 20, 30, 60];
const TEMPERATURES: [f64; 8] = [0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.1, 1.2];
const TOP_KS: [usize; 5] = [0, 5, 10, 20, 50];
const TOP_PS: [f64; 5] = [0.8, 0.85, 0.9, 0.95, 1.0];
const CLIPS: [f64; 3] = [3.0, 5.0, 10.0];

/// Trials looked through for one that is new: a space of fewer choices is exhausted.
const MOST_ATTEMPTS: u32 = 10_000;

/// The choices of one family of models.
#[derive(Debug, Clone)]
pub struct Space {
    family: ModelFamily,
    contexts: Vec<usize>,
    seed: u64,
}

impl Space {
    /// Choices with contexts up to `longest`, the bars that every first window has behind it.
    pub fn new(family: ModelFamily, longest: usize, seed: u64) -> Self {
        let contexts = CONTEXTS.into_iter().filter(|context| *context <= longest).collect();
        Self { family, contexts, seed }
    }

    /// The first `count` trials, no two alike: the defaults, then choices at random. Fewer, where the space has no more.
    pub fn trials(&self, count: usize) -> Vec<Choice> {
        let mut trials = vec![Choice::default()];
        for attempt in 0..MOST_ATTEMPTS {
            if trials.len() >= count {
                break;
            }
            let choice = self.choice(attempt);
            if !trials.contains(&choice) {
                trials.push(choice);
            }
        }
        trials.truncate(count);
        trials
    }

    /// The choice of one attempt.
    fn choice(&self, attempt: u32) -> Choice {
        let stream = Stream { seed: self.seed, series: 0, sample: attempt, step: 0 };
        let pick = |setting: u32, count: usize| stream.words(setting)[0] as usize % count;
        let mut choice = Choice {
            context: (!self.contexts.is_empty()).then(|| self.contexts[pick(0, self.contexts.len())]),
            point: Some(POINTS[pick(1, POINTS.len())].to_string()),
            ..Choice::default()
        };
        match self.family {
            ModelFamily::Toto => choice.samples = SERIES_SAMPLES[pick(2, SERIES_SAMPLES.len())],
            ModelFamily::Kronos => {
                choice.samples = Some(CANDLE_SAMPLES[pick(2, CANDLE_SAMPLES.len())]);
                choice.temperature = Some(TEMPERATURES[pick(3, TEMPERATURES.len())]);
                choice.clip = Some(CLIPS[pick(6, CLIPS.len())]);
                // In the reference top-k wins, so top-p varies only without it.
                choice.top_k = Some(TOP_KS[pick(4, TOP_KS.len())]);
                choice.top_p = Some(if choice.top_k == Some(0) { TOP_PS[pick(5, TOP_PS.len())] } else { 1.0 });
            }
        }
        choice
    }
}
