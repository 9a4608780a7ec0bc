//! RQ2: do the abstract paths of clusters still reveal decisions?
//!
//! Paths are clustered, for several numbers of clusters; the abstract path of each cluster is masked
//! for all its members, and all neurons but it. With the chosen number of clusters, paths are
//! compared within classes and clusters and between them, and a sheet shows inputs of each cluster.
//! Where it is asked for, every class also chooses parameters for itself, on one half of the inputs, and
//! what they are worth is seen on the other half.

use npcov::data::Loader;
use npcov::masking::{
    ClassChoice, ClusteredPaths, GridPoint, Halves, MaskingOptions, MaskingStudy, PathParameters,
    TuneOptions,
};
use npcov::paths::{Choices, NO_CLUSTER};
use npcov::run::{Method, MethodInfo, Network, Progress};
use serde::{Deserialize, Serialize};

use crate::error::{LabError, parameter};
use crate::folder::{EXPLAINED, WorkFolder};
use crate::published::{Masking, Paper};
use crate::random::{Purpose, shuffle};
use crate::similarity::{Similarities, similarities};

/// How RQ2 is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Rq2Settings {
    /// How relevances are computed.
    pub method: Method,
    /// What else can be chosen.
    pub choices: Choices,
    /// How many inputs are drawn from the training data; `None` for all.
    pub sample: Option<usize>,
    /// The share of relevance that critical neurons have together.
    pub alpha: f64,
    /// Numbers of clusters of each class.
    pub clusters: Vec<usize>,
    /// Shares of a cluster's members above which a neuron is abstract.
    pub betas: Vec<f64>,
    /// The shares of relevance that every class chooses from for itself, beside `clusters` and `betas`; `None` where
    /// classes do not choose.
    pub each_class: Option<Vec<f64>>,
    /// The number of clusters for similarities and the sheet.
    pub chosen: usize,
    /// How many inputs of each class are compared.
    pub per_class: usize,
    /// The classes on the sheet.
    pub sheet_classes: Vec<usize>,
    /// How many inputs of each cluster the sheet shows.
    pub sheet_inputs: usize,
    /// Restarts of the clustering.
    pub restarts: usize,
    /// Seed of every draw.
    pub seed: u64,
    /// The network of the paper whose numbers stand beside.
    pub paper: Option<Paper>,
}

impl Default for Rq2Settings {
    fn default() -> Self {
        Rq2Settings {
            method: Method::default(),
            choices: Choices::default(),
            sample: None,
            alpha: 0.8,
            clusters: vec![1, 4, 7, 10],
            betas: vec![0.6, 0.7, 0.8, 0.9],
            each_class: None,
            chosen: 4,
            per_class: 100,
            sheet_classes: vec![4, 5],
            sheet_inputs: 12,
            restarts: 10,
            seed: 0,
            paper: None,
        }
    }
}

/// What RQ2 gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq2 {
    /// The training data, as it was named.
    pub data: String,
    /// Inputs in it.
    pub available: usize,
    /// Inputs that were explained.
    pub inputs: usize,
    /// How many of those count.
    pub counted: usize,
    /// How relevances are computed.
    pub method: MethodInfo,
    /// What else was chosen.
    pub choices: Choices,
    /// The share of relevance that critical neurons have together.
    pub alpha: f64,
    /// The mean width of single paths.
    pub width: f64,
    /// Seed of every draw.
    pub seed: u64,
    /// The network of the paper whose numbers stand beside.
    pub paper: Option<Paper>,
    /// By ascending clusters, then beta, as they were given.
    pub points: Vec<Rq2Point>,
    /// With and without clusters.
    pub similarity: Rq2Similarity,
    /// Inputs of clusters.
    pub sheet: Vec<ShownClass>,
    /// Parameters of each class, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each_class: Option<Rq2Classes>,
}

/// Parameters that every class chose for itself, beside one choice for all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq2Classes {
    /// Inputs that parameters were chosen on.
    pub chosen_on: usize,
    /// The others, which were masked to judge.
    pub judged_on: usize,
    /// The shares of relevance that were tried.
    pub alphas: Vec<f64>,
    /// What was chosen for all classes.
    pub one_for_all: PathParameters,
    /// What every class chose that has inputs in both halves.
    pub classes: Vec<ClassChoice>,
}

/// What masking the abstract paths of one choice of clusters and beta does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq2Point {
    /// What it does.
    #[serde(flatten)]
    pub found: GridPoint,
    /// Width, Inc.C and Inc.NC of the paper, in per cent.
    pub published: Option<Masking>,
}

/// How similar paths are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq2Similarity {
    /// Clusters of each class.
    pub clusters: usize,
    /// Inputs that were compared.
    pub compared: usize,
    /// Within classes and between them.
    pub classes: Similarities,
    /// Within clusters, and between clusters of one class.
    pub within_classes: Similarities,
    /// Those of the paper: within and between classes, within and between clusters.
    pub published: Option<[f64; 4]>,
}

