//! Values that flags and `npcov.toml` write in the same way.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use npcov::coverage::{AUTO_QUANTILE, AnpcUpper, ClassShares, CoverageError};
use npcov::criteria::{CriterionError, Spec};
use npcov::data::{ImageSize, Interpolation, Layout};
use npcov::engine::Engine;
use npcov::engine::native::{Kernels, Native, Options};
use npcov::onnxruntime::{OnnxRuntime, Provider};
use npcov::paths::{Clustering, Clusters, GraphClustering};
use npcov::program::{
    BatchNorm, Bias, LayerKind, ParseRuleError, ParseViewError, Place, Preset, RecurrentView, Rule,
    Selector,
};
use npcov::run::{BinChoice, Direction, Reference, Task};
use serde::Deserialize;

/// A shape: `3x48x192`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Shape(pub(crate) Vec<usize>);

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let extent = |part: &str| part.trim().parse().ok().filter(|&n: &usize| n > 0);
        text.split(['x', ','])
            .map(extent)
            .collect::<Option<Vec<_>>>()
            .map(Shape)
            .ok_or_else(|| format!("`{text}` is no shape; write it like `3x48x192`"))
    }
}

impl TryFrom<String> for Shape {
    type Error = String;

    fn try_from(text: String) -> Result<Shape, String> {
        text.parse()
    }
}

/// What the neurons of recurrent layers are: `segments:4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct View(pub(crate) RecurrentView);

impl FromStr for View {
    type Err = ParseViewError;

    fn from_str(text: &str) -> Result<View, ParseViewError> {
        text.parse().map(View)
    }
}

impl TryFrom<String> for View {
    type Error = ParseViewError;

    fn try_from(text: String) -> Result<View, ParseViewError> {
        text.parse()
    }
}

/// The size that images are brought to: `224x224`, or `256` for the shorter side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub(crate) struct ResizeSize(pub(crate) ImageSize);

impl FromStr for ResizeSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ResizeSize, String> {
        match text.parse::<Shape>().as_ref().map(|shape| &shape.0[..]) {
            Ok(&[height, width]) => Ok(ResizeSize(ImageSize::Exactly(height, width))),
            Ok(&[side]) => Ok(ResizeSize(ImageSize::ShortSide(side))),
            _ => Err(format!(
                "`{text}` is no size; write `224x224`, or `256` for the shorter side"
            )),
        }
    }
}

/// The size that is cut out of images: `224`, or `224x192`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub(crate) struct CropSize(pub(crate) usize, pub(crate) usize);

impl FromStr for CropSize {
    type Err = String;

    fn from_str(text: &str) -> Result<CropSize, String> {
        match text.parse::<Shape>().as_ref().map(|shape| &shape.0[..]) {
            Ok(&[height, width]) => Ok(CropSize(height, width)),
            Ok(&[side]) => Ok(CropSize(side, side)),
            _ => Err(format!("`{text}` is no size; write `224` or `224x192`")),
        }
    }
}

/// An input that is always the same number: `training=0`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FixedInput(pub(crate) String, pub(crate) f32);

impl FromStr for FixedInput {
    type Err = String;

    fn from_str(text: &str) -> Result<FixedInput, String> {
        let wrong = || format!("`{text}` is no input with a number; write `NAME=NUMBER`");
        let (name, number) = text.rsplit_once('=').ok_or_else(wrong)?;
        let number = match number.trim() {
            "true" => Some(1.0),
            "false" => Some(0.0),
            number => number.parse::<f32>().ok().filter(|x| x.is_finite()),
        };
        Ok(FixedInput(
            name.trim().to_owned(),
            number.ok_or_else(wrong)?,
        ))
    }
}

/// The bins of numbers: `10`, or `-0.1,0.1`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub(crate) struct Bins(pub(crate) BinChoice);

impl FromStr for Bins {
    type Err = String;

    fn from_str(text: &str) -> Result<Bins, String> {
        let wrong = || {
            format!("`{text}` are no bins; write a number of them, or where they end: `-0.1,0.1`")
        };
        if let Ok(count) = text.trim().parse::<usize>() {
            return Ok(Bins(BinChoice::Quantiles(count)));
        }
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|x| x.is_finite());
        let edges: Option<Vec<f64>> = text.split(',').map(number).collect();
        Ok(Bins(BinChoice::Edges(edges.ok_or_else(wrong)?)))
    }
}

