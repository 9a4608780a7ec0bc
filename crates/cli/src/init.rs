//! `npcov init`: a commented `npcov.toml` to start from.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};
use npcov::Model;
use npcov::coverage::{BuildOptions, PAPER_UPPER};
use npcov::data::formats::split;
use npcov::data::{Element, ImageSize, Interpolation, Loader, Preprocessing, write_whole};
use npcov::paths::choices::{
    AnpcClusters, AnpcCounted, Arithmetic, Average, Disjoint, Edges, EmptyLayer, Members, Merge,
    Neighbour, Norm, Population, SeedChoice, Similarity, Threshold, Width,
};
use npcov::paths::{Choices, Clusters, Preset};
use npcov::program::{LayerKind, RecurrentView, Selector};
use npcov::run::{ModelOptions, Network, Task};

use crate::args::InitArgs;
use crate::config::Config;
use crate::output::Outputs;
use crate::printer::Printer;
use crate::samples;

/// Layers and classes that are listed; a file with hundreds would not be read.
const LISTED: usize = 40;

/// Looks at a model and data, and writes settings for them.
pub(crate) fn run(args: &InitArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let output = &args.output;
    if output.exists() && !args.force {
        bail!("`{}` exists; `--force` writes over it", output.display());
    }
    let model = config.model(&args.model)?;
    let data = config.data(&args.data)?;
    let mut outputs = Outputs::of_settings([("--output", Some(&**output))])?;
    outputs.spare(&model)?;
    outputs.spare_data(&data)?;
    outputs.spare_all(config.class_names_file(&args.data.classes))?;
    let options = config.network(&args.model);
    let (inspection, problem) = npcov::inspect(&model, &options)?;
    if let Some(problem) = problem {
        return Err(npcov::Error::from(problem).into());
    }
    let first_output = inspection.outputs.first().map(|output| output.name.clone());
    let class_names = config.class_names(&args.data.classes)?;
    let mut opened = Model::open_with(&model, &options)?;
    if let Some(name) = config.label_column(&args.data.classes) {
        opened = opened.with_label_column(&name);
    }
    if let Some(names) = class_names {
        opened = opened.with_class_names(names)?;
    }
    outputs.spare_all(opened.network().files())?;
    let mut preprocessing = config.preprocessing(&args.data.preprocessing);
    let dataset = opened.open_data(&data)?;
    let inputs = dataset.inputs();
    let pixels = inputs.iter().any(|input| input.element() == Element::U8);
    // Means above 1 are those of pixels that nobody divides.
    let undivided = pixels && preprocessing.divide.is_none();
    let guessed = undivided && preprocessing.mean.iter().all(|mean| mean.abs() <= 1.0);
    if guessed {
        preprocessing.divide = Some(255.0);
        printer.note(
            "the data is 8-bit and no `--divide` is given: `divide = 255` is set, which is right \
             for a model that was trained on 0..1",
        );
    }
    let opened = opened.with_preprocessing(preprocessing.clone());
    let opened = samples::resolve(opened, &dataset, printer)?;
    let loader = opened.loader(dataset)?;
    let network = opened.network();
    let folder = match output.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let found = Found {
        model: relative_to(folder, &model)?,
        data: relative_data(folder, &data)?,
        class_names: match &args.data.classes.class_names {
            Some(file) => Some(relative_to(folder, file)?),
            None => None,
        },
        output: options.output.clone().or(first_output).unwrap_or_default(),
        label_column: config.label_column(&args.data.classes),
        network,
        options: &options,
        loader: &loader,
        preprocessing: &preprocessing,
        guessed,
    };
    write_whole(output, found.settings().as_bytes()).map_err(npcov::Error::from)?;
    let file = output.display();
    printer.note(&format!(
        "`{file}` is written; `npcov tune --write {file}` finds good parameters for it"
    ));
    Ok(())
}

/// What is written down.
struct Found<'a> {
    model: String,
    data: String,
    class_names: Option<String>,
    /// What holds the labels, where it was named.
    label_column: Option<String>,
    /// The output that holds the classification.
    output: String,
    network: &'a Network,
    options: &'a ModelOptions,
    loader: &'a Loader<'a>,
    preprocessing: &'a Preprocessing,
    /// Whether `divide` comes from the data's type alone.
    guessed: bool,
}

