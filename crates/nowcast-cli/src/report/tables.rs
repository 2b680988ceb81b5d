//! Tables of the report: a row for each forecaster, the best of a column in bold.

use std::fmt::Write;

use serde_json::Value;

use crate::output::{BacktestAnswer, Figure, OVERALL, column};
use crate::plot::escaped;

/// A table of figures; `of` finds what a forecaster has to show.
pub(super) fn figures<'a, Of: 'static>(
    answer: &BacktestAnswer,
    figures: &[Figure<Of>],
    of: impl Fn(usize) -> Option<&'a Of>,
) -> String {
    let rows: Vec<Option<&Of>> = (0..answer.evaluations.len()).map(of).collect();
    let columns: Vec<Vec<(String, bool)>> = figures.iter().map(|figure| column(figure, &rows)).collect();
    let titles = figures.iter().map(|figure| figure.title);
    let cells = |row: usize| columns.iter().map(|column| column[row].clone()).collect();
    table(answer, titles, cells)
}

/// The scores that can be compared between symbols.
pub(super) fn overall(answer: &BacktestAnswer) -> String {
    figures(answer, &OVERALL, |evaluation| Some(&answer.evaluations[evaluation].overall))
}

fn table<'a>(
    answer: &BacktestAnswer,
    titles: impl Iterator<Item = &'a str>,
    cells: impl Fn(usize) -> Vec<(String, bool)>,
) -> String {
    let mut html = String::from("<div class=\"scroll\"><table><thead><tr><th>forecaster</th>");
    // Writing to a String cannot fail.
    titles.for_each(|title| {
        let _ = write!(html, "<th>{}</th>", escaped(title));
    });
    html.push_str("</tr></thead><tbody>\n");
    for (row, evaluation) in answer.evaluations.iter().enumerate() {
        let class = if row < answer.models { "model" } else { "reference" };
        let _ = write!(html, "<tr class=\"{class}\"><td>{}</td>", escaped(&evaluation.name));
        for (text, best) in cells(row) {
            let _ = if best { write!(html, "<td><b>{text}</b></td>") } else { write!(html, "<td>{text}</td>") };
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody></table></div>\n"
}

/// Every parameter of the run.
pub(super) fn settings(answer: &BacktestAnswer) -> String {
    let mut html = String::from("<table class=\"settings\"><tbody>\n");
    for (name, value) in &answer.settings {
        let text = match value {
            Value::Null => "default".to_string(),
            Value::String(text) => text.clone(),
            Value::Array(items) => {
                let words = items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), String::from));
                words.collect::<Vec<_>>().join(", ")
            }
            other => other.to_string(),
        };
        let _ = writeln!(html, "<tr><td>{}</td><td>{}</td></tr>", escaped(name), escaped(&text));
    }
    html + "</tbody></table>\n"
}