/// What numbers are held against: `mean`, `median`, `labels`, or a number.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub(crate) struct ReferenceName(pub(crate) Reference);

impl FromStr for ReferenceName {
    type Err = String;

    fn from_str(text: &str) -> Result<ReferenceName, String> {
        Ok(ReferenceName(match text {
            "mean" => Reference::Mean,
            "median" => Reference::Median,
            "labels" => Reference::Labels,
            number => {
                let number = number.trim().parse::<f64>().ok().filter(|x| x.is_finite());
                Reference::Number(number.ok_or_else(|| {
                    format!(
                        "`{text}` is no reference; write `mean`, `median`, `labels` or a number"
                    )
                })?)
            }
        }))
    }
}

/// What is explained of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub(crate) struct DirectionName(pub(crate) Direction);

impl FromStr for DirectionName {
    type Err = String;

    fn from_str(text: &str) -> Result<DirectionName, String> {
        Ok(DirectionName(match text {
            "deviation" => Direction::Deviation,
            "output" => Direction::Output,
            "up" => Direction::Up,
            "from-reference" => Direction::FromReference,
            _ => {
                return Err(format!(
                    "`{text}` is nothing that can be explained; write `deviation`, `output`, `up` or `from-reference`"
                ));
            }
        }))
    }
}

/// What the outputs mean, in `npcov.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub(crate) struct TaskName(pub(crate) Task);

impl FromStr for TaskName {
    type Err = String;

    fn from_str(text: &str) -> Result<TaskName, String> {
        text.parse().map(TaskName)
    }
}

/// How images are resized, in `npcov.toml`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub(crate) struct InterpolationName(pub(crate) Interpolation);

impl FromStr for InterpolationName {
    type Err = String;

    fn from_str(text: &str) -> Result<InterpolationName, String> {
        text.parse().map(InterpolationName)
    }
}

/// A number of threads. More than the largest machines have cores is a typing error, and would
/// take their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "usize")]
pub(crate) struct Threads(pub(crate) usize);

impl TryFrom<usize> for Threads {
    type Error = String;

    fn try_from(count: usize) -> Result<Threads, String> {
        match count {
            1..=1024 => Ok(Threads(count)),
            _ => Err(format!("`{count}` threads; use 1 to 1024")),
        }
    }
}

impl FromStr for Threads {
    type Err = String;

    fn from_str(text: &str) -> Result<Threads, String> {
        let count: usize = text.parse().map_err(|_| "no whole number".to_owned())?;
        count.try_into()
    }
}

/// How frequent classes should be in a suite: `training`, `balanced`, or a file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub(crate) enum Shares {
    Training,
    Balanced,
    File(PathBuf),
}

impl From<String> for Shares {
    fn from(text: String) -> Shares {
        match text.as_str() {
            "training" => Shares::Training,
            "balanced" => Shares::Balanced,
            _ => Shares::File(text.into()),
        }
    }
}

impl Shares {
    /// The file that has them; a relative path starts at `folder`.
    pub(crate) fn file(&self, folder: &Path) -> Option<PathBuf> {
        match self {
            Shares::File(path) => Some(folder.join(path)),
            Shares::Training | Shares::Balanced => None,
        }
    }

    /// The shares; a relative path starts at `folder`.
    pub(crate) fn read(&self, folder: &Path) -> anyhow::Result<ClassShares> {
        const LARGEST: u64 = 1 << 24;
        let path = match self {
            Shares::Training => return Ok(ClassShares::Training),
            Shares::Balanced => return Ok(ClassShares::Balanced),
            Shares::File(path) => folder.join(path),
        };
        let shown = path.display();
        let text = npcov_file::read_text(&path, LARGEST).with_context(|| {
            format!("cannot read shares of classes from `{shown}`; other shares are `training` and `balanced`")
        })?;
        let read: Result<ClassShares, CoverageError> = text.parse();
        read.map_err(|wrong| anyhow!("`{shown}`: {wrong}"))
    }
}

