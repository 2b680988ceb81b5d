//! Which operations touch each tensor of a plan, found once.

use crate::operation::{Linear, Operation};
use crate::plan::{Plan, Section, Tensor};

pub(in crate::cuda) struct Uses<'a> {
    plan: &'a Plan,
    /// For each tensor, section and place of an operation as often as it names the tensor.
    places: Vec<Vec<(Section, usize)>>,
}

impl<'a> Uses<'a> {
    pub(in crate::cuda) fn of(plan: &'a Plan) -> Self {
        let mut places: Vec<Vec<(Section, usize)>> = Vec::new();
        for section in [Section::Prefill, Section::Decode] {
            for (place, operation) in plan.operations(section).iter().enumerate() {
                operation.each_tensor(&mut |tensor| {
                    places.resize_with(places.len().max(tensor.index + 1), Vec::new);
                    places[tensor.index].push((section, place));
                });
            }
        }
        Self { plan, places }
    }

    pub(super) fn places(&self, tensor: Tensor) -> &[(Section, usize)] {
        self.places.get(tensor.index).map_or(&[], Vec::as_slice)
    }

    /// Where a product of the plan stands.
    pub(super) fn place_of(&self, op: &Linear) -> Option<(Section, usize)> {
        self.places(op.output).iter().copied().find(|&(section, place)| match &self.plan.operations(section)[place] {
            Operation::Linear(other) => std::ptr::eq(other, op),
            _ => false,
        })
    }

    pub(super) fn operations(&self, tensor: Tensor) -> impl Iterator<Item = &'a Operation> {
        let plan = self.plan;
        self.places(tensor).iter().map(move |&(section, place)| &plan.operations(section)[place])
    }
}
