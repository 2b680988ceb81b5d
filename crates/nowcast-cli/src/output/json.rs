//! The answer as one JSON object.

use std::io::{self, Write};

use nowcast::forecast::VariateForecast;
use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};
use serde_json::Value;
use serde_json::ser::Formatter;

use super::{Answer, Market, SeriesAnswer, Timeline};

/// One JSON object and a final newline: an object key per line, arrays on one line.
///
/// Numbers are the shortest that read back exactly: f64, and f32 for paths.
pub(super) fn render(answer: &Answer) -> serde_json::Result<Vec<u8>> {
    to_bytes(&Document(answer))
}

/// Any value in the layout of the answers.
pub(super) fn to_bytes(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Layout::default()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

struct Document<'a>(&'a Answer);

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let answer = self.0;
        let mut object = serializer.serialize_struct("Answer", 7)?;
        object.serialize_field("model", &answer.question().model)?;
        object.serialize_field("horizon", &answer.question().horizon)?;
        object.serialize_field("settings", &Named(&answer.question().settings))?;
        let series: Vec<_> = answer.series().iter().map(|series| Entry { answer, series }).collect();
        object.serialize_field("series", &series)?;
        if !answer.markets().is_empty() {
            let markets: Vec<_> = answer.markets().iter().map(|market| MarketEntry { answer, market }).collect();
            object.serialize_field("markets", &markets)?;
        }
        if !answer.notes.is_empty() {
            object.serialize_field("notes", &answer.notes)?;
        }
        object.serialize_field("stats", &Named(&answer.stats))?;
        object.end()
    }
}

/// Named values in their given order.
struct Named<'a>(&'a [(String, Value)]);

impl Serialize for Named<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

struct Entry<'a> {
    answer: &'a Answer,
    series: &'a SeriesAnswer,
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Series", 6)?;
        object.serialize_field("name", self.series.name())?;
        object.serialize_field("timestamps", &Stamps(self.series))?;
        object.serialize_field("point", self.series.point())?;
        object.serialize_field("mean", self.series.mean())?;
        object.serialize_field("quantiles", &Quantiles(self))?;
        if self.answer.question().paths && self.series.forecast().paths().is_some() {
            object.serialize_field("paths", &Paths(self.series.forecast()))?;
        }
        object.end()
    }
}

struct MarketEntry<'a> {
    answer: &'a Answer,
    market: &'a Market,
}

impl Serialize for MarketEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Market", 4)?;
        object.serialize_field("name", &self.market.name)?;
        let series: Vec<&str> = self.answer.fields(self.market).iter().map(SeriesAnswer::name).collect();
        object.serialize_field("series", &series)?;
        object.serialize_field("consistency", &self.market.consistency)?;
        object.serialize_field("repaired", &self.market.repaired)?;
        object.end()
    }
}

/// Future stamps: text, or numbers where the input has no time column.
struct Stamps<'a>(&'a SeriesAnswer);

impl Serialize for Stamps<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let past = self.0.history().len();
        match self.0.timeline() {
            Timeline::Dated { stamps, style } => {
                serializer.collect_seq(stamps[past..].iter().map(|stamp| style.write(stamp)))
            }
            Timeline::Numbered(numbers) => serializer.collect_seq(numbers.clone().skip(past)),
        }
    }
}

struct Quantiles<'a>(&'a Entry<'a>);

impl Serialize for Quantiles<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let levels = &self.0.answer.question().levels;
        let mut map = serializer.serialize_map(Some(levels.len()))?;
        for (level, quantile) in levels.iter().zip(self.0.series.quantiles()) {
            map.serialize_entry(&level.to_string(), quantile)?;
        }
        map.end()
    }
}

struct Paths<'a>(&'a VariateForecast);

impl Serialize for Paths<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.paths().into_iter().flatten())
    }
}

/// Every object key on its own line, indented; everything else inline.
#[derive(Default)]
struct Layout {
    depth: usize,
    empty: bool,
}