/// An engine: `native`, `native:256`, `onnxruntime`, `onnxruntime:cuda`, `onnxruntime:cpu@/opt/libonnxruntime.so`. One
/// that cannot be had is no value.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct EngineName(Arc<dyn Engine>);

impl EngineName {
    /// The engine.
    pub(crate) fn engine(&self) -> Arc<dyn Engine> {
        self.0.clone()
    }

    /// The engine with these kernels, if it has such a choice.
    pub(crate) fn with_kernels(&self, kernels: Kernels) -> Arc<dyn Engine> {
        let engine = self.0.with_kernels(kernels.name());
        engine.unwrap_or_else(|| self.engine())
    }
}

/// npcov's own engine, with so many MiB for sixteen inputs that a thread computes together.
fn native(mebibytes: &str) -> Result<EngineName, String> {
    let memory = (mebibytes.parse().ok()).and_then(|count: usize| count.checked_mul(1 << 20));
    let options = Options {
        memory: memory
            .ok_or_else(|| format!("`{mebibytes}` is no number of MiB; `native:256` has one"))?,
        ..Options::default()
    };
    Ok(EngineName(Arc::new(Native::new(options))))
}

impl FromStr for EngineName {
    type Err = String;

    fn from_str(text: &str) -> Result<EngineName, String> {
        let (name, library) = match text.split_once('@') {
            Some((name, library)) => (name, Some(Path::new(library))),
            None => (text, None),
        };
        let provider = match name.split_once(':') {
            None if name == "native" && library.is_none() => {
                return Ok(EngineName(Arc::new(Native::default())));
            }
            Some(("native", mebibytes)) if library.is_none() => return native(mebibytes),
            None if name == "onnxruntime" => Provider::default(),
            Some(("onnxruntime", provider)) => provider.parse()?,
            _ => {
                return Err(format!(
                    "`{text}` is no engine; there are `native` and `onnxruntime`"
                ));
            }
        };
        let engine = OnnxRuntime::new(provider, library).map_err(|error| error.to_string())?;
        Ok(EngineName(Arc::new(engine)))
    }
}

/// Of settings, which may come from anybody: a library is code, so which one is loaded is said by who runs npcov.
impl TryFrom<String> for EngineName {
    type Error = String;

    fn try_from(text: String) -> Result<EngineName, String> {
        if text.contains('@') {
            return Err(
                "settings do not name a library to be loaded: `--engine onnxruntime@LIBRARY` and the variable \
                 `ORT_DYLIB_PATH` do"
                    .to_owned(),
            );
        }
        text.parse()
    }
}

/// A number of inputs that a program takes at once. Larger ones than any machine runs are a typing
/// error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchSize(pub(crate) usize);

impl FromStr for BatchSize {
    type Err = String;

    fn from_str(text: &str) -> Result<BatchSize, String> {
        match text.parse() {
            Ok(count @ 1..=65_536) => Ok(BatchSize(count)),
            Ok(_) => Err("use 1 to 65536".to_owned()),
            Err(_) => Err("no whole number".to_owned()),
        }
    }
}

/// A number of clusters: `4`, `auto`, `auto:20`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub(crate) struct ClusterCount(pub(crate) Clusters);

/// The most clusters that `auto` tries.
const MOST_CLUSTERS: usize = 10;

impl FromStr for ClusterCount {
    type Err = String;

    fn from_str(text: &str) -> Result<ClusterCount, String> {
        let wrong = || format!("`{text}` is no number of clusters; write `4`, `auto` or `auto:20`");
        let count = |text: &str| text.parse().map_err(|_| wrong());
        Ok(ClusterCount(match text.split_once(':') {
            None if text == "auto" => Clusters::Auto(MOST_CLUSTERS),
            None => Clusters::Fixed(count(text)?),
            Some(("auto", most)) => Clusters::Auto(count(most)?),
            Some(_) => return Err(wrong()),
        }))
    }
}

/// A clustering: `kmeans`, `graph`, `graph:resolution=0.5`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct ClusteringMethod(pub(crate) Clustering);