impl Found<'_> {
    fn settings(&self) -> String {
        let mut file = Settings::default();
        file.prose(
            "Settings of npcov. Keys have the names of the flags, and flags override them. Lines that \
             begin with `#` and a key show a default or an example: take the `#` away to set them. \
             Relative paths start at the folder of this file.",
        );
        self.model(&mut file);
        self.data(&mut file);
        explain(&mut file);
        paths(&mut file);
        choices(&mut file);
        check(&mut file);
        file.0
    }

    fn model(&self, file: &mut Settings) {
        let (network, options) = (self.network, self.options);
        file.blank();
        file.set("model", &quoted(&self.model), "the ONNX file");
        let shape: Vec<String> = network
            .sample_shape()
            .iter()
            .map(usize::to_string)
            .collect();
        file.key(
            options.input_shape.is_some(),
            "input-shape",
            &quoted(&shape.join("x")),
            "shape of one input, where the model leaves axes open",
        );
        file.key(
            options.output.is_some(),
            "output-name",
            &quoted(&self.output),
            "the output that holds the classification",
        );
        let task = match &network.options().task {
            Task::Auto => "classification".to_owned(),
            task => task.to_string(),
        };
        file.key(
            network.options().task != Task::Auto,
            "task",
            &quoted(&task),
            "what the outputs mean: classification, classification:argmin, regression, ...",
        );
        for (key, value, why) in [
            ("bins", "10", "of numbers: how many bins, or where they end"),
            (
                "reference",
                "\"mean\"",
                "of numbers: what they are held against: mean, median, labels, a number",
            ),
            (
                "direction",
                "\"deviation\"",
                "of numbers: what is explained: deviation, output, up",
            ),
            (
                "tolerance",
                "1.0",
                "of numbers: how far they may be from their labels",
            ),
        ] {
            file.example(key, value, why);
        }
        let input = network
            .signature()
            .inputs()
            .get(network.signature().place());
        let input = input.map_or("x", |input| &input.name);
        file.key(
            options.input.is_some(),
            "input-name",
            &quoted(input),
            "the input that is preprocessed, where there are several",
        );
        let fixed: Vec<String> = (options.fixed.iter())
            .map(|(name, number)| format!("{} = {number:?}", quoted(name)))
            .collect();
        file.key(
            !fixed.is_empty(),
            "input",
            &format!("{{{}}}", fixed.join(", ")),
            "inputs that are always the same number: {mask = 1}",
        );
        let selected = &options.layers.select;
        let layers: Vec<String> = match selected.is_empty() {
            false => selected.iter().map(selector).collect(),
            true => vec!["0".to_owned(), "-1".to_owned()],
        };
        file.key(
            !selected.is_empty(),
            "layers",
            &format!("[{}]", layers.join(", ")),
            "use only these path layers: indices, names, patterns with `*`",
        );
        file.key(
            options.layers.units,
            "units",
            &options.layers.units.to_string(),
            "count every unit of a feature map as a neuron, not every channel",
        );
        file.key(
            options.layers.rnn != RecurrentView::default(),
            "rnn",
            &format!("\"{}\"", options.layers.rnn),
            "neurons of recurrent layers: sum, steps, segments:N or last",
        );
        let kinds: Vec<String> = match &options.layers.kinds[..] {
            [] => vec![quoted(LayerKind::Activations.name())],
            kinds => kinds.iter().map(|kind| quoted(kind.name())).collect(),
        };
        file.key(
            !options.layers.kinds.is_empty(),
            "path-layers",
            &format!("[{}]", kinds.join(", ")),
            "what path layers are made of: activations, heads, residual",
        );
        file.key(
            options.layers.token.is_some(),
            "token",
            &options.layers.token.unwrap_or(0).to_string(),
            "look only at this token, in layers that have tokens",
        );
        file.example(
            "vocabulary",
            "\"vocabulary.txt\"",
            "the words for the numbers of tokens, one a line",
        );
        file.example("threads", "4", "all cores by default");
        file.example(
            "engine",
            "\"native\"",
            "or `onnxruntime`, where that is installed",
        );
        file.example(
            "class-shares",
            "\"balanced\"",
            "how frequent classes should be in suites; by default as in training",
        );
        file.blank();
        let count = network.layers().len();
        file.comment(&format!(
            "Path layers, with their numbers of neurons ({count}):"
        ));
        let layers = network.layers().iter().enumerate();
        file.list(layers.map(|(i, layer)| format!("{i}  {}  {}", layer.name, layer.neurons)));
        let classes = network.classes();
        match self.loader.class_names() {
            None => file.comment(&format!("Classes: 0 to {}", classes.saturating_sub(1))),
            Some(names) => {
                file.comment(&format!("Classes ({classes}):"));
                file.list(
                    names
                        .iter()
                        .enumerate()
                        .map(|(i, name)| format!("{i}  {name}")),
                );
            }
        }
    }

    fn data(&self, file: &mut Settings) {
        let loader = self.loader;
        let preprocessing = self.preprocessing;
        file.blank();
        file.prose(&format!(
            "The training data: {} inputs of shape {:?}{}.",
            loader.len(),
            loader.input().shape(),
            if loader.is_labelled() {
                ", with labels"
            } else {
                ", without labels"
            }
        ));
        file.set(
            "data",
            &quoted(&self.data),
            "what `tune` and `build` learn from",
        );
        file.key(
            self.class_names.is_some(),
            "class-names",
            &quoted(self.class_names.as_deref().unwrap_or("classes.txt")),
            "a file with the names of the model's classes, one a line",
        );
        file.key(
            self.label_column.is_some(),
            "label-column",
            &quoted(self.label_column.as_deref().unwrap_or("y")),
            "the column of a table, or the array of an npz file, that holds the labels",
        );
        file.table(
            "preprocessing",
            "What enters the model is (x / divide - mean) / std.",
        );
        let divide = match self.guessed {
            true => "a guess: the data is 8-bit; right for a model that was trained on 0..1",
            false => "brings pixels to the range 0 to 1",
        };
        let number = preprocessing
            .divide
            .map_or("255".to_owned(), |d| d.to_string());
        file.key(preprocessing.divide.is_some(), "divide", &number, divide);
        let mean = numbers(&preprocessing.mean, "0.0");
        file.key(
            !preprocessing.mean.is_empty(),
            "mean",
            &mean,
            "one number, or one for each channel",
        );
        let std = numbers(&preprocessing.std, "1.0");
        file.key(
            !preprocessing.std.is_empty(),
            "std",
            &std,
            "one number, or one for each channel",
        );
        let shape = loader.input().shape();
        let (size, layout) = match *shape {
            [height, width] => ((height, width), "hw"),
            [height, width, 1 | 3 | 4] => ((height, width), "hwc"),
            [_, height, width] => ((height, width), "chw"),
            _ => ((224, 224), "flat"),
        };
        let resize = preprocessing
            .resize
            .unwrap_or(ImageSize::Exactly(size.0, size.1));
        file.key(
            preprocessing.resize.is_some(),
            "resize",
            &quoted(&resize.to_string()),
            "bring 8-bit images to this height and width, or their shorter side to this length",
        );
        let (height, width) = preprocessing.crop.unwrap_or(size);
        file.key(
            preprocessing.crop.is_some(),
            "crop",
            &quoted(&format!("{height}x{width}")),
            "cut the middle out of them",
        );
        file.key(
            preprocessing.interpolation != Interpolation::default(),
            "interpolation",
            &quoted(&preprocessing.interpolation.to_string()),
            "how they are resized: nearest, bilinear, bicubic",
        );
        let given = preprocessing.layout.map(|layout| layout.to_string());
        file.key(
            given.is_some(),
            "layout",
            &quoted(given.as_deref().unwrap_or(layout)),
            "how the data lies, where shapes do not tell: hw, chw, hwc, flat",
        );
    }
}

