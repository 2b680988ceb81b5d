//! Which family a model belongs to, and where its files are.

use std::path::Path;

use serde_json::Value;

use crate::checkpoint::{self, HubOptions, ModelSource, Progress, resolve_with_progress};
use crate::kronos::KronosSource;
use crate::kronos::config::PredictorConfig;
use crate::{Error, Result};

/// Families of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelFamily {
    /// Toto 1.0: series.
    Toto,
    /// Kronos: candles.
    Kronos,
}

/// A model's files.
#[derive(Debug, Clone, PartialEq)]
pub enum Located {
    /// A Toto model.
    Toto(ModelSource),
    /// A Kronos model with its tokenizer.
    Kronos(KronosSource),
}

/// The small Kronos model that ships with the program.
const KRONOS_NANO: &str = "kronos-nano";

impl Located {
    /// The family.
    pub fn family(&self) -> ModelFamily {
        match self {
            Located::Toto(_) => ModelFamily::Toto,
            Located::Kronos(_) => ModelFamily::Kronos,
        }
    }
}

/// Finds a model as [`resolve_with_progress`] does, and for a Kronos model its tokenizer: the one named, else the folder
/// `tokenizer` in or beside the model's folder, else the published one of the Hub.
///
/// # Errors
/// One line that says what was looked for, where, and what to do.
pub fn locate(
    model: &str,
    tokenizer: Option<&str>,
    hub: &HubOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Located> {
    if model == KRONOS_NANO {
        let [predictor, nano_tokenizer] = checkpoint::kronos_nano()?;
        let tokenizer = match tokenizer {
            Some(tokenizer) => named_tokenizer(tokenizer, hub, progress)?,
            None => nano_tokenizer,
        };
        return Ok(Located::Kronos(KronosSource { tokenizer, predictor }));
    }
    // The layout of the goldens and of nowcast's own: both halves in one folder.
    let both = Path::new(model).join("model");
    let halves = both.join("config.json").is_file();
    let predictor = match halves {
        true => resolve_with_progress(&both.to_string_lossy(), hub, progress)?,
        false => resolve_with_progress(model, hub, progress)?,
    };
    let config = predictor.config()?;
    match kind(&config) {
        Kind::Other if tokenizer.is_some() => {
            Err(Error::Setting(format!("{model} is no Kronos model and has no tokenizer: leave --tokenizer out")))
        }
        Kind::Other => Ok(Located::Toto(predictor)),
        Kind::Tokenizer => Err(Error::Setting(format!(
            "{model} is a Kronos tokenizer: name the model that reads its tokens, such as NeoQuasar/Kronos-small"
        ))),
        Kind::Predictor => {
            let tokenizer = match (tokenizer, &predictor) {
                (Some(tokenizer), _) => named_tokenizer(tokenizer, hub, progress)?,
                (None, ModelSource::Folder(folder)) if halves || Path::new(model).exists() => {
                    beside(folder).ok_or_else(|| {
                        Error::Setting(format!(
                            "{model} has no tokenizer in it or beside it: name one with --tokenizer, such as NeoQuasar/Kronos-Tokenizer-base"
                        ))
                    })?
                }
                (None, _) => {
                    let config = PredictorConfig::from_json(&config)?;
                    // A revision names a commit of the model's repository, not of the tokenizer's.
                    let hub = HubOptions { revision: None, ..hub.clone() };
                    named_tokenizer(published_tokenizer(&config), &hub, progress)?
                }
            };
            Ok(Located::Kronos(KronosSource { tokenizer, predictor }))
        }
    }
}

/// The tokenizer that a published model was trained with.
fn published_tokenizer(config: &PredictorConfig) -> &'static str {
    if config.default_max_context() > 512 { "NeoQuasar/Kronos-Tokenizer-2k" } else { "NeoQuasar/Kronos-Tokenizer-base" }
}

fn named_tokenizer(name: &str, hub: &HubOptions, progress: &mut dyn FnMut(Progress<'_>)) -> Result<ModelSource> {
    let inner = Path::new(name).join("tokenizer");
    let name = if inner.join("config.json").is_file() { &*inner.to_string_lossy() } else { name };
    let source = resolve_with_progress(name, hub, progress)?;
    match kind(&source.config()?) {
        Kind::Tokenizer => Ok(source),
        _ => Err(Error::Setting(format!("{name} is no Kronos tokenizer: its config.json has no n_enc_layers"))),
    }
}

/// A folder `tokenizer` inside a model's folder, or next to it.
fn beside(folder: &Path) -> Option<ModelSource> {
    let parent = folder.canonicalize().ok()?.parent()?.join("tokenizer");
    let found = [folder.join("tokenizer"), parent].into_iter().find(|path| path.join("config.json").is_file())?;
    Some(ModelSource::Folder(found))
}

enum Kind {
    Predictor,
    Tokenizer,
    Other,
}

/// Told by the fields that only one of them has; what is no JSON is left to the family's own reader.
fn kind(config: &str) -> Kind {
    let fields: Value = serde_json::from_str(config).unwrap_or_default();
    let has = |name: &str| fields.get(name).is_some();
    match (has("s1_bits"), has("n_enc_layers")) {
        (true, true) => Kind::Tokenizer,
        (true, false) => Kind::Predictor,
        (false, _) => Kind::Other,
    }
}
