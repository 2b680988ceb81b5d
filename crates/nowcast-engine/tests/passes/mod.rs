//! A plan's passes, and what they leave.

use std::sync::Arc;

use nowcast_engine::device::{Device, Executable, Launch};
use nowcast_engine::extent::Live;
use nowcast_engine::plan::{PlanBuilder, Section, Tensor};
use nowcast_engine::token_sampling::TokenSampling;
use nowcast_engine::weights::WeightList;

/// A plan on a device.
pub(crate) fn prepare(device: &dyn Device, list: WeightList<'static>, plan: PlanBuilder) -> Box<dyn Executable> {
    device.load(list).unwrap().prepare(Arc::new(plan.finish().unwrap())).unwrap()
}

/// Both passes, which draw nothing.
pub(crate) fn run(executable: &mut dyn Executable, live: Live) {
    executable.run(Section::Prefill, &launch(live)).unwrap();
    executable.run(Section::Decode, &launch(live)).unwrap();
}

/// The second once more.
#[allow(dead_code, reason = "not all tests repeat it")]
pub(crate) fn decode(executable: &mut dyn Executable, live: Live) {
    executable.run(Section::Decode, &launch(live)).unwrap();
}

fn launch(live: Live) -> Launch {
    Launch { live, seed: 0, first_sample: 0, token_sampling: TokenSampling::default() }
}

/// What live rows of a tensor are.
pub(crate) fn read(executable: &mut dyn Executable, tensor: Tensor, live: Live) -> Vec<f64> {
    let mut values = vec![f64::NAN; tensor.rows.count(live) * tensor.width];
    executable.read(tensor, &mut values);
    values
}
