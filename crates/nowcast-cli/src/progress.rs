//! Progress bars: on a terminal's standard error, and only for work of more than a second.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nowcast_cli::interrupt;

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar that appears once the work has taken a while.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    what: &'static str,
}

impl Progress {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { bar: ProgressBar::hidden(), started: Instant::now(), what }
    }

    /// Says how far the work is.
    pub(crate) fn update(&mut self, done: usize, total: usize) {
        interrupt::note_progress(self.what, done, total);
        if self.bar.is_hidden() && self.started.elapsed() >= PATIENCE {
            // `stderr` stays hidden by itself where there is no terminal.
            let template = "{msg} [{bar:40}] {percent}% {elapsed} elapsed, {eta} left";
            let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            self.bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr())
                .with_style(style)
                .with_message(self.what);
        }
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
