//! The verb `compile`: a program of npcov as an ONNX file for any runtime.

use std::path::Path;

use npcov_data::write_whole;
use npcov_graph::{Op, OpError};
use npcov_program::{Loss, Output, Program, ProgramError, Target, explain, gradient, mask, trace};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::inspect::{Extent, Port};
use npcov_run::{ExplainOptions, Network};

/// What to make of a model.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramKind {
    /// Logits and activations.
    Trace,
    /// Logits and relevances.
    Explain(ExplainOptions),
    /// Logits with neurons multiplied by masks.
    Mask,
    /// Logits, a loss, and its gradient with respect to the input.
    Gradient(Loss),
}

impl ProgramKind {
    fn program(&self, network: &Network) -> Result<Program, Error> {
        let view = network.view();
        if matches!(self, ProgramKind::Mask) && view.layers.is_empty() {
            return Err(ProgramError::NoLayers.into());
        }
        Ok(match self {
            ProgramKind::Trace => trace(&view, &[])?,
            ProgramKind::Gradient(loss) => gradient(&view, loss)?,
            ProgramKind::Mask => mask(&view)?,
            ProgramKind::Explain(settings) => {
                let attribution = settings.method.attribution(view.graph);
                let mut outputs = settings.options();
                if let Some(deviation) = network.deviation()? {
                    outputs.target = Target::Deviation(deviation);
                }
                explain(&view, attribution.as_ref(), &outputs)?
            }
        })
    }
}

/// A program that was written as ONNX.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Compilation {
    /// The file.
    pub file: String,
    /// Version of the standard operator set.
    pub opset: i64,
    /// What the program takes.
    pub inputs: Vec<Port>,
    /// What it gives: `logits`, `activation.0`, `relevance.0`, `relevance.input`, ...
    pub outputs: Vec<Port>,
}

/// Writes a program as an ONNX file of plain operators.
///
/// It takes [`Network::batch`] inputs at once, and every output has a row for each.
pub(crate) fn compile(
    network: &Network,
    kind: &ProgramKind,
    path: impl AsRef<Path>,
) -> Result<Compilation, Error> {
    let path = path.as_ref();
    let program = kind.program(network)?;
    let program = with_rows(program, network.batch()).map_err(Error::Export)?;
    let names = program.output_names();
    let graph = &program.graph;
    let bytes = graph.to_onnx_with(&names).map_err(Error::Export)?;
    write_whole(path, &bytes)?;
    let port = |name: &str, id| {
        let ty = &graph.value(id).ty;
        Port {
            name: name.to_owned(),
            dtype: Some(ty.dtype.to_string()),
            shape: Some(ty.shape.iter().map(|&n| Extent::Fixed(n)).collect()),
            ending: None,
        }
    };
    let inputs = graph.inputs().iter();
    let outputs = names.iter().zip(graph.outputs());
    Ok(Compilation {
        file: path.display().to_string(),
        opset: npcov_graph::EXPORT_OPSET,
        inputs: inputs.map(|&id| port(&graph.value(id).name, id)).collect(),
        outputs: outputs.map(|(name, &id)| port(name, id)).collect(),
    })
}

/// The same program with `batch` rows in every output: of their own shape where they belong to the
/// input's elements, one number where they are a loss, else a vector. For one input a program may
/// leave axes of extent 1 out, or keep some that nobody needs; readers of a file want one shape for
/// all batches.
fn with_rows(mut program: Program, batch: usize) -> Result<Program, OpError> {
    let mut outputs = program.graph.outputs().to_vec();
    for (id, output) in outputs.iter_mut().zip(&program.outputs) {
        if let Output::InputRelevance(_) | Output::InputGradient | Output::Loss = output {
            continue;
        }
        let shape = [batch, program.graph.value(*id).ty.numel() / batch.max(1)];
        if program.graph.shape(*id) != shape {
            let reshape = Op::Reshape(shape.to_vec());
            *id = program.graph.push(output.name(), reshape, &[*id])?;
        }
    }
    program.graph.set_outputs(outputs);
    Ok(program)
}