fn explain(file: &mut Settings) {
    file.table(
        "explain",
        "How relevance is computed; `docs/rules.md` explains it.",
    );
    for (key, value, why) in [
        (
            "preset",
            "\"npc\"",
            "rules under one name: npc, epsilon-plus, epsilon-plus-flat, ...",
        ),
        (
            "rule",
            "[\"first=flat\"]",
            "RULE for all, WHERE=RULE for some nodes",
        ),
        (
            "bias",
            "\"ignore\"",
            "whether biases take a share, which is lost: ignore, absorb",
        ),
        (
            "batch-norm",
            "\"identity\"",
            "identity, or fold it into the convolution before it",
        ),
        ("attribution", "\"lrp\"", "lrp, gradient-input"),
    ] {
        file.example(key, value, why);
    }
}

fn paths(file: &mut Settings) {
    let defaults = BuildOptions::default();
    let (Clusters::Fixed(clusters) | Clusters::Auto(clusters)) = defaults.clusters.all;
    file.table(
        "paths",
        "Critical decision paths, and the decision graph of `build`.",
    );
    let [alpha, beta] = [&defaults.alpha.all, &defaults.beta.all].map(f64::to_string);
    file.set(
        "alpha",
        &alpha,
        "share of relevance that critical neurons have together",
    );
    file.set(
        "clustering",
        "\"graph\"",
        "how training inputs become clusters: \"graph\" finds how many there are; \"kmeans\"",
    );
    file.set(
        "clusters",
        &clusters.to_string(),
        "kmeans: clusters of each class; \"auto\" chooses",
    );
    file.set(
        "beta",
        &beta,
        "share of a cluster above which a neuron is abstract",
    );
    file.example(
        "restarts",
        &defaults.restarts.to_string(),
        "runs of the clustering, the best counts",
    );
    file.example("seed", &defaults.seed.to_string(), "of the clustering");
    file.example(
        "anpc-upper",
        &PAPER_UPPER.to_string(),
        "distance up to which ANPC has buckets; \"auto\" finds one for each layer",
    );
    file.example(
        "anpc-layers",
        "[0]",
        "path layers that take part in ANPC; by default all",
    );
    file.example(
        "criteria",
        "[\"default\"]",
        "what suites are measured by; see `docs/criteria.md`",
    );
    file.example(
        "yardstick-inputs",
        &defaults.yardstick_inputs.to_string(),
        "training inputs that criteria which take long are held against",
    );
    file.example(
        "class.0",
        &format!("{{ alpha = {alpha}, clusters = {clusters}, beta = {beta} }}"),
        "what differs for a class",
    );
}

