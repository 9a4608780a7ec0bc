//! Pools and masked inputs that several processes share: what they find together is what one finds, and a word on
//! every part that does not belong to it.

use std::path::{Path, PathBuf};

use npcov::data::{Arrays, Preprocessing, Samples, open};
use npcov::masking::Tuning;
use npcov::run::Part;
use npcov::{BuildOptions, DecisionGraph, Error, Model, SelectOptions, TuneOptions};
use tempfile::TempDir;

/// Two whole shards of 512 inputs, and some inputs more.
const INPUTS: usize = 1100;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

fn model(name: &str) -> Model {
    let scale = Preprocessing {
        divide: Some(255.0),
        ..Preprocessing::default()
    };
    let model = Model::open(fixture(name)).unwrap();
    model.with_preprocessing(scale).with_threads(2)
}

/// Images of the fixtures with their labels, over and over, some darker than they are.
fn images(count: usize, shade: usize) -> Arrays<'static> {
    let fixture = open(fixture("fashion-1000.npz").to_str().unwrap()).unwrap();
    let mut stored = vec![0; 1000 * 784];
    fixture.read(0, 0..1000, &mut stored).unwrap();
    let pixel = |i: usize| (usize::from(stored[i % stored.len()]) * (100 - shade) / 100) as u8;
    let pixels: Vec<u8> = (0..count * 784).map(pixel).collect();
    let labels = fixture.labels().unwrap().iter().cycle().take(count);
    let labels: Vec<i64> = labels.copied().collect();
    let arrays = Arrays::new("x", &[count, 28, 28], pixels).unwrap();
    arrays.with_labels(labels).unwrap()
}

fn part(i: usize, count: usize) -> Part {
    Part::new(i, count).unwrap()
}

fn graph(name: &str) -> DecisionGraph {
    let options = BuildOptions {
        criteria: Some(vec!["snpc".parse().unwrap(), "deepgini".parse().unwrap()]),
        yardstick_inputs: 20,
        ..BuildOptions::default()
    };
    model(name)
        .build(&images(300, 0), &options, &mut ())
        .unwrap()
}

fn by(strategy: &str) -> SelectOptions {
    SelectOptions {
        count: Some(40),
        ..strategy.parse::<npcov::select::Strategy>().unwrap().into()
    }
}

/// The bytes of a selection in one go, and what is said of it.
fn selected(
    graph: &DecisionGraph,
    pool: &Arrays<'_>,
    options: &SelectOptions,
    file: &Path,
) -> (Vec<u8>, npcov::select::Selection) {
    let selection = graph.select_file(pool, options, file, &mut ()).unwrap();
    (std::fs::read(file).unwrap(), selection)
}

#[test]
fn parts_of_a_pool_select_what_one_run_does() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("chosen.npz");
    let (graph, pool) = (graph("lenet.onnx"), images(INPUTS, 10));
    for strategy in [
        "additional:snpc",
        "score:deepgini",
        "score:unfamiliar",
        "random",
    ] {
        let options = by(strategy);
        let whole = selected(&graph, &pool, &options, &file);
        for count in [1, 3, 16] {
            std::fs::remove_file(&file).unwrap();
            for i in (1..=count).rev() {
                let done = graph.select_part(&pool, &options, part(i, count), &file, &mut ());
                let done = done.unwrap();
                assert_eq!(done.folder, format!("{}.parts", file.display()));
                assert_eq!(done.start..done.end, part(i, count).rows(0..INPUTS));
                assert!(!file.exists());
            }
            let joined = graph.join_selection(&pool, &options, &file).unwrap();
            assert_eq!(joined, whole.1, "{strategy} in {count} parts");
            assert!(std::fs::read(&file).unwrap() == whole.0, "{strategy}");
            assert!(!folder.path().join("chosen.npz.parts").exists());
        }
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn parts_of_a_pool_that_do_not_belong_to_it_are_named() {
    let folder = TempDir::new().unwrap();
    let place = |name: &str| folder.path().join(name);
    let shard = |name: &str, i: usize| place(&format!("{name}.parts/inputs-00000{i}.safetensors"));
    let (graph_of_lenet, pool) = (graph("lenet.onnx"), images(INPUTS, 10));
    let options = by("score:deepgini");
    let own = place("a.npz");
    let measure =
        |graph: &DecisionGraph, pool: &Arrays<'_>, options: &SelectOptions, file: &Path| {
            graph
                .select_part(pool, options, part(1, 1), file, &mut ())
                .unwrap();
        };
    let refused = || {
        let joined = graph_of_lenet.join_selection(&pool, &options, &own);
        assert!(!own.exists());
        joined.unwrap_err().to_string()
    };
    assert!(refused().contains("3 of 3 parts are wrong"));
    measure(&graph_of_lenet, &pool, &options, &own);
    std::fs::remove_file(shard("a.npz", 2)).unwrap();
    let mut damaged = std::fs::read(shard("a.npz", 0)).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(shard("a.npz", 0), damaged).unwrap();
    let error = refused();
    for line in [
        "a.npz.parts` cannot be joined, 2 of 3 parts are wrong",
        "`inputs-000000.safetensors`, inputs 0 to 511: damaged",
        "`inputs-000002.safetensors`, inputs 1024 to 1099: missing",
    ] {
        assert!(error.contains(line), "{line}: {error}");
    }
    let other_graph = model("lenet.onnx")
        .build(&images(200, 0), &BuildOptions::default(), &mut ())
        .unwrap();
    let others = [
        (
            &graph("mlp-matlab.onnx"),
            &pool,
            "score:deepgini",
            "made by another model",
        ),
        (
            &other_graph,
            &pool,
            "score:deepgini",
            "made with another graph",
        ),
        (
            &graph_of_lenet,
            &images(INPUTS, 20),
            "score:deepgini",
            "made from other data",
        ),
        (
            &graph_of_lenet,
            &pool,
            "score:contested",
            "made with other settings",
        ),
    ];
    for (i, (graph, pool, strategy, why)) in others.into_iter().enumerate() {
        let name = format!("{i}.npz");
        measure(graph, pool, &by(strategy), &place(&name));
        std::fs::copy(shard(&name, 2), shard("a.npz", 2)).unwrap();
        let line = format!("`inputs-000002.safetensors`, inputs 1024 to 1099: {why}");
        let error = refused();
        assert!(error.contains(&line), "{line}: {error}");
    }
    // Done once more, what is wrong is measured again.
    measure(&graph_of_lenet, &pool, &options, &own);
    let joined = graph_of_lenet
        .join_selection(&pool, &options, &own)
        .unwrap();
    let whole = selected(&graph_of_lenet, &pool, &options, &place("whole.npz"));
    assert_eq!(joined.chosen, whole.1.chosen);
    // A folder is that of one plan.
    measure(&graph_of_lenet, &pool, &options, &own);
    let other = graph_of_lenet.select_part(&pool, &by("random"), part(1, 1), &own, &mut ());
    let error = other.unwrap_err().to_string();
    assert!(error.contains("plan.json` does not fit"), "{error}");
}

