//! Puts together what is shown.

use std::collections::BTreeSet;

use npcov::artefact::ScoreKind;
use npcov::coverage::{Coverage, Gate};
use npcov::data::Loader;
use npcov::run::Progress;
use npcov::{DecisionGraph, GapOptions, Gaps, Inputs};

use super::inputs::{Chosen, Explanations, rows};
use super::suites::{self, Paths};
use super::{
    Album, ClassChange, ClusterChange, Dossier, Facts, SuiteView, clusters, graph_facts, neurons,
};
use crate::error::HtmlError;
use crate::sight::Names;

/// What a report is made of.
pub struct Material<'a> {
    /// The coverage of the suites that are shown.
    pub coverage: &'a Coverage,
    /// An earlier one.
    pub earlier: Option<&'a Coverage>,
    /// Rules that suites must fulfil.
    pub gate: Option<&'a Gate>,
    /// The decision graph that the suites were measured with. Without it there are no pictures and no paths.
    pub graph: Option<&'a DecisionGraph>,
    /// Data that may be that of the suites, or the training data, as the model wants it. Which it is, its digest
    /// tells.
    pub data: Vec<Loader<'a>>,
    /// Inputs that gaps may be filled from.
    pub pool: Option<Inputs<'a>>,
    /// What features and tokens are called.
    pub names: Names,
}

