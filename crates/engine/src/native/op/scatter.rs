//! Elements added up at given places.

use npcov_cpu::vectorised;
use npcov_graph::OpError;

use super::arg::MAX_POSITIONS;
use crate::native::kernel::{Context, Inputs, Kernel, NodeKernel};
use crate::native::pack::{LANES, Pack};

struct Scatter {
    /// Where each element goes.
    places: Vec<u32>,
}

pub(super) fn prepare(cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    let size: usize = cx.output().iter().product();
    let Some(places) = cx.constant(1) else {
        return match size <= MAX_POSITIONS {
            true => Ok(NodeKernel::new(ScatterVarying, [0, 1])),
            false => Err(OpError::unsupported(format!(
                "computed places in {size} elements"
            ))),
        };
    };
    let places = places.as_i64();
    let places = places.ok_or_else(|| OpError::invalid("places that are no integers"))?;
    let places = places
        .iter()
        .map(|&p| u32::try_from(p).ok().filter(|&p| (p as usize) < size))
        .collect::<Option<Vec<u32>>>()
        .ok_or_else(|| OpError::invalid("a place outside of the output"))?;
    Ok(NodeKernel::new(Scatter { places }, [0]))
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

/// Places that depend on the model's input: every lane has its own. Those outside of the output get
/// nothing.
struct ScatterVarying;

impl Kernel for ScatterVarying {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        output.fill(Pack::ZERO);
        for (x, place) in inputs.get(0).iter().zip(inputs.get(1)) {
            for l in 0..LANES {
                // NaN and negative places must not become place 0.
                let place = if place.0[l] >= 0.0 {
                    place.0[l] as usize
                } else {
                    usize::MAX
                };
                if let Some(sum) = output.get_mut(place) {
                    sum.0[l] += x.0[l];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use npcov_graph::Op;
    use npcov_graph::op::ScatterSum;

    use crate::engine::KEEP_ALL;
    use crate::native::executor::Executor;
    use crate::native::op::testing::{Input, check, graph_of};
    use crate::native::options::Options;

    fn scatter(shape: &[usize]) -> Op {
        Op::ScatterSum(ScatterSum {
            shape: shape.to_vec(),
        })
    }

    #[test]
    fn elements_at_the_same_place_add_up() {
        let places = [5, 0, 5, 3, 0, 5];
        let inputs = [Input::varying(&[2, 3]), Input::ints(&[2, 3], &places)];
        check(scatter(&[1, 4, 2]), &inputs, 1e-6, |inputs| {
            let mut sums = vec![0.0; 8];
            for (x, &place) in inputs[0].iter().zip(&places) {
                sums[place as usize] += x;
            }
            sums
        });
    }

    #[test]
    fn places_that_differ_between_inputs() {
        // From -2 to 9, of which 0 to 7 exist.
        let inputs = [Input::varying(&[2, 3]), Input::indices(&[2, 3], -2, 9)];
        check(scatter(&[1, 4, 2]), &inputs, 1e-6, |inputs| {
            let mut sums = vec![0.0; 8];
            for (x, &place) in inputs[0].iter().zip(&inputs[1]) {
                if (0.0..8.0).contains(&place) {
                    sums[place as usize] += x;
                }
            }
            sums
        });
    }

    #[test]
    fn places_outside_of_the_output_are_refused() {
        for place in [-1, 4, i64::MAX] {
            let inputs = [Input::varying(&[2]), Input::ints(&[2], &[0, place])];
            let graph = graph_of(scatter(&[2, 2]), &inputs);
            let executor = Executor::new(&graph, Options::default(), KEEP_ALL);
            let error = executor.err().unwrap().to_string();
            assert!(
                error.contains("a place outside of the output"),
                "{place}: {error}"
            );
        }
    }
}
