//! The table `[paths]` of `npcov.toml`: parameters and choices of paths and coverage.

use std::collections::BTreeMap;

use anyhow::bail;
use npcov::coverage::{BuildOptions, PerClass};
use npcov::paths::choices::{
    Average, EmptyLayer, Members, Merge, Population, SeedChoice, Threshold, Width,
};
use npcov::paths::{Choices, Clustering, Preset};
use serde::Deserialize;

use crate::args::{BuildArgs, MeasureChoices, PathChoices, StudyChoices};
use crate::value::{ClusterCount, ClusteringMethod, Criteria, Upper};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct PathsTable {
    alpha: Option<f64>,
    clustering: Option<ClusteringMethod>,
    clusters: Option<ClusterCount>,
    beta: Option<f64>,
    restarts: Option<usize>,
    seed: Option<u64>,
    anpc_upper: Option<Upper>,
    anpc_layers: Option<Vec<usize>>,
    criteria: Option<Criteria>,
    yardstick_inputs: Option<usize>,
    /// Parameters of single classes, by their number.
    class: BTreeMap<String, ClassTable>,
    choices: ChoicesTable,
    /// Choices about measuring, as their flags are called.
    measure: MeasureChoices,
}

/// What differs for a class.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct ClassTable {
    alpha: Option<f64>,
    clusters: Option<ClusterCount>,
    beta: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct ChoicesTable {
    preset: Option<Preset>,
    threshold: Option<Threshold>,
    empty_layer: Option<EmptyLayer>,
    relevance_seed: Option<SeedChoice>,
    members: Option<Members>,
    merge: Option<Merge>,
    population: Option<Population>,
    width: Option<Width>,
    average: Option<Average>,
}

/// Sets what is given.
fn set<T: Copy>(target: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *target = value;
    }
}

impl PathsTable {
    /// The choices: a preset, and what the file and flags change in it. A preset on the command line
    /// takes the place of all choices of the file.
    pub(crate) fn choices(
        &self,
        paths: &PathChoices,
        measure: Option<&MeasureChoices>,
        study: Option<&StudyChoices>,
    ) -> Choices {
        let mut choices = paths
            .choices
            .or(self.choices.preset)
            .unwrap_or_default()
            .choices();
        if paths.choices.is_none() {
            let ChoicesTable {
                preset: _,
                threshold,
                empty_layer,
                relevance_seed,
                members,
                merge,
                population,
                width,
                average,
            } = self.choices;
            set(&mut choices.threshold, threshold);
            set(&mut choices.empty_layer, empty_layer);
            set(&mut choices.seed, relevance_seed);
            set(&mut choices.members, members);
            set(&mut choices.merge, merge);
            set(&mut choices.population, population);
            set(&mut choices.width, width);
            set(&mut choices.average, average);
            self.measure.apply(&mut choices);
        }
        set(&mut choices.threshold, paths.threshold);
        set(&mut choices.empty_layer, paths.empty_layer);
        set(&mut choices.seed, paths.relevance_seed);
        set(&mut choices.members, paths.members);
        set(&mut choices.merge, paths.merge);
        if let Some(measure) = measure {
            measure.apply(&mut choices);
        }
        if let Some(study) = study {
            set(&mut choices.population, study.population);
            set(&mut choices.width, study.width);
            set(&mut choices.average, study.average);
        }
        choices
    }

    /// The share of relevance, where the file has one.
    pub(crate) fn alpha(&self) -> Option<f64> {
        self.alpha
    }

    /// Restarts of the clustering.
    pub(crate) fn restarts(&self) -> usize {
        let usual = BuildOptions::default().restarts;
        self.restarts.unwrap_or(usual)
    }

