//! The verbs as another program calls them: models, graphs and data in memory, options in the words of the
//! command line.
//!
//! Options are flags as a shell would pass them (`--alpha=0.8`), read by the same parser: what the command
//! line can be told, an embedding program can, and in the same words. `npcov.toml` is not looked for. What a
//! verb gives is an [`Answer`], the very text and JSON that the command line prints, beside the object
//! itself; what the command line would warn of is said to a [`Listener`].
//!
//! ```
//! use npcov_cli::embed::{Data, Listener, FileOrBytes, model};
//!
//! # let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
//! let file = format!("{fixtures}/mlp-matlab.onnx");
//! let options = ["--divide=255".to_owned()];
//! let opened = model::open(FileOrBytes::File(file.as_ref()), &options, None)?;
//! let data = Data::open(format!("{fixtures}/fashion-1000.npz"))?;
//! let limit = ["--limit=100".to_owned()];
//! let found = model::predict(&opened, &data, &limit, None, false, &mut Listener::new(&mut ()))?;
//! assert!(found.answer.json.contains("\"inputs\": 100"));
//! # Ok::<(), anyhow::Error>(())
//! ```

pub mod coverage;
mod explaining;
pub mod graph;
pub mod model;
pub mod mutation;
pub mod parts;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use clap::{ArgAction, Args, CommandFactory, Parser};
use npcov::data::formats::split;
use npcov::data::{Reading, Samples};
use npcov::run::Progress;
use npcov::{DecisionGraph, Model};
use serde::Serialize;

use crate::args::{ClassNamesArgs, Cli, Command, DataArgs, ModelArgs};
use crate::config::Config;
use crate::failure;
use crate::output::Outputs;

/// A result as the command line prints it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// With `--format json`.
    pub json: String,
    /// For people.
    pub text: String,
}

impl Answer {
    fn new(result: &impl Serialize, text: String) -> Answer {
        Answer {
            json: npcov_report::json(result),
            text: npcov_report::visible(&text),
        }
    }
}

/// Where a model or an artefact comes from.
#[derive(Clone, Copy, Debug)]
pub enum FileOrBytes<'a> {
    /// A file.
    File(&'a Path),
    /// The bytes of one.
    Bytes(&'a [u8]),
}

/// Samples in memory, or in files and folders: those are never written over.
#[derive(Clone)]
pub struct Data(Held);

#[derive(Clone)]
enum Held {
    Memory(Arc<dyn Samples>),
    Files(Arc<Files>),
}

struct Files {
    spec: OsString,
    /// As they were read so far, which depends on the model. Each is opened once, so that its digest is taken once.
    opened: Mutex<Vec<(Reading, Arc<dyn Samples>)>>,
}

impl Data {
    /// Samples in memory.
    pub fn new(samples: Arc<dyn Samples>) -> Data {
        Data(Held::Memory(samples))
    }

    /// Files and folders as `--data` names them. They are opened when it is known what they are read for.
    pub fn open(spec: impl AsRef<OsStr>) -> anyhow::Result<Data> {
        let files = Files {
            spec: spec.as_ref().to_owned(),
            opened: Mutex::default(),
        };
        let data = Data(Held::Files(Arc::new(files)));
        if !split(spec.as_ref()).0.exists() {
            data.read(Reading::default())?;
        }
        Ok(data)
    }

    /// The samples as a model reads them.
    pub fn for_model(&self, model: &Model) -> anyhow::Result<Arc<dyn Samples>> {
        self.read(model.reading())
    }

    /// The samples as they were read last or, where nobody did, as they are without a model.
    pub fn samples(&self) -> anyhow::Result<Arc<dyn Samples>> {
        if let Held::Files(files) = &self.0 {
            let opened = files.opened.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, samples)) = opened.last() {
                return Ok(samples.clone());
            }
        }
        self.read(Reading::default())
    }

    fn read(&self, reading: Reading) -> anyhow::Result<Arc<dyn Samples>> {
        let files = match &self.0 {
            Held::Memory(samples) => return Ok(samples.clone()),
            Held::Files(files) => files,
        };
        let mut opened = files.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, samples)) = opened.iter().find(|(other, _)| *other == reading) {
            return Ok(samples.clone());
        }
        let samples = npcov::data::open_as(&files.spec, &reading).map_err(npcov::Error::from)?;
        opened.push((reading, samples.clone()));
        Ok(samples)
    }

    fn spec(&self) -> Option<&OsStr> {
        match &self.0 {
            Held::Memory(_) => None,
            Held::Files(files) => Some(&files.spec),
        }
    }
}