impl<'a> Material<'a> {
    /// Of a coverage alone.
    pub fn new(coverage: &'a Coverage) -> Material<'a> {
        Material {
            coverage,
            earlier: None,
            gate: None,
            graph: None,
            data: Vec::new(),
            pool: None,
            names: Names::default(),
        }
    }
}

/// Inputs that stand for a gap, each of training, suite and pool.
const OF_GAP: usize = 8;

/// Puts together what a report shows. The model is run on the inputs that are shown.
pub fn gather(material: Material<'_>, progress: &mut dyn Progress) -> Result<Dossier, HtmlError> {
    let Material {
        coverage,
        earlier,
        gate,
        graph,
        data,
        pool,
        names,
    } = material;
    let mut notes = Vec::new();
    let compared = coverage.clone().compared(earlier, &[])?;
    // Rules that cannot be applied are told, and no reason to show nothing.
    let check = gate
        .filter(|gate| !gate.is_empty())
        .map(|gate| gate.check(&compared.report, compared.difference.as_ref()))
        .transpose()
        .unwrap_or_else(|error| {
            notes.push(format!("There is no verdict: {error}."));
            None
        });
    let criteria = coverage.state().criteria()?;
    let paths = Paths::of(coverage, &criteria);
    let classes = clusters::classes(coverage);
    let clusters = clusters::clusters(coverage, &classes, paths.as_ref(), graph)?;
    let mut views = Vec::new();
    for suite in coverage.state().suites() {
        let (errors, error_groups) = suites::errors(suite);
        let growth = paths
            .as_ref()
            .map(|paths| paths.growth(suite))
            .transpose()?;
        let gaps = match graph.filter(|_| !clusters.is_empty()) {
            Some(graph) => Some(gaps(graph, coverage, &suite.name, pool.as_ref(), progress)?),
            None => None,
        };
        views.push(SuiteView {
            gaps,
            errors,
            error_groups,
            unfamiliar: suites::unusual(coverage, suite, ScoreKind::Unfamiliar),
            contested: suites::unusual(coverage, suite, ScoreKind::Contested),
            growth: growth.unwrap_or_default(),
        });
    }
    let neurons = match graph.filter(|_| !clusters.is_empty()) {
        Some(graph) => neurons::neurons(graph)?,
        None => Vec::new(),
    };

    // Which data is there, by its digest.
    let mut known: Vec<(String, Loader<'_>)> = Vec::new();
    for loader in data {
        let digest = loader.fingerprint()?.digest().to_string();
        known.push((digest, loader));
    }
    let mut pool_digest = None;
    if let (Some(pool), Some(graph)) = (&pool, graph) {
        let loader = graph.loader(pool.samples().clone())?;
        let digest = loader.fingerprint()?.digest().to_string();
        pool_digest = Some(digest.clone());
        known.push((digest, loader));
    }
    let mut facts = Facts::of(
        coverage,
        graph.map(|graph| graph_facts(graph.learnt().file().record())),
    );
    for part in &mut facts.data {
        let found = known.iter().find(|(digest, _)| *digest == part.sha256);
        part.found = found.map(|(_, loader)| loader.name().to_owned());
    }
    let trained = facts.learnt.as_ref().map(|learnt| learnt.sha256.clone());
    notes.extend(absent(&facts, graph, trained.as_deref(), &known));

    let mut chosen = Chosen::default();
    let mut album = Album::new(
        trained
            .iter()
            .cloned()
            .chain(facts.data.iter().map(|part| part.sha256.clone()))
            .chain(pool_digest.clone()),
        &known,
    );
    let training = trained.unwrap_or_default();
    let pool = pool_digest.clone().unwrap_or_default();
    let places: Vec<Vec<(&str, usize)>> = coverage.state().suites().iter().map(rows).collect();
    // What matters most asks first.
    for (suite, view) in views.iter().enumerate() {
        for gap in view.gaps.iter().flat_map(|gaps| &gaps.gaps) {
            gap.exemplars
                .iter()
                .for_each(|input| album.want(&training, input.input, true, false));
            for input in gap.add.iter().flatten().take(OF_GAP) {
                album.want(&pool, input.input, false, false);
            }
            for input in gap.present.iter().chain(&gap.nearest) {
                let found = |&(data, row): &(&str, usize)| data == input.data && row == input.input;
                chosen.ask(suite, places[suite].iter().position(found));
            }
        }
    }
    for (suite, view) in views.iter().enumerate() {
        chosen.ask(
            suite,
            view.errors
                .iter()
                .flat_map(|group| group.places.iter().copied().take(3)),
        );
        chosen.ask(suite, view.unfamiliar.iter().copied());
        chosen.ask(suite, view.contested.iter().copied());
        // The first input is that of an example.
        chosen.ask(suite, [0]);
    }
    for cluster in &clusters {
        for (suite, inputs) in cluster.inputs.iter().enumerate() {
            chosen.ask(suite, inputs.iter().copied().take(2));
        }
    }
    let mut inputs = chosen.views(coverage);
    inputs
        .iter()
        .for_each(|input| album.want(&input.data, input.input, true, true));
    let mut clusters_by_need: Vec<usize> = (0..clusters.len()).collect();
    clusters_by_need.sort_by_key(|&cluster| {
        let thin = compared.report.suites.iter().any(|suite| {
            suite
                .clusters
                .get(cluster)
                .is_some_and(|cluster| cluster.thin)
        });
        (!thin, covered_buckets(&clusters[cluster].covered))
    });
    for &cluster in &clusters_by_need {
        let view = &clusters[cluster];
        if let Some(anatomy) = &view.anatomy {
            anatomy
                .exemplars
                .iter()
                .for_each(|input| album.want(&training, input.input, true, false));
            let others = anatomy.outliers.iter().chain(&anatomy.hints);
            let others = others.chain(&anatomy.misclassified);
            others.for_each(|input| album.want(&training, input.input, false, false));
        }
        let shown = view.inputs.iter().enumerate();
        for (suite, inputs) in shown.chain(view.misclassified.iter().enumerate()) {
            for &place in inputs {
                let (data, row) = places[suite][place];
                album.want(data, row, false, false);
            }
        }
    }
    for view in &neurons {
        view.strongest
            .iter()
            .for_each(|input| album.want(&training, input.input, true, false));
    }
    for (suite, view) in views.iter().enumerate() {
        for &place in view.errors.iter().flat_map(|group| &group.places) {
            let (data, row) = places[suite][place];
            album.want(data, row, false, false);
        }
    }
    if album.is_full {
        notes.push("There are more inputs than a report can show: clusters that need it most have pictures.".to_owned());
    }
    let mut found = Explanations::of(&inputs, graph);
    let mut pictures = album.develop(graph, names.clone(), progress, |digest, row, rows, at| {
        found.keep(digest, row, rows, at);
    })?;
    if let Some(graph) = graph {
        found.add_to(&mut inputs, graph)?;
        // Neighbours are known only now.
        let mut more = Album::new([training.clone()], &known);
        for neighbour in inputs
            .iter()
            .filter_map(|input| input.explained.as_ref())
            .flat_map(|found| &found.nearest)
        {
            if pictures.get(&training, neighbour.input).is_none() {
                more.want(&training, neighbour.input, false, false);
            }
        }
        pictures.extend(more.develop(Some(graph), names, progress, |_, _, _, _| {})?);
    }
    let changes = match (&paths, earlier) {
        (Some(paths), Some(earlier)) => changes(coverage, earlier, paths, &classes)?,
        _ => Vec::new(),
    };
    Ok(Dossier {
        class_changes: by_class(&changes),
        facts,
        compared,
        check,
        views,
        classes,
        clusters,
        inputs,
        neurons,
        changes,
        pool: pool_digest,
        notes,
        pictures,
    })
}

fn covered_buckets(suites: &[Vec<usize>]) -> usize {
    suites.iter().flatten().sum()
}

/// What a suite is missing, with what a pool has of it.
fn gaps(
    graph: &DecisionGraph,
    coverage: &Coverage,
    suite: &str,
    pool: Option<&Inputs<'_>>,
    progress: &mut dyn Progress,
) -> Result<Gaps, HtmlError> {
    let options = GapOptions {
        suites: vec![suite.to_owned()],
        exemplars: OF_GAP,
        count: None,
    };
    Ok(match pool {
        Some(pool) => graph.fill_gaps(coverage, pool.clone(), &options, progress)?,
        None => graph.gaps(coverage, &options)?,
    })
}

/// What is not there, and what it would show.
fn absent(
    facts: &Facts,
    graph: Option<&DecisionGraph>,
    trained: Option<&str>,
    known: &[(String, Loader<'_>)],
) -> Vec<String> {
    let mut notes = Vec::new();
    if graph.is_none() {
        notes.push(
            "The decision graph is not there: typical inputs, paths and the map are missing. \
             `--graph GRAPH` says where it is."
                .to_owned(),
        );
        return notes;
    }
    if let Some(learnt) = &facts.learnt
        && !known
            .iter()
            .any(|(digest, _)| Some(digest.as_str()) == trained)
    {
        notes.push(format!(
            "The training data `{}` is not there, or has changed: typical inputs are named, but not shown. \
             `--data FILE` says where it is.",
            learnt.data
        ));
    }
    let lacking: BTreeSet<&str> = (facts.data.iter())
        .filter(|part| part.found.is_none())
        .map(|part| part.suite.as_str())
        .collect();
    for suite in lacking {
        notes.push(format!(
            "Data of the suite `{suite}` is not there, or has changed: its inputs are named, but not shown. \
             `--data FILE` says where it is."
        ));
    }
    notes
}

/// What changed in the clusters of each class together.
fn by_class(changes: &[ClusterChange]) -> Vec<ClassChange> {
    let mut classes: Vec<ClassChange> = Vec::new();
    for change in changes {
        let same = |class: &ClassChange| (class.suite, class.class) == (change.suite, change.class);
        let at = classes.iter().position(same).unwrap_or_else(|| {
            classes.push(ClassChange {
                suite: change.suite,
                class: change.class,
                earlier: 0,
                inputs: 0,
                new: 0,
                lost: 0,
            });
            classes.len() - 1
        });
        let class = &mut classes[at];
        class.earlier += change.earlier;
        class.inputs += change.inputs;
        class.new += change.new;
        class.lost += change.lost;
    }
    classes
}

/// What changed in clusters, where they are the same clusters.
fn changes(
    coverage: &Coverage,
    earlier: &Coverage,
    paths: &Paths<'_>,
    classes: &[super::ClassView],
) -> Result<Vec<ClusterChange>, HtmlError> {
    let (now, then) = (coverage.state(), earlier.state());
    let same =
        now.record().graph == then.record().graph && now.record().choices == then.record().choices;
    let criteria = then.criteria()?;
    let Some(old_paths) = Paths::of(earlier, &criteria).filter(|_| same) else {
        return Ok(Vec::new());
    };
    let owners: Vec<usize> = classes
        .iter()
        .flat_map(|class| (0..class.clusters).map(|_| class.class))
        .collect();
    let single = now.suites().len() == 1 && then.suites().len() == 1;
    let mut changes = Vec::new();
    for (suite, measured) in now.suites().iter().enumerate() {
        let mut olds = then.suites().iter();
        let Some(old) = olds.find(|old| single || old.name == measured.name) else {
            continue;
        };
        let is: BTreeSet<u64> = paths.covered(measured)?.into_iter().collect();
        let was: BTreeSet<u64> = old_paths.covered(old)?.into_iter().collect();
        let mut of_suite: Vec<ClusterChange> = owners
            .iter()
            .enumerate()
            .map(|(cluster, &class)| {
                let count = |inputs: &[npcov::artefact::InputRecord]| {
                    inputs
                        .iter()
                        .filter(|input| input.cluster as usize == cluster)
                        .count()
                };
                ClusterChange {
                    suite,
                    cluster,
                    class,
                    earlier: count(&old.inputs),
                    inputs: count(&measured.inputs),
                    new: 0,
                    lost: 0,
                }
            })
            .collect();
        for &slot in is.symmetric_difference(&was) {
            let Some(change) = paths
                .place(slot)
                .and_then(|place| of_suite.get_mut(place.cluster))
            else {
                continue;
            };
            match is.contains(&slot) {
                true => change.new += 1,
                false => change.lost += 1,
            }
        }
        changes.extend(of_suite);
    }
    Ok(changes)
}
