//! Which dtypes a device and a mode allow.

use crate::device::{Device, Dtype};
use crate::{Error, Result};

/// Refuses a dtype that the device does not multiply in, and any but f32 for the accuracy baseline.
pub(crate) fn check_dtype(device: &dyn Device, dtype: Dtype, eager: bool) -> Result<()> {
    if eager && dtype != Dtype::F32 {
        return Err(Error::Setting(format!(
            "the eager mode is the f32 baseline and knows no {dtype}: choose another mode, or f32"
        )));
    }
    if !device.supports(dtype) {
        let offered: Vec<_> = Dtype::ALL.into_iter().filter(|&dtype| device.supports(dtype)).map(Dtype::name).collect();
        let (device, offered) = (device.describe(), offered.join(" or "));
        return Err(Error::Setting(format!("{device} does not multiply in {dtype}: choose {offered}")));
    }
    Ok(())
}
