//! RQ4: does coverage go with the impartiality of outputs?
//!
//! The same seeds are attacked in many ways, each with a regulariser that spreads the activity of a
//! layer. Every way gives a suite; its coverage by each criterion is correlated with how evenly its
//! predictions are spread over the classes.

use npcov::attack::{
    AttackFile, AttackMethod, AttackOptions, Attacked, CarliniWagner, Diversity, Pgd, attack,
};
use npcov::coverage::{Measurement, Values};
use npcov::data::Loader;
use npcov::run::{Event, Progress, SampleRange};
use serde::{Deserialize, Serialize};

use crate::error::{LabError, parameter};
use crate::folder::WorkFolder;
use crate::inputs::labels;
use crate::published::Paper;
use crate::random::{Purpose, shuffle};
use crate::statistics::{Correlation, impartiality, pearson, spearman, spearman_interval};
use crate::suites;

/// How RQ4 is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Rq4Settings {
    /// Numbers of seeds; each has suites of its own.
    pub sizes: Vec<usize>,
    /// Radii of projected gradient descent, in pixels.
    pub epsilons: Vec<f32>,
    /// Steps of it.
    pub pgd_steps: usize,
    /// Confidences of the attack of Carlini and Wagner.
    pub confidences: Vec<f32>,
    /// Rounds of it.
    pub cw_rounds: usize,
    /// Steps of each of its rounds.
    pub cw_steps: usize,
    /// Its learning rate.
    pub cw_rate: f32,
    /// Weights of the regulariser. Without weight the layer does not matter: there is one suite for
    /// all layers.
    pub lambdas: Vec<f64>,
    /// Those for the attack of Carlini and Wagner, which takes several times as long.
    pub cw_lambdas: Vec<f64>,
    /// Path layers whose activity is spread.
    pub layers: Vec<usize>,
    /// The least and the largest pixel.
    pub range: (f32, f32),
    /// Seed of every draw.
    pub seed: u64,
    /// The network of the paper whose numbers stand beside.
    pub paper: Option<Paper>,
}

impl Default for Rq4Settings {
    fn default() -> Self {
        Rq4Settings {
            sizes: vec![100, 500],
            epsilons: vec![0.1, 0.2, 0.3],
            pgd_steps: 40,
            confidences: vec![0.0, 20.0, 40.0],
            cw_rounds: 3,
            cw_steps: 100,
            cw_rate: CarliniWagner::maximum().learning_rate,
            lambdas: vec![0.0, 1.0, 10.0, 1e2, 1e3, 1e4, 1e5, 1e6],
            cw_lambdas: vec![0.0, 1.0, 10.0, 1e2, 1e3, 1e4, 1e5, 1e6],
            layers: Vec::new(),
            range: (0.0, 1.0),
            seed: 0,
            paper: None,
        }
    }
}

/// What RQ4 gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq4 {
    /// The data that seeds are drawn from, as it was named.
    pub data: String,
    /// The decision graph's digest.
    pub graph: String,
    /// Steps of projected gradient descent.
    pub pgd_steps: usize,
    /// Rounds and steps of the attack of Carlini and Wagner.
    pub cw: (usize, usize),
    /// Seed of every draw.
    pub seed: u64,
    /// The network of the paper whose numbers stand beside.
    pub paper: Option<Paper>,
    /// By number of seeds.
    pub sizes: Vec<Rq4Size>,
}

/// The suites of as many seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq4Size {
    /// Inputs of each suite.
    pub size: usize,
    /// The suites.
    pub suites: Vec<Rq4Suite>,
    /// By criterion.
    pub correlations: Vec<Rq4Correlation>,
}

/// A way to attack the seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// Which attack.
    pub attack: AttackKind,
    /// Its radius or confidence.
    pub strength: f32,
    /// The regulariser's weight.
    pub lambda: f64,
    /// The layer whose activity is spread; `None` without weight.
    pub layer: Option<usize>,
}

/// An attack of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttackKind {
    /// Projected gradient descent in the maximum norm.
    Pgd,
    /// The attack of Carlini and Wagner in the maximum norm.
    CarliniWagner,
}

/// A suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq4Suite {
    /// How it was made.
    pub configuration: Configuration,
    /// The share of seeds that are misclassified after the attack.
    pub misclassified: f64,
    /// How evenly its predictions are spread.
    pub impartiality: f64,
    /// What it is worth by each criterion.
    pub coverage: Values<f64>,
}