fn choices(file: &mut Settings) {
    let Choices {
        threshold,
        empty_layer,
        seed,
        members,
        merge,
        similarity,
        snpc_buckets,
        snpc_disjoint,
        snpc_arithmetic,
        anpc_buckets,
        anpc_clusters,
        anpc_neighbour,
        anpc_norm,
        anpc_counted,
        anpc_edges,
        population,
        width,
        average,
    } = Choices::default();
    file.table(
        "paths.choices",
        "Where definitions can be read in two ways; see `docs/choices.md`.",
    );
    let preset = Preset::default().word();
    file.choice("preset", preset, Preset::WORDS, "all choices at once");
    file.choice(
        "threshold",
        threshold.word(),
        Threshold::WORDS,
        "what alpha is a share of",
    );
    file.choice(
        "empty-layer",
        empty_layer.word(),
        EmptyLayer::WORDS,
        "a layer without critical neurons",
    );
    file.choice(
        "relevance-seed",
        seed.word(),
        SeedChoice::WORDS,
        "what is shared out",
    );
    file.choice(
        "members",
        members.word(),
        Members::WORDS,
        "training inputs that count",
    );
    file.choice(
        "merge",
        merge.word(),
        Merge::WORDS,
        "when a neuron is abstract",
    );
    file.choice(
        "population",
        population.word(),
        Population::WORDS,
        "tune: inputs that count",
    );
    file.choice(
        "width",
        width.word(),
        Width::WORDS,
        "tune: how widths are averaged",
    );
    file.choice(
        "average",
        average.word(),
        Average::WORDS,
        "tune: what clusters are averaged over",
    );

    file.table("paths.measure", "How suites are measured.");
    file.choice(
        "similarity",
        similarity.word(),
        Similarity::WORDS,
        "how similar paths are",
    );
    file.example(
        "snpc-buckets",
        &snpc_buckets.get().to_string(),
        "buckets of SNPC",
    );
    file.choice(
        "snpc-disjoint",
        snpc_disjoint.word(),
        Disjoint::WORDS,
        "paths with nothing in common",
    );
    file.choice(
        "snpc-arithmetic",
        snpc_arithmetic.word(),
        Arithmetic::WORDS,
        "how buckets are computed",
    );
    file.example(
        "anpc-buckets",
        &anpc_buckets.get().to_string(),
        "buckets of ANPC",
    );
    file.choice(
        "anpc-clusters",
        anpc_clusters.word(),
        AnpcClusters::WORDS,
        "clusters of the class",
    );
    file.choice(
        "anpc-neighbour",
        anpc_neighbour.word(),
        Neighbour::WORDS,
        "nearest training input by",
    );
    file.choice("anpc-norm", anpc_norm.word(), Norm::WORDS, "the distance");
    file.choice(
        "anpc-counted",
        anpc_counted.word(),
        AnpcCounted::WORDS,
        "layers that count",
    );
    file.choice(
        "anpc-edges",
        anpc_edges.word(),
        Edges::WORDS,
        "ends of buckets",
    );
}

fn check(file: &mut Settings) {
    file.table(
        "check",
        "What `npcov check` requires of suites; see `docs/ci.md`.",
    );
    file.example(
        "fail-under",
        "{ snpc = \"0.8*random\" }",
        "the least that suites cover: a number, or a part of what training inputs do",
    );
    file.example(
        "fail-on-drop",
        "0.01",
        "how far criteria may fall below an earlier state",
    );
    file.example("against", "\"main.npcov\"", "that state");
    file.example(
        "fail-on-loss",
        "\"snpc\"",
        "what may not be lost since that state, by more than chance",
    );
    file.example(
        "fail-on-thin",
        "true",
        "every class must have inputs; \"clusters\": every cluster too",
    );
}

