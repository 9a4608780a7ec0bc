//! The sets of neurons that are masked, from one pass over the data.

use npcov_data::Loader;
use npcov_paths::choices::Width;
use npcov_paths::{BitRows, Choices, PathLayout, PathRule, bits};

use super::random;
use npcov_run::{Event, PathExtractor, Progress, Row, RunError, read_rows};

/// Parts that a path is cut into.
pub(super) const FIFTHS: usize = 5;

/// What one pass leaves of the relevances and activations of a sample.
pub(super) struct Sets {
    /// The predicted classes.
    pub(super) predictions: Vec<u32>,
    /// By alpha: each input's critical decision path.
    pub(super) paths: Vec<BitRows>,
    /// By alpha: in each layer, as many of each input's most activated neurons as its path has.
    pub(super) activated: Vec<BitRows>,
    /// By fifth of the path of one alpha, the most relevant first; none unless they are wanted.
    pub(super) bands: Vec<BitRows>,
}

/// Cuts the critical neurons of a layer into fifths: [`npcov_paths::band`] or
/// [`npcov_paths::rounded_band`].
pub type Cut = fn(usize, usize) -> std::ops::Range<usize>;

impl Sets {
    /// Sets without neurons of so many inputs, each row of so many words.
    pub(super) fn empty(width: usize, inputs: usize, alphas: usize, bands: bool) -> Sets {
        let empty = |count: usize| vec![BitRows::zeros(width, inputs); count];
        Sets {
            predictions: Vec::with_capacity(inputs),
            paths: empty(alphas),
            activated: empty(alphas),
            bands: empty(if bands { FIFTHS } else { 0 }),
        }
    }

    /// Explains the `sample` of a dataset.
    pub(super) fn extract(
        extractor: &PathExtractor,
        data: &Loader,
        sample: &[usize],
        (alphas, choices): (&[f64], &Choices),
        bands: Option<(f64, Cut)>,
        threads: usize,
        progress: &mut dyn Progress,
    ) -> Result<Sets, RunError> {
        let layout = extractor.layout();
        let rule = |&alpha: &f64| PathRule {
            alpha,
            threshold: choices.threshold,
            empty_layer: choices.empty_layer,
        };
        let rules: Vec<PathRule> = alphas.iter().map(rule).collect();
        let mut sets = Sets::empty(layout.width(), sample.len(), alphas.len(), bands.is_some());
        let mut critical = Vec::new();
        let feed = |rows: std::ops::Range<usize>, inputs: &mut [&mut [f32]]| {
            read_rows(data, &sample[rows], inputs)
        };
        let explainer = extractor.explainer();
        let tracer = extractor.tracer();
        tracer.run_fed(&feed, 0..sample.len(), threads, |batch| {
            for position in batch.rows.clone() {
                let row = explainer
                    .row(batch, position)
                    .map_err(|error| error.of_row(sample))?;
                sets.predictions.push(row.prediction as u32);
                for (rule, paths) in rules.iter().zip(&mut sets.paths) {
                    extractor.select(&row, rule, paths.row_mut(position));
                }
                if let Some((alpha, cut)) = bands {
                    extractor.select_ordered(&row, &rule(&alpha), &mut critical);
                    sets.cut(layout, &critical, cut, position);
                }
                sets.activate(layout, &row, position);
            }
            progress.tell(Event::Finished(batch.rows.len()))?;
            Ok::<(), RunError>(())
        })?;
        Ok(sets)
    }

    /// Adds the fifths of an input's path: its critical neurons by layer, the most relevant first.
    fn cut(&mut self, layout: &PathLayout, critical: &[Vec<u32>], cut: Cut, position: usize) {
        for (fifth, band) in self.bands.iter_mut().enumerate() {
            for (layer, neurons) in critical.iter().enumerate() {
                let set = layout.layer_mut(band.row_mut(position), layer);
                for &neuron in &neurons[cut(neurons.len(), fifth)] {
                    bits::set(set, neuron as usize);
                }
            }
        }
    }

