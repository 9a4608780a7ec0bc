//! `npcov.toml`: settings that need not be repeated on every command line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use npcov::Model;
use npcov::coverage::{ClassShares, Gate};
use npcov::data::{Layout, Preprocessing, read_class_names, read_vocabulary};
use npcov::engine::Engine;
use npcov::program::{BatchNorm, LayerOptions};
use npcov::run::{
    BinChoice, ExplainOptions, Method, ModelOptions, RegressionOptions, RuleChoice, Task,
};
use serde::Deserialize;

use crate::args::{
    CheckArgs, ClassNamesArgs, ClassSharesArgs, DataArgs, MethodArgs, ModelArgs, PreprocessingArgs,
    RelevanceArgs, TaskArgs, ThreadsArgs,
};
use crate::check_table::CheckTable;
use crate::paths_table::PathsTable;
use crate::value::{
    AttributionName, BatchNormName, BiasName, Bins, CropSize, DirectionName, EngineName,
    FixedInput, InterpolationName, KindName, LayerName, LayoutName, Numbers, PresetName,
    ReferenceName, ResizeSize, RuleList, Shape, Shares, TaskName, Threads, View,
};

/// The file that is looked for in the current folder.
const FILE: &str = "npcov.toml";

/// The settings of a file, and the flags on top of them.
///
/// Keys have the names of the flags. A key that is not known is an error: a typing error that
/// changes nothing would be found late.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Config {
    model: Option<PathBuf>,
    input_shape: Option<Shape>,
    output_name: Option<String>,
    input_name: Option<String>,
    #[serde(default)]
    input: BTreeMap<String, f32>,
    task: Option<TaskName>,
    bins: Option<Bins>,
    reference: Option<ReferenceName>,
    direction: Option<DirectionName>,
    tolerance: Option<f64>,
    pub(crate) label_column: Option<String>,
    layers: Option<Vec<LayerName>>,
    units: Option<bool>,
    rnn: Option<View>,
    path_layers: Option<Vec<KindName>>,
    token: Option<usize>,
    data: Option<String>,
    class_names: Option<PathBuf>,
    vocabulary: Option<PathBuf>,
    threads: Option<Threads>,
    engine: Option<EngineName>,
    class_shares: Option<Shares>,
    #[serde(default)]
    preprocessing: PreprocessingTable,
    #[serde(default)]
    explain: ExplainTable,
    #[serde(default)]
    pub(crate) paths: PathsTable,
    #[serde(default)]
    check: CheckTable,
    #[serde(skip)]
    file: Option<PathBuf>,
    /// The file's folder, where its relative paths start.
    #[serde(skip)]
    folder: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PreprocessingTable {
    divide: Option<f32>,
    mean: Option<Numbers>,
    std: Option<Numbers>,
    resize: Option<ResizeSize>,
    crop: Option<CropSize>,
    interpolation: Option<InterpolationName>,
    layout: Option<LayoutName>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ExplainTable {
    rule: Option<RuleList>,
    preset: Option<PresetName>,
    bias: Option<BiasName>,
    batch_norm: Option<BatchNormName>,
    attribution: Option<AttributionName>,
}

/// The text of a file of settings.
pub(crate) fn read_settings(path: &Path) -> anyhow::Result<String> {
    const LARGEST: u64 = 1 << 20;
    npcov_file::read_text(path, LARGEST)
        .with_context(|| format!("cannot read `{}`", path.display()))
}

/// Where a file stops being TOML, without a word of what is there.
pub(crate) fn not_toml(
    path: &Path,
    text: &str,
    span: Option<Range<usize>>,
    message: &str,
) -> anyhow::Error {
    let place = place(text, span);
    // The parser's message may go on over several lines.
    let message = message.trim_end().replace('\n', ", ");
    anyhow!("`{}` is not TOML: {place}: {message}", path.display())
}

/// Where something begins in a text.
fn place(text: &str, span: Option<Range<usize>>) -> String {
    let before = span.and_then(|span| text.get(..span.start)).unwrap_or("");
    let line = 1 + before.matches('\n').count();
    let column = 1 + before.chars().rev().take_while(|&c| c != '\n').count();
    format!("line {line}, column {column}")
}

/// What is wrong with settings: with the line, unless its key is not ours. Then the file may be for another program, and
/// hold what is nobody's business.
fn wrong_settings(path: &Path, text: &str, error: &toml::de::Error) -> anyhow::Error {
    let path = path.display();
    match error.message() {
        message if message.starts_with("unknown field") => {
            anyhow!("`{path}`: {}: {message}", place(text, error.span()))
        }
        _ => anyhow!("`{path}`: {}", error.to_string().trim_end()),
    }
}

impl Config {
    /// Reads the file that is named, or else `npcov.toml` where there is one.
    pub(crate) fn find(named: Option<&Path>) -> anyhow::Result<Config> {
        let path = named.unwrap_or(Path::new(FILE));
        if named.is_none() && !path.exists() {
            return Ok(Config::default());
        }
        let text = read_settings(path)?;
        // What is no TOML may be any file: nothing of it is shown.
        toml::from_str::<toml::Table>(&text)
            .map_err(|error| not_toml(path, &text, error.span(), error.message()))?;
        let config: Config =
            toml::from_str(&text).map_err(|error| wrong_settings(path, &text, &error))?;
        Ok(Config {
            file: Some(path.to_owned()),
            folder: path.parent().unwrap_or(Path::new("")).to_owned(),
            ..config
        })
    }

    /// The model's file.
    pub(crate) fn model(&self, args: &ModelArgs) -> anyhow::Result<PathBuf> {
        let here = || Some(self.folder.join(self.model.as_ref()?));
        args.model
            .clone()
            .or_else(here)
            .ok_or_else(|| anyhow!("no model is named: give its file, or set `model` in `{FILE}`"))
    }

    /// What the model's file leaves open.
    pub(crate) fn network(&self, args: &ModelArgs) -> ModelOptions {
        let shape = args.input_shape.as_ref().or(self.input_shape.as_ref());
        let select = match (&args.layers, &self.layers) {
            (Some(layers), _) => layers.clone(),
            (None, Some(layers)) => layers.iter().map(Into::into).collect(),
            (None, None) => Vec::new(),
        };
        ModelOptions {
            input_shape: shape.map(|shape| shape.0.clone()),
            output: args.output_name.clone().or(self.output_name.clone()),
            layers: LayerOptions {
                select,
                units: args.units.or(self.units).unwrap_or(false),
                rnn: args
                    .rnn
                    .or(self.rnn)
                    .map_or_else(Default::default, |view| view.0),
                kinds: match (&args.path_layers, &self.path_layers) {
                    (Some(kinds), _) => kinds.clone(),
                    (None, Some(kinds)) => kinds.iter().map(|kind| kind.0).collect(),
                    (None, None) => Vec::new(),
                },
                token: args.token.or(self.token),
            },
            kernels: args.kernels,
            task: self.task(&args.task),
            fixed: self.fixed(&args.input),
            input: args.input_name.clone().or(self.input_name.clone()),
            engine: (args.engine.as_ref().or(self.engine.as_ref()))
                .map(|engine| engine.with_kernels(args.kernels)),
            ..ModelOptions::default()
        }
    }

    /// Inputs that are always the same number: those of the flags, and others of the file.
    fn fixed(&self, args: &[FixedInput]) -> Vec<(String, f32)> {
        let mut fixed = self.input.clone();
        for FixedInput(name, number) in args {
            fixed.insert(name.clone(), *number);
        }
        fixed.into_iter().collect()
    }

    /// What the outputs mean. Options of numbers make them numbers.
    fn task(&self, args: &TaskArgs) -> Task {
        let bins = args.bins.as_ref().or(self.bins.as_ref());
        let reference = args.reference.or(self.reference);
        let direction = args.direction.or(self.direction);
        let tolerance = args.tolerance.or(self.tolerance);
        let given =
            bins.is_some() || reference.is_some() || direction.is_some() || tolerance.is_some();
        let named = args.task.clone().or(self.task.clone().map(|name| name.0));
        let options = match named {
            None if given => RegressionOptions::default(),
            Some(Task::Regression(options)) => options,
            None => return Task::Auto,
            Some(task) => return task,
        };
        Task::Regression(RegressionOptions {
            output: options.output,
            bins: bins.map_or_else(BinChoice::default, |bins| bins.0.clone()),
            reference: reference.map_or_else(Default::default, |name| name.0),
            direction: direction.map_or_else(Default::default, |name| name.0),
            tolerance,
        })
    }

    /// What happens to batch normalisation when a model is explained.
    pub(crate) fn batch_norm(&self, args: &MethodArgs) -> BatchNorm {
        let name = args.batch_norm.or(self.explain.batch_norm);
        name.map_or(BatchNorm::default(), Into::into)
    }

    /// What is explained, and how.
    pub(crate) fn explain(&self, args: &RelevanceArgs) -> anyhow::Result<ExplainOptions> {
        Ok(ExplainOptions {
            method: self.method(&args.method)?,
            class: args.class,
            input: args.input_relevance,
            ..ExplainOptions::default()
        })
    }

    /// How relevances are computed.
    pub(crate) fn method(&self, args: &MethodArgs) -> anyhow::Result<Method> {
        let file = &self.explain;
        Ok(match args.attribution.or(file.attribution) {
            Some(name @ (AttributionName::GradientInput | AttributionName::Attnlrp)) => {
                // In the file they are settings for another day; on the command line a mistake.
                if !args.rule.is_empty() || args.preset.is_some() || args.bias.is_some() {
                    bail!(
                        "`--rule`, `--preset` and `--bias` are for `--attribution lrp`; gradients \
                         have no rules, and AttnLRP has its own"
                    );
                }
                match name == AttributionName::Attnlrp {
                    true => Method::AttnLrp,
                    false => Method::GradientTimesInput,
                }
            }
            Some(AttributionName::Lrp) | None => {
                let in_file = file.rule.as_ref().map_or(&[][..], |list| &list.0);
                let rules = match args.rule.is_empty() {
                    true => in_file,
                    false => &args.rule[..],
                };
                Method::Lrp(RuleChoice {
                    preset: args.preset.or(file.preset.map(|name| name.0)),
                    rules: rules.iter().map(|s| (s.place.clone(), s.rule)).collect(),
                    bias: args.bias.or(file.bias).map(Into::into),
                })
            }
        })
    }

    /// The specification of the dataset.
    pub(crate) fn data(&self, args: &DataArgs) -> anyhow::Result<OsString> {
        if let Some(data) = &args.data {
            return Ok(data.clone());
        }
        let data = self.data.as_ref().ok_or_else(|| {
            anyhow!("no data is named: give `--data FILE`, or set `data` in `{FILE}`")
        })?;
        Ok(self.folder.join(data).into())
    }

    /// The file that the settings are from; `None` where there is none.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The names of the model's classes, where a file has them.
    pub(crate) fn class_names(
        &self,
        args: &ClassNamesArgs,
    ) -> Result<Option<Vec<String>>, npcov::Error> {
        let file = self.class_names_file(args);
        Ok(file.map(read_class_names).transpose()?)
    }

    /// The file that has them.
    pub(crate) fn class_names_file(&self, args: &ClassNamesArgs) -> Option<PathBuf> {
        let here = || Some(self.folder.join(self.class_names.as_ref()?));
        args.class_names.clone().or_else(here)
    }

    /// The words for the numbers of tokens, where a file has them: the first line is that of token 0.
    pub(crate) fn vocabulary(
        &self,
        named: Option<&Path>,
    ) -> Result<Option<Vec<String>>, npcov::Error> {
        let file = self.vocabulary_file(named);
        Ok(file.map(read_vocabulary).transpose()?)
    }

    /// The file that has them.
    pub(crate) fn vocabulary_file(&self, named: Option<&Path>) -> Option<PathBuf> {
        let here = || Some(self.folder.join(self.vocabulary.as_ref()?));
        named.map(Path::to_owned).or_else(here)
    }

    /// What holds the labels of data, where it is named.
    pub(crate) fn label_column(&self, args: &ClassNamesArgs) -> Option<String> {
        args.label_column.clone().or(self.label_column.clone())
    }

    /// A model as its data is to be prepared for it.
    pub(crate) fn prepare(&self, model: Model, args: &DataArgs) -> Result<Model, npcov::Error> {
        let model = model.with_preprocessing(self.preprocessing(&args.preprocessing));
        let model = match self.label_column(&args.classes) {
            Some(name) => model.with_label_column(&name),
            None => model,
        };
        match self.class_names(&args.classes)? {
            Some(names) => model.with_class_names(names),
            None => Ok(model),
        }
    }

    /// What happens to the data before it enters the model.
    pub(crate) fn preprocessing(&self, args: &PreprocessingArgs) -> Preprocessing {
        let file = &self.preprocessing;
        let numbers = |flag: &Option<Vec<f32>>, key: &Option<Numbers>| {
            let key = || key.as_ref().map(Numbers::list);
            flag.clone().or_else(key).unwrap_or_default()
        };
        let layout: Option<Layout> = args.layout.or(file.layout.map(|layout| layout.0));
        Preprocessing {
            divide: args.divide.or(file.divide),
            mean: numbers(&args.mean, &file.mean),
            std: numbers(&args.std, &file.std),
            resize: args.resize.or(file.resize).map(|size| size.0),
            crop: args.crop.or(file.crop).map(|CropSize(h, w)| (h, w)),
            interpolation: (args.interpolation)
                .or(file.interpolation.map(|name| name.0))
                .unwrap_or_default(),
            layout,
            by_caller: None,
        }
    }

    /// What suites must fulfil, and the earlier state that they are held against.
    pub(crate) fn check(&self, args: &CheckArgs) -> anyhow::Result<(Gate, Option<PathBuf>)> {
        let here = || Some(self.folder.join(self.check.against.as_ref()?));
        let against = args.against.clone().or_else(here);
        let rules = self.check.rules(args, against.is_some());
        if rules.is_empty() {
            bail!(
                "nothing is to be checked: give an earlier state (`--against`), `--fail-under`, \
                 `--fail-on-drop` or `--fail-on-thin`, or set them in the table `[check]` of `{FILE}`"
            );
        }
        if rules.looks_back() && against.is_none() {
            let flag = match rules.losses {
                Some(_) => "--fail-on-loss",
                None => "--fail-on-drop",
            };
            bail!(
                "`{flag}` needs an earlier state: give `--against STATE`, or set `against` in the \
                 table `[check]` of `{FILE}`"
            );
        }
        Ok((rules, against))
    }

    /// What suites must fulfil by the file alone, beside an earlier state where there is one.
    pub(crate) fn rules(&self, has_earlier: bool) -> Gate {
        self.check.own_rules(has_earlier)
    }

    /// The data that the file names.
    pub(crate) fn own_data(&self) -> Option<OsString> {
        Some(self.folder.join(self.data.as_ref()?).into())
    }

    /// The file that says how frequent classes should be in suites.
    pub(crate) fn class_shares_file(&self, args: &ClassSharesArgs) -> Option<PathBuf> {
        match (&args.class_shares, &self.class_shares) {
            (Some(shares), _) => shares.file(Path::new("")),
            (None, Some(shares)) => shares.file(&self.folder),
            (None, None) => None,
        }
    }

    /// How frequent they should be.
    pub(crate) fn class_shares(&self, args: &ClassSharesArgs) -> anyhow::Result<ClassShares> {
        match (&args.class_shares, &self.class_shares) {
            (Some(shares), _) => shares.read(Path::new("")),
            (None, Some(shares)) => shares.read(&self.folder),
            (None, None) => Ok(ClassShares::Training),
        }
    }

    /// The engine that a decision graph is measured with, where one is asked for.
    pub(crate) fn engine(&self, flag: Option<&EngineName>) -> Option<Arc<dyn Engine>> {
        flag.or(self.engine.as_ref()).map(EngineName::engine)
    }

    /// Number of threads: one for each core that may be used, unless it is given.
    pub(crate) fn threads(&self, flag: ThreadsArgs) -> usize {
        match flag.threads.or(self.threads) {
            Some(threads) => threads.0,
            None => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
        }
    }
}
