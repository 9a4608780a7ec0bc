//! npcov inside another program: a model and arrays in memory, and no file is touched.
//!
//!     cargo run --release -p npcov --example embed

use std::ops::ControlFlow;

use npcov::data::{Arrays, Preprocessing, Source, npz::Archive};
use npcov::{BuildOptions, Event, Inputs, Model};

const MODEL: &[u8] = include_bytes!("../../../fixtures/lenet.onnx");
const IMAGES: &[u8] = include_bytes!("../../../fixtures/fashion-1000.npz");

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let archive = Archive::open(Source::from_bytes(IMAGES.to_vec()))?;
    let images = archive.array("x")?.ok_or("there are no images")?;
    let data = Arrays::of_rows("x", images)?.named("fashion");
    let scale = Preprocessing {
        divide: Some(255.0),
        ..Preprocessing::default()
    };
    let model = Model::from_bytes(MODEL)?.with_preprocessing(scale);

    let train = Inputs::from(&data).rows(0..800);
    let graph = model.build(train, &BuildOptions::default(), &mut ())?;
    let test = Inputs::from(&data).rows(800..1000);
    let report = graph.cover("test", test, &mut ())?.report()?;
    for (name, amount) in &report.suites[0].criteria.0 {
        println!("{name}: {:.4}", amount.value());
    }
    for gap in report.gaps() {
        println!(
            "cluster {}: {} inputs, {:.0} expected",
            gap.cluster, gap.inputs, gap.expected
        );
    }

    let mut stop = |event| match event {
        Event::Finished(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let stopped = graph.cover("test", &data, &mut stop);
    println!("{}", stopped.err().ok_or("it went on")?);
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
