//! What a search found, as text for people.

use nowcast::tuning::Parameters;

use super::grid::Grid;

/// A row for each symbol: its settings, what they reached where they were chosen and later, and what the defaults reach.
pub fn tuned_table(parameters: &Parameters, trials: usize) -> String {
    let mut text = format!("{}: {} on the best of {trials} trials\n\n", parameters.model, parameters.goal);
    let mut grid = Grid::new(&["symbol", "validation", "test", "test of defaults", "settings"]);
    let number = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.4}"));
    for (name, tuned) in &parameters.symbols {
        grid.row(vec![
            name.chars().map(super::table::printable).collect(),
            number(tuned.validation),
            number(tuned.test),
            number(tuned.test_of_defaults),
            tuned.settings.to_string(),
        ]);
    }
    grid.push_to(&mut text);
    text
}
