//! What an attack climbs or descends, and its gradient with respect to pixels.

use std::borrow::Cow;
use std::cell::OnceCell;

use npcov_program::{Loss, Output, Program, ProgramError, Reduction, Side, Tap, Term, gradient};

use crate::diversity::{Activity, Form};
use crate::seeds::{Further, Seeds};
use crate::{AttackOptions, Diversity};
use npcov_run::Network;
use npcov_run::RunError;
use npcov_run::Tracer;

/// A term of each input, and a regulariser of all inputs together.
pub(crate) struct Objective<'a> {
    network: &'a Network,
    term: Term,
    /// The term alone; made when it is needed.
    alone: OnceCell<Tracer>,
    regulariser: Option<Regulariser>,
}

/// `div` of a layer, with programs for it.
struct Regulariser {
    layer: usize,
    form: Form,
    /// Its input is limited to this.
    range: (f32, f32),
    /// The layer's elements.
    activations: Tracer,
    /// The gradient of the term and of weighted activations.
    together: Tracer,
    /// The gradient of weighted activations; made when it is needed.
    apart: OnceCell<Tracer>,
}

/// What an objective is at points.
#[derive(Default)]
pub(crate) struct Slopes {
    /// Logits, for all seeds one after the other.
    pub(crate) logits: Vec<f32>,
    /// Derivatives with respect to pixels, for all seeds one after the other.
    pub(crate) gradient: Vec<f32>,
}

impl<'a> Objective<'a> {
    /// A term, and the regulariser that the options ask for.
    pub(crate) fn new(
        network: &'a Network,
        term: Term,
        options: &AttackOptions,
    ) -> Result<Objective<'a>, RunError> {
        let mut objective = Objective {
            network,
            term,
            alone: OnceCell::new(),
            regulariser: None,
        };
        let Some(Diversity { layer, .. }) = options.diversity() else {
            return Ok(objective);
        };
        let layers = network.layers();
        let missing = ProgramError::LossLayer {
            layer,
            layers: layers.len(),
        };
        let value = layers.get(layer).ok_or(missing)?.value;
        let mut graph = network.graph().clone();
        // A dense layer has one axis besides that of the batch.
        let form = match graph.shape(value).len() {
            0..=2 => Form::Units,
            _ => Form::Elements,
        };
        graph.set_outputs(vec![value]);
        let tap = Tap {
            layer,
            side: Side::After,
            reduction: Reduction::Units,
        };
        let program = Program {
            graph: graph.pruned(),
            outputs: vec![Output::Tap(tap)],
        };
        objective.regulariser = Some(Regulariser {
            layer,
            form,
            range: options.range,
            activations: Tracer::new(program, network)?,
            together: objective.tracer(&[term, Term::Weighted { layer }])?,
            apart: OnceCell::new(),
        });
        Ok(objective)
    }

    fn tracer(&self, terms: &[Term]) -> Result<Tracer, RunError> {
        let terms = terms.iter().map(|&term| (1.0, term)).collect();
        let input = self.network.signature().place();
        let program = gradient(&self.network.view(), &Loss { terms, input })?;
        Tracer::new(program, self.network)
    }

    /// The gradient at the points of some positions.
    ///
    /// `numbers` are the inputs of the term, a number for each seed: first the label. The
    /// regulariser is multiplied by `factor`; it belongs to all seeds, so that `positions` are all
    /// of them where there is one.
    pub(crate) fn evaluate(
        &self,
        seeds: &Seeds<'_>,
        points: &[f32],
        positions: &[usize],
        numbers: &[&[f32]],
        factor: f64,
        out: &mut Slopes,
    ) -> Result<(), RunError> {
        let own = |number: usize, at: usize, input: &mut [f32]| input.fill(numbers[number][at]);
        let Some(regulariser) = &self.regulariser else {
            return self.alone(seeds, points, positions, &own, out);
        };
        let limited = regulariser.limited(points);
        let (activations, activity) = regulariser.activity(seeds, &limited)?;
        let elements = activations.len() / seeds.len().max(1);
        let weights = |at: usize, input: &mut [f32]| {
            let row = &activations[at * elements..(at + 1) * elements];
            activity.derivatives(row, factor, input);
        };
        if let Cow::Borrowed(_) = limited {
            let further = |number: usize, at: usize, input: &mut [f32]| match numbers.get(number) {
                Some(numbers) => input.fill(numbers[at]),
                None => weights(at, input),
            };
            return out.find(seeds, &regulariser.together, points, positions, &further);
        }
        // The regulariser sees other points than the term, and does not depend on their pixels at
        // the limits.
        let mut apart = Slopes::default();
        let further = |number: usize, at: usize, input: &mut [f32]| match number {
            0 => input.fill(0.0),
            _ => weights(at, input),
        };
        let term = Term::Weighted {
            layer: regulariser.layer,
        };
        let tracer = made(&regulariser.apart, || self.tracer(&[term]))?;
        apart.find(seeds, tracer, &limited, positions, &further)?;
        self.alone(seeds, points, positions, &own, out)?;
        let places = out.gradient.iter_mut().zip(&apart.gradient);
        for ((sum, &slope), (p, limited)) in places.zip(points.iter().zip(&*limited)) {
            if p == limited {
                *sum += slope;
            }
        }
        Ok(())
    }

    /// The gradient of the term.
    fn alone(
        &self,
        seeds: &Seeds<'_>,
        points: &[f32],
        positions: &[usize],
        further: &Further<'_>,
        out: &mut Slopes,
    ) -> Result<(), RunError> {
        let tracer = made(&self.alone, || self.tracer(&[self.term]))?;
        out.find(seeds, tracer, points, positions, further)
    }

    /// The divergence at points of all seeds; `None` without a regulariser.
    pub(crate) fn divergence(
        &self,
        seeds: &Seeds<'_>,
        points: &[f32],
    ) -> Result<Option<f64>, RunError> {
        let Some(regulariser) = &self.regulariser else {
            return Ok(None);
        };
        let (activations, activity) = regulariser.activity(seeds, &regulariser.limited(points))?;
        Ok(Some(activity.divergence(&activations)))
    }
}

