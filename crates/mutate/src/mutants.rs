//! The mutants of a network, and what they make of inputs.

use std::path::Path;

use npcov_data::npz::{Compression, NpzWriter};
use npcov_data::{Loader, SeenRows};
use npcov_graph::Graph;
use npcov_program::{Edit, mutant, mutated_graph};
use npcov_run::{Event, Network, Progress, RunError, SampleRange, Tracer, labels};

use crate::draw::{Drawing, Mutant};
use crate::error::MutationError;
use crate::options::MutationOptions;
use crate::state::{Judged, MutationPlan, MutationState};

/// Neurons that may be changed, where not all may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Among {
    /// Which they are, in words: states of other ones do not merge.
    pub words: String,
    /// For each neuron of each path layer, whether it is one of them.
    pub neurons: Vec<Vec<bool>>,
}

/// The mutants of a network. They are made one at a time, when they are run.
pub struct Mutants<'a> {
    network: &'a Network,
    drawing: Drawing<'a>,
    plan: MutationPlan,
}

impl<'a> Mutants<'a> {
    /// Those that options ask for. None at all is an error.
    pub fn new(
        network: &'a Network,
        options: &'a MutationOptions,
    ) -> Result<Mutants<'a>, MutationError> {
        Mutants::among(network, options, None)
    }

    /// The same where only some neurons may be changed. Weights are fuzzed wherever they are.
    pub fn among(
        network: &'a Network,
        options: &'a MutationOptions,
        among: Option<&Among>,
    ) -> Result<Mutants<'a>, MutationError> {
        options.check()?;
        if network.signature().numbers().is_some() {
            return Err(MutationError::Numbers);
        }
        let neurons = among.map(|among| &among.neurons[..]);
        let drawing = Drawing::new(network.view(), options, neurons);
        let mutants = drawing.mutants();
        if mutants.is_empty() {
            let names: Vec<&str> = options.operators.iter().map(|o| o.name()).collect();
            return Err(MutationError::Nothing(names.join(", ")));
        }
        let digest = network.digest().iter().map(|byte| format!("{byte:02x}"));
        Ok(Mutants {
            network,
            drawing,
            plan: MutationPlan {
                model: digest.collect(),
                classes: network.classes(),
                options: options.clone(),
                among: among.map(|among| among.words.clone()),
                mutants,
                judged: None,
            },
        })
    }

    /// What they are, one by one.
    pub fn list(&self) -> &[Mutant] {
        &self.plan.mutants
    }

    /// What tells them from others.
    pub fn plan(&self) -> &MutationPlan {
        &self.plan
    }

    /// The inputs that `progress` is told of when so many are measured: by the model and by all mutants.
    pub fn work(&self, inputs: usize) -> usize {
        inputs.saturating_mul(self.list().len() + 1)
    }

    /// Judges mutants by how they do on some data, instead of by each suite itself.
    pub fn judge(
        &mut self,
        inputs: &SampleRange<'_>,
        progress: &mut dyn Progress,
    ) -> Result<(), MutationError> {
        let state = self.measure(inputs, progress)?;
        self.plan.judged = Some(Judged {
            data: inputs.data.name().to_owned(),
            inputs: state.inputs,
            correct: state.correct.iter().sum(),
            by_mutant: state.killed.iter().map(|killed| killed.correct).collect(),
        });
        Ok(())
    }

    /// What a suite kills. The same for any number of threads, and for any division into parts that are merged.
    pub fn measure(
        &self,
        suite: &SampleRange<'_>,
        progress: &mut dyn Progress,
    ) -> Result<MutationState, MutationError> {
        self.measure_into(suite, None, progress)
    }

    /// The same, and what the model and every mutant take each input for in an npz file: `truth` and `prediction` (i64,
    /// inputs) and `mutants` (i64, mutants x inputs; -1 where logits are no numbers).
    pub fn measure_into(
        &self,
        suite: &SampleRange<'_>,
        file: Option<&Path>,
        progress: &mut dyn Progress,
    ) -> Result<MutationState, MutationError> {
        let create = |path: &Path| NpzWriter::create(path, Compression::Deflated);
        let mut writer = file.map(create).transpose()?;
        let seen = SeenRows::of(suite.data.samples(), suite.range.clone())?;
        let (truths, predictions) = self.truths(suite, progress)?;
        let array = |writer: &mut NpzWriter| writer.array("mutants", &[suite.range.len()]);
        let mutants = writer.as_mut().map(array).transpose()?;
        let data = suite.data;
        let labelled = data.labels().is_some();
        let mut state = MutationState::empty(self.plan.clone(), data.name(), labelled);
        state.add_inputs(&truths, &predictions);
        for i in 0..self.list().len() {
            let found = self.predict(i, suite, progress)?;
            if let (Some(writer), Some(mutants)) = (&mut writer, &mutants) {
                let classes = found.iter().map(|class| class.map_or(-1, i64::from));
                writer.append(mutants, &classes.collect::<Vec<i64>>())?;
            }
            state.add_mutant(i, &truths, &predictions, &found);
        }
        // All mutants have to be shown the same inputs.
        seen.check(data.samples(), suite.range.clone())?;
        if let Some(mut writer) = writer {
            for (name, classes) in [("truth", &truths), ("prediction", &predictions)] {
                let array = writer.array(name, &[])?;
                let classes = classes.iter().map(|&class| i64::from(class));
                writer.append(&array, &classes.collect::<Vec<i64>>())?;
            }
            writer.finish()?;
        }
        Ok(state)
    }

    /// What exactly is wrong with a mutant.
    pub fn edits(&self, number: usize) -> Vec<Edit> {
        self.drawing.edits(&self.plan.mutants[number])
    }

    /// What is right for each input of a suite, which is what the model says where there are no labels, and what the model
    /// says.
    pub fn truths(
        &self,
        suite: &SampleRange<'_>,
        progress: &mut dyn Progress,
    ) -> Result<(Vec<u32>, Vec<u32>), MutationError> {
        let labels = labels(self.network.signature(), suite.data, suite.range.clone())?;
        let tracer = self.network.logits_tracer()?;
        let mut predictions = Vec::with_capacity(suite.range.len());
        for (row, class) in suite.range.clone().zip(classes(&tracer, suite, progress)?) {
            predictions.push(class.ok_or(RunError::NotFinite { row })?);
        }
        let truths = match labels {
            Some(labels) => labels.into_iter().map(|label| label as u32).collect(),
            None => predictions.clone(),
        };
        Ok((truths, predictions))
    }

    /// The classes that a mutant takes inputs for; `None` where its logits are no numbers.
    pub fn predict(
        &self,
        number: usize,
        suite: &SampleRange<'_>,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Option<u32>>, MutationError> {
        let program = mutant(&self.network.view(), &self.edits(number))?;
        let tracer = Tracer::new(program, self.network)?;
        Ok(classes(&tracer, suite, progress)?)
    }

    /// A mutant as a graph with the model's outputs.
    pub fn graph(&self, number: usize) -> Result<Graph, MutationError> {
        Ok(mutated_graph(&self.network.view(), &self.edits(number))?)
    }

    /// A mutant as an ONNX file. It takes as many inputs at once as the network's graph does.
    pub fn onnx(&self, number: usize) -> Result<Vec<u8>, MutationError> {
        let graph = self.graph(number)?;
        let names = vec![self.network.output().to_owned()];
        graph.to_onnx_with(&names).map_err(MutationError::Export)
    }
}

/// The class of each input.
fn classes(
    tracer: &Tracer,
    suite: &SampleRange<'_>,
    progress: &mut dyn Progress,
) -> Result<Vec<Option<u32>>, RunError> {
    let signature = tracer.signature();
    let data: &Loader<'_> = suite.data;
    let mut classes = Vec::with_capacity(suite.range.len());
    tracer.run(data, suite.range.clone(), suite.threads, |batch| {
        let logits = batch.outputs.first().map_or(&[][..], Vec::as_slice);
        for logits in logits.chunks_exact(signature.logits().max(1)) {
            let is_number = logits.iter().all(|z| z.is_finite());
            classes.push(is_number.then(|| signature.predict(logits) as u32));
        }
        progress.tell(Event::Finished(batch.rows.len()))
    })?;
    Ok(classes)
}
