//! Finds the operation that first makes a number that is not finite.
//!
//! An operation may write a part of a tensor and leave what stood in the rest, so values count that changed.

use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::plan::{Element, Plan, Section, Tensor};

/// The tensors that operations write, as they were before.
pub(crate) struct Watch {
    before: Vec<(Tensor, Vec<u8>)>,
}

impl Watch {
    /// Remembers what the operations will change; `read` fetches the bytes of a tensor.
    pub(crate) fn before(operations: &[Operation], read: &mut dyn FnMut(Tensor) -> Result<Vec<u8>>) -> Result<Self> {
        let mut tensors = Vec::new();
        operations.iter().for_each(|operation| operation.each_written(&mut |tensor| tensors.push(tensor)));
        let before = tensors.into_iter().map(|tensor| Ok((tensor, read(tensor)?))).collect::<Result<_>>()?;
        Ok(Self { before })
    }

    /// Refuses values that changed into NaN or infinities; the first operation is named.
    pub(crate) fn after(
        self,
        plan: &Plan,
        (section, place): (Section, usize),
        read: &mut dyn FnMut(Tensor) -> Result<Vec<u8>>,
    ) -> Result<()> {
        for (tensor, before) in self.before {
            let Some((index, value)) = first_that_is_not_finite(tensor.element, &before, &read(tensor)?) else {
                continue;
            };
            return Err(Error::Operation {
                operation: plan.describe(section, place),
                reason: format!(
                    "it makes {value} in row {} and column {} of a tensor {} wide",
                    index / tensor.width,
                    index % tensor.width,
                    tensor.width
                ),
            });
        }
        Ok(())
    }
}

/// Index and value of the first number that changed and is not finite.
fn first_that_is_not_finite(element: Element, before: &[u8], after: &[u8]) -> Option<(usize, f64)> {
    fn find<const N: usize>(before: &[u8], after: &[u8], value: fn([u8; N]) -> f64) -> Option<(usize, f64)> {
        let (before, after) = (before.as_chunks::<N>().0, after.as_chunks::<N>().0);
        let mut pairs = before.iter().zip(after).enumerate();
        pairs.find_map(|(index, (before, after))| {
            (before != after && !value(*after).is_finite()).then(|| (index, value(*after)))
        })
    }
    match element {
        Element::F32 => find(before, after, |bytes| f32::from_ne_bytes(bytes).into()),
        Element::F64 => find(before, after, f64::from_ne_bytes),
        Element::I32 => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_count_that_changed_into_something_not_finite() {
        let bytes = |values: [f32; 4]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<_>>();
        let before = bytes([f32::NAN, 1.0, 2.0, 3.0]);
        let find = |after| first_that_is_not_finite(Element::F32, &before, &bytes(after)).map(|(index, _)| index);
        assert_eq!(find([f32::NAN, 5.0, 2.0, 3.0]), None, "what stood there before");
        assert_eq!(find([f32::NAN, 1.0, f32::INFINITY, f32::NAN]), Some(2));
        assert_eq!(first_that_is_not_finite(Element::I32, &before, &bytes([f32::NAN; 4])), None);
    }
}