/// Who is told how work goes on, and of what is probably not meant.
pub struct Listener<'a> {
    /// How work goes on; may say stop.
    pub progress: &'a mut dyn Progress,
    /// What the command line would warn of.
    pub warnings: Vec<String>,
}

impl<'a> Listener<'a> {
    /// Has heard nothing yet.
    pub fn new(progress: &'a mut dyn Progress) -> Listener<'a> {
        Listener {
            progress,
            warnings: Vec::new(),
        }
    }

    fn warn(&mut self, warnings: impl IntoIterator<Item = String>) {
        self.warnings.extend(warnings);
    }
}

/// An option that a verb takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// Its name, as a flag without the hyphens in front.
    pub name: String,
    /// Whether it has a value.
    pub takes_value: bool,
    /// Whether it may be given several times.
    pub repeats: bool,
    /// What it means, in a line.
    pub help: String,
}

/// Options that say how results are printed or where settings are: not for programs.
const OF_THE_COMMAND_LINE: [&str; 5] = ["format", "config", "quiet", "help", "version"];

/// The options of a verb, as the command line has it; `None` where there is no such verb.
pub fn options(verb: &str) -> Option<Vec<OptionInfo>> {
    let command = Cli::command();
    command.find_subcommand(verb).map(described)
}

/// The options of every verb that opens a model, which say how it is opened.
pub fn model_options() -> Vec<OptionInfo> {
    let command = ModelArgs::augment_args(clap::Command::new("model"));
    let mut options = described(&DataArgs::augment_args(command));
    let build = options_of_build();
    let shared = ["batch-norm", "threads"];
    options.extend(build.into_iter().filter(|o| shared.contains(&&*o.name)));
    options.retain(|option| option.name != "data");
    options
}

fn options_of_build() -> Vec<OptionInfo> {
    options("build").unwrap_or_default()
}

fn described(command: &clap::Command) -> Vec<OptionInfo> {
    let named = command.get_arguments().filter_map(|arg| {
        Some(OptionInfo {
            name: arg.get_long()?.to_owned(),
            takes_value: arg.get_action().takes_values(),
            repeats: matches!(arg.get_action(), ArgAction::Append),
            help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
        })
    });
    named
        .filter(|option| !OF_THE_COMMAND_LINE.contains(&&*option.name))
        .collect()
}

/// An option that cannot be what it is.
#[derive(Debug)]
pub struct OptionError(String);

impl OptionError {
    fn new(message: &str) -> OptionError {
        OptionError(message.to_owned())
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OptionError {}

/// The arguments of a verb: what the command line must be told and an embedding program knows, then options.
fn parse(verb: &str, known: &[&str], options: &[String]) -> Result<Command, OptionError> {
    let words = ["npcov", verb].into_iter().chain(known.iter().copied());
    let words = words
        .chain(options.iter().map(String::as_str))
        .map(OsString::from);
    Cli::try_parse_from(words)
        .map(|cli| cli.command)
        .map_err(|error| {
            let text = error.to_string();
            // How commands are used is nothing that can be done about it here.
            let text = text.split("\n\nUsage:").next().unwrap_or_default();
            let text = text.split("\n\nFor more information").next();
            let text = text.unwrap_or_default();
            OptionError(
                text.strip_prefix("error: ")
                    .unwrap_or(text)
                    .trim()
                    .to_owned(),
            )
        })
}

/// The arguments of one verb.
macro_rules! arguments {
    ($verb:literal, $command:ident, $known:expr, $options:expr) => {
        match $crate::embed::parse($verb, &$known, $options)? {
            $crate::args::Command::$command(args) => args,
            _ => anyhow::bail!("`{}` is another verb", $verb),
        }
    };
}
use arguments;

/// An output, which is none of what is read.
fn spare(output: Option<&Path>, files: &[impl AsRef<Path>], data: &[&Data]) -> anyhow::Result<()> {
    outputs([("output", output)], files, data).map(drop)
}

/// Outputs, which are none of what is read, for more to be added.
fn outputs<'a>(
    outputs: impl IntoIterator<Item = (&'static str, Option<&'a Path>)>,
    files: &[impl AsRef<Path>],
    data: &[&Data],
) -> anyhow::Result<Outputs> {
    let mut outputs = Outputs::new(&Config::default(), outputs)?;
    for file in files {
        outputs.spare(file.as_ref())?;
    }
    for spec in data.iter().filter_map(|data| data.spec()) {
        outputs.spare_data(spec)?;
    }
    Ok(outputs)
}

/// The same for what is asked of a decision graph.
fn spare_graph(
    output: Option<&Path>,
    graph: &DecisionGraph,
    classes: &ClassNamesArgs,
    data: &[&Data],
) -> anyhow::Result<()> {
    let config = Config::default();
    let mut outputs = Outputs::new(&config, [("output", output)])?;
    outputs.spare_graph(graph)?;
    outputs.spare_all(config.class_names_file(classes))?;
    let mut data = data.iter().filter_map(|data| data.spec());
    data.try_for_each(|spec| outputs.spare_data(spec))
}

/// What kind of mistake an error is, so that programs can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// A model cannot be used.
    Model,
    /// Data cannot be used.
    Data,
    /// An artefact is not what is needed.
    Artefact,
    /// An option cannot be what it is.
    Option,
    /// Progress said stop.
    Stopped,
    /// Anything else.
    Other,
}