/// How a criterion goes with impartiality.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq4Correlation {
    /// The criterion.
    pub criterion: String,
    /// Ours; `None` where coverage or impartiality is the same for all suites.
    pub correlation: Option<Correlation>,
    /// The same of ranks, which a few outliers do not make.
    pub ranks: Option<f64>,
    /// The 95 % interval of that, by bootstrap.
    pub ranks_interval: Option<(f64, f64)>,
    /// The paper's.
    pub published: Option<f64>,
}

impl Rq4Settings {
    /// The ways to attack seeds, in order.
    pub fn grid(&self) -> Vec<Configuration> {
        let pgd = self.epsilons.iter().map(|&e| (AttackKind::Pgd, e));
        let cw = self.confidences.iter();
        let cw = cw.map(|&c| (AttackKind::CarliniWagner, c));
        let mut grid = Vec::new();
        for (attack, strength) in pgd.chain(cw) {
            let lambdas = match attack {
                AttackKind::Pgd => &self.lambdas,
                AttackKind::CarliniWagner => &self.cw_lambdas,
            };
            for &lambda in lambdas {
                let layers = self.layers.iter().map(|&layer| Some(layer));
                let layers: Vec<_> = match lambda == 0.0 {
                    true => vec![None],
                    false => layers.collect(),
                };
                grid.extend(layers.into_iter().map(|layer| Configuration {
                    attack,
                    strength,
                    lambda,
                    layer,
                }));
            }
        }
        grid
    }

    /// Suites of all sizes.
    pub fn work(&self) -> usize {
        self.sizes.len() * self.grid().len()
    }

    fn check(&self, layers: usize) -> Result<(), LabError> {
        let wrong = self.layers.iter().find(|&&layer| layer >= layers);
        match wrong {
            Some(layer) => parameter("target layer", layer, "the index of a path layer"),
            None if self.sizes.contains(&0) => parameter("size", 0, "1 or more"),
            None if self.grid().is_empty() => parameter("grid", "empty", "at least one attack"),
            None => Ok(()),
        }
    }

    fn attack(&self, way: &Configuration, size: usize) -> AttackOptions {
        let method = match way.attack {
            AttackKind::Pgd => AttackMethod::Pgd(Pgd {
                steps: self.pgd_steps,
                ..Pgd::maximum(way.strength)
            }),
            AttackKind::CarliniWagner => AttackMethod::CarliniWagner(CarliniWagner {
                confidence: way.strength,
                rounds: self.cw_rounds,
                steps: self.cw_steps,
                learning_rate: self.cw_rate,
                ..CarliniWagner::maximum()
            }),
        };
        let lambda = way.lambda;
        AttackOptions {
            diversity: way.layer.map(|layer| Diversity { layer, lambda }),
            range: self.range,
            // The activity of the whole suite is spread.
            batch: size,
            seed: self.seed,
            ..AttackOptions::from(method)
        }
    }
}

/// Attacks seeds in many ways and correlates coverage with impartiality. What is finished is kept in
/// `work`, whose plan must tell graph, data and settings apart; `progress` is told of each suite,
/// [`Rq4Settings::work`] says how many there are.
pub fn rq4(
    measurement: &Measurement<'_>,
    data: &Loader,
    settings: &Rq4Settings,
    work: &WorkFolder,
    threads: usize,
    progress: &mut dyn Progress,
) -> Result<Rq4, LabError> {
    settings.check(measurement.graph().network().layers().len())?;
    let mut sizes = Vec::new();
    for &size in &settings.sizes {
        let rows = seeds(measurement, data, size, settings.seed)?;
        let mut suites = Vec::new();
        for (i, way) in settings.grid().iter().enumerate() {
            suites.push(work.keep(&format!("suite-{size}-{i:03}"), || {
                let attack = settings.attack(way, size);
                measure(measurement, data, &rows, way, &attack, work, threads)
            })?);
            progress.tell(Event::Finished(1))?;
        }
        sizes.push(Rq4Size {
            size,
            correlations: correlations(&suites, size, settings),
            suites,
        });
    }
    Ok(Rq4 {
        data: data.name().to_owned(),
        graph: measurement.graph().file().record().id.clone(),
        pgd_steps: settings.pgd_steps,
        cw: (settings.cw_rounds, settings.cw_steps),
        seed: settings.seed,
        paper: settings.paper,
        sizes,
    })
}