impl TryFrom<String> for ClusteringMethod {
    type Error = String;

    fn try_from(text: String) -> Result<ClusteringMethod, String> {
        text.parse()
    }
}

impl FromStr for ClusteringMethod {
    type Err = String;

    fn from_str(text: &str) -> Result<ClusteringMethod, String> {
        let wrong = || {
            format!("`{text}` is no clustering; write `kmeans`, `graph` or `graph:resolution=0.5`")
        };
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        if name == "kmeans" && options.is_empty() {
            return Ok(ClusteringMethod(Clustering::KMeans));
        }
        if name != "graph" {
            return Err(wrong());
        }
        let mut clustering = GraphClustering::default();
        for option in options.split(',').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("resolution", value)) => {
                    clustering.resolution = value.parse().map_err(|_| wrong())?;
                }
                Some(("neighbours", value)) => {
                    clustering.neighbours = value.parse().map_err(|_| wrong())?;
                }
                _ => return Err(wrong()),
            }
        }
        Ok(ClusteringMethod(Clustering::Graph(clustering)))
    }
}

/// The bounds of ANPC: `2`, `1,1,12`, `auto`, `auto:0.95`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub(crate) struct Upper(pub(crate) AnpcUpper);

impl FromStr for Upper {
    type Err = String;

    fn from_str(text: &str) -> Result<Upper, String> {
        let wrong = |_| format!("`{text}` is no bound; write `2`, `1,1,12`, `auto` or `auto:0.95`");
        let number = |text: &str| text.trim().parse::<f64>().map_err(wrong);
        Ok(Upper(match text.split_once(':') {
            None if text == "auto" => AnpcUpper::Auto(AUTO_QUANTILE),
            Some(("auto", quantile)) => AnpcUpper::Auto(number(quantile)?),
            _ => AnpcUpper::Fixed(text.split(',').map(number).collect::<Result<_, _>>()?),
        }))
    }
}

/// A number in `npcov.toml`, a list of them, or what a flag would say.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number, a list of numbers or a text")]
pub(crate) enum NumberOrText {
    Whole(u64),
    Number(f64),
    List(Vec<f64>),
    Text(String),
}

impl NumberOrText {
    fn text(&self) -> String {
        match self {
            NumberOrText::Whole(number) => number.to_string(),
            NumberOrText::Number(number) => number.to_string(),
            NumberOrText::List(list) => {
                let texts: Vec<String> = list.iter().map(f64::to_string).collect();
                texts.join(",")
            }
            NumberOrText::Text(text) => text.clone(),
        }
    }
}

/// What is read from `npcov.toml` as a flag would be.
macro_rules! like_flags {
    ($($name:ty),*) => {$(
        impl TryFrom<NumberOrText> for $name {
            type Error = String;

            fn try_from(value: NumberOrText) -> Result<$name, String> {
                value.text().parse()
            }
        }
    )*};
}

like_flags!(
    ClusterCount,
    Upper,
    ResizeSize,
    CropSize,
    Bins,
    ReferenceName,
    DirectionName,
    TaskName,
    InterpolationName
);

/// A relevance rule: `zplus`, or for some nodes `Conv=zplus`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct RuleSetting {
    pub(crate) place: Option<Place>,
    pub(crate) rule: Rule,
}

impl FromStr for RuleSetting {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<RuleSetting, ParseRuleError> {
        // Options of a rule have an equals sign too: `alpha-beta:0.5,rare=off`.
        let is_rule = |before: &str| {
            before.split_once(':').is_some_and(|(name, _)| {
                !matches!(name.parse::<Rule>(), Err(ParseRuleError::Name(_)))
            })
        };
        let (place, rule) = match text.split_once('=') {
            Some((place, rule)) if !is_rule(place) => {
                let Ok(place) = place.trim().parse();
                (Some(place), rule)
            }
            _ => (None, text),
        };
        let rule = rule.trim().parse()?;
        Ok(RuleSetting { place, rule })
    }
}

impl TryFrom<String> for RuleSetting {
    type Error = ParseRuleError;

    fn try_from(text: String) -> Result<RuleSetting, ParseRuleError> {
        text.parse()
    }
}