/// An error as the command line would show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of mistake it is.
    pub kind: FailureKind,
    /// The message, with its causes.
    pub message: String,
    /// What to do about it, where that is not obvious.
    pub hint: Option<String>,
}

impl Failure {
    /// Of what a verb of this module said.
    pub fn of(error: &anyhow::Error) -> Failure {
        Failure {
            kind: kind(error),
            message: npcov_report::visible(&failure::message(error)),
            hint: failure::hint(error).map(|hint| hint.into_owned()),
        }
    }
}

fn kind(error: &anyhow::Error) -> FailureKind {
    use npcov::Error;
    use npcov::mutate::MutationError;
    use npcov::run::RunError;
    if error.is::<OptionError>() || error.is::<npcov::coverage::ConditionError>() {
        return FailureKind::Option;
    }
    match error.downcast_ref::<Error>() {
        Some(Error::Run(RunError::Stopped)) => FailureKind::Stopped,
        Some(Error::Run(RunError::Data(_) | RunError::Label { .. } | RunError::Index { .. }))
        | Some(Error::Run(RunError::NoInputs(_) | RunError::NoLabels(_)))
        | Some(Error::Artefact(npcov::artefact::ArtefactError::Data(_))) => FailureKind::Data,
        Some(Error::Run(RunError::Parameter { .. } | RunError::NoSuchClass { .. })) => {
            FailureKind::Option
        }
        Some(Error::Run(_) | Error::Export(_)) => FailureKind::Model,
        Some(Error::Artefact(_) | Error::Coverage(_))
        | Some(Error::Mutation(MutationError::Misfit(_) | MutationError::File { .. })) => {
            FailureKind::Artefact
        }
        Some(_) => FailureKind::Other,
        None if error.is::<npcov::data::DataError>() => FailureKind::Data,
        None => FailureKind::Option,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_the_command_line() {
        let build = options("build").unwrap();
        let named = |name: &str| build.iter().find(|option| option.name == name).cloned();
        let alpha = named("alpha").unwrap();
        assert!(alpha.takes_value && !alpha.repeats);
        assert!(named("rule").unwrap().repeats);
        assert!(named("format").is_none() && named("quiet").is_none());
        assert_eq!(options("nothing"), None);
        let model = model_options();
        for name in ["divide", "layers", "engine", "batch-norm", "threads"] {
            assert!(model.iter().any(|option| option.name == name), "{name}");
        }
        assert!(!model.iter().any(|option| option.name == "data"));
    }

    #[test]
    fn a_wrong_option_is_named_without_how_commands_are_used() {
        let wrong = ["--alpha=much".to_owned()];
        let error = parse("build", &["-", "--output=-"], &wrong).unwrap_err();
        let message = error.to_string();
        assert!(
            message.starts_with("invalid value 'much' for '--alpha <A>'"),
            "{message}"
        );
        assert!(
            !message.contains("Usage") && !message.contains("--help"),
            "{message}"
        );
        let failure = Failure::of(&anyhow::Error::from(error));
        assert_eq!(failure.kind, FailureKind::Option);
    }
}
