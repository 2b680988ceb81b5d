//! The figures of a backtest by name: what they are called, how they are written, and which value is better.

use nowcast::backtest::{Overall, Performance, Scores};

use super::super::decimals::Notation;

/// How numbers of a figure are written for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// In the unit of the data, or so small that decimals must follow the values.
    Data,
    /// A plain number, three decimals.
    Plain,
    /// A share, as percent.
    Percent,
    /// A whole number.
    Count,
}

/// Which values of a figure are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
    /// None in particular.
    Neither,
}

/// One figure of an `Of`.
pub(crate) struct Figure<Of: 'static> {
    /// Its name in files.
    pub(crate) key: &'static str,
    /// Its name in tables.
    pub(crate) title: &'static str,
    pub(crate) unit: Unit,
    pub(crate) better: Better,
    pub(crate) value: fn(&Of) -> Option<f64>,
}

/// The scores of forecasts.
pub(crate) const SCORES: [Figure<Scores>; 8] = [
    Figure { key: "mae", title: "MAE", unit: Unit::Data, better: Better::Lower, value: |s| Some(s.mae) },
    Figure { key: "mae_percent", title: "MAE %", unit: Unit::Plain, better: Better::Lower, value: |s| s.mae_percent },
    Figure { key: "rmse", title: "RMSE", unit: Unit::Data, better: Better::Lower, value: |s| Some(s.rmse) },
    Figure { key: "mase", title: "MASE", unit: Unit::Plain, better: Better::Lower, value: |s| s.mase },
    Figure { key: "wql", title: "WQL", unit: Unit::Data, better: Better::Lower, value: |s| s.wql },
    Figure { key: "crps", title: "CRPS", unit: Unit::Data, better: Better::Lower, value: |s| s.crps },
    Figure {
        key: "coverage",
        title: "coverage",
        unit: Unit::Percent,
        better: Better::Neither,
        value: |s| Some(s.coverage),
    },
    Figure {
        key: "direction",
        title: "direction",
        unit: Unit::Percent,
        better: Better::Higher,
        value: |s| s.direction,
    },
];

/// The performance of a strategy.
pub(crate) const PERFORMANCE: [Figure<Performance>; 10] = [
    Figure {
        key: "total_return",
        title: "return",
        unit: Unit::Percent,
        better: Better::Higher,
        value: |p| Some(p.total_return),
    },
    Figure {
        key: "annual_return",
        title: "per year",
        unit: Unit::Percent,
        better: Better::Higher,
        value: |p| Some(p.annual_return),
    },
    Figure { key: "sharpe", title: "Sharpe", unit: Unit::Plain, better: Better::Higher, value: |p| p.sharpe },
    Figure { key: "sortino", title: "Sortino", unit: Unit::Plain, better: Better::Higher, value: |p| p.sortino },
    Figure {
        key: "max_drawdown",
        title: "drawdown",
        unit: Unit::Percent,
        better: Better::Lower,
        value: |p| Some(p.max_drawdown),
    },
    Figure {
        key: "turnover",
        title: "turnover",
        unit: Unit::Plain,
        better: Better::Neither,
        value: |p| Some(p.turnover),
    },
    Figure {
        key: "exposure",
        title: "exposure",
        unit: Unit::Percent,
        better: Better::Neither,
        value: |p| Some(p.exposure),
    },
    Figure {
        key: "trades",
        title: "trades",
        unit: Unit::Count,
        better: Better::Neither,
        value: |p| Some(p.trades as f64),
    },
    Figure { key: "winners", title: "winners", unit: Unit::Percent, better: Better::Neither, value: |p| p.winners },
    Figure { key: "costs", title: "costs", unit: Unit::Percent, better: Better::Neither, value: |p| Some(p.costs) },
];

/// The scores that can be compared between symbols.
pub(crate) const OVERALL: [Figure<Overall>; 7] = [
    Figure { key: "mase", title: "MASE", unit: Unit::Plain, better: Better::Lower, value: |o| o.mase },
    Figure { key: "wql", title: "WQL", unit: Unit::Data, better: Better::Lower, value: |o| o.wql },
    Figure {
        key: "coverage",
        title: "coverage",
        unit: Unit::Percent,
        better: Better::Neither,
        value: |o| Some(o.coverage),
    },
    Figure {
        key: "direction",
        title: "direction",
        unit: Unit::Percent,
        better: Better::Higher,
        value: |o| o.direction,
    },
    Figure {
        key: "rank_ic",
        title: "RankIC",
        unit: Unit::Plain,
        better: Better::Higher,
        value: |o| Some(o.rank_ic.as_ref()?.mean),
    },
    Figure {
        key: "icir",
        title: "ICIR",
        unit: Unit::Plain,
        better: Better::Higher,
        value: |o| o.rank_ic.as_ref()?.information_ratio,
    },
    Figure {
        key: "dates",
        title: "dates",
        unit: Unit::Count,
        better: Better::Neither,
        value: |o| Some(o.rank_ic.as_ref()?.dates as f64),
    },
];

/// One column of a table for people: a cell for each row, and whether it is the best.
pub(crate) fn column<Of>(figure: &Figure<Of>, rows: &[Option<&Of>]) -> Vec<(String, bool)> {
    let values: Vec<Option<f64>> =
        rows.iter().map(|row| row.and_then(figure.value).filter(|value| value.is_finite())).collect();
    let notation = Notation::of(values.iter().flatten().copied());
    let written = |value: f64| match figure.unit {
        Unit::Data => notation.write(value),
        Unit::Plain => Notation::Fixed(3).write(value),
        // A rate of a year that few bars stand for may be anything.
        Unit::Percent if value.abs() >= 1e4 => format!("{:.1e}%", 100.0 * value),
        Unit::Percent => Notation::Fixed(1).write(100.0 * value) + "%",
        Unit::Count => Notation::Fixed(0).write(value),
    };
    let best = match figure.better {
        Better::Lower => values.iter().flatten().copied().reduce(f64::min),
        Better::Higher => values.iter().flatten().copied().reduce(f64::max),
        Better::Neither => None,
    };
    let cell = |value: &Option<f64>| match value {
        Some(value) => (written(*value), best == Some(*value)),
        None => ("–".to_string(), false),
    };
    values.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_a_column_is_marked_and_nothing_is_a_dash() {
        let [low, high] = [0.1, 0.25].map(|value| Performance { sharpe: Some(value), ..nothing() });
        let none = nothing();
        let sharpe = &PERFORMANCE[2];
        let cells = column(sharpe, &[Some(&low), Some(&high), Some(&none), None]);
        assert_eq!(cells[1], ("0.250".to_string(), true));
        assert_eq!(cells[0], ("0.100".to_string(), false));
        assert_eq!((cells[2].0.as_str(), cells[3].0.as_str()), ("–", "–"));
    }

    fn nothing() -> Performance {
        Performance::of_curve(&[1.0, 1.0], 252.0)
    }
}
