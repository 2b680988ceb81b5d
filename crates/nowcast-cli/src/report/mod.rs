//! A backtest as one HTML page: tables, equity curves, drawdowns, the last window. It needs nothing from elsewhere, no
//! script and no font, follows the reader's light or dark scheme, and prints.

mod chart;
mod page;
mod tables;

use std::path::Path;

use nowcast::{Error, Result};

use crate::output::BacktestAnswer;

/// Whether a report can have this name.
///
/// # Errors
/// Another extension than html.
pub fn check_report(path: &Path) -> Result<()> {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    match extension.as_deref() {
        Some("html" | "htm") => Ok(()),
        _ => Err(Error::Setting(format!("{}: a report is .html", path.display()))),
    }
}

/// Draws the report.
pub fn render_report(answer: &BacktestAnswer) -> Vec<u8> {
    page::render(answer).into_bytes()
}

#[cfg(test)]
mod tests;
