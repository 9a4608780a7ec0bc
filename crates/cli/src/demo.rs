//! `npcov demo`: a suite that looks complete, what it is missing, and what fills that.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use npcov::coverage::{Check, GraphInspection, Losses, SuiteReport};
use npcov::criteria::Spec;
use npcov::data::npz::{Compression, NpzWriter};
use npcov::data::{DataError, Loader, Preprocessing};
use npcov::{
    BuildOptions, CoverOptions, Coverage, DecisionGraph, GapOptions, Gaps, Gate, Inputs, Model,
    Suite,
};
use npcov_html::{Material, gather, write_folder};
use npcov_report::{GapImages, number};

use crate::args::DemoArgs;
use crate::config::Config;
use crate::demo_images::{self, SIDE};
use crate::printer::Printer;
use crate::progress::ProgressBar;
use crate::samples;

const MODEL: &[u8] = include_bytes!("../demo/model.onnx");
/// Images, those for training first, and the kind of each.
const IMAGES: &[u8] = include_bytes!("../demo/images.bin");
const IMAGE_KINDS: &[u8] = include_bytes!("../demo/kinds.bin");
/// How many images are for training.
const TRAINING: usize = 3000;

/// The kinds of Fashion-MNIST, which the network was not taught.
const KINDS: [&str; 10] = [
    "T-shirts",
    "trousers",
    "pullovers",
    "dresses",
    "coats",
    "sandals",
    "shirts",
    "sneakers",
    "bags",
    "ankle boots",
];
const TROUSERS: i64 = 1;
const BAGS: i64 = 8;
/// A group of kinds that the network was taught.
#[derive(Clone, Copy)]
struct Group {
    name: &'static str,
    kinds: &'static [i64],
    /// How many images a suite has of them.
    images: usize,
}
const GROUPS: [Group; 3] = [
    Group {
        name: "tops and dresses",
        kinds: &[0, 2, 3, 4, 6],
        images: 200,
    },
    Group {
        name: "shoes",
        kinds: &[5, 7, 9],
        images: 120,
    },
    Group {
        name: "trousers and bags",
        kinds: &[1, 8],
        images: 80,
    },
];
/// What the choice of images starts from.
const SEED: u64 = 0;
/// Images that are drawn in the terminal, side by side.
const DRAWN: usize = 3;

/// Builds a decision graph, measures a suite in which a kind is missing, and fills it.
pub(crate) fn run(args: &DemoArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let folder = Folder::new(args.keep.as_deref())?;
    let model = folder.path("model.onnx");
    fs::write(&model, MODEL).with_context(|| format!("cannot write `{}`", model.display()))?;
    unpack(&folder).map_err(npcov::Error::from)?;
    let graph = build(&folder, config.threads(args.threads), printer)?;
    let test = graph.loader(samples::open(folder.path("test.npz"))?)?;
    Images::choose(&folder)?.write(&folder, &test)?;
    let tour = Tour {
        folder: &folder,
        graph: &graph,
        printer,
    };
    let earlier = tour.cover("earlier")?;
    let suite = tour.cover("suite")?;
    let found = tour.gaps(&suite)?;
    let before = check(&suite, &earlier)?;
    let filled = tour.fill(&suite)?;
    let mut whole = suite.clone();
    whole
        .merge(tour.cover("add")?)
        .map_err(npcov::Error::from)?;
    whole
        .save(folder.path("filled.npcov"))
        .map_err(npcov::Error::from)?;
    let left = graph.gaps(&whole, &GapOptions::default())?;
    let after = check(&whole, &earlier)?;
    let sections = [
        about(&graph.inspect()?),
        looks_fine(&earlier, &suite)?,
        is_not(&found, &tour.drawn(&found)?, &before),
        is_filled(&filled, &tour.kinds(&filled)?, &left, &after),
        tour.sheet(&filled, args.keep.is_some())?,
        tour.pages(&suite, &earlier, args.keep.is_some())?,
        NEXT.to_owned(),
    ];
    let told: Vec<String> = sections
        .into_iter()
        .filter(|section| !section.is_empty())
        .collect();
    printer.data(&told.join("\n"))
}