    /// How training inputs are clustered: as a flag says, or else the file. Where of either only a
    /// number of clusters or a preset of the paper's choices is given, that is k-means.
    fn clustering(&self, args: &BuildArgs) -> anyhow::Result<Clustering> {
        let (clusters, preset) = (args.paths.clusters, args.path_choices.choices);
        let in_file = self.clusters.is_some()
            || self.class.values().any(|class| class.clusters.is_some())
            || self.choices.preset.is_some();
        match (&args.paths.clustering, &self.clustering) {
            (Some(ClusteringMethod(Clustering::Graph(_))), _) if clusters.is_some() => {
                bail!("`--clusters` is for `--clustering kmeans`: `graph` finds how many there are")
            }
            (Some(ClusteringMethod(clustering)), _) => Ok(clustering.clone()),
            _ if clusters.is_some() || preset.is_some() => Ok(Clustering::KMeans),
            (None, Some(ClusteringMethod(clustering))) => Ok(clustering.clone()),
            (None, None) if in_file => Ok(Clustering::KMeans),
            (None, None) => Ok(BuildOptions::default().clustering),
        }
    }

    /// How a decision graph is built. A flag counts for all classes.
    pub(crate) fn build(&self, args: &BuildArgs) -> anyhow::Result<BuildOptions> {
        let defaults = BuildOptions::default();
        let mut by_class: BTreeMap<usize, &ClassTable> = BTreeMap::new();
        for (key, table) in &self.class {
            let Ok(class) = key.parse() else {
                bail!("`npcov.toml`: `paths.class.{key}`: classes are numbers from 0");
            };
            by_class.insert(class, table);
        }
        let paths = &args.paths;
        Ok(BuildOptions {
            method: defaults.method,
            alpha: per_class(
                paths.alpha,
                self.alpha,
                defaults.alpha.all,
                &by_class,
                |t| t.alpha,
            ),
            clustering: self.clustering(args)?,
            clusters: per_class(
                paths.clusters.map(|count| count.0),
                self.clusters.map(|count| count.0),
                defaults.clusters.all,
                &by_class,
                |table| table.clusters.map(|count| count.0),
            ),
            beta: per_class(paths.beta, self.beta, defaults.beta.all, &by_class, |t| {
                t.beta
            }),
            choices: self.choices(&args.path_choices, Some(&args.measure_choices), None),
            anpc_layers: args
                .anpc_layers
                .clone()
                .or_else(|| self.anpc_layers.clone())
                .unwrap_or_default(),
            anpc_upper: (args.anpc_upper.clone().or_else(|| self.anpc_upper.clone()))
                .map_or(defaults.anpc_upper, |upper| upper.0),
            restarts: paths.restarts.unwrap_or(self.restarts()),
            seed: paths.seed.or(self.seed).unwrap_or(defaults.seed),
            criteria: (args.criteria.as_ref().or(self.criteria.as_ref()))
                .map(|criteria| criteria.specs(&npcov::criteria::default_criteria())),
            yardstick_inputs: (args.yardstick_inputs.or(self.yardstick_inputs))
                .unwrap_or(defaults.yardstick_inputs),
        })
    }
}

fn per_class<T: Copy>(
    flag: Option<T>,
    file: Option<T>,
    default: T,
    classes: &BTreeMap<usize, &ClassTable>,
    of: impl Fn(&ClassTable) -> Option<T>,
) -> PerClass<T> {
    if let Some(flag) = flag {
        return PerClass::all(flag);
    }
    let own = classes
        .iter()
        .filter_map(|(&class, table)| Some((class, of(table)?)));
    PerClass {
        all: file.unwrap_or(default),
        classes: own.collect(),
    }
}

impl MeasureChoices {
    /// Sets what is given.
    pub(crate) fn apply(&self, choices: &mut Choices) {
        set(&mut choices.similarity, self.similarity);
        set(&mut choices.snpc_buckets, self.snpc_buckets);
        set(&mut choices.snpc_disjoint, self.snpc_disjoint);
        set(&mut choices.snpc_arithmetic, self.snpc_arithmetic);
        set(&mut choices.anpc_buckets, self.anpc_buckets);
        set(&mut choices.anpc_clusters, self.anpc_clusters);
        set(&mut choices.anpc_neighbour, self.anpc_neighbour);
        set(&mut choices.anpc_norm, self.anpc_norm);
        set(&mut choices.anpc_counted, self.anpc_counted);
        set(&mut choices.anpc_edges, self.anpc_edges);
    }
}