impl Regulariser {
    /// Points with their pixels limited; those that are within the limits are borrowed.
    fn limited<'p>(&self, points: &'p [f32]) -> Cow<'p, [f32]> {
        let (low, high) = self.range;
        match points.iter().all(|p| (low..=high).contains(p)) {
            true => Cow::Borrowed(points),
            false => Cow::Owned(points.iter().map(|p| p.clamp(low, high)).collect()),
        }
    }

    /// The layer's elements for all seeds, and their sums.
    fn activity(
        &self,
        seeds: &Seeds<'_>,
        points: &[f32],
    ) -> Result<(Vec<f32>, Activity), RunError> {
        let all: Vec<usize> = (0..seeds.len()).collect();
        let elements = self.activations.output_lens().first().copied().unwrap_or(0);
        let mut found = Vec::with_capacity(seeds.len() * elements);
        let nothing = |_: usize, _: usize, _: &mut [f32]| {};
        seeds.run(&self.activations, points, &all, &nothing, |_, outputs| {
            found.extend_from_slice(outputs.first().copied().unwrap_or_default());
            Ok(())
        })?;
        let activity = Activity::new(&found, elements, self.form);
        Ok((found, activity))
    }
}

impl Slopes {
    /// Runs a gradient program at the points of some positions.
    fn find(
        &mut self,
        seeds: &Seeds<'_>,
        tracer: &Tracer,
        points: &[f32],
        positions: &[usize],
        further: &Further<'_>,
    ) -> Result<(), RunError> {
        let (width, logits) = (seeds.width(), tracer.output_lens()[0]);
        self.gradient.resize(points.len(), 0.0);
        self.logits.resize(seeds.len() * logits, 0.0);
        seeds.run(tracer, points, positions, further, |at, outputs| {
            let [found, _, gradient] = outputs else {
                return Ok(());
            };
            seeds.check(at, found)?;
            self.logits[at * logits..(at + 1) * logits].copy_from_slice(found);
            let to = &mut self.gradient[at * width..(at + 1) * width];
            to.copy_from_slice(gradient);
            seeds.data.pull_back(to);
            Ok(())
        })
    }
}

