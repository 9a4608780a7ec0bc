//! What an engine is: something that runs graphs.
//!
//! Three traits, from what is made once to what every thread has: an [`Engine`] prepares a graph, what is
//! [`Prepared`] is shared by all threads, and each of them has a [`Worker`], which runs it.

use std::fmt;
use std::sync::Arc;

use npcov_graph::Graph;
use npcov_tap::Shown;

use crate::error::EngineError;

/// Something that runs graphs.
pub trait Engine: fmt::Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// What is recorded beside the numbers that it computes.
    fn record(&self) -> EngineRecord;

    /// This engine with kernels that are named as in its [record](EngineRecord::kernels), if it has a choice and knows
    /// the name.
    fn with_kernels(&self, _name: &str) -> Option<Arc<dyn Engine>> {
        None
    }

    /// Makes a graph ready to run. Its first `kept` outputs, or all if there are no more, are results.
    /// The others are *shown* in the course of a run, and need no memory of their own.
    ///
    /// The graph is the definition of what comes out. An engine may compute it in another order, or
    /// several nodes at once, or a composite node as the plain ones that it can be
    /// [lowered](Graph::lowered) to.
    fn prepare(&self, graph: &Graph, kept: usize) -> Result<Box<dyn Prepared>, EngineError>;

    /// All outputs of a graph that is run once, on any number of sets of inputs: `inputs[i]` holds
    /// `count` values of the graph's input `i`, one after the other, and so do the outputs.
    fn run_once(
        &self,
        graph: &Graph,
        count: usize,
        inputs: &[&[f32]],
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        let prepared = self.prepare(graph, KEEP_ALL)?;
        let mut worker = prepared.worker()?;
        let (in_lens, out_lens) = (prepared.input_lens(), prepared.output_lens());
        let outputs = out_lens.iter().map(|&len| zeros(count, len));
        let mut outputs = outputs.collect::<Result<Vec<Vec<f32>>, _>>()?;
        let whole: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        let all = Buffers {
            together: count,
            ..prepared.buffers().clone()
        };
        all.check(count, inputs, &whole)?;
        for start in (0..count).step_by(prepared.together().max(1)) {
            let sets = prepared.together().min(count - start);
            let part = |len: usize| start * len..(start + sets) * len;
            let inputs = inputs.iter().zip(in_lens);
            let inputs: Vec<&[f32]> = inputs.map(|(x, &len)| &x[part(len)]).collect();
            let outputs = outputs.iter_mut().zip(out_lens);
            let mut outputs: Vec<&mut [f32]> = outputs.map(|(y, &len)| &mut y[part(len)]).collect();
            worker.run(sets, &inputs, &mut outputs, &mut |_, _| {})?;
        }
        Ok(outputs)
    }
}

/// `count` times `len` zeros; an error where there is no memory for them.
pub fn zeros(count: usize, len: usize) -> Result<Vec<f32>, EngineError> {
    let all = count.saturating_mul(len);
    let mut numbers = Vec::new();
    let room = numbers.try_reserve_exact(all);
    room.map_err(|_| EngineError::Memory {
        bytes: all.saturating_mul(size_of::<f32>()),
    })?;
    numbers.resize(all, 0.0);
    Ok(numbers)
}

/// For [`Engine::prepare`]: all outputs are results.
pub const KEEP_ALL: usize = usize::MAX;

/// What numbers depend on besides the graph and its inputs. Engines of the same name, arithmetic and
/// kernels give the same bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineRecord {
    /// The engine's name.
    pub engine: String,
    /// How products are added up.
    pub arithmetic: String,
    /// How convolutions are computed.
    pub kernels: String,
    /// Vector instructions of the CPU that are used.
    pub cpu: String,
    /// Sets of inputs that are computed together, at most.
    pub together: usize,
}

/// A graph that an engine has made ready to run; all threads share it.
///
/// A *set of inputs* is what the graph takes at once: a tensor for each of its inputs.
pub trait Prepared: Send + Sync {
    /// How long the buffers of a run are.
    fn buffers(&self) -> &Buffers;

    /// Bytes that a worker allocates.
    fn worker_bytes(&self) -> usize;

    /// Sets of inputs up to which a worker takes as long as for one: threads share the last inputs of a
    /// dataset down to so many each.
    fn least(&self) -> usize {
        self.together()
    }