impl Layout {
    fn new_line<W: ?Sized + Write>(&self, out: &mut W) -> io::Result<()> {
        out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| out.write_all(b"  "))
    }
}

impl Formatter for Layout {
    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        self.empty = true;
        out.write_all(b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        if !self.empty {
            self.new_line(out)?;
        }
        self.empty = false;
        out.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.empty = false;
        if !first {
            out.write_all(b",")?;
        }
        self.new_line(out)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Question, example};
    use super::*;

    #[test]
    fn the_contract_key_by_key() {
        let answer = example::dated(Question { paths: true, ..example::question() });
        let expected = r#"{
  "model": "nano",
  "horizon": 3,
  "settings": {
    "seed": 7,
    "mode": "default"
  },
  "series": [{
    "name": "close",
    "timestamps": ["2024-01-02 10:00", "2024-01-02 11:00", "2024-01-02 12:00"],
    "point": [101.5, 102.5, 103.5],
    "mean": [101.75, 102.75, 103.75],
    "quantiles": {
      "0.1": [100.3, 101.3, 102.3],
      "0.5": [101.5, 102.5, 103.5],
      "0.9": [103.4, 104.4, 105.4]
    },
    "paths": [[100.0, 101.0, 102.0], [101.0, 102.0, 103.0], [102.0, 103.0, 104.0], [104.0, 105.0, 106.0]]
  }],
  "notes": ["1 missing value masked"],
  "stats": {}
}
"#;
        assert_eq!(String::from_utf8(render(&answer).unwrap()).unwrap(), expected);
    }

    #[test]
    fn markets_name_their_series_and_how_sound_their_bars_are() {
        let document: Value = serde_json::from_slice(&render(&example::market()).unwrap()).unwrap();
        let names = ["open", "high", "low", "close", "volume", "amount"].map(|field| format!("kline/{field}"));
        let series: Vec<&str> =
            document["series"].as_array().unwrap().iter().map(|series| series["name"].as_str().unwrap()).collect();
        assert_eq!(series, names);
        let market = &document["markets"][0];
        assert_eq!((market["name"].as_str(), market["repaired"].as_bool()), (Some("kline"), Some(false)));
        assert_eq!(market["series"], serde_json::json!(names));
        let consistency = &market["consistency"];
        assert_eq!((consistency["bars"].as_u64(), consistency["inconsistent"].as_u64()), (Some(12), Some(1)));
        assert_eq!(consistency["share"].as_f64(), Some(1.0 / 12.0));
        assert_eq!(consistency["negative_volume"].as_u64(), Some(1));
    }

    #[test]
    fn numbers_read_back_exactly() {
        let answer = example::answer();
        let document: Value = serde_json::from_slice(&render(&answer).unwrap()).unwrap();
        for (entry, series) in document["series"].as_array().unwrap().iter().zip(answer.series()) {
            let numbers = |value: &Value| -> Vec<f64> {
                value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
            };
            assert_eq!(numbers(&entry["point"]), series.point());
            assert_eq!(numbers(&entry["mean"]), series.mean());
            for (level, quantile) in answer.question().levels.iter().zip(series.quantiles()) {
                assert_eq!(&numbers(&entry["quantiles"][level.to_string()]), quantile);
            }
        }
        assert_eq!(document["series"][1]["name"], "load, \"north\"");
        assert_eq!(document["series"][1]["timestamps"], serde_json::json!([4, 5, 6]));
        assert!(document["series"][0].get("paths").is_none());
    }

    #[test]
    fn paths_print_the_shortest_f32() {
        let mut answer = Answer::new(Question { paths: true, ..example::question() }).unwrap();
        example::push_one_path(&mut answer, [0.1, 1.0 / 3.0, 3e38]);
        let document = String::from_utf8(render(&answer).unwrap()).unwrap();
        assert!(document.contains("\"paths\": [[0.1, 0.33333334, 3e+38]]"), "{document}");
        assert!(document.contains("\"point\": [0.10000000149011612, 0.3333333432674408, "), "{document}");
    }
}