/// One rule in `npcov.toml`, or several.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "RuleTexts")]
pub(crate) struct RuleList(pub(crate) Vec<RuleSetting>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a rule or a list of rules")]
enum RuleTexts {
    One(String),
    Many(Vec<String>),
}

impl TryFrom<RuleTexts> for RuleList {
    type Error = ParseRuleError;

    fn try_from(texts: RuleTexts) -> Result<RuleList, ParseRuleError> {
        let texts = match texts {
            RuleTexts::One(text) => vec![text],
            RuleTexts::Many(texts) => texts,
        };
        let rules = texts.iter().map(|text| text.parse());
        rules.collect::<Result<_, _>>().map(RuleList)
    }
}

/// A preset of rules in `npcov.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct PresetName(pub(crate) Preset);

impl TryFrom<String> for PresetName {
    type Error = ParseRuleError;

    fn try_from(text: String) -> Result<PresetName, ParseRuleError> {
        text.parse().map(PresetName)
    }
}

/// Whether biases take a share of relevance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BiasName {
    /// They take none: relevance is conserved
    Ignore,
    /// They take their share, as in zennit and captum
    Absorb,
}

impl From<BiasName> for Bias {
    fn from(name: BiasName) -> Bias {
        match name {
            BiasName::Ignore => Bias::Ignore,
            BiasName::Absorb => Bias::Absorb,
        }
    }
}

/// What happens to batch normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BatchNormName {
    /// It passes relevance on unchanged
    Identity,
    /// It becomes part of the convolution before it
    Fold,
}

impl From<BatchNormName> for BatchNorm {
    fn from(name: BatchNormName) -> BatchNorm {
        match name {
            BatchNormName::Identity => BatchNorm::Identity,
            BatchNormName::Fold => BatchNorm::Fold,
        }
    }
}

/// A way to compute relevance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AttributionName {
    /// Layer-wise relevance propagation
    Lrp,
    /// AttnLRP as it was published, for transformers
    Attnlrp,
    /// The gradient of the logit, times the neuron's value
    GradientInput,
}

/// A number for all channels, or one for each: `0.5`, `[0.48, 0.46, 0.41]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a number or a list of numbers")]
pub(crate) enum Numbers {
    One(f32),
    Many(Vec<f32>),
}

impl Numbers {
    pub(crate) fn list(&self) -> Vec<f32> {
        match self {
            Numbers::One(number) => vec![*number],
            Numbers::Many(numbers) => numbers.clone(),
        }
    }
}

/// A kind of path layers in `npcov.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct KindName(pub(crate) LayerKind);

impl TryFrom<String> for KindName {
    type Error = String;

    fn try_from(text: String) -> Result<KindName, String> {
        text.parse().map(KindName)
    }
}

/// A path layer in `npcov.toml`: an index, a name or a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected the index, name or pattern of a layer")]
pub(crate) enum LayerName {
    Index(i64),
    Name(String),
}

impl From<&LayerName> for Selector {
    fn from(layer: &LayerName) -> Selector {
        match layer {
            LayerName::Index(index) => Selector::Index(*index),
            // A node that is called `1` can be meant here, unlike on the command line.
            LayerName::Name(name) => Selector::Name(name.clone()),
        }
    }
}

/// How the data lies, as in `--layout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct LayoutName(pub(crate) Layout);

impl TryFrom<String> for LayoutName {
    type Error = String;

    fn try_from(text: String) -> Result<LayoutName, String> {
        text.parse().map(LayoutName)
    }
}

/// Criteria to measure: names with options, and `default` for the usual ones.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(crate) struct Criteria(Vec<Option<Spec>>);

impl FromStr for Criteria {
    type Err = String;

    fn from_str(text: &str) -> Result<Criteria, String> {
        let criterion = |word: &str| match word.trim() {
            "default" => Ok(None),
            word => match word.parse() {
                Ok(spec) => Ok(Some(spec)),
                Err(error) => Err(CriterionError::to_string(&error)),
            },
        };
        text.split(',')
            .map(criterion)
            .collect::<Result<_, _>>()
            .map(Criteria)
    }
}