/// Writes all images as npz files, with their kinds and groups.
fn unpack(folder: &Folder) -> Result<(), DataError> {
    let images = demo_images::unpack(IMAGES, IMAGE_KINDS.len());
    let (train, test) = images.split_at(TRAINING * demo_images::PIXELS);
    let (train_kinds, test_kinds) = IMAGE_KINDS.split_at(TRAINING);
    for (name, images, kinds) in [
        ("train.npz", train, train_kinds),
        ("test.npz", test, test_kinds),
    ] {
        let mut writer = NpzWriter::create(folder.path(name), Compression::Deflated)?;
        let x = writer.array::<u8>("x", &[SIDE, SIDE])?;
        let y = writer.array::<u8>("y", &[])?;
        let kind = writer.array::<u8>("kind", &[])?;
        let group = |kind: &u8| {
            let group = GROUPS
                .iter()
                .position(|group| group.kinds.contains(&i64::from(*kind)));
            group.unwrap_or_default() as u8
        };
        let groups: Vec<u8> = kinds.iter().map(group).collect();
        writer.append(&x, images)?;
        writer.append(&y, &groups)?;
        writer.append(&kind, kinds)?;
        if name == "train.npz" {
            writer.texts("class_names", &GROUPS.map(|group| group.name.to_owned()))?;
        }
        writer.finish()?;
    }
    Ok(())
}

fn build(folder: &Folder, threads: usize, printer: &Printer) -> anyhow::Result<DecisionGraph> {
    let preprocessing = Preprocessing {
        divide: Some(255.0),
        ..Preprocessing::default()
    };
    let model = Model::open(folder.path("model.onnx"))?
        .with_preprocessing(preprocessing)
        .with_threads(threads);
    let options = BuildOptions {
        criteria: Some(vec![Spec::named("snpc")]),
        ..BuildOptions::default()
    };
    let train = samples::open(folder.path("train.npz"))?;
    let mut progress = ProgressBar::new(train.len(), printer);
    Ok(model.build_file(&train, &options, folder.path("graph.npcov"), &mut progress)?)
}

/// The gate that `check --against` is.
fn check(suite: &Coverage, earlier: &Coverage) -> anyhow::Result<Check> {
    let compared = suite.clone().compared(Some(earlier), &[]);
    let compared = compared.map_err(npcov::Error::from)?;
    Ok(gate().check(&compared.report, compared.difference.as_ref())?)
}

fn gate() -> Gate {
    Gate {
        losses: Some(Losses::Usual),
        ..Gate::default()
    }
}

/// What the suites and the pool are made of: rows of the test images.
struct Images([(&'static str, Vec<usize>); 3]);

impl Images {
    /// An earlier suite with some of every kind; the suite that has trousers in the place of the bags; and
    /// as a pool all images that are not in it.
    fn choose(folder: &Folder) -> anyhow::Result<Images> {
        let kinds = kinds(&folder.path("test.npz"))?;
        let order = shuffled(kinds.len(), SEED);
        let of_kind = |kind: i64| {
            let rows = order.iter().copied();
            rows.filter(|&row| kinds[row] == kind)
                .collect::<Vec<usize>>()
        };
        let mut earlier = Vec::new();
        for group in GROUPS {
            let each = group.images / group.kinds.len();
            for &kind in group.kinds {
                earlier.extend(of_kind(kind).into_iter().take(each));
            }
        }
        let mut others = of_kind(TROUSERS)
            .into_iter()
            .filter(|row| !earlier.contains(row));
        let replaced = |&row: &usize| match kinds[row] == BAGS {
            true => others.next(),
            false => Some(row),
        };
        let suite: Vec<usize> = earlier.iter().filter_map(replaced).collect();
        let pool = order.iter().copied().filter(|row| !suite.contains(row));
        let pool = pool.collect();
        Ok(Images([
            ("earlier", earlier),
            ("suite", suite),
            ("pool", pool),
        ]))
    }

    /// Writes them as npz files of 8-bit images.
    fn write(&self, folder: &Folder, test: &Loader) -> anyhow::Result<()> {
        let labels = test
            .labels()
            .ok_or_else(|| anyhow!("the test images have no labels"))?;
        let kinds = kinds(&folder.path("test.npz"))?;
        for (name, rows) in &self.0 {
            let file = folder.path(&format!("{name}.npz"));
            write_images(&file, rows, test, (labels, &kinds)).map_err(npcov::Error::from)?;
        }
        Ok(())
    }
}

/// The kind of each image of a file.
fn kinds(file: &Path) -> anyhow::Result<Vec<i64>> {
    let mut spec = file.as_os_str().to_owned();
    spec.push(":x,kind");
    let data = samples::open(spec)?;
    let kinds = data
        .labels()
        .ok_or_else(|| anyhow!("`{}` has no kinds", file.display()))?;
    Ok(kinds.to_vec())
}

/// Writes some images of a dataset, what they are labelled as, and their kinds.
fn write_images(
    path: &Path,
    rows: &[usize],
    data: &Loader,
    (labels, kinds): (&[i64], &[i64]),
) -> Result<(), DataError> {
    let mut writer = NpzWriter::create(path, Compression::Deflated)?;
    let x = writer.array::<u8>("x", &[SIDE, SIDE])?;
    let y = writer.array::<i64>("y", &[])?;
    let kind = writer.array::<i64>("kind", &[])?;
    let mut stored = vec![0.0; data.sample_len()];
    for &row in rows {
        data.read_stored(row..row + 1, &mut stored)?;
        let pixels: Vec<u8> = stored.iter().map(|&pixel| pixel as u8).collect();
        writer.append(&x, &pixels)?;
        writer.append(&y, &[labels[row]])?;
        writer.append(&kind, &[kinds[row]])?;
    }
    writer.finish()
}

/// The numbers below `count` in an order that looks random: Fisher and Yates's shuffle with the
/// generator SplitMix64. The tour, its documentation and the gaps it shows are of this very order, which
/// [the generator of all else](npcov::paths::random) does not draw.
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, (next() % (last as u64 + 1)) as usize);
    }
    order
}

