//! Which inputs are shown, and how they look.
//!
//! Parts of the report say which inputs they would like to show, the most important parts first. Then each dataset is
//! read once, and the model run on those inputs whose relevance is wanted. Pictures and explanations have limits, so
//! that a report of a thousand classes is not a thousand times as large.

use std::collections::BTreeMap;
use std::ops::Range;

use npcov::DecisionGraph;
use npcov::data::{Element, Loader};
use npcov::run::{Event, ExplainOptions, Explainer, PathExtractor, PathRows, Progress, RunError};

use crate::error::HtmlError;
use crate::sight::{Kind, Names, Sight};

/// Pictures of a report, at most.
const MOST_PICTURES: usize = 4000;
/// Inputs that the model is run on, at most.
const MOST_EXPLAINED: usize = 1200;

/// An input of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// The dataset, among those of the album.
    pub(crate) data: usize,
    /// The input's position in it.
    pub(crate) row: usize,
}

/// What is wanted of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wanted {
    heat: bool,
    alone: bool,
}

/// Datasets, by their digests, and the inputs of them that are to be shown.
pub(crate) struct Album<'a> {
    datasets: Vec<Dataset<'a>>,
    wanted: BTreeMap<Key, Wanted>,
    heats: usize,
    /// Whether something was not shown because there is too much.
    pub(crate) is_full: bool,
}

struct Dataset<'a> {
    digest: String,
    /// `None` where it is not there.
    loader: Option<&'a Loader<'a>>,
}

/// How inputs look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pictures {
    digests: Vec<String>,
    pictures: BTreeMap<Key, Picture>,
    /// What numbers of inputs are called.
    pub(crate) names: Names,
}

/// How an input looks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picture {
    pub(crate) key: Key,
    pub(crate) sight: Sight,
}

impl Pictures {
    /// Of an input of the dataset with this digest.
    pub(crate) fn get(&self, digest: &str, row: usize) -> Option<&Picture> {
        let data = self.digests.iter().position(|known| known == digest)?;
        self.pictures.get(&Key { data, row })
    }