impl TryFrom<Vec<String>> for Criteria {
    type Error = String;

    fn try_from(words: Vec<String>) -> Result<Criteria, String> {
        words.join(",").parse()
    }
}

impl Criteria {
    /// The criteria, where these are the usual ones.
    pub(crate) fn specs(&self, usual: &[Spec]) -> Vec<Spec> {
        let mut specs = Vec::new();
        for word in &self.0 {
            match word {
                Some(spec) => specs.push(spec.clone()),
                None => specs.extend_from_slice(usual),
            }
        }
        specs
    }
}

#[cfg(test)]
mod tests {
    use npcov::program::AlphaBeta;

    use super::*;

    #[test]
    fn shapes_and_sizes() {
        assert_eq!("3x48x192".parse(), Ok(Shape(vec![3, 48, 192])));
        assert_eq!("784".parse(), Ok(Shape(vec![784])));
        for wrong in ["", "x", "3x", "0x2", "-1x2", "3*4", "99999999999999999999"] {
            assert!(wrong.parse::<Shape>().is_err(), "{wrong}");
        }
        assert_eq!("32x64".parse(), Ok(ResizeSize(ImageSize::Exactly(32, 64))));
        assert_eq!("32".parse(), Ok(ResizeSize(ImageSize::ShortSide(32))));
        assert!("1x2x3".parse::<ResizeSize>().is_err());
    }

    #[test]
    fn clusters_and_bounds() {
        let clusters = |text: &str| text.parse::<ClusterCount>().map(|count| count.0);
        assert_eq!(clusters("4"), Ok(Clusters::Fixed(4)));
        assert_eq!(clusters("auto"), Ok(Clusters::Auto(10)));
        assert_eq!(clusters("auto:3"), Ok(Clusters::Auto(3)));
        assert!(clusters("auto:").is_err() && clusters("four").is_err());
        let upper = |text: &str| text.parse::<Upper>().map(|upper| upper.0);
        assert_eq!(upper("1,1,12"), Ok(AnpcUpper::Fixed(vec![1.0, 1.0, 12.0])));
        assert_eq!(upper("auto:0.9"), Ok(AnpcUpper::Auto(0.9)));
        assert!(upper("auto:x").is_err() && upper("").is_err());
    }

    #[test]
    fn engines_and_their_memory() {
        for name in ["native", "native:256"] {
            let engine = name.parse::<EngineName>().unwrap();
            assert_eq!(engine.engine().name(), "native");
            let direct = engine.with_kernels(Kernels::Direct).record();
            assert_eq!(direct.kernels, "direct");
        }
        for wrong in [
            "native:",
            "native:-1",
            "native:1.5",
            "native@x",
            "native:99999999999999999999",
            "tpu",
        ] {
            let error = wrong.parse::<EngineName>().unwrap_err();
            assert!(error.contains("native"), "{error}");
        }
    }

    #[test]
    fn rules_with_and_without_a_place() {
        let rare_off = Rule::AlphaBeta(AlphaBeta {
            beta: 0.5,
            epsilon: 1e-6,
            rare: false,
        });
        for (text, place, rule) in [
            ("zplus", None, Rule::Z_PLUS),
            ("alpha-beta:0.5,rare=off", None, rare_off),
            ("Conv=alpha-beta:0.5,rare=off", Some("Conv"), rare_off),
            ("model/conv:0=flat", Some("model/conv:0"), Rule::Flat),
            ("/3/*=identity", Some("/3/*"), Rule::Identity),
            // A node may have a rule's name.
            ("flat=flat", Some("flat"), Rule::Flat),
        ] {
            let place = place.map(|name| Place::Named(name.to_owned()));
            assert_eq!(text.parse(), Ok(RuleSetting { place, rule }), "{text}");
        }
        let first: RuleSetting = "first=zbox:0,1".parse().unwrap();
        assert_eq!(first.place, Some(Place::First));
        for wrong in [
            "",
            "Conv=",
            "Conv",
            "zbox:1=flat",
            "=",
            "epsilon:1,rare=off",
        ] {
            assert!(wrong.parse::<RuleSetting>().is_err(), "{wrong}");
        }
    }
}