/// What is measured, one step after the other.
struct Tour<'a> {
    folder: &'a Folder,
    graph: &'a DecisionGraph,
    printer: &'a Printer,
}

impl Tour<'_> {
    /// Measures the images of a file, as a suite of one and the same name.
    fn cover(&self, file: &str) -> anyhow::Result<Coverage> {
        let images = samples::open(self.folder.path(&format!("{file}.npz")))?;
        let mut progress = ProgressBar::new(images.len(), self.printer);
        let suite = Suite::new("suite", &images);
        let output = self.folder.path(&format!("{file}.npcov"));
        let options = CoverOptions::default();
        Ok(self
            .graph
            .cover_file(&[suite], &options, None, output, &mut progress)?)
    }

    fn gaps(&self, suite: &Coverage) -> anyhow::Result<Gaps> {
        Ok(self.graph.gaps(suite, &GapOptions::default())?)
    }

    /// Fills the gaps of a suite from the pool.
    fn fill(&self, suite: &Coverage) -> anyhow::Result<Gaps> {
        let pool = samples::open(self.folder.path("pool.npz"))?;
        let mut progress = ProgressBar::new(pool.len(), self.printer);
        let (options, output) = (GapOptions::default(), self.folder.path("add.npz"));
        let mut filled =
            self.graph
                .fill_gaps_file(suite, &pool, &options, output, &mut progress)?;
        // As the commands of the tour would name them, in its folder.
        if let Some(pool) = &mut filled.pool {
            pool.data = "pool.npz".to_owned();
            pool.file = Some("add.npz".to_owned());
        }
        Ok(filled)
    }

    /// Of which kinds the images are that were added, the most frequent first.
    fn kinds(&self, filled: &Gaps) -> anyhow::Result<Vec<(&'static str, usize)>> {
        let kinds = kinds(&self.folder.path("pool.npz"))?;
        let mut counts = KINDS.map(|kind| (kind, 0));
        for input in filled
            .gaps
            .iter()
            .filter_map(|gap| gap.add.as_ref())
            .flatten()
        {
            let kind = kinds
                .get(input.input)
                .and_then(|&kind| usize::try_from(kind).ok());
            if let Some(count) = kind.and_then(|kind| counts.get_mut(kind)) {
                count.1 += 1;
            }
        }
        let mut counts: Vec<(&str, usize)> = counts.into_iter().filter(|(_, n)| *n > 0).collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Ok(counts)
    }

    /// Typical images of each gap, as text.
    fn drawn(&self, found: &Gaps) -> anyhow::Result<Vec<String>> {
        let train = self
            .graph
            .loader(samples::open(self.folder.path("train.npz"))?)?;
        let mut pictures = Vec::new();
        for gap in &found.gaps {
            let mut lines = vec![String::new(); SIDE / 2];
            for exemplar in gap.exemplars.iter().take(DRAWN) {
                let mut image = vec![0.0; train.sample_len()];
                let row = exemplar.input..exemplar.input + 1;
                train
                    .read_stored(row, &mut image)
                    .map_err(npcov::Error::from)?;
                for (line, pixels) in lines.iter_mut().zip(pairs(&image)) {
                    line.push_str("  ");
                    line.extend(pixels.into_iter().map(shade));
                }
            }
            let lines = lines.iter().map(|line| format!("{}\n", line.trim_end()));
            pictures.push(lines.collect());
        }
        Ok(pictures)
    }

    /// Draws the gaps with what fills them, and says where.
    fn sheet(&self, filled: &Gaps, keep: bool) -> anyhow::Result<String> {
        let load = |name: &str| self.graph.loader(samples::open(self.folder.path(name))?);
        let (train, pool) = (load("train.npz")?, load("pool.npz")?);
        let images = GapImages {
            training: Some(&train),
            suites: Vec::new(),
            pool: Some(&pool),
        };
        let path = self.folder.path("gaps.png");
        match npcov_report::gap_sheet(filled, &images)? {
            Some(sheet) if keep => {
                sheet.write(&path)?;
                Ok(format!(
                    "All of it as a picture, for each gap what is typical and what to add: {}\n",
                    path.display()
                ))
            }
            _ => Ok(
                "`npcov demo --keep FOLDER` keeps all files, and a picture of the gaps.\n"
                    .to_owned(),
            ),
        }
    }
}

