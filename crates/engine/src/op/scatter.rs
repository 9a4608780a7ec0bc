//! Elements added up at given places.

use npcov_graph::OpError;

use crate::isa::vectorised;
use crate::kernel::{Context, Inputs, Kernel, Prepared};
use crate::pack::Pack;

struct Scatter {
    /// Where each element goes.
    places: Vec<u32>,
}

pub(super) fn prepare(cx: &Context<'_>) -> Result<Prepared, OpError> {
    let places = cx.constant(1).and_then(|t| t.as_i64());
    let places = places.ok_or_else(|| OpError::unsupported("places that are no constant"))?;
    let size: usize = cx.output().iter().product();
    let places = places
        .iter()
        .map(|&p| u32::try_from(p).ok().filter(|&p| (p as usize) < size))
        .collect::<Option<Vec<u32>>>()
        .ok_or_else(|| OpError::invalid("a place outside of the output"))?;
    Ok(Prepared::new(Scatter { places }, [0]))
}

impl Kernel for Scatter {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        vectorised(
            #[inline(always)]
            || {
                output.fill(Pack::ZERO);
                for (x, &place) in inputs.get(0).iter().zip(&self.places) {
                    let sum = &mut output[place as usize];
                    *sum = sum.zip(*x, |sum, x| sum + x);
                }
            },
        );
    }
}
