//! Operators that are defined by others.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use crate::error::OpError;
use crate::graph::{Graph, ValueId};
use crate::tensor::TensorType;

/// An operator that stands for a few plain ones.
///
/// [`Composite::lower`] *is* the definition: what it appends computes the operator's result. An
/// engine may know a faster way, and a file gets the plain operators.
pub trait Composite: Any + Debug + Send + Sync {
    /// The operator's name, for people.
    fn name(&self) -> &'static str;

    /// The type of the output for inputs of the given types.
    fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError>;

    /// Appends plain operators that compute the result, under the given name.
    fn lower(&self, graph: &mut Graph, name: &str, inputs: &[ValueId]) -> Result<ValueId, OpError>;
}

/// A [`Composite`] as an operator of a graph; equal only to its own copies.
#[derive(Clone, Debug)]
pub struct CompositeOp(Arc<dyn Composite>);

impl CompositeOp {
    /// An operator of the given kind.
    pub fn new(composite: impl Composite) -> CompositeOp {
        CompositeOp(Arc::new(composite))
    }

    /// The operator, when it is of the kind `T`.
    pub fn downcast<T: Composite>(&self) -> Option<&T> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
    }
}

impl Deref for CompositeOp {
    type Target = dyn Composite;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for CompositeOp {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
