//! What ANPC loses when activations of training inputs are kept as `f16`: distances, buckets and the amount, with
//! activations as they are and rounded.
//!
//!     cargo run --release -p npcov --example half_activations -- GRAPH MODEL DATA INPUTS

use std::collections::BTreeSet;
use std::ops::Range;

use half::f16;
use npcov::DecisionGraph;
use npcov::artefact::{ArtefactError, GraphFile};
use npcov::paths::{BitRows, Input, Observation, Observer, PathSource, TrainingActivations};

/// Activations of training inputs, rounded.
struct Rounded<'a>(&'a GraphFile);

impl PathSource for Rounded<'_> {
    type Error = ArtefactError;

    fn read_paths(&self, inputs: Range<usize>, out: &mut BitRows) -> Result<(), ArtefactError> {
        self.0.read_paths(inputs, out)
    }
}

impl TrainingActivations for Rounded<'_> {
    fn read(&self, input: u32, out: &mut [f32]) -> Result<(), ArtefactError> {
        TrainingActivations::read(self.0, input, out)?;
        out.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32());
        Ok(())
    }
}

#[allow(clippy::print_stdout, reason = "the numbers are its output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [graph, model, data, inputs] = &words[..] else {
        return Err("usage: half_activations GRAPH MODEL DATA INPUTS".into());
    };
    let graph = DecisionGraph::open_with(graph, Some(model.as_ref()))?;
    let (learnt, file) = (graph.learnt(), graph.learnt().file());
    let record = file.record();
    let (choices, anpc) = (&record.choices, record.anpc.layers());
    let extractor = learnt.extractor()?;
    let loader = graph.loader(graph.open_data(data)?)?;
    let rows = 0..inputs.parse::<usize>()?.min(loader.len());
    let observer = Observer::new(file.graph(), choices, &anpc);
    let mut seen = [Seen::default(), Seen::default()];
    let (mut distances, mut moved, mut largest) = (0_usize, 0_usize, 0.0_f64);
    let threads = graph.model().threads();
    extractor.run::<npcov::Error>(&loader, rows, threads, |batch| {
        let inputs: Vec<Input<'_>> = (0..batch.rows.len()).map(|i| batch.input(i)).collect();
        let exact = observer.observe_all(&inputs, file)?;
        let rounded = observer.observe_all(&inputs, &Rounded(file))?;
        seen[0].add(&exact);
        seen[1].add(&rounded);
        let views = |all: &[Observation]| -> Vec<(f64, Option<u16>)> {
            let views = all.iter().flat_map(|one| &one.clusters);
            views.flat_map(|view| view.distances.clone()).collect()
        };
        for (a, b) in views(&exact).into_iter().zip(views(&rounded)) {
            distances += 1;
            moved += usize::from(a.1 != b.1);
            largest = largest.max((a.0 - b.0).abs());
        }
        Ok(())
    })?;
    let all =
        file.graph().planned_clusters() * anpc.len() * usize::from(choices.anpc_buckets.get());
    let share = |seen: &Seen| 100.0 * seen.0.len() as f64 / all as f64;
    println!("{distances} distances, {moved} in another bucket; largest difference {largest:.3e}");
    println!(
        "ANPC: {} of {all} buckets ({:.4} %) with f32, {} ({:.4} %) with f16",
        seen[0].0.len(),
        share(&seen[0]),
        seen[1].0.len(),
        share(&seen[1]),
    );
    Ok(())
}

/// Buckets that inputs reach: by cluster and layer.
#[derive(Default)]
struct Seen(BTreeSet<(usize, usize, u16)>);

impl Seen {
    fn add(&mut self, observations: &[Observation]) {
        for view in observations.iter().flat_map(|one| &one.clusters) {
            for (layer, (_, bucket)) in view.distances.iter().enumerate() {
                self.0
                    .extend(bucket.map(|bucket| (view.cluster, layer, bucket)));
            }
        }
    }
}