/// What a cell holds, made when it is needed first.
fn made(
    cell: &OnceCell<Tracer>,
    make: impl FnOnce() -> Result<Tracer, RunError>,
) -> Result<&Tracer, RunError> {
    if let Some(tracer) = cell.get() {
        return Ok(tracer);
    }
    let tracer = make()?;
    Ok(cell.get_or_init(|| tracer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttackMethod, Pgd};
    use npcov_data::npz::{Compression, NpzWriter};
    use npcov_data::{Loader, Preprocessing};
    use npcov_graph::op::Unary;
    use npcov_graph::{DType, Data, Graph, OnnxModel, Op, Tensor, TensorType};
    use npcov_run::ModelOptions;

    const INPUTS: usize = 3;
    const PIXELS: usize = 4;
    const HIDDEN: usize = 8;
    const CLASSES: usize = 3;
    const LAMBDA: f64 = 0.7;
    const SCALE: [f64; INPUTS] = [2.0, 0.5, 1.5];

    /// Numbers that look random.
    fn numbers(count: usize, low: f32, high: f32) -> Vec<f32> {
        let golden = |i: usize| ((i + 1) as f64 * 0.618_033_988_749_895).fract() as f32;
        (0..count).map(|i| low + (high - low) * golden(i)).collect()
    }

    /// `relu(x V) W`, with the hidden layer as a vector or as feature maps.
    fn network(maps: bool) -> Network {
        let mut graph = Graph::new();
        let weights = |graph: &mut Graph, shape: [usize; 2], low: f32| {
            let numbers = Data::F32(numbers(shape[0] * shape[1], low, 1.0));
            graph.add_constant("w", Tensor::new(shape, numbers).unwrap())
        };
        let mut x = graph.add_input("x", TensorType::new(DType::F32, [1, PIXELS]));
        let v = weights(&mut graph, [PIXELS, HIDDEN], -0.8);
        x = graph.push("v", Op::MatMul, &[x, v]).unwrap();
        if maps {
            let shape = Op::Reshape(vec![1, 2, 2, 2]);
            x = graph.push("maps", shape, &[x]).unwrap();
        }
        x = graph.push("relu", Op::Unary(Unary::Relu), &[x]).unwrap();
        if maps {
            let shape = Op::Reshape(vec![1, HIDDEN]);
            x = graph.push("flat", shape, &[x]).unwrap();
        }
        let w = weights(&mut graph, [HIDDEN, CLASSES], -1.0);
        x = graph.push("w", Op::MatMul, &[x, w]).unwrap();
        graph.set_outputs(vec![x]);
        let model = OnnxModel::from_bytes(graph.to_onnx().unwrap()).unwrap();
        Network::new(model, &ModelOptions::default()).unwrap()
    }

    /// `sum c max(1 - margin, 0) + lambda div`, as the definitions read. Pixels become the model's
    /// inputs by `(p - 0.25) / 0.5`, and those of the regulariser are limited to 0 and 1 first.
    fn naive(points: &[f64], labels: &[usize], maps: bool) -> f64 {
        let hidden = |point: &[f64]| -> Vec<f64> {
            let v = numbers(PIXELS * HIDDEN, -0.8, 1.0);
            let unit = |j: usize| -> f64 {
                let each =
                    (0..PIXELS).map(|i| (point[i] - 0.25) / 0.5 * f64::from(v[i * HIDDEN + j]));
                each.sum::<f64>().max(0.0)
            };
            (0..HIDDEN).map(unit).collect()
        };
        let w = numbers(HIDDEN * CLASSES, -1.0, 1.0);
        let mut total = 0.0;
        let mut activity = Vec::new();
        for (at, point) in points.chunks(PIXELS).enumerate() {
            let h = hidden(point);
            let logit = |c: usize| -> f64 {
                (0..HIDDEN)
                    .map(|j| h[j] * f64::from(w[j * CLASSES + c]))
                    .sum()
            };
            let others = (0..CLASSES).filter(|&c| c != labels[at]);
            let best = others.map(logit).fold(f64::NEG_INFINITY, f64::max);
            total += SCALE[at] * (1.0 - best + logit(labels[at])).max(0.0);
            let limited: Vec<f64> = point.iter().map(|p| p.clamp(0.0, 1.0)).collect();
            activity.extend(hidden(&limited));
        }
        let shares: Vec<f64> = match maps {
            true => activity,
            false => {
                let unit = |j: usize| activity.iter().skip(j).step_by(HIDDEN).sum();
                (0..HIDDEN).map(unit).collect()
            }
        };
        let sum: f64 = shares.iter().sum();
        let u = 1.0 / shares.len() as f64;
        let terms = shares.iter().map(|a| u * (u.ln() - (a / sum + 1e-20).ln()));
        total + LAMBDA * terms.sum::<f64>()
    }

    /// The gradient against central differences of the definition, within the range and outside.
    #[test]
    fn gradients_are_those_of_the_definition() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npz");
        let mut writer = NpzWriter::create(&path, Compression::Stored).unwrap();
        let x = writer.array::<f32>("x", &[PIXELS]).unwrap();
        writer.append(&x, &[5.0; INPUTS * PIXELS]).unwrap();
        writer.finish().unwrap();
        let preprocessing = Preprocessing {
            divide: Some(10.0),
            mean: vec![0.25],
            std: vec![0.5],
            ..Preprocessing::default()
        };
        let dataset = npcov_data::open(path.to_str().unwrap()).unwrap();
        let loader = Loader::new(dataset, &[PIXELS], &preprocessing).unwrap();
        for (maps, low, high) in [
            (false, 0.1, 0.9),
            (true, 0.1, 0.9),
            (false, -0.4, 1.4),
            (true, -0.4, 1.4),
        ] {
            let network = network(maps);
            let mut options = AttackOptions::from(AttackMethod::Pgd(Pgd::fast(0.1)));
            options.diversity = Some(Diversity {
                layer: 0,
                lambda: LAMBDA,
            });
            let objective = Objective::new(&network, Term::Hinge, &options).unwrap();
            let mut seeds = Seeds::read(&loader, &[0, 1, 2], (0.0, 1.0), 2).unwrap();
            let labels = [0, 2, 1];
            seeds.labels = labels.iter().map(|&l| l as f32).collect();
            let points = numbers(INPUTS * PIXELS, low, high);
            let scale = SCALE.map(|c| c as f32);
            let numbers = [&seeds.labels[..], &scale, &[1.0; INPUTS]];
            let mut found = Slopes::default();
            objective
                .evaluate(&seeds, &points, &[0, 1, 2], &numbers, LAMBDA, &mut found)
                .unwrap();
            let wide: Vec<f64> = points.iter().map(|&p| f64::from(p)).collect();
            for k in 0..wide.len() {
                let moved = |by: f64| {
                    let mut at = wide.clone();
                    at[k] += by;
                    naive(&at, &labels, maps)
                };
                let expected = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                let distance = (f64::from(found.gradient[k]) - expected).abs();
                assert!(
                    distance < 1e-4 * expected.abs().max(1.0),
                    "maps {maps}, {low} to {high}: {} for {expected}",
                    found.gradient[k]
                );
            }
        }
        let beyond = Diversity {
            layer: 7,
            lambda: 1.0,
        };
        let mut options = AttackOptions::from(AttackMethod::Pgd(Pgd::fast(0.1)));
        options.diversity = Some(beyond);
        let network = network(false);
        assert!(Objective::new(&network, Term::Hinge, &options).is_err());
    }
}
