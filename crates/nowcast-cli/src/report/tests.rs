use nowcast::backtest::{
    Backtest, BacktestOptions, Predictor, Reference, ReferencePredictor, Strategy, Symbol, Windows,
};
use nowcast::data::{ReadOptions, Table};

use super::*;

/// A backtest of two symbols, the first reference standing in for a model.
fn answer() -> BacktestAnswer {
    let rows = |level: f64| -> String {
        let row = |day: i64| {
            let date = jiff::civil::date(2024, 1, 1) + jiff::Span::new().days(day);
            let close = level + (day as f64 / 3.0).sin();
            format!("{date},{},{},{},{close}\n", close - 0.1, close + 0.5, close - 0.5)
        };
        format!("date,open,high,low,close\n{}", (0..60).map(row).collect::<String>())
    };
    let symbol = |name: &str, level| {
        let table = Table::from_reader(name, rows(level).as_bytes(), &ReadOptions::default()).unwrap();
        Symbol::from_table(&table).unwrap().0.remove(0)
    };
    let mut options = BacktestOptions::new(Windows { count: Some(6), ..Windows::new(4) });
    options.strategies = vec![Strategy::Sign, Strategy::Bracket];
    let backtest = Backtest::new(vec![symbol("a<b", 10.0), symbol("c", 20.0)], vec![20; 2], options).unwrap();
    let evaluate = |reference| {
        let mut predictor = ReferencePredictor::new(reference, 20, Some(7), 0);
        backtest.evaluate(&mut predictor as &mut dyn Predictor, &mut |_, _| ()).unwrap()
    };
    let evaluations = Reference::ALL.into_iter().map(evaluate).collect();
    let settings = vec![("fee_bps".to_string(), 10.into()), ("from".to_string(), serde_json::Value::Null)];
    BacktestAnswer { settings, backtest, evaluations, models: 1, notes: vec!["a note & more".into()] }
}

#[test]
fn the_page_needs_nothing_from_elsewhere_and_is_whole() {
    let html = String::from_utf8(render_report(&answer())).unwrap();
    for foreign in ["http://", "https://", "<script", "@import", "url("] {
        assert!(!html.contains(foreign), "{foreign}");
    }
    // What is between the tags of a page without void elements is XML.
    let body = &html[html.find("<body>").unwrap()..html.find("</html>").unwrap()];
    let page = roxmltree::Document::parse(body).unwrap();
    let count = |tag: &str| page.descendants().filter(|node| node.has_tag_name(tag)).count();
    // Two strategies for two symbols and the portfolio, each with equity and drawdown; one fan for each symbol.
    assert_eq!(count("svg"), 2 * 3 * 2 + 2);
    assert_eq!(count("polygon"), 2 * 2);
    let text: String = page.descendants().filter_map(|node| node.text()).collect();
    for words in ["a<b", "a note & more", "fee_bps", "seasonal naive", "Strategy bracket", "All symbols"] {
        assert!(text.contains(words), "{words}");
    }
    assert!(count("b") > 0 && html.contains("prefers-color-scheme: dark"));
    assert!(!body.contains("NaN") && !body.contains("inf"), "only numbers are drawn");
}

#[test]
fn reports_are_html() {
    assert!(check_report(Path::new("a.html")).is_ok());
    assert_eq!(check_report(Path::new("a.pdf")).unwrap_err().to_string(), "a.pdf: a report is .html");
}

/// A browser that the machine has: the one `NOWCAST_BROWSER` names, or one of the usual names.
fn browser() -> Option<std::path::PathBuf> {
    let named = std::env::var_os("NOWCAST_BROWSER").map(std::path::PathBuf::from);
    let usual = ["chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell"];
    named.or_else(|| {
        let folders: Vec<_> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
        usual.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file())
    })
}

#[test]
fn a_real_browser_draws_it() {
    let Some(browser) = browser() else {
        println!("skipped: no browser is installed; set NOWCAST_BROWSER to a Chromium to run this test");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (page, picture) = (folder.path().join("report.html"), folder.path().join("report.png"));
    std::fs::write(&page, render_report(&answer())).unwrap();
    let run = |arguments: &[String]| {
        let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
        let output = assert_cmd::Command::new(&browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", &profile])
            .args(arguments)
            .arg(format!("file://{}", page.display()))
            .timeout(std::time::Duration::from_secs(120))
            .output()
            .expect("the browser starts and ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let dom = String::from_utf8(run(&["--dump-dom".into()])).unwrap();
    assert!(dom.contains("<svg") && dom.contains("Strategy bracket") && dom.trim_end().ends_with("</html>"));
    run(&[format!("--screenshot={}", picture.display()), "--window-size=1100,1400".into()]);
    let png = std::fs::read(&picture).unwrap();
    assert!(png.starts_with(b"\x89PNG") && png.len() > 20_000, "a picture of {} bytes shows nothing", png.len());
}