/// Inputs of the clusters of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShownClass {
    /// The class.
    pub class: usize,
    /// For each cluster, positions of some of its inputs in the training data.
    pub clusters: Vec<Vec<usize>>,
}

/// What a finished study leaves.
#[derive(Serialize, Deserialize)]
struct Head {
    inputs: usize,
    counted: usize,
    method: MethodInfo,
    width: f64,
}

impl Rq2Settings {
    /// Inputs of all passes over the training data.
    pub fn work(&self, data: &Loader) -> usize {
        let inputs = self.sample.unwrap_or(data.len()).min(data.len());
        let (clusters, betas) = (self.clusters.len(), self.betas.len());
        let every = inputs * (1 + 2 * clusters * betas);
        let Some(alphas) = &self.each_class else {
            return every;
        };
        // One half chooses for all, then for each class by itself, and for its clusters alone; three choices are
        // judged by the other half.
        let half = inputs.div_ceil(2);
        every
            + 2 * half * (2 * (3 * alphas.len() + clusters * betas) + clusters)
            + 2 * (inputs - half) * 3
    }

    /// What classes choose from, in ascending order.
    fn choices_of_classes(&self, alphas: &[f64]) -> TuneOptions {
        TuneOptions {
            method: self.method.clone(),
            choices: self.choices.clone(),
            sample: self.sample,
            alphas: alphas.to_vec(),
            clusters: self.clusters.clone(),
            betas: self.betas.clone(),
            restarts: self.restarts,
            seed: self.seed,
        }
    }

