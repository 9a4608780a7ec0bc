//! A model, its data and a small decision graph of it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use npcov::Error;
use npcov::artefact::MeasuredSuite;
use npcov::coverage::{
    BuildOptions, CoverOptions, CoverTarget, Coverage, LearntGraph, Measurement, PerClass,
    SuiteSource,
};
use npcov::criteria::SetPart;
use npcov::data::{Loader, Preprocessing, open};
use npcov::paths::choices::Buckets;
use npcov::paths::{Choices, Clustering, Clusters};
use npcov::run::{Method, ModelOptions, Network, SampleRange};
use tempfile::TempDir;

/// Where the states of these criteria are among those of all.
pub(crate) const SNPC: usize = 0;
pub(crate) const ANPC: usize = 1;

/// What both keep.
pub(crate) const BUCKETS: SetPart = SetPart("buckets");

pub(crate) fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

/// Measures suites and writes the coverage to a file.
pub(crate) fn measure(
    measurement: &Measurement<'_>,
    suites: &[SuiteSource<'_>],
    output: &Path,
    threads: usize,
) -> Result<Coverage, Error> {
    let target = CoverTarget {
        output: Some(output),
        earlier: None,
        threads,
    };
    Ok(npcov::coverage::cover(
        measurement,
        suites,
        target,
        &mut (),
    )?)
}

/// How a graph measures with these criteria.
pub(crate) fn by<'g>(graph: &'g LearntGraph, criteria: &[&str]) -> Measurement<'g> {
    let options = CoverOptions {
        criteria: Some(criteria.iter().map(|name| name.parse().unwrap()).collect()),
        ..CoverOptions::default()
    };
    graph.measurement(&options).unwrap()
}

/// A model with the data of the fixtures.
pub(crate) struct Case {
    folder: TempDir,
    pub(crate) model: PathBuf,
    pub(crate) network: Arc<Network>,
    pub(crate) loader: Loader<'static>,
    pub(crate) method: Method,
}

impl Case {
    pub(crate) fn new(model: &str) -> Case {
        let model = fixture(model);
        let network = Network::open(&model, &ModelOptions::default()).unwrap();
        let preprocessing = Preprocessing {
            divide: Some(255.0),
            ..Preprocessing::default()
        };
        let data = open(fixture("fashion-1000.npz").to_str().unwrap()).unwrap();
        Case {
            folder: TempDir::new().unwrap(),
            loader: Loader::new(data, network.sample_shape(), &preprocessing).unwrap(),
            method: Method::default(),
            model,
            network: Arc::new(network),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn range(&self, range: Range<usize>, threads: usize) -> SampleRange<'_> {
        SampleRange {
            data: &self.loader,
            range,
            threads,
        }
    }

    pub(crate) fn build(
        &self,
        options: &BuildOptions,
        inputs: usize,
    ) -> Result<LearntGraph, Error> {
        let options = BuildOptions {
            method: self.method.clone(),
            ..options.clone()
        };
        let output = self.path("graph.npcov");
        let inputs = self.range(0..inputs, 2);
        let built =
            npcov::coverage::build(&self.network, &inputs, &options, Some(&output), &mut ());
        Ok(built?)
    }

    pub(crate) fn suite(&self, name: &str, range: std::ops::Range<usize>) -> SuiteSource<'_> {
        SuiteSource {
            name: name.to_owned(),
            data: &self.loader,
            range,
        }
    }

    pub(crate) fn cover(
        &self,
        measurement: &Measurement<'_>,
        range: Range<usize>,
    ) -> MeasuredSuite {
        let output = self.path("state.npcov");
        let suites = [self.suite("suite", range)];
        let coverage = measure(measurement, &suites, &output, 2).unwrap();
        coverage.state().suites()[0].clone()
    }

    /// What the suite that was measured last is worth by a criterion.
    pub(crate) fn value(&self, name: &str) -> f64 {
        let coverage = Coverage::open(self.path("state.npcov")).unwrap();
        let report = coverage.report().unwrap();
        report.suites[0].criteria.get(name).unwrap().value()
    }
}

/// A small decision graph.
pub(crate) fn small() -> (Case, LearntGraph) {
    let case = Case::new("mlp-matlab.onnx");
    let settings = BuildOptions {
        clustering: Clustering::KMeans,
        clusters: PerClass::all(Clusters::Fixed(2)),
        choices: Choices {
            snpc_buckets: Buckets::new(20).unwrap(),
            anpc_buckets: Buckets::new(20).unwrap(),
            ..Choices::default()
        },
        ..BuildOptions::default()
    };
    let graph = case.build(&settings, 60).unwrap();
    (case, graph)
}