impl Tour<'_> {
    /// Writes the report of the suite as pages, and says where.
    fn pages(&self, suite: &Coverage, earlier: &Coverage, keep: bool) -> anyhow::Result<String> {
        if !keep {
            return Ok(String::new());
        }
        let load = |name: &str| self.graph.loader(samples::open(self.folder.path(name))?);
        let pool = samples::open(self.folder.path("pool.npz"))?;
        let material = Material {
            earlier: Some(earlier),
            gate: Some(&gate()),
            graph: Some(self.graph),
            data: vec![load("train.npz")?, load("suite.npz")?],
            pool: Some(Inputs::new(pool)),
            ..Material::new(suite)
        };
        let mut progress = ProgressBar::new(0, self.printer);
        let mut dossier = gather(material, &mut progress)?;
        // As the commands of the tour would name it, in its folder.
        for gaps in dossier
            .views
            .iter_mut()
            .filter_map(|view| view.gaps.as_mut())
        {
            if let Some(pool) = &mut gaps.pool {
                pool.data = "pool.npz".to_owned();
            }
        }
        let path = self.folder.path("report");
        write_folder(&dossier, &path)?;
        Ok(format!(
            "  $ npcov report suite.npcov --against earlier.npcov --pool pool.npz --html report\n  \
             The same as pages with pictures: {}\n",
            path.join("index.html").display()
        ))
    }
}

/// Lines that stand a little to the right.
fn indented(text: &str) -> String {
    let line = |line: &str| format!("    {line}").trim_end().to_owned() + "\n";
    text.lines().map(line).collect()
}

fn about(found: &GraphInspection) -> String {
    let layers = &found.extraction.layers;
    let neurons: usize = layers.iter().map(|layer| layer.neurons).sum();
    let clusters: Vec<String> = found
        .classes
        .iter()
        .map(|c| c.clusters.len().to_string())
        .collect();
    let names: Vec<&str> = found
        .classes
        .iter()
        .filter_map(|class| class.name.as_deref())
        .collect();
    format!(
        "The model
  A small network that was taught to tell three groups of clothing apart: {}.
  It knows nothing of kinds such as sandals or coats. It has {neurons} neurons in {} layers.

  $ npcov build model.onnx --data train.npz --divide 255 --criteria snpc -o graph.npcov
  For each of {} training images npcov finds the neurons that decided. Images of a group that are decided
  alike make a cluster; the groups have {} of them.
",
        names.join(", "),
        layers.len(),
        number::count(found.inputs),
        clusters.join(", "),
    )
}

fn looks_fine(earlier: &Coverage, suite: &Coverage) -> anyhow::Result<String> {
    let mut rows = String::new();
    for (name, coverage) in [("earlier", earlier), ("suite", suite)] {
        let report = coverage.report().map_err(npcov::Error::from)?;
        let [suite] = &report.suites[..] else {
            bail!("{} suites were measured, not one", report.suites.len());
        };
        rows += &row(name, suite);
    }
    Ok(format!(
        "A suite that looks fine
  $ npcov cover graph.npcov --data suite.npz --name suite -o suite.npcov
  It has {} images, as the one that was used earlier; as many are right, and as many of each group.
           images  right    of each group
{rows}",
        number::count(
            suite
                .state()
                .suites()
                .iter()
                .map(|suite| suite.inputs.len())
                .sum()
        ),
    ))
}

fn row(name: &str, suite: &SuiteReport) -> String {
    let groups: Vec<String> = suite
        .classes
        .iter()
        .map(|c| format!("{:>4}", c.inputs))
        .collect();
    format!(
        "  {name:<7}  {:>6}  {}  {}\n",
        suite.inputs,
        suite.accuracy.map_or("-".to_owned(), number::percent),
        groups.concat()
    )
}