/// The text of the file. Keys that are not set begin with `#`, comments with `#` and a space.
#[derive(Default)]
struct Settings(String);

impl Settings {
    fn blank(&mut self) {
        self.0.push('\n');
    }

    fn comment(&mut self, text: &str) {
        // Names come from files: a line break in them would end the comment.
        let text = text.replace(char::is_control, "?");
        self.0 += "# ";
        self.0 += text.trim_end();
        self.0.push('\n');
    }

    /// A comment over several lines.
    fn prose(&mut self, text: &str) {
        let mut line = String::new();
        for word in text.split(' ') {
            if line.len() + word.len() > 96 {
                self.comment(&line);
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line += word;
        }
        self.comment(&line);
    }

    fn list(&mut self, items: impl ExactSizeIterator<Item = String>) {
        let rest = items.len().saturating_sub(LISTED);
        items
            .take(LISTED)
            .for_each(|item| self.comment(&format!("  {item}")));
        if rest > 0 {
            self.comment(&format!("  and {rest} more"));
        }
    }

    fn table(&mut self, name: &str, about: &str) {
        self.blank();
        self.comment(about);
        self.0 += &format!("[{name}]\n");
    }

    /// A key that is set, or shown.
    fn key(&mut self, set: bool, key: &str, value: &str, why: &str) {
        let mark = if set { "" } else { "#" };
        let setting = format!("{mark}{key} = {value}");
        let _ = writeln!(self.0, "{setting:<32} # {why}");
    }

    fn set(&mut self, key: &str, value: &str, why: &str) {
        self.key(true, key, value, why);
    }

    fn example(&mut self, key: &str, value: &str, why: &str) {
        self.key(false, key, value, why);
    }

    /// A choice with its default.
    fn choice(&mut self, key: &str, word: &str, words: &[&str], why: &str) {
        self.example(key, &quoted(word), &format!("{why}: {}", words.join(", ")));
    }
}

/// A string as TOML writes it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

fn selector(selector: &Selector) -> String {
    match selector {
        Selector::Index(index) => index.to_string(),
        Selector::Name(name) => quoted(name),
    }
}

/// One number, or a list of them.
fn numbers(numbers: &[f32], default: &str) -> String {
    match numbers {
        [] => default.to_owned(),
        [number] => number.to_string(),
        _ => {
            let texts: Vec<String> = numbers.iter().map(f32::to_string).collect();
            format!("[{}]", texts.join(", "))
        }
    }
}

/// A dataset, seen from a folder. The part behind a colon names arrays in the file.
fn relative_data(folder: &Path, data: &OsStr) -> anyhow::Result<String> {
    let (file, part) = split(data);
    let file = relative_to(folder, &file)?;
    Ok(match part {
        Some(part) => format!("{file}:{part}"),
        None => file,
    })
}

/// A path, seen from a folder; an absolute one stays as it is.
fn relative_to(folder: &Path, path: &Path) -> anyhow::Result<String> {
    let text = |path: &Path| -> anyhow::Result<String> {
        let text = path.to_str().map(str::to_owned);
        text.with_context(|| format!("`{}` is no UTF-8", path.display()))
    };
    if path.is_absolute() || folder == Path::new(".") {
        return text(path);
    }
    let whole = |path: &Path| {
        let cannot = || format!("cannot find `{}`", path.display());
        path.canonicalize().with_context(cannot)
    };
    let (from, to) = (whole(folder)?, whole(path)?);
    let (from, to): (Vec<Component<'_>>, Vec<_>) =
        (from.components().collect(), to.components().collect());
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = from.iter().skip(common).map(|_| Component::ParentDir);
    text(
        &up.chain(to.iter().skip(common).copied())
            .collect::<PathBuf>(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_survive_toml() {
        for text in [
            "plain",
            "a \"quoted\" \\ path",
            "line\nbreak\u{7f}\u{1}",
            "häß",
        ] {
            let table: toml::Table = toml::from_str(&format!("key = {}", quoted(text))).unwrap();
            assert_eq!(table["key"].as_str(), Some(text));
        }
    }

    #[test]
    fn names_cannot_leave_a_comment() {
        let mut file = Settings::default();
        file.comment("Relu\nthreads = 0\u{1}");
        assert_eq!(file.0, "# Relu?threads = 0?\n");
    }

    #[test]
    fn long_lists_are_cut() {
        let mut file = Settings::default();
        file.list((0..LISTED + 3).map(|i| i.to_string()));
        assert!(file.0.ends_with("#   39\n#   and 3 more\n"), "{}", file.0);
    }
}