    fn check(&self) -> Result<(), LabError> {
        let wrong_beta = self.betas.iter().find(|beta| !(0.0..1.0).contains(*beta));
        let mut counts = self.clusters.iter().chain([&self.chosen]);
        let wrong_count = counts.find(|count| !(1..=1000).contains(*count));
        match (wrong_beta, wrong_count) {
            (Some(beta), _) => parameter("beta", beta, "at least 0 and below 1"),
            (_, Some(count)) => parameter("clusters", count, "1 to 1000"),
            _ if !(self.alpha > 0.0 && self.alpha <= 1.0) => {
                parameter("alpha", self.alpha, "above 0 and at most 1")
            }
            _ if self.sample == Some(0) => parameter("sample", 0, "1 or more"),
            _ => {
                let mut alphas = self.each_class.iter().flatten();
                match alphas.find(|alpha| !(**alpha > 0.0 && **alpha <= 1.0)) {
                    Some(alpha) => parameter("alpha", alpha, "above 0 and at most 1"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Masks abstract paths of clusters, and compares paths. What is finished is kept in `work`, whose
/// plan must tell model, data and settings apart; `progress` is told how many inputs more are done,
/// [`Rq2Settings::work`] says of how many.
pub fn rq2(
    network: &Network,
    data: &Loader,
    settings: &Rq2Settings,
    work: &WorkFolder,
    threads: usize,
    progress: &mut dyn Progress,
) -> Result<Rq2, LabError> {
    settings.check()?;
    let mut alphas = settings.each_class.clone().unwrap_or_default();
    alphas.sort_unstable_by(f64::total_cmp);
    // Those that classes choose from come first.
    let own = alphas.len();
    alphas.push(settings.alpha);
    let masking = MaskingOptions {
        method: settings.method.clone(),
        choices: settings.choices.clone(),
        sample: settings.sample,
        alphas,
        bands: None,
        restarts: settings.restarts,
        seed: settings.seed,
        keep: Some(work.keep_in(EXPLAINED)),
    };
    let point_name = |clusters: usize, beta: f64| format!("point-{clusters}-{beta}");
    let is_done = |clusters: usize| {
        let mut points = settings.betas.iter();
        points.all(|&beta| work.has(&point_name(clusters, beta)))
    };
    let mut clusters = settings.clusters.iter();
    let is_open = !work.has("head")
        || !work.has("similarity")
        || !work.has("sheet")
        || (settings.each_class.is_some() && !are_classes_done(network, work))
        || clusters.any(|&count| !is_done(count));
    let study = match is_open {
        true => Some(MaskingStudy::new(
            network, data, &masking, threads, progress,
        )?),
        false => None,
    };
    let missing = || LabError::Folder {
        folder: work.file("").display().to_string(),
        reason: "a finished part cannot be read; remove the folder".to_owned(),
    };
    let study = || study.as_ref().ok_or_else(missing);
    let head: Head = work.keep("head", || {
        let study = study()?;
        Ok(Head {
            inputs: study.sample().len(),
            counted: study.counted().len(),
            method: study.method().clone(),
            width: study.width(own),
        })
    })?;

    let mut points = Vec::new();
    for &clusters in &settings.clusters {
        let clustered = match is_done(clusters) {
            true => None,
            false => Some(study()?.cluster(own, clusters)),
        };
        for &beta in &settings.betas {
            let found = work.keep(&point_name(clusters, beta), || {
                let clustered = clustered.as_ref().ok_or_else(missing)?;
                Ok(study()?.abstract_paths(clustered, beta, progress)?)
            })?;
            let published = settings.paper.map(Paper::published);
            let published = published.and_then(|p| p.abstraction_at(clusters, beta));
            points.push(Rq2Point { found, published });
        }
    }
    let chosen = match work.has("similarity") && work.has("sheet") {
        true => None,
        false => Some(study()?.cluster(own, settings.chosen)),
    };
    let (compared, classes, within_classes) = work.keep("similarity", || {
        compare(study()?, chosen.as_ref().ok_or_else(missing)?, settings)
    })?;
    let sheet = work.keep("sheet", || {
        let study = study()?;
        let chosen = chosen.as_ref().ok_or_else(missing)?;
        Ok(sheet_inputs(study, chosen, settings))
    })?;
    let each_class = match settings.each_class {
        Some(_) => {
            let alphas = &masking.alphas[..own];
            let options = settings.choices_of_classes(alphas);
            let halves = match are_classes_done(network, work) {
                true => None,
                false => Some(Halves::of(study()?, data, &options)?),
            };
            let halves = || halves.as_ref().ok_or_else(missing);
            let (counted, one_for_all): ([usize; 2], PathParameters) =
                work.keep("class", || {
                    let halves = halves()?;
                    Ok((halves.counted(), halves.choose(progress)?))
                })?;
            let mut classes = Vec::new();
            for class in 0..network.classes() {
                classes.extend(work.keep(&class_name(class), || {
                    Ok(halves()?.choose_for(class, &one_for_all, progress)?)
                })?);
            }
            Some(Rq2Classes {
                chosen_on: counted[0],
                judged_on: counted[1],
                alphas: alphas.to_vec(),
                one_for_all,
                classes,
            })
        }
        None => None,
    };
    work.remove(&work.file(EXPLAINED))?;
    Ok(Rq2 {
        data: data.name().to_owned(),
        available: data.len(),
        inputs: head.inputs,
        counted: head.counted,
        method: head.method,
        choices: settings.choices.clone(),
        alpha: settings.alpha,
        width: head.width,
        seed: settings.seed,
        paper: settings.paper,
        points,
        similarity: Rq2Similarity {
            clusters: settings.chosen,
            compared,
            classes,
            within_classes,
            published: settings.paper.map(|paper| paper.published().clustering),
        },
        sheet,
        each_class,
    })
}

/// What the part with the choice of a class is called.
fn class_name(class: usize) -> String {
    format!("class-{class}")
}

fn are_classes_done(network: &Network, work: &WorkFolder) -> bool {
    let mut classes = 0..network.classes();
    work.has("class") && classes.all(|class| work.has(&class_name(class)))
}

/// Compares paths of inputs that count and are in clusters, up to so many of each class.
fn compare(
    study: &MaskingStudy<'_>,
    clustered: &ClusteredPaths,
    settings: &Rq2Settings,
) -> Result<(usize, Similarities, Similarities), LabError> {
    let graph = clustered.graph();
    let mut order: Vec<u32> = study.counted().to_vec();
    order.retain(|&i| graph.cluster_of(i) != NO_CLUSTER);
    shuffle(&mut order, settings.seed, Purpose::Similarity, 0);
    let mut seen = std::collections::BTreeMap::new();
    order.retain(|&i| {
        let seen = seen.entry(study.predictions()[i as usize]).or_insert(0);
        *seen += 1;
        *seen <= settings.per_class
    });
    order.sort_unstable();
    let paths = study.paths(clustered.alpha()).gather(&order);
    let class = |place: usize| study.predictions()[order[place] as usize];
    let cluster = |place: usize| graph.cluster_of(order[place]);
    let kind = settings.choices.similarity;
    let classes = similarities(study.layout(), &paths, kind, |a, b| {
        Some(class(a) == class(b))
    });
    let within = similarities(study.layout(), &paths, kind, |a, b| {
        (class(a) == class(b)).then(|| cluster(a) == cluster(b))
    });
    Ok((order.len(), classes, within))
}

/// Random inputs of each cluster.
fn sheet_inputs(
    study: &MaskingStudy<'_>,
    clustered: &ClusteredPaths,
    settings: &Rq2Settings,
) -> Vec<ShownClass> {
    let graph = clustered.graph();
    let classes = &graph.parts().classes;
    let known = settings
        .sheet_classes
        .iter()
        .filter(|c| **c < classes.len());
    let of_cluster = |cluster: usize| {
        let mut members = graph.members(cluster);
        shuffle(&mut members, settings.seed, Purpose::Shown, cluster as u64);
        members.truncate(settings.sheet_inputs);
        let row = |&member: &u32| study.sample()[member as usize];
        members.iter().map(row).collect()
    };
    known
        .map(|&class| ShownClass {
            class,
            clusters: classes[class].clusters.clone().map(of_cluster).collect(),
        })
        .collect()
}