/// Random rows, as many of each label as possible, in order.
fn seeds(
    measurement: &Measurement<'_>,
    data: &Loader,
    size: usize,
    seed: u64,
) -> Result<Vec<usize>, LabError> {
    let labels = labels(measurement.graph().network(), data)?;
    if size > data.len() {
        return Err(LabError::TooFew {
            data: data.name().to_owned(),
            kind: "inputs",
            found: data.len(),
            wanted: size,
        });
    }
    let mut order: Vec<usize> = (0..data.len()).collect();
    shuffle(&mut order, seed, Purpose::Seeds, size as u64);
    // The first of every label, then the second of every label, and so on.
    let mut seen = vec![0; measurement.graph().network().classes()];
    let mut ranked: Vec<(usize, usize)> = Vec::new();
    for row in order {
        let seen: &mut usize = &mut seen[labels[row] as usize];
        ranked.push((*seen, row));
        *seen += 1;
    }
    ranked.sort_by_key(|&(rank, _)| rank);
    let mut rows: Vec<usize> = ranked.into_iter().take(size).map(|(_, row)| row).collect();
    rows.sort_unstable();
    Ok(rows)
}

/// Attacks the seeds in one way, and measures what that gives.
fn measure(
    measurement: &Measurement<'_>,
    data: &Loader,
    rows: &[usize],
    way: &Configuration,
    settings: &AttackOptions,
    work: &WorkFolder,
    threads: usize,
) -> Result<Rq4Suite, LabError> {
    let path = work.file("suite.npz");
    let mut file = AttackFile::create(&path, data)?;
    let network = measurement.graph().network();
    let inputs = Attacked {
        data,
        rows,
        threads,
    };
    let report = attack(network, inputs, settings, &mut (), |found| {
        file.append(found)
    })?;
    file.finish()?;
    let suite = suites::open(measurement, &path)?;
    let inputs = SampleRange {
        data: &suite,
        range: 0..suite.len(),
        threads,
    };
    let coverage = suites::measure(measurement, "suite", &inputs)?;
    let mut counts = vec![0; measurement.graph().network().classes()];
    for input in coverage
        .state()
        .suites()
        .iter()
        .flat_map(|suite| &suite.inputs)
    {
        counts[input.prediction as usize] += 1;
    }
    work.remove(&path)?;
    Ok(Rq4Suite {
        configuration: *way,
        misclassified: 1.0 - report.correct_after as f64 / report.inputs.max(1) as f64,
        impartiality: impartiality(&counts),
        coverage: suites::values(&coverage)?,
    })
}

fn correlations(suites: &[Rq4Suite], size: usize, settings: &Rq4Settings) -> Vec<Rq4Correlation> {
    let Some(first) = suites.first() else {
        return Vec::new();
    };
    let impartiality: Vec<f64> = suites.iter().map(|suite| suite.impartiality).collect();
    let of = |criterion: &String| {
        let coverage = suites.iter().filter_map(|s| s.coverage.get(criterion));
        let coverage: Vec<f64> = coverage.collect();
        Rq4Correlation {
            criterion: criterion.clone(),
            correlation: pearson(&coverage, &impartiality),
            ranks: spearman(&coverage, &impartiality),
            ranks_interval: spearman_interval(&coverage, &impartiality, settings.seed),
            published: settings
                .paper
                .and_then(|p| p.published().correlation_of(criterion, size)),
        }
    };
    first.coverage.0.iter().map(|(name, _)| of(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_has_one_suite_without_weight_for_all_layers() {
        let settings = Rq4Settings {
            layers: vec![0, 2],
            ..Rq4Settings::default()
        };
        let grid = settings.grid();
        assert_eq!(grid.len(), 6 * (1 + 7 * 2));
        let plain = grid.iter().filter(|way| way.layer.is_none());
        assert_eq!(plain.count(), 6);
        assert!(grid.iter().all(|w| (w.lambda == 0.0) == w.layer.is_none()));
    }

    #[test]
    fn coverage_that_follows_impartiality_correlates() {
        let suite = |i: usize| Rq4Suite {
            configuration: Configuration {
                attack: AttackKind::Pgd,
                strength: 0.1,
                lambda: 0.0,
                layer: None,
            },
            misclassified: 0.0,
            impartiality: i as f64 / 10.0,
            coverage: Values(vec![
                ("snpc".to_owned(), 0.2 + 0.05 * i as f64),
                ("nbc".to_owned(), 0.5),
            ]),
        };
        let suites: Vec<_> = (0..5).map(suite).collect();
        let settings = Rq4Settings {
            paper: Some(Paper::Sadl1),
            ..Rq4Settings::default()
        };
        let found = correlations(&suites, 100, &settings);
        assert!((found[0].correlation.unwrap().r - 1.0).abs() < 1e-12);
        assert_eq!(
            (found[1].correlation, found[1].published),
            (None, Some(-0.262))
        );
    }
}
