//! Runs a plan's operations one after the other.

use std::slice::from_ref;
use std::sync::Arc;

use super::arena::{Access, Arena};
use super::device::CpuWeights;
use super::linear::Operand;
use super::{attend, draw, elementwise, rotate, scale, tokens};
use crate::device::{Executable, Launch};
use crate::error::Result;
use crate::extent::Live;
use crate::operation::Operation;
use crate::plan::{Element, Plan, Section, Tensor};
use crate::profile::cost;
use crate::watch::Watch;

/// A plan and its arena.
pub(super) struct CpuExecutable {
    weights: Arc<CpuWeights>,
    plan: Arc<Plan>,
    arena: Arena,
    scratch: Vec<f32>,
    operand: Operand,
}

/// What a kernel may use besides the tensors of its operation.
pub(super) struct Context<'a> {
    pub(super) weights: &'a CpuWeights,
    pub(super) launch: &'a Launch,
    pub(super) scratch: &'a mut [f32],
    pub(super) operand: &'a mut Operand,
}

impl CpuExecutable {
    pub(super) fn new(weights: Arc<CpuWeights>, plan: Arc<Plan>, arena: Arena) -> Self {
        let scratch = vec![0.0; attend::scratch_length(&plan, &weights.pool)];
        let mut operand = Operand::default();
        let (live, sections) = (plan.capacity(), [Section::Prefill, Section::Decode]);
        for operation in sections.into_iter().flat_map(|section| plan.operations(section)) {
            if let Operation::Linear(op) = operation {
                operand.reserve(op.input.rows.count(live), op.weight.inputs, &weights.pool);
            }
        }
        Self { weights, plan, arena, scratch, operand }
    }

    fn host_access(&mut self) -> Access<'_> {
        let capacity = self.plan.capacity();
        self.arena.access(&self.plan, capacity)
    }
}

impl Executable for CpuExecutable {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn input(&mut self, tensor: Tensor) -> &mut [f32] {
        self.arena.place(&self.plan, tensor)
    }

    fn write_integers(&mut self, tensor: Tensor, values: &[i32]) {
        self.host_access().write::<i32>(tensor)[..values.len()].copy_from_slice(values);
    }

    fn write_doubles(&mut self, tensor: Tensor, values: &[f64]) {
        self.host_access().write::<f64>(tensor)[..values.len()].copy_from_slice(values);
    }

    fn run(&mut self, section: Section, launch: &Launch) -> Result<()> {
        let Live { batch, context, samples } = self.plan.capacity();
        let live = launch.live;
        assert!(live.batch <= batch && live.context <= context && live.samples <= samples, "a run exceeds its plan");
        for (place, operation) in self.plan.operations(section).iter().enumerate() {
            let watch = match self.weights.checked {
                true => Some(Watch::before(from_ref(operation), &mut |tensor| {
                    Ok(self.arena.copy(&self.plan, live, tensor))
                })?),
                false => None,
            };
            let access = self.arena.access(&self.plan, live);
            let (scratch, operand) = (&mut self.scratch[..], &mut self.operand);
            let mut context = Context { weights: &self.weights, launch, scratch, operand };
            match &self.weights.profile {
                None => perform(operation, &access, &mut context),
                Some(profile) => {
                    let cost = cost(operation, live, |id| self.weights.matrix(id));
                    profile.time(cost, || perform(operation, &access, &mut context));
                }
            }
            if let Some(watch) = watch {
                let read = &mut |tensor| Ok(self.arena.copy(&self.plan, live, tensor));
                watch.after(&self.plan, (section, place), read)?;
            }
        }
        Ok(())
    }

    fn read(&mut self, tensor: Tensor, values: &mut [f64]) {
        let access = self.host_access();
        match tensor.element {
            Element::F64 => values.copy_from_slice(&access.read::<f64>(tensor)[..values.len()]),
            Element::F32 => widen(access.read::<f32>(tensor), values),
            Element::I32 => widen(access.read::<i32>(tensor), values),
        }
    }

    fn view(&mut self, tensor: Tensor) -> &[f32] {
        self.arena.view(&self.plan, tensor)
    }
}

fn widen<T: Copy + Into<f64>>(from: &[T], to: &mut [f64]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = from.into());
}

fn perform(operation: &Operation, access: &Access<'_>, context: &mut Context<'_>) {
    match operation {
        Operation::ScaleContext(op) => scale::context(op, access, context),
        Operation::ScaleStep(op) => scale::step(op, access, context),
        Operation::PrependLabel(op) => elementwise::prepend_label(op, access, context),
        Operation::Linear(op) => elementwise::linear(op, access, context),
        Operation::Norm(op) => elementwise::norm(op, access, context),
        Operation::SwiGlu(op) => elementwise::swiglu(op, access, context),
        Operation::Add(op) => elementwise::add(op, access, context),
        Operation::RotaryTable(op) => rotate::table(op, access, context),
        Operation::RotateQuery(op) => rotate::query(op, access, context),
        Operation::AppendCache(op) => rotate::append(op, access, context),
        Operation::AttendContext(op) => attend::context(op, access, context),
        Operation::AttendPaths(op) => attend::paths(op, access, context),
        Operation::AttendGroup(op) => attend::group(op, access, context),
        Operation::LastRow(op) => elementwise::last_row(op, access),
        Operation::RepeatRows(op) => elementwise::repeat_rows(op, access),
        Operation::Embed(op) => tokens::embed(op, access, context),
        Operation::QuantiseBits(op) => tokens::quantise(op, access),
        Operation::SampleToken(op) => tokens::sample(op, access, context),
        Operation::ActivateMixture(op) => draw::activate(op, access),
        Operation::MixtureQuantiles(op) => draw::quantiles(op, access, context),
        Operation::MeanMixture(op) => draw::mean(op, access, context),
        Operation::SampleMixture(op) => draw::sample(op, access, context),
        Operation::OverwriteExogenous(op) => elementwise::overwrite_exogenous(op, access),
        Operation::Round(op) => elementwise::round(op, access, context),
        Operation::SortSamples(op) => elementwise::sort_samples(op, access, context),
    }
}
