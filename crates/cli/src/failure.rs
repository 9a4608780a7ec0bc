//! Errors as the user sees them.

use std::borrow::Cow;
use std::io::ErrorKind;

use npcov::data::{DataError, ReadError};
use npcov::graph::{GraphError, NodeError};
use npcov::program::ProgramError;

/// The error and its causes, one a line.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // Many messages already end with their cause.
        if !text.contains(&cause) {
            text += &format!("\n  caused by: {cause}");
        }
    }
    text
}

/// What the user can do about an error, where that is not obvious from its message.
pub(crate) fn hint(error: &anyhow::Error) -> Option<Cow<'static, str>> {
    match error.downcast_ref::<npcov::Error>()? {
        npcov::Error::Program(ProgramError::NotExplained(nodes)) => Some(rules_for(nodes).into()),
        error => fixed_hint(error).map(Cow::Borrowed),
    }
}

/// The options that give rules to operators that have none.
fn rules_for(nodes: &[NodeError]) -> String {
    let mut operators: Vec<&str> = nodes.iter().map(|node| node.op_type.as_str()).collect();
    operators.sort_unstable();
    operators.dedup();
    let options: Vec<String> = operators
        .iter()
        .map(|op| format!("--rule {op}=gradient:0.1"))
        .collect();
    format!(
        "say how relevance passes: `{}` shares it by gradient times input; `identity` passes it on \
         where input and output have the same shape",
        options.join(" ")
    )
}

fn fixed_hint(error: &npcov::Error) -> Option<&'static str> {
    const PATHS: &str = "relative paths start at the current folder, those in `npcov.toml` at the \
                         folder of that file";
    Some(match error {
        npcov::Error::Graph(error) => match error {
            GraphError::Io { source, .. } if source.kind() == ErrorKind::NotFound => PATHS,
            GraphError::NotOnnx { .. } => {
                "npcov reads ONNX: `torch.onnx.export` writes it from PyTorch, \
                 `model.export(\"model.onnx\", format=\"onnx\")` from Keras"
            }
            GraphError::OpenAxis { .. } | GraphError::InputShape { .. } => INPUT_SHAPE,
            _ => return None,
        },
        npcov::Error::InputShape { .. } => INPUT_SHAPE,
        npcov::Error::SeveralInputs(_) => {
            "a dataset fills one input; export the model with its other inputs as constants"
        }
        npcov::Error::NoSuchOutput { .. } => {
            "`npcov inspect MODEL` lists the outputs, `--output-name NAME` chooses one"
        }
        npcov::Error::ModelMoved { .. } => {
            "a graph names its model by the way from its own folder; `cover --model FILE` names \
             another place"
        }
        npcov::Error::AnotherModel { .. } => {
            "a retrained model has other neurons: build a graph for it with `npcov build`"
        }
        npcov::Error::NoLabels(_) => {
            "name the labels as `--data file.npz:SAMPLES,LABELS`, or choose `--members predicted` \
             and `--population all`"
        }
        npcov::Error::Overlap { .. } => {
            "measure parts with `--shard 1/4`, `2/4`, ...; without `--append` a state is written anew"
        }
        npcov::Error::Batch { .. } => {
            "leave `--batch` out, or export the model with an open batch axis"
        }
        npcov::Error::Program(ProgramError::NoLayers) => {
            "`--layers NAME` takes the full name of any node"
        }
        npcov::Error::Program(ProgramError::NoSuchNode(_)) => {
            "`--rule WHERE=RULE` takes `first`, an operator (`npcov inspect MODEL` lists them), or \
             the name of a node, in which `*` stands for any characters"
        }
        npcov::Error::Program(ProgramError::NotDifferentiated(_)) => {
            "`attack`, `--attribution gradient-input` and `--program gradient` need gradients; \
             `--attribution lrp` needs none"
        }
        npcov::Error::RelevanceNotFinite { .. } => {
            "something is divided by a number close to zero; a rule with a larger epsilon (`--rule \
             epsilon:0.01`) or `--rule zplus` keeps away from that"
        }
        npcov::Error::OutOfRange { .. } => {
            "`--divide 255` brings pixels to 0..1; `--range LOW,HIGH` says what numbers can be"
        }
        npcov::Error::NotFinite { .. } => {
            "numbers far from what the model was trained on can overflow; check `--divide`, \
             `--mean` and `--std`"
        }
        npcov::Error::Label { .. } => {
            "labels are class numbers from 0; name other arrays as `--data file.npz:SAMPLES,LABELS`"
        }
        npcov::Error::Program(ProgramError::NoSuchLayer { .. }) => {
            "`--layers` takes indices (`0`, `-1`), names and patterns (`block2/*`)"
        }
        npcov::Error::Data(error) => match error {
            DataError::Read {
                source: ReadError::Io(source),
                ..
            } if source.kind() == ErrorKind::NotFound => PATHS,
            DataError::Shape { reason, .. } if reason.contains("--layout") => {
                "`chw` is one plane of pixels per channel (PyTorch), `hwc` the channels side by \
                 side in each pixel (TensorFlow, most image libraries)"
            }
            DataError::Shape { .. } => {
                "`npcov inspect MODEL` shows the model's input; `--resize HxW` changes the size of \
                 8-bit images, `--input-shape` that of a model with open axes"
            }
            _ => return None,
        },
        _ => return None,
    })
}

const INPUT_SHAPE: &str =
    "`--input-shape` gives the shape of one input, without the batch: `--input-shape 3x224x224`";