    /// Adds the most activated neurons of an input, once its paths are there.
    fn activate(&mut self, layout: &PathLayout, row: &Row<'_>, position: usize) {
        for (layer, activations) in row.activations.iter().enumerate() {
            let order = by_activation(activations);
            for (paths, activated) in self.paths.iter().zip(&mut self.activated) {
                let count = bits::count(layout.layer(paths.row(position), layer)) as usize;
                let set = layout.layer_mut(activated.row_mut(position), layer);
                order[..count]
                    .iter()
                    .for_each(|&neuron| bits::set(set, neuron as usize));
            }
        }
    }
}

/// Neurons by their activations, the largest first; equal ones in the order of their positions.
fn by_activation(activations: &[f32]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..activations.len() as u32).collect();
    let activation = |i: u32| activations[i as usize];
    order.sort_unstable_by(|&a, &b| activation(b).total_cmp(&activation(a)).then(a.cmp(&b)));
    order
}

/// Adds random neurons to `set`, as many in each layer as `path` has. They depend on the seed and
/// the input's row in its dataset; a narrower path of the same input gets some of the same.
pub(super) fn random_like(
    layout: &PathLayout,
    path: &[u64],
    seed: u64,
    row: usize,
    set: &mut [u64],
) {
    for layer in 0..layout.layers() {
        let count = bits::count(layout.layer(path, layer)) as usize;
        let set = layout.layer_mut(set, layer);
        for neuron in random::neurons(layout.neurons(layer), count, seed, layer, row) {
            bits::set(set, neuron as usize);
        }
    }
}