fn grid() -> TuneOptions {
    TuneOptions {
        sample: Some(1060),
        alphas: vec![0.7, 0.9],
        clusters: vec![1, 3],
        betas: vec![0.6, 0.8],
        restarts: 2,
        ..TuneOptions::default()
    }
}

/// A search for parameters that is divided.
struct Search {
    folder: TempDir,
    model: Model,
    data: Arrays<'static>,
    options: TuneOptions,
}

impl Search {
    fn new(model_name: &str, options: TuneOptions) -> Search {
        Search {
            folder: TempDir::new().unwrap(),
            model: model(model_name),
            data: images(INPUTS, 0),
            options,
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("npcov.toml")
    }

    fn shard(&self, name: &str) -> PathBuf {
        let folder = self.folder.path().join("npcov.toml.parts");
        folder.join(format!("{name}.safetensors"))
    }

    /// Does a part, and says which step it came to.
    fn part(&self, i: usize, count: usize) -> usize {
        let (data, part) = (&self.data, part(i, count));
        let done = (self.model).tune_part(data, &self.options, part, self.file(), &mut ());
        let done = done.unwrap();
        assert_eq!(done.start..done.end, part.rows(0..1060));
        done.step
    }

    fn join(&self) -> Result<Tuning, Error> {
        let joined = (self.model).join_tuning(&self.data, &self.options, self.file())?;
        // Until what was found is kept somewhere, the parts are.
        assert!(self.shard("masked-000000").exists());
        Ok(joined.remove_parts()?)
    }

    fn whole(&self) -> Tuning {
        self.model.tune(&self.data, &self.options, &mut ()).unwrap()
    }
}

#[test]
fn parts_of_a_search_find_what_one_run_does() {
    let search = Search::new("lenet.onnx", grid());
    let whole = search.whole();
    for count in [1, 3, 16] {
        let steps: Vec<usize> = (1..=count).map(|i| search.part(i, count)).collect();
        // The last one with inputs finds all of the first step.
        assert_eq!(*steps.last().unwrap(), 2);
        if count > 1 {
            assert_eq!(steps[0], 1);
            let error = search.join().unwrap_err().to_string();
            assert!(error.contains("`abstract-000000.safetensors`"), "{error}");
            (1..=count).for_each(|i| assert_eq!(search.part(i, count), 2));
        }
        assert_eq!(search.join().unwrap(), whole, "{count} parts");
        assert!(!search.folder.path().join("npcov.toml.parts").exists());
    }
}

/// Only some inputs count, and those of the first shard are taken for others by the network of another scale.
#[test]
fn parts_of_a_search_count_by_label() {
    let mut options = grid();
    options.choices.population = npcov::paths::choices::Population::Correct;
    options.choices.members = npcov::paths::choices::Members::Correct;
    let search = Search::new("mlp-matlab.onnx", options);
    let whole = search.whole();
    assert!(whole.counted < whole.inputs);
    for _ in 0..2 {
        (1..=2).for_each(|i| _ = search.part(i, 2));
    }
    assert_eq!(search.join().unwrap(), whole);
}

#[test]
fn parts_of_a_search_that_do_not_belong_to_it_are_named() {
    let search = Search::new("mlp-matlab.onnx", grid());
    let refused = || search.join().unwrap_err().to_string();
    assert!(refused().contains("3 of 3 parts are wrong"));
    search.part(1, 1);
    std::fs::remove_file(search.shard("masked-000001")).unwrap();
    let line = "`masked-000001.safetensors`, inputs 512 to 1023: missing";
    assert!(refused().contains(line), "{}", refused());
    let with = |change: fn(&mut Search)| {
        let mut other = Search::new("mlp-matlab.onnx", grid());
        change(&mut other);
        other
    };
    for (other, why) in [
        (Search::new("lenet.onnx", grid()), "made by another model"),
        (
            with(|other| other.data = images(INPUTS, 20)),
            "made from other data",
        ),
        (
            with(|other| other.options.seed = 1),
            "made with other settings",
        ),
    ] {
        other.part(1, 1);
        std::fs::copy(other.shard("masked-000001"), search.shard("masked-000001")).unwrap();
        let line = format!("`masked-000001.safetensors`, inputs 512 to 1023: {why}");
        assert!(refused().contains(&line), "{line}: {}", refused());
    }
    search.part(1, 1);
    assert_eq!(search.join().unwrap(), search.whole());
}
