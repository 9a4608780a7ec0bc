//! The facade: everything in memory gives what files give, and progress can stop the work.

use std::io::{Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use npcov::artefact::{ArtefactError, GraphFile, StateUnion};
use npcov::attack::{AttackMethod, Pgd};
use npcov::data::npz::{Compression, NpzWriter};
use npcov::data::safetensors::SafetensorsReader;
use npcov::data::{Arrays, DataError, Preprocessing, Samples, open};
use npcov::run::{Part, RunError};
use npcov::{
    AttackOptions, BuildOptions, CoverOptions, Coverage, DecisionGraph, Error, Event, Inputs,
    Model, MutationOptions, Progress, Suite, TuneOptions,
};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

fn images() -> Arc<dyn Samples> {
    open(fixture("fashion-1000.npz").to_str().unwrap()).unwrap()
}

fn model() -> Model {
    let scale = Preprocessing {
        divide: Some(255.0),
        ..Preprocessing::default()
    };
    let model = Model::open(fixture("mlp-matlab.onnx")).unwrap();
    model.with_preprocessing(scale).with_threads(2)
}

fn options() -> BuildOptions {
    let criteria = ["snpc", "anpc", "nc", "dct"].map(|name| name.parse().unwrap());
    BuildOptions {
        criteria: Some(criteria.into()),
        ..BuildOptions::default()
    }
}

/// The same graph, coverage and report, whether made in files or in memory, from a file or an array.
#[test]
fn memory_gives_what_files_give() {
    let folder = tempfile::tempdir().unwrap();
    let data = images();
    let train = Inputs::from(&data).rows(0..100);
    let path = folder.path().join("graph.npcov");
    let filed = model()
        .build_file(train, &options(), &path, &mut ())
        .unwrap();

    let mut pixels = vec![0; 1000 * 28 * 28];
    data.read(0, 0..1000, &mut pixels).unwrap();
    let labels = data.labels().unwrap();
    let arrays = Arrays::new("x", &[1000, 28, 28], &pixels[..]).unwrap();
    let arrays = arrays.with_labels(labels).unwrap();
    let train = Inputs::from(&arrays).rows(0..100);
    let bytes = std::fs::read(fixture("mlp-matlab.onnx")).unwrap();
    let scale = model().preprocessing().clone();
    let in_memory = Model::from_bytes(bytes.clone())
        .unwrap()
        .with_preprocessing(scale);
    let graph = in_memory.build(train, &options(), &mut ()).unwrap();
    assert_eq!(
        graph.learnt().file().record().id,
        filed.learnt().file().record().id
    );

    let covered = graph
        .cover("test", Inputs::from(&arrays).rows(100..700), &mut ())
        .unwrap();
    let state = folder.path().join("state.npcov");
    let suites = [Suite::new("test", Inputs::from(&data).rows(100..700))];
    let none = CoverOptions::default();
    let file = DecisionGraph::open(&path).unwrap();
    let expected = file
        .cover_file(&suites, &none, None, &state, &mut ())
        .unwrap();
    assert_eq!(covered.state().record(), expected.state().record());
    assert!(covered == expected, "memory");
    let opened = Coverage::open(&state).unwrap();
    assert!(opened.state().suites() == expected.state().suites());
    assert_eq!(covered.report().unwrap(), expected.report().unwrap());

    // What was made in memory can be kept, and used with bytes or files alike.
    let saved = folder.path().join("saved.npcov");
    graph.save(&saved).unwrap();
    let again = DecisionGraph::from_bytes(std::fs::read(&saved).unwrap(), bytes).unwrap();
    let part = Inputs::from(&data).rows(100..700);
    assert!(again.cover("test", part, &mut ()).unwrap() == covered);
    filed.save(&saved).unwrap();
    assert_eq!(
        std::fs::read(&saved).unwrap(),
        std::fs::read(&path).unwrap()
    );
}

#[test]
fn progress_stops_the_work_and_files_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph.npcov");
    let data = images();
    let mut seen = 0;
    let mut stop = |event| {
        if let Event::Finished(more) = event {
            seen += more;
        }
        match seen < 700 {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    let stopped = model().build_file(&data, &options(), &path, &mut stop);
    assert!(matches!(stopped, Err(Error::Run(RunError::Stopped))));
    assert!(!path.exists() && seen < 1000);
    let mut resumed = 0;
    let mut progress = |event| {
        if let Event::Resumed(inputs) = event {
            resumed += inputs;
        }
        ControlFlow::Continue(())
    };
    let graph = model().build_file(&data, &options(), &path, &mut progress);
    assert_eq!(resumed, 512);
    let whole = model().build(&data, &options(), &mut ()).unwrap();
    assert_eq!(
        graph.unwrap().learnt().file().record().id,
        whole.learnt().file().record().id
    );
}

/// AVX2 and AVX-512 give the same bits; products that are not fused do not.
#[test]
fn states_of_another_arithmetic_are_not_merged() {
    let folder = tempfile::tempdir().unwrap();
    let data = images();
    let graph = model()
        .build(Inputs::from(&data).rows(0..60), &options(), &mut ())
        .unwrap();
    let part = |range| {
        let inputs = Inputs::from(&data).rows(range);
        graph.cover("test", inputs, &mut ()).unwrap()
    };
    let (a, b) = (folder.path().join("a.npcov"), folder.path().join("b.npcov"));
    part(100..150).save(&a).unwrap();
    part(150..200).save(&b).unwrap();
    Coverage::merge_files(&[a.clone(), b.clone()], None).unwrap();
    let own = graph.model().network().engine().record().arithmetic;
    let reader = SafetensorsReader::open(&b).unwrap();
    let field = |arithmetic: &str| format!(r#""arithmetic":"{arithmetic}""#);
    let record = reader.metadata().unwrap().to_owned();
    assert!(record.contains(&field(&own)));
    reader
        .save(&b, &record.replace(&field(&own), &field("other")))
        .unwrap();
    let merged = Coverage::merge_files(&[a, b], None).map_err(Error::from);
    let Err(Error::Artefact(ArtefactError::Mismatch { differences, .. })) = merged else {
        panic!("states of different arithmetic were merged");
    };
    assert!(
        differences[0].starts_with("arithmetic: "),
        "{differences:?}"
    );
}

/// Names of samples are found again wherever an input is named.
#[test]
fn names_of_samples_travel() {
    let folder = tempfile::tempdir().unwrap();
    let data = images();
    let mut pixels = vec![0; 400 * 28 * 28];
    data.read(0, 0..400, &mut pixels).unwrap();
    let names = (0..400).map(|i| format!("boots/{i}.png"));
    let arrays = Arrays::new("x", &[400, 28, 28], pixels).unwrap();
    let arrays = arrays.with_sample_names(names).unwrap();
    let train = Inputs::from(&arrays).rows(0..100);
    let path = folder.path().join("graph.npcov");
    model()
        .build_file(train, &options(), &path, &mut ())
        .unwrap();
    let graph = DecisionGraph::open(&path).unwrap();
    assert_eq!(
        GraphFile::open(&path).unwrap().training_name(7),
        Some("boots/7.png")
    );

    let explanation = graph.explain(&arrays, 150, 1).unwrap();
    assert_eq!(explanation.sample.as_deref(), Some("boots/150.png"));
    let placement = explanation.path.unwrap().placement.unwrap();
    for exemplar in &placement.exemplars {
        let name = format!("boots/{}.png", exemplar.input);
        assert_eq!(exemplar.sample, Some(name));
    }

    // In parts, in another order, by way of files.
    let cover = |range| {
        let inputs = Inputs::from(&arrays).rows(range);
        graph.cover("test", inputs, &mut ()).unwrap()
    };
    let mut coverage = cover(250..400);
    coverage.merge(cover(100..250)).unwrap();
    coverage.save(folder.path().join("state.npcov")).unwrap();
    let coverage = Coverage::open(folder.path().join("state.npcov")).unwrap();
    let report = coverage.report().unwrap();
    assert!(!report.suites[0].most.is_empty());
    for input in &report.suites[0].most {
        assert_eq!(input.sample, Some(format!("boots/{}.png", input.input)));
    }
}

/// Data of which row 600 changes when the first inputs are done: whoever computes with it has to notice.
fn notices_a_change(work: impl FnOnce(&dyn Samples, &mut dyn Progress) -> Result<(), Error>) {
    let folder = tempfile::tempdir().unwrap();
    let data = images();
    let mut pixels = vec![0; 1000 * 784];
    data.read(0, 0..1000, &mut pixels).unwrap();
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1000, 28, 28), }\n";
    let len = (header.len() as u16).to_le_bytes();
    let start = [b"\x93NUMPY\x01\x00", &len[..], header.as_bytes()].concat();
    let path = folder.path().join("x.npy");
    std::fs::write(&path, [&start[..], &pixels].concat()).unwrap();
    let data = open(path.to_str().unwrap()).unwrap();
    let place = start.len() + 600 * 784;
    let mut progress = |event| {
        if let Event::Finished(_) = event {
            let mut file = std::fs::File::options().write(true).open(&path).unwrap();
            file.seek(SeekFrom::Start(place as u64)).unwrap();
            file.write_all(&[pixels[600 * 784] ^ 255]).unwrap();
        }
        ControlFlow::Continue(())
    };
    let outcome = work(&*data, &mut progress);
    let Err(Error::Run(RunError::Data(DataError::Changed { start, end, .. }))) = outcome else {
        panic!("the change went unseen: {outcome:?}");
    };
    assert!((start..end).contains(&600), "{start} to {end}");
}

#[test]
fn data_that_changes_while_it_is_read_is_an_error() {
    notices_a_change(|data, progress| {
        model().build(data, &options(), progress)?;
        Ok(())
    });
}

#[test]
fn tuning_mutants_and_attacks_notice_that_too() {
    let tuned = TuneOptions {
        sample: None,
        alphas: vec![0.8],
        clusters: vec![1],
        betas: vec![0.8],
        ..TuneOptions::default()
    };
    notices_a_change(|data, progress| {
        model().tune(data, &tuned, progress)?;
        Ok(())
    });
    let folder = tempfile::tempdir().unwrap();
    notices_a_change(|data, progress| {
        let whole = Part::new(1, 1).unwrap();
        model().tune_part(data, &tuned, whole, folder.path().join("t"), progress)?;
        Ok(())
    });
    // Nothing was kept of what was computed from rows that are other ones now.
    assert!(
        !folder
            .path()
            .join("t.parts/masked-000001.safetensors")
            .exists()
    );
    notices_a_change(|data, progress| {
        let few = MutationOptions {
            mutants: 1,
            ..MutationOptions::default()
        };
        model().mutate(data, &few, progress)?;
        Ok(())
    });
    notices_a_change(|data, progress| {
        let fast = AttackOptions::from(AttackMethod::Pgd(Pgd::fast(0.1)));
        model().attack(data, &fast, progress)?;
        Ok(())
    });
}

#[test]
fn a_graph_reads_labels_where_its_model_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.npz");
    let data = images();
    let mut pixels = vec![0; 100 * 784];
    data.read(0, 0..100, &mut pixels).unwrap();
    let mut writer = NpzWriter::create(&path, Compression::Stored).unwrap();
    let x = writer.array::<u8>("x", &[28, 28]).unwrap();
    let kind = writer.array::<i64>("kind", &[]).unwrap();
    writer.append(&x, &pixels).unwrap();
    let labels = &data.labels().unwrap()[..100];
    writer.append(&kind, labels).unwrap();
    writer.finish().unwrap();

    let model = model().with_label_column("kind");
    let read = model.open_data(&path).unwrap();
    assert_eq!(read.labels(), Some(labels));
    let graph = model.build(&read, &options(), &mut ()).unwrap();
    assert_eq!(graph.open_data(&path).unwrap().labels(), Some(labels));
}