fn is_not(found: &Gaps, pictures: &[String], before: &Check) -> String {
    let drawn = found.gaps.iter().zip(pictures).map(|(gap, picture)| {
        let cluster = gap
            .cluster
            .map_or(String::new(), |cluster| format!("cluster {cluster}: "));
        format!("  {cluster}typical training images\n{picture}")
    });
    let drawn: Vec<String> = drawn.collect();
    format!(
        "It is not
  $ npcov gaps graph.npcov suite.npcov
{}
{}
  $ npcov check suite.npcov --against earlier.npcov
{}",
        indented(&npcov_report::gaps(found)),
        drawn.join("\n"),
        indented(&npcov_report::check(before)),
    )
}

fn is_filled(filled: &Gaps, kinds: &[(&str, usize)], left: &Gaps, after: &Check) -> String {
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    let pool = filled.pool.as_ref();
    format!(
        "What fills it
  $ npcov gaps graph.npcov suite.npcov --pool pool.npz -o add.npz
  From a pool of {} images npcov takes {}. What they are nobody told it or the network: {}.

  $ npcov cover graph.npcov --data add.npz --name suite -o add.npcov
  $ npcov merge suite.npcov add.npcov -o filled.npcov
  $ npcov gaps graph.npcov filled.npcov
{}
  $ npcov check filled.npcov --against earlier.npcov
{}",
        number::count(pool.map_or(0, |pool| pool.inputs)),
        number::count(pool.map_or(0, |pool| pool.taken)),
        kinds.join(", "),
        indented(&npcov_report::gaps(left)),
        indented(&npcov_report::check(after)),
    )
}

/// How bright two pixels are, one below the other.
fn shade(sum: f32) -> char {
    match sum / (2.0 * 255.0) {
        x if x >= 0.75 => '@',
        x if x >= 0.5 => '%',
        x if x >= 0.25 => '+',
        x if x >= 0.05 => '.',
        _ => ' ',
    }
}

/// The sums of two pixels, one below the other.
fn pairs(pixels: &[f32]) -> Vec<Vec<f32>> {
    let add = |rows: &[f32]| {
        let (upper, lower) = rows.split_at(SIDE);
        upper.iter().zip(lower).map(|(a, b)| a + b).collect()
    };
    pixels.chunks_exact(2 * SIDE).map(add).collect()
}

const NEXT: &str = "\
On your own model
  npcov init model.onnx --data train.npz       writes npcov.toml, with every setting explained
  npcov build -o graph.npcov                   learns the decision graph
  npcov cover graph.npcov --data test.npz -o state.npcov
  npcov gaps graph.npcov state.npcov           says what the suite is missing
";

/// The folder that the files are in: the user's, or one that vanishes.
struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    fn new(keep: Option<&Path>) -> anyhow::Result<Folder> {
        let Some(path) = keep else {
            return Folder::temporary();
        };
        let cannot = || format!("cannot use `{}`", path.display());
        fs::create_dir_all(path).with_context(cannot)?;
        // Nothing of the user's is written over.
        if fs::read_dir(path).with_context(cannot)?.next().is_some() {
            bail!("`{}` is not empty; name a new folder", path.display());
        }
        Ok(Folder {
            path: path.to_owned(),
            keep: true,
        })
    }

    fn temporary() -> anyhow::Result<Folder> {
        let base = std::env::temp_dir();
        for attempt in 0.. {
            let path = base.join(format!("npcov-demo-{}-{attempt}", std::process::id()));
            match fs::create_dir(&path) {
                // Left behind by a process that was killed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < 100 => {}
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("cannot create `{}`", path.display()));
                }
                Ok(()) => return Ok(Folder { path, keep: false }),
            }
        }
        bail!("cannot create a folder in `{}`", base.display())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep {
            // There is nobody left to tell when that fails.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_loses_nothing() {
        let order = shuffled(1000, 0);
        // The last place is filled first, by the generator's first number, which its authors publish
        // for the seed 0.
        assert_eq!(order[999] as u64, 0xe220_a839_7b1d_cdaf % 1000);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..1000));
        assert_ne!(order, shuffled(1000, 1));
        assert_eq!((shuffled(0, 0), shuffled(1, 0)), (vec![], vec![0]));
    }

    #[test]
    fn two_rows_make_a_line() {
        let pixels: Vec<f32> = (0..4 * SIDE).map(|i| i as f32).collect();
        let lines = pairs(&pixels);
        assert_eq!(lines.len(), 2);
        assert_eq!([lines[0][0], lines[1][27]], [28.0, 83.0 + 111.0]);
    }
}
