//! A backtest as text for people: for every symbol how the forecasts and the strategies did.

use super::super::grid::Grid;
use super::super::table::printable;
use super::figures::{self, Figure};
use super::{BacktestAnswer, OVERALL, PERFORMANCE, SCORES};

pub(super) fn render(answer: &BacktestAnswer) -> String {
    let mut text = format!("{}\n", answer.headline());
    let several = answer.backtest.symbols().len() > 1;
    if several {
        text.push_str("\nall symbols (means over the symbols)\n");
        grid(answer, &OVERALL, |evaluation| Some(&answer.evaluations[evaluation].overall)).push_to(&mut text);
        for (place, trading) in answer.evaluations[0].trading.iter().enumerate() {
            let of = |evaluation: usize| answer.evaluations[evaluation].trading[place].portfolio.as_ref();
            if trading.portfolio.is_some() {
                text.push_str(&format!("\nall symbols, equal weights, strategy {}\n", trading.strategy));
                grid(answer, &PERFORMANCE, |evaluation| of(evaluation).map(|(_, figures)| figures)).push_to(&mut text);
            }
        }
    }
    for (symbol, its) in answer.backtest.symbols().iter().enumerate() {
        let origins = answer.backtest.origins(symbol);
        let (first, last) = (its.stamp_text(origins[0] - 1), its.stamp_text(origins[origins.len() - 1] - 1));
        let name: String = its.name().chars().map(printable).collect();
        text.push_str(&format!("\n{name}: {} windows, from {first} to {last}\n", origins.len()));
        grid(answer, &SCORES, |evaluation| Some(&answer.evaluations[evaluation].scores[symbol])).push_to(&mut text);
        for (place, trading) in answer.evaluations[0].trading.iter().enumerate() {
            text.push_str(&format!("\n{name}, strategy {}\n", trading.strategy));
            let of = |evaluation: usize| answer.evaluations[evaluation].trading[place].performance[symbol].as_ref();
            match trading.performance[symbol] {
                Some(_) => grid(answer, &PERFORMANCE, of).push_to(&mut text),
                None => text.push_str("not traded: a price is not above zero\n"),
            }
        }
    }
    text
}

/// One row for each forecaster.
fn grid<'a, Of: 'static>(
    answer: &BacktestAnswer,
    figures: &[Figure<Of>],
    of: impl Fn(usize) -> Option<&'a Of>,
) -> Grid {
    let rows: Vec<Option<&Of>> = (0..answer.evaluations.len()).map(of).collect();
    let columns: Vec<Vec<(String, bool)>> = figures.iter().map(|figure| figures::column(figure, &rows)).collect();
    let headers: Vec<&str> = std::iter::once("forecaster").chain(figures.iter().map(|figure| figure.title)).collect();
    let mut grid = Grid::new(&headers);
    for (row, evaluation) in answer.evaluations.iter().enumerate() {
        let cells = columns.iter().map(|column| column[row].0.clone());
        grid.row(std::iter::once(evaluation.name.clone()).chain(cells).collect());
    }
    grid
}