/// The mean width of paths: a layer's share of critical neurons, averaged over paths and layers.
/// Zero without paths.
pub(super) fn width<'p>(
    layout: &PathLayout,
    paths: impl Iterator<Item = &'p [u64]>,
    kind: Width,
) -> f64 {
    let mut counts = vec![0_u64; layout.layers()];
    let mut number = 0_u64;
    for path in paths {
        number += 1;
        for (layer, count) in counts.iter_mut().enumerate() {
            *count += u64::from(bits::count(layout.layer(path, layer)));
        }
    }
    let share = |(layer, &count): (usize, &u64)| {
        let mean = count as f64 / number.max(1) as f64;
        let mean = match kind {
            Width::Exact => mean,
            Width::Rounded => mean.round_ties_even(),
        };
        mean / layout.neurons(layer).max(1) as f64
    };
    counts.iter().enumerate().map(share).sum::<f64>() / layout.layers().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use npcov_data::Preprocessing;
    use npcov_run::Method;
    use npcov_run::PathRows;
    use npcov_run::{ModelOptions, Network};

    /// Rows of a dataset in any order, against the extractor's own run over all of them.
    #[test]
    fn one_pass_gives_paths_of_all_alphas_and_their_controls() {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
        let options = ModelOptions::default();
        let network = Network::open(format!("{fixtures}/lenet.onnx"), &options).unwrap();
        let data = npcov_data::open(format!("{fixtures}/fashion-1000.npz")).unwrap();
        let data = Loader::new(data, network.sample_shape(), &Preprocessing::default()).unwrap();
        let (method, choices) = (Method::default(), Choices::default());
        let sample = [3, 4, 5, 60, 70, 71, 72, 99];
        let alphas = [0.6, 0.9];
        let extractor = |alpha: f64| {
            let alphas = vec![alpha; network.classes()];
            PathExtractor::new(&network, &method, &choices, &alphas).unwrap()
        };
        let mut done = 0;
        let grid = (&alphas[..], &choices);
        let count = &mut |event| {
            if let Event::Finished(inputs) = event {
                done += inputs;
            }
            std::ops::ControlFlow::Continue(())
        };
        let bands = Some((0.9, npcov_paths::band as Cut));
        let sets = Sets::extract(&extractor(1.0), &data, &sample, grid, bands, 2, count).unwrap();
        assert_eq!(done, sample.len());
        // Fifths are apart, and together they are the path.
        for position in 0..sample.len() {
            let mut united = vec![0; sets.paths[1].width()];
            for band in &sets.bands {
                for (word, part) in united.iter_mut().zip(band.row(position)) {
                    assert_eq!(*word & part, 0);
                    *word |= part;
                }
            }
            assert_eq!(united, sets.paths[1].row(position));
        }
        for (a, &alpha) in alphas.iter().enumerate() {
            let extractor = extractor(alpha);
            let layout = extractor.layout();
            let mut all = PathRows {
                paths: BitRows::new(layout.width()),
                ..PathRows::default()
            };
            let collect = |batch: &PathRows| -> Result<(), RunError> {
                batch.paths.rows().for_each(|row| all.paths.push(row));
                all.predictions.extend(&batch.predictions);
                all.activations.extend(&batch.activations);
                Ok(())
            };
            extractor.run(&data, 0..100, 1, collect).unwrap();
            for (position, &row) in sample.iter().enumerate() {
                assert_eq!(sets.predictions[position], all.predictions[row]);
                let path = sets.paths[a].row(position);
                assert_eq!(path, all.paths.row(row));
                let activated = sets.activated[a].row(position);
                let neurons = layout.total_neurons();
                let activations = &all.activations[row * neurons..(row + 1) * neurons];
                for layer in 0..layout.layers() {
                    let set = layout.layer(activated, layer);
                    assert_eq!(bits::count(set), bits::count(layout.layer(path, layer)));
                    let activations = &activations[layout.span(layer)];
                    let inside = |&i: &usize| bits::get(set, i);
                    let (high, low): (Vec<usize>, Vec<usize>) =
                        (0..layout.neurons(layer)).partition(inside);
                    let least = high
                        .iter()
                        .map(|&i| activations[i])
                        .fold(f32::MAX, f32::min);
                    assert!(low.iter().all(|&i| activations[i] <= least));
                }
            }
        }
    }

    fn path(layout: &PathLayout, neurons: &[&[usize]]) -> Vec<u64> {
        let mut path = vec![0; layout.width()];
        for (layer, neurons) in neurons.iter().enumerate() {
            let set = layout.layer_mut(&mut path, layer);
            neurons.iter().for_each(|&neuron| bits::set(set, neuron));
        }
        path
    }

    #[test]
    fn random_sets_have_the_counts_of_the_path() {
        let layout = PathLayout::new([70, 5, 3]);
        let like = path(&layout, &[&[1, 3, 69], &[], &[0, 1, 2]]);
        let mut seen = Vec::new();
        for row in 0..20 {
            let mut set = vec![0; layout.width()];
            random_like(&layout, &like, 5, row, &mut set);
            for layer in 0..3 {
                let count = |set| bits::count(layout.layer(set, layer));
                assert_eq!(count(&set), count(&like));
            }
            // No neuron beyond its layer.
            assert_eq!(layout.complement(&layout.complement(&set)), set);
            seen.push(set);
        }
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 15);
    }

    #[test]
    fn the_most_activated_come_first() {
        assert_eq!(by_activation(&[0.5, 2.0, -1.0, 2.0, 0.0]), [1, 3, 0, 4, 2]);
    }

    #[test]
    fn worked_cases_of_widths() {
        // Counts 10, 5, 7 of 64, 64, 128 neurons: 9.635%.
        let layout = PathLayout::new([64, 64, 128]);
        let upto = |n: usize| (0..n).collect::<Vec<_>>();
        let one = path(&layout, &[&upto(10), &upto(5), &upto(7)]);
        let found = width(&layout, [&one[..]].into_iter(), Width::Exact);
        assert!((found - 0.09635).abs() < 1e-5, "{found}");
        // Means 10.5, 5.5 and 7.5 are 10, 6 and 8 when rounded half to even.
        let two = path(&layout, &[&upto(11), &upto(6), &upto(8)]);
        let both = || [&one[..], &two[..]].into_iter();
        let exact = (10.5 / 64.0 + 5.5 / 64.0 + 7.5 / 128.0) / 3.0;
        let rounded = (10.0 / 64.0 + 6.0 / 64.0 + 8.0 / 128.0) / 3.0;
        assert_eq!(width(&layout, both(), Width::Exact), exact);
        assert_eq!(width(&layout, both(), Width::Rounded), rounded);
        assert_eq!(width(&layout, [].into_iter(), Width::Exact), 0.0);
    }
}
