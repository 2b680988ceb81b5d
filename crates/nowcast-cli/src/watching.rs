//! What is told about a run while it goes (`--log`) and after it (`--stats`), from the events of the library.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use nowcast::forecaster::memory::in_words;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::arguments::{LogName, spelled};
use crate::message;
use crate::peak::peak_bytes;

/// A run that is being watched.
pub(crate) struct Watching {
    started: Instant,
    /// How often each kind of event happened; none where nobody asks.
    tally: Option<Arc<Tally>>,
}

type Tally = Mutex<BTreeMap<(&'static str, String), u64>>;

impl Watching {
    /// Listens to events from here on.
    pub(crate) fn begin(log: &[LogName], stats: bool) -> Self {
        let started = Instant::now();
        let tally = stats.then(Arc::<Tally>::default);
        let listener = Listener { started, log: log.iter().map(spelled).collect(), tally: tally.clone() };
        // Tests of the program start it anew; within one process the first listener stays.
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(listener));
        Self { started, tally }
    }

    /// Tells what happened, where it was asked for.
    pub(crate) fn finish(&self) {
        let Some(tally) = &self.tally else { return };
        for ((target, what), count) in tally.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            message::say("stats", &format!("{target} {what}: {count}"));
        }
        let peak = peak_bytes().map_or_else(String::new, |bytes| format!(", peak memory {}", in_words(bytes as usize)));
        message::say("stats", &format!("{:.3} s{peak}", self.started.elapsed().as_secs_f64()));
    }
}

/// Warnings are told always, other events where they are asked for.
struct Listener {
    started: Instant,
    /// Targets to tell about.
    log: Vec<String>,
    tally: Option<Arc<Tally>>,
}

impl Listener {
    fn told(&self, target: &str) -> bool {
        self.log.iter().any(|name| name == target)
    }

    fn counted(&self, target: &str) -> bool {
        self.tally.is_some() && spelled_logs().any(|name| name == target)
    }
}

fn spelled_logs() -> impl Iterator<Item = String> {
    LogName::ALL.iter().map(spelled)
}

impl<S: Subscriber> Layer<S> for Listener {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let ours = metadata.target().starts_with("nowcast");
        let named = self.told(metadata.target()) || self.counted(metadata.target());
        named || (ours && *metadata.level() <= Level::WARN)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let quiet = self.log.is_empty() && self.tally.is_none();
        Some(if quiet { LevelFilter::WARN } else { LevelFilter::TRACE })
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let (target, Text { message, fields }) = (event.metadata().target(), text);
        if *event.metadata().level() <= Level::WARN {
            message::say("warning", &format!("{message}{fields}"));
        } else if self.told(target) {
            message::say(target, &format!("{:.3} s  {message}{fields}", self.started.elapsed().as_secs_f64()));
        }
        if let Some(tally) = self.tally.as_ref().filter(|_| self.counted(target)) {
            *tally.lock().unwrap_or_else(PoisonError::into_inner).entry((target, message)).or_default() += 1;
        }
    }
}

/// An event in words.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