    /// Adds others, of datasets that are known.
    pub(crate) fn extend(&mut self, others: Pictures) {
        for (key, picture) in others.pictures {
            let digest = &others.digests[key.data];
            if let Some(data) = self.digests.iter().position(|known| known == digest) {
                let key = Key { data, row: key.row };
                self.pictures
                    .entry(key)
                    .or_insert(Picture { key, ..picture });
            }
        }
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Picture> {
        self.pictures.values()
    }
}

impl<'a> Album<'a> {
    /// Of data with these digests, in their order; `data` is what is there.
    pub(crate) fn new(
        digests: impl IntoIterator<Item = String>,
        data: &'a [(String, Loader<'a>)],
    ) -> Album<'a> {
        let mut datasets: Vec<Dataset<'a>> = Vec::new();
        for digest in digests {
            if datasets.iter().any(|known| known.digest == digest) {
                continue;
            }
            let found = data.iter().find(|(known, _)| *known == digest);
            datasets.push(Dataset {
                loader: found.map(|(_, loader)| loader),
                digest,
            });
        }
        Album {
            datasets,
            wanted: BTreeMap::new(),
            heats: 0,
            is_full: false,
        }
    }

    /// The key of an input, where its dataset is there.
    fn key(&self, digest: &str, row: usize) -> Option<Key> {
        let data = self
            .datasets
            .iter()
            .position(|known| known.digest == digest)?;
        let loader = self.datasets[data].loader?;
        (row < loader.len()).then_some(Key { data, row })
    }

    /// Asks for the picture of an input; with `heat` for its relevance, and where it is looked at `alone` for a large
    /// one.
    pub(crate) fn want(&mut self, digest: &str, row: usize, heat: bool, alone: bool) {
        let Some(key) = self.key(digest, row) else {
            return;
        };
        let known = self.wanted.get(&key).copied();
        if known.is_none() && self.wanted.len() >= MOST_PICTURES {
            self.is_full = true;
            return;
        }
        let mut wanted = known.unwrap_or_default();
        if heat && !wanted.heat {
            match self.heats < MOST_EXPLAINED {
                true => {
                    self.heats += 1;
                    wanted.heat = true;
                }
                false => self.is_full = true,
            }
        }
        wanted.alone |= alone;
        self.wanted.insert(key, wanted);
    }

    /// Reads and explains what was asked for. `explained` gets the paths and profiles of every input that was explained.
    pub(crate) fn develop(
        self,
        graph: Option<&DecisionGraph>,
        names: Names,
        progress: &mut dyn Progress,
        mut explained: impl FnMut(&str, usize, &PathRows, usize),
    ) -> Result<Pictures, HtmlError> {
        let mut pictures = BTreeMap::new();
        let extractor = match graph {
            Some(graph) if self.heats > 0 => Some(extractor(graph)?),
            _ => None,
        };
        for (data, dataset) in self.datasets.iter().enumerate() {
            let (Some(loader), Some(graph)) = (dataset.loader, graph) else {
                continue;
            };
            let network = graph.model().network();
            let of_words = network.signature().tokens().is_some();
            let kind = Kind::of(loader, network.sample_shape(), of_words, &names);
            let bytes = loader.input().element() == Element::U8;
            let mut stored = vec![0.0; loader.sample_len()];
            let mut show = |key: Key, wanted: Wanted, relevance: Option<&[f32]>| {
                loader.read_stored(key.row..key.row + 1, &mut stored)?;
                let sight = Sight::new(kind, &stored, bytes, relevance, wanted.alone);
                pictures.insert(key, Picture { key, sight });
                Ok::<(), HtmlError>(())
            };
            let first = Key { data, row: 0 };
            let of_data = self.wanted.range(
                first..Key {
                    data: data + 1,
                    row: 0,
                },
            );
            let (hot, cold): (Vec<_>, Vec<_>) = of_data
                .map(|(&key, &wanted)| (key, wanted))
                .partition(|(_, wanted)| wanted.heat && extractor.is_some());
            for (key, wanted) in cold {
                show(key, wanted, None)?;
            }
            let Some(extractor) = extractor.as_ref().filter(|_| !hot.is_empty()) else {
                continue;
            };
            let feed = |places: Range<usize>, inputs: &mut [&mut [f32]]| {
                let count = places.len().max(1);
                for (at, place) in places.enumerate() {
                    let row = hot[place].0.row;
                    let of_row = inputs.iter_mut().map(|input| {
                        let len = input.len() / count;
                        &mut input[at * len..(at + 1) * len]
                    });
                    loader.read_inputs(row..row + 1, &mut of_row.collect::<Vec<_>>())?;
                }
                Ok::<(), RunError>(())
            };
            let threads = graph.model().threads();
            let tracer = extractor.tracer();
            let mut rows = PathRows::default();
            tracer.run_fed(&feed, 0..hot.len(), threads, |batch| {
                extractor.extract(batch, &mut rows)?;
                for (at, place) in batch.rows.clone().enumerate() {
                    let (key, wanted) = hot[place];
                    let row = extractor.explainer().row(batch, place)?;
                    show(key, wanted, row.input(loader.place()))?;
                    explained(&dataset.digest, key.row, &rows, at);
                }
                progress.tell(Event::Finished(batch.rows.len()))?;
                Ok::<(), HtmlError>(())
            })?;
        }
        Ok(Pictures {
            digests: self
                .datasets
                .into_iter()
                .map(|dataset| dataset.digest)
                .collect(),
            pictures,
            names,
        })
    }
}

/// Explains inputs as the graph's own were, down to the input.
fn extractor(graph: &DecisionGraph) -> Result<PathExtractor, HtmlError> {
    let record = graph.learnt().file().record();
    let options = ExplainOptions {
        method: graph.learnt().method().clone(),
        input: true,
        ..ExplainOptions::default()
    };
    let network = graph.model().network();
    // Inputs that are numbers of words have no relevance of their own.
    let explainer = Explainer::new(network, &options).or_else(|_| {
        let without = ExplainOptions {
            input: false,
            ..options.clone()
        };
        Explainer::new(network, &without)
    })?;
    let alpha = &record.extraction.alpha;
    Ok(PathExtractor::explaining(
        explainer,
        &record.choices,
        alpha,
    )?)
}
