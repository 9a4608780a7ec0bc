//! Errors as the user sees them.

use std::borrow::Cow;
use std::io::ErrorKind;

use npcov::artefact::ArtefactError;
use npcov::attack::AttackError;
use npcov::coverage::{ConditionError, CoverageError};
use npcov::data::{DataError, ReadError};
use npcov::graph::{GraphError, NodeError, NodeErrorKind, Purpose};
use npcov::program::ProgramError;
use npcov::run::RunError;

use crate::interrupt;

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

/// Whether the work was stopped on demand.
pub(crate) fn is_stop(error: &anyhow::Error) -> bool {
    interrupt::is_requested() && error.to_string() == RunError::Stopped.to_string()
}

/// What the user can do about an error, where that is not obvious from its message.
pub(crate) fn hint(error: &anyhow::Error) -> Option<Cow<'static, str>> {
    if let Some(error) = error.downcast_ref::<ConditionError>() {
        return condition_hint(error).map(Cow::Owned);
    }
    match Cause::of(error)? {
        Cause::Run(RunError::Program(ProgramError::NotExplained(nodes))) => {
            Some(rules_for(nodes).into())
        }
        cause => fixed_hint(&cause).map(Cow::Borrowed),
    }
}

/// The error of the part that could not do its work.
enum Cause<'e> {
    Artefact(&'e ArtefactError),
    Attack(&'e AttackError),
    Coverage(&'e CoverageError),
    Data(&'e DataError),
    Graph(&'e GraphError),
    Run(&'e RunError),
}

impl<'e> Cause<'e> {
    fn of(error: &'e anyhow::Error) -> Option<Cause<'e>> {
        Some(match error.downcast_ref::<npcov::Error>() {
            Some(npcov::Error::Run(error)) => Cause::run(error),
            Some(npcov::Error::Artefact(ArtefactError::Data(error))) => Cause::Data(error),
            Some(npcov::Error::Artefact(error)) => Cause::Artefact(error),
            Some(npcov::Error::Attack(error)) => Cause::Attack(error),
            Some(npcov::Error::Coverage(error)) => Cause::Coverage(error),
            Some(_) => return None,
            None => Cause::Data(error.downcast_ref::<DataError>()?),
        })
    }

    fn run(error: &'e RunError) -> Cause<'e> {
        match error {
            RunError::Data(error) => Cause::Data(error),
            RunError::Graph(error) => Cause::Graph(error),
            error => Cause::Run(error),
        }
    }
}

/// What to do about a rule that cannot be applied.
fn condition_hint(error: &ConditionError) -> Option<String> {
    let ConditionError::NoSample {
        criterion,
        inputs,
        training,
        all_training,
        ..
    } = error
    else {
        return None;
    };
    let instead =
        format!("hold the suite against all of them: `--fail-under {criterion}=0.5*training`");
    Some(
        match (*training < *all_training, *inputs as u64 <= *all_training) {
            (true, true) => {
                format!("build the graph with `--yardstick-inputs {inputs}` or more, or {instead}")
            }
            _ => format!("learn the graph from more training data, or {instead}"),
        },
    )
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

fn fixed_hint(cause: &Cause<'_>) -> Option<&'static str> {
    const PATHS: &str = "relative paths start at the current folder, those in `npcov.toml` at the \
                         folder of that file";
    Some(match cause {
        Cause::Graph(error) => match error {
            GraphError::Io { source, .. } if source.kind() == ErrorKind::NotFound => PATHS,
            GraphError::NotOnnx { .. } => {
                "npcov reads ONNX: `torch.onnx.export` writes it from PyTorch, \
                 `model.export(\"model.onnx\", format=\"onnx\")` from Keras"
            }
            GraphError::OpenAxis { .. } | GraphError::InputShape { .. } => INPUT_SHAPE,
            GraphError::Nodes(nodes) if nodes.iter().any(|n| n.reason == NodeErrorKind::Boxes) => {
                "export the model without the choice of boxes, with what you ask about as its output: the scores \
                 of one box, or the largest of each class over all boxes"
            }
            _ => return None,
        },
        Cause::Run(RunError::InputShape { .. }) => INPUT_SHAPE,
        Cause::Run(RunError::NoSuchInput { .. }) => "`npcov inspect MODEL` lists the inputs",
        Cause::Data(DataError::Inputs { .. }) => {
            "arrays of an npz file are inputs by name, or as `--data file.npz:INPUT=ARRAY,...`; `--input NAME=NUMBER` \
             fixes an input; `--label-column NAME` says which column of a table is the label"
        }
        Cause::Data(DataError::Labels { reason, .. }) if reason.contains("not a whole number") => {
            "`--task regression` is for models that give numbers"
        }
        Cause::Run(RunError::NoClassifier { purpose, .. }) => match purpose {
            Purpose::Labels { .. } => {
                "export the model with the one label that you ask about as its output"
            }
            Purpose::Decision => {
                "`npcov inspect MODEL` lists the outputs, `--output-name NAME` chooses one with numbers"
            }
            _ => {
                "`--output-name NAME` chooses another output (`npcov inspect MODEL` lists them), \
                 `--task regression:NUMBER` one of its numbers; or \
                 export the model with what you ask about as its output: the mean over all places, \
                 one place, one token, the best box"
            }
        },
        Cause::Run(RunError::NoSuchOutput { .. }) => {
            "`npcov inspect MODEL` lists the outputs, `--output-name NAME` chooses one"
        }
        Cause::Coverage(CoverageError::ModelMoved { .. }) => {
            "a graph names its model by the way from its own folder; `cover --model FILE` names \
             another place. A retrained model has other neurons and needs a graph of its own"
        }
        Cause::Coverage(CoverageError::AnotherEngine { .. }) => {
            "`--engine onnxruntime` measures with the same one, `--engine native` with npcov's own, with a \
             warning that they differ"
        }
        Cause::Coverage(CoverageError::AnotherModel { .. }) => {
            "a retrained model has other neurons: build a graph for it with `npcov build`"
        }
        Cause::Artefact(ArtefactError::AnotherGraph { .. }) => {
            "a state belongs to the graph that it was measured with: `npcov cover` measures a suite with another"
        }
        Cause::Artefact(ArtefactError::Parts { .. }) => {
            "run the `--shard` again that these belong to, or the command without `--join`, which computes what \
             is missing or damaged"
        }
        Cause::Run(RunError::NoLabels(_)) => {
            "name the labels as `--data file.npz:SAMPLES,LABELS`, or choose `--members predicted` \
             and `--population all`"
        }
        Cause::Artefact(ArtefactError::Overlap { .. }) => {
            "measure parts with `--shard 1/4`, `2/4`, ...; without `--append` a state is written anew"
        }
        Cause::Data(DataError::Locked { .. }) => "wait for it, or name another output",
        Cause::Data(
            DataError::Read {
                source: ReadError::Damaged(_),
                ..
            }
            | DataError::Damaged { .. },
        ) => "files that were damaged or edited cannot be mended: write it anew",
        Cause::Artefact(ArtefactError::IsModel { .. }) => {
            "`npcov build MODEL --data TRAIN -o GRAPH` learns a decision graph from a model and its \
             training data, `npcov cover GRAPH --data SUITE -o STATE` writes a coverage state"
        }
        Cause::Run(RunError::LargeBatch { .. }) => {
            "export the model with an open batch axis, or with a batch of 1"
        }
        Cause::Run(RunError::Batch { .. }) => {
            "leave `--batch` out, or export the model with an open batch axis"
        }
        Cause::Run(RunError::Program(ProgramError::NoLayers)) => {
            "`npcov predict` needs no path layers, and `npcov explain` without `--alpha` says which parts of the \
             input decide; `--layers NAME` takes any node by the full name that it has in the model's file"
        }
        Cause::Run(RunError::Program(ProgramError::NoSuchNode(_))) => {
            "`--rule WHERE=RULE` takes `first`, an operator (`npcov inspect MODEL` lists them), or \
             the name of a node, in which `*` stands for any characters"
        }
        Cause::Run(RunError::Program(ProgramError::NotDifferentiated(_))) => {
            "`attack`, `--attribution gradient-input` and `--program gradient` need gradients; \
             `--attribution lrp` needs none"
        }
        Cause::Run(RunError::RelevanceNotFinite { .. }) => {
            "something is divided by a number close to zero; a rule with a larger epsilon (`--rule \
             epsilon:0.01`) or `--rule zplus` keeps away from that"
        }
        Cause::Attack(AttackError::OutOfRange { .. }) => {
            "`--divide 255` brings pixels to 0..1; `--range LOW,HIGH` says what numbers can be"
        }
        Cause::Run(RunError::NotFinite { .. }) => {
            "numbers far from what the model was trained on can overflow; check `--divide`, \
             `--mean` and `--std`"
        }
        Cause::Run(RunError::Label { .. }) => {
            "labels are class numbers from 0; name other arrays as `--data file.npz:SAMPLES,LABELS`, or leave labels \
             out: `--data file.npz:SAMPLES`"
        }
        Cause::Run(RunError::Program(ProgramError::NoSuchLayer { .. })) => {
            "`--layers` takes indices (`0`, `-1`), names and patterns (`block2/*`)"
        }
        Cause::Data(error) => match error {
            DataError::Read {
                source: ReadError::Io(source),
                ..
            } if source.kind() == ErrorKind::NotFound => PATHS,
            DataError::UnknownClasses { .. } => {
                "`--class-names FILE` names the model's classes, one a line, as the data calls them"
            }
            DataError::Read {
                source: ReadError::Temporary { .. },
                ..
            } => {
                "`TMPDIR` names another folder; files that are not compressed (`numpy.savez`) need none. With \
                 `--limit`, `predict` and `explain` decode no more than they read; `build` and `cover` read all \
                 rows, to say which data it was"
            }
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