    /// Working memory for one thread.
    fn worker(&self) -> Result<Box<dyn Worker>, EngineError>;

    /// Numbers in each input of the graph.
    fn input_lens(&self) -> &[usize] {
        &self.buffers().inputs
    }

    /// Numbers in each result.
    fn output_lens(&self) -> &[usize] {
        &self.buffers().outputs
    }

    /// Sets of inputs that are computed together, at most.
    fn together(&self) -> usize {
        self.buffers().together
    }
}

/// Working memory of one thread.
pub trait Worker: Send {
    /// Runs the graph on 1 to [`Prepared::together`] sets of inputs.
    ///
    /// `inputs[i]` holds `count` values of the graph's input `i`, one after the other; `outputs[i]` takes
    /// as many of result `i`. What comes out for a set is the same bits wherever it stands and whatever
    /// stands beside it.
    ///
    /// `show` is called with each value that is shown, as soon as it is there: its number among those,
    /// and what it is for all sets, or for some of them at a time, from the first to the last one.
    fn run(
        &mut self,
        count: usize,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        show: &mut dyn FnMut(usize, Shown<'_>),
    ) -> Result<(), EngineError>;
}

/// How long the buffers of a run are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Numbers in each input of the graph.
    pub inputs: Vec<usize>,
    /// Numbers in each result.
    pub outputs: Vec<usize>,
    /// Sets of inputs that are computed together, at most.
    pub together: usize,
}

impl Buffers {
    /// Those of a graph whose first `kept` outputs are results.
    pub fn of(graph: &Graph, kept: usize, together: usize) -> Buffers {
        let len = |&value| graph.value(value).ty.numel();
        Buffers {
            inputs: graph.inputs().iter().map(len).collect(),
            outputs: graph.outputs().iter().take(kept).map(len).collect(),
            together,
        }
    }

    /// An error unless a caller's buffers are like that. Nothing is allocated when they are.
    pub fn check(
        &self,
        count: usize,
        inputs: &[&[f32]],
        outputs: &[&mut [f32]],
    ) -> Result<(), EngineError> {
        let fits = |what: &dyn Fn() -> String, got, expected| match got == expected {
            true => Ok(()),
            false => Err(EngineError::Buffer {
                what: what(),
                got,
                expected,
            }),
        };
        let Buffers {
            inputs: in_lens,
            outputs: out_lens,
            together,
        } = self;
        fits(&|| "micro-batch".into(), count, count.min(*together).max(1))?;
        fits(&|| "list of inputs".into(), inputs.len(), in_lens.len())?;
        fits(&|| "list of outputs".into(), outputs.len(), out_lens.len())?;
        for (i, (len, x)) in in_lens.iter().zip(inputs).enumerate() {
            fits(&|| format!("input {i}"), x.len(), count * len)?;
        }
        for (i, (len, y)) in out_lens.iter().zip(outputs).enumerate() {
            fits(&|| format!("output {i}"), y.len(), count * len)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_do_not_fit_are_named() {
        let buffers = Buffers {
            inputs: vec![2, 1],
            outputs: vec![3],
            together: 4,
        };
        let check = |count: usize, inputs: &[&[f32]], output: usize| {
            let mut output = vec![0.0; output];
            let result = buffers.check(count, inputs, &[&mut output[..]]);
            result.map_err(|error| error.to_string())
        };
        assert_eq!(check(2, &[&[0.0; 4], &[0.0; 2]], 6), Ok(()));
        for (count, inputs, output, message) in [
            (0, [0, 0], 0, "micro-batch has 0 numbers, expected 1"),
            (5, [10, 5], 15, "micro-batch has 5 numbers, expected 4"),
            (2, [4, 1], 6, "input 1 has 1 numbers, expected 2"),
            (2, [4, 2], 5, "output 0 has 5 numbers, expected 6"),
        ] {
            let inputs = inputs.map(|len| vec![0.0; len]);
            let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
            assert_eq!(check(count, &inputs, output), Err(message.to_owned()));
        }
        let message = "list of inputs has 1 numbers, expected 2".to_owned();
        assert_eq!(check(1, &[&[0.0; 2]], 3), Err(message));
    }
}
