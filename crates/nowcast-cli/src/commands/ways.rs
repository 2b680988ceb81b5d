//! Which modes, dtypes and devices are there.

use nowcast::Result;
use nowcast::device::{CudaDevice, Dtype};

use clap::ValueEnum;

use crate::arguments::{DtypeName, Given, ModeName, RunArguments};
use crate::device::{self, Care};

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) mode: ModeName,
    pub(super) dtype: DtypeName,
    /// As `--device` names it.
    pub(super) device: String,
}

/// All that is present, device by device and dtype by dtype, eager first; a mode, dtype or device that was given is the
/// only one. The eager mode knows f32 alone.
pub(super) fn present(run: &Given<RunArguments>) -> Result<Vec<Choice>> {
    device::check(&run.device, run.threads)?;
    let dtype = run.given().iter().any(|flag| flag == "--dtype").then_some(run.dtype);
    let mut choices = Vec::new();
    for name in devices(&run.device) {
        let (opened, _) = device::open(&name, run.threads, run.mode, Care::default())?;
        let modes: Vec<ModeName> = run.mode.map_or_else(|| ModeName::value_variants().to_vec(), |mode| vec![mode]);
        let dtypes = DtypeName::value_variants().iter().copied().filter(|&other| match dtype {
            Some(dtype) => other == dtype,
            None => opened.supports(other.into()),
        });
        for dtype in dtypes {
            let eager_knows = Dtype::from(dtype) == Dtype::F32;
            let modes = modes.iter().filter(|&&mode| mode != ModeName::Eager || eager_knows || run.mode.is_some());
            choices.extend(modes.map(|&mode| Choice { mode, dtype, device: name.clone() }));
        }
    }
    Ok(choices)
}

/// As [`present`], without modes that do on their device what the default mode does: on the CPU a forecast is one plan in
/// any mode but eager. A mode that was given is taken by its name.
pub(super) fn distinct(run: &Given<RunArguments>) -> Result<Vec<Choice>> {
    let mut choices = present(run)?;
    if run.mode.is_none() {
        choices.retain(|choice| choice.device != "cpu" || matches!(choice.mode, ModeName::Eager | ModeName::Default));
    }
    Ok(choices)
}

/// The devices that `auto` means here: all.
fn devices(name: &str) -> Vec<String> {
    match name {
        "auto" if CudaDevice::count() > 0 => vec!["cpu".into(), "cuda:0".into()],
        "auto" => vec!["cpu".into()],
        name => vec![name.into()],
    }
}