/// Files are united without being held, and give what states united in memory give: with inputs of one file among those
/// of another, with names and without, with suites that others do not have.
#[test]
fn files_are_united_as_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let data = images();
    let mut pixels = vec![0; 300 * 28 * 28];
    data.read(0, 400..700, &mut pixels).unwrap();
    let arrays = Arrays::new("x", &[300, 28, 28], pixels).unwrap();
    let names = (0..300).map(|i| format!("boots/{i}.png"));
    let named = arrays.with_sample_names(names).unwrap();
    // Together they keep all that can be united: bits, sums, patterns, numbers and lists of inputs, what is fixed.
    let criteria = [
        "snpc", "anpc", "kmnc", "nc", "tknp", "deepgini", "dsc", "idc",
    ];
    let criteria = Some(criteria.map(|name| name.parse().unwrap()).to_vec());
    let options = BuildOptions {
        criteria: criteria.clone(),
        ..BuildOptions::default()
    };
    let train = Inputs::from(&data).rows(0..100);
    let graph = model().build(train, &options, &mut ()).unwrap();
    let cover = CoverOptions {
        criteria,
        ..CoverOptions::default()
    };
    let part = |suite: &str, inputs: Inputs<'_>| {
        let covered = graph.cover_with(suite, inputs, &cover, &mut ());
        covered.unwrap()
    };
    let part_of = |suite, rows| part(suite, Inputs::from(&data).rows(rows));
    let mut around = part_of("test", 0..40);
    around.merge(part_of("test", 90..120)).unwrap();
    let parts = [
        around,
        part_of("other", 300..310),
        part("test", Inputs::from(&named).rows(10..30)),
        part_of("test", 40..90),
        part("other", Inputs::from(&named).rows(0..5)),
    ];
    let mut union = StateUnion::default();
    let mut expected: Option<Coverage> = None;
    for (i, part) in parts.into_iter().enumerate() {
        let path = folder.path().join(format!("{i}.npcov"));
        part.save(&path).unwrap();
        union.add(&path).unwrap();
        match &mut expected {
            None => expected = Some(part),
            Some(all) => all.merge(part).unwrap(),
        }
    }
    let [united, merged] = ["united.npcov", "merged.npcov"].map(|name| folder.path().join(name));
    union.finish(&united).unwrap();
    expected.unwrap().save(&merged).unwrap();
    assert!(std::fs::read(&united).unwrap() == std::fs::read(&merged).unwrap());

    // What cannot be united is said, and leaves no file.
    let nothing = folder.path().join("nothing.npcov");
    let twice = || {
        let mut union = StateUnion::default();
        for name in ["0.npcov", "0.npcov"] {
            union.add(&folder.path().join(name)).unwrap();
        }
        union.finish(&nothing)
    };
    assert!(matches!(
        twice(),
        Err(ArtefactError::Overlap { end: 40, .. })
    ));
    let replaced = || {
        let mut union = StateUnion::default();
        for name in ["0.npcov", "3.npcov"] {
            union.add(&folder.path().join(name)).unwrap();
        }
        std::fs::copy(folder.path().join("1.npcov"), folder.path().join("3.npcov")).unwrap();
        union.finish(&nothing)
    };
    let reason = replaced().unwrap_err().to_string();
    assert!(reason.contains("3.npcov`: it changed"), "{reason}");
    let none = StateUnion::default().finish(&nothing);
    assert!(matches!(none, Err(ArtefactError::NothingToMerge)));
    assert!(!nothing.exists());
}
