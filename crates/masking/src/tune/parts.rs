//! Parameters that several processes find together.
//!
//! Masking takes nearly all of the time, and inputs do not depend on each other; the choice of alpha does,
//! and so do clusters. So there are two steps, with all inputs between them: paths of single inputs are masked
//! for every alpha, and then, at the alpha that all inputs recommend, abstract paths. What inputs are taken
//! for is kept in shards of 512; who has all of them repeats what one process does, and runs no network.

use std::ops::Range;
use std::path::Path;

use npcov_artefact::{
    ArtefactError, DataRecord, ExtractionRecord, ModelRecord, Origin, ShardStore, WantedShard,
};
use npcov_data::safetensors::{SafetensorsReader, TensorSpec};
use npcov_data::{DataError, Digest, Loader};
use npcov_run::{Found, Network, Part, Progress, RunError, shards};
use serde::{Deserialize, Serialize};

use super::{TuneOptions, Tuning, choose, mask_paths};
use crate::MaskingOptions;
use crate::answers::Answers;
use crate::study::Subject;

/// Why parameters cannot be found in parts.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// A network cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Parts cannot be kept or joined.
    #[error(transparent)]
    Artefact(#[from] ArtefactError),
}

impl From<DataError> for TuneError {
    fn from(error: DataError) -> TuneError {
        TuneError::Artefact(error.into())
    }
}

/// A part of the search for parameters that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TunedPart {
    /// Which part of how many, as `2/4`.
    pub part: String,
    /// The folder that it was added to.
    pub folder: String,
    /// The first of its inputs, by position in the sample.
    pub start: usize,
    /// The one behind the last.
    pub end: usize,
    /// The last step of its inputs that was done: 1, or 2 when all inputs were through the first.
    pub step: usize,
}

/// Does a part of the work of [`tune`](super::tune) and keeps it in the folder beside `output`: the first
/// step, and the second where all parts are through the first. So all parts are to be done twice.
/// [`join_tuning`] then gives what was found.
///
/// Parts of another model, of other data, or made with other settings are refused.
pub fn tune_part(
    network: &Network,
    data: &Loader,
    options: &TuneOptions,
    (part, output): (Part, &Path),
    threads: usize,
    progress: &mut dyn Progress,
) -> Result<TunedPart, TuneError> {
    let options = options.checked()?;
    let masking = options.masking();
    let work = Work::new(network, data, &options, &masking, threads)?;
    let store = ShardStore::shared(output, &work.plan)?;
    let own = part.rows(0..work.subject.sample.len());
    for (i, inputs) in work.unfinished(Step::Paths, &store, &own) {
        work.mask_paths(&store, i, inputs, progress)?;
    }
    let is_first_done = work.shards().all(|(i, inputs)| {
        let found = work.find(Step::Paths, &store, i, inputs);
        found == Found::Whole
    });
    if is_first_done {
        let blocks: Vec<_> = work.unfinished(Step::Abstract, &store, &own).collect();
        work.mask_abstract(&store, &blocks, progress)?;
    }
    Ok(TunedPart {
        part: part.to_string(),
        folder: store.folder_name(),
        start: own.start,
        end: own.end,
        step: if is_first_done { 2 } else { 1 },
    })
}

/// What all parts found. They stay where they are until [`remove_parts`](JoinedTuning::remove_parts), so that what was
/// found can be kept first; until then nobody else writes there.
pub struct JoinedTuning {
    /// What was found.
    pub tuning: Tuning,
    store: ShardStore,
}

impl JoinedTuning {
    /// Removes the parts, which nobody needs any more.
    pub fn remove_parts(self) -> Result<Tuning, TuneError> {
        self.store.remove()?;
        Ok(self.tuning)
    }
}

/// What all [parts](tune_part) found: the same as [`tune`](super::tune) finds in one go. Parts that are missing,
/// damaged, or made for something else are named.
pub fn join_tuning(
    network: &Network,
    data: &Loader,
    options: &TuneOptions,
    output: &Path,
    threads: usize,
) -> Result<JoinedTuning, TuneError> {
    let options = options.checked()?;
    let masking = options.masking();
    let work = Work::new(network, data, &options, &masking, threads)?;
    let store = ShardStore::joining(output, &work.plan)?;
    for step in [Step::Paths, Step::Abstract] {
        store.require(work.shards().map(|(i, inputs)| WantedShard {
            name: step.name(i),
            inputs: inputs.clone(),
            found: work.find(step, &store, i, inputs),
            origin: &work.origin,
        }))?;
    }
    let (sets, mut known) = work.first_step(&store)?;
    let mut second = vec![Vec::new(); work.questions(Step::Abstract)];
    for (i, inputs) in work.shards() {
        let name = Step::Abstract.name(i);
        read_answers(&store.open(&name, inputs)?, &mut second)?;
    }
    known.extend(second);
    let all = 0..work.subject.sample.len();
    let answers = Answers::of(known, Vec::new());
    let study = work.subject.study(all, sets, answers, threads);
    let tuning = choose(&study, data, &options, &mut ())?;
    Ok(JoinedTuning { tuning, store })
}

/// What is masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Paths of single inputs, and controls, for all alphas.
    Paths,
    /// Abstract paths, for all numbers of clusters and betas.
    Abstract,
}

impl Step {
    /// What a shard is called.
    fn name(self, index: usize) -> String {
        let word = match self {
            Step::Paths => "masked",
            Step::Abstract => "abstract",
        };
        format!("{word}-{index:06}")
    }
}

/// All that is settled before the first input is explained: the same in every process that takes part.
struct Work<'a> {
    data: &'a Loader<'a>,
    options: &'a TuneOptions,
    subject: Subject<'a>,
    threads: usize,
    origin: Origin,
    plan: String,
}

/// What inputs are taken for, by question.
const ANSWERS: &str = "answer";

impl<'a> Work<'a> {
    fn new(
        network: &'a Network,
        data: &'a Loader<'a>,
        options: &'a TuneOptions,
        masking: &'a MaskingOptions,
        threads: usize,
    ) -> Result<Work<'a>, TuneError> {
        let subject = Subject::new(network, data, masking)?;
        if subject.sample.is_empty() {
            return Err(RunError::NoInputs(data.name().to_owned()).into());
        }
        let digest = Digest::from(*network.digest()).to_string();
        let model = ModelRecord::new(digest.clone(), network.options());
        let mut extraction = ExtractionRecord::new(
            network,
            &options.method,
            model,
            data.preprocessing().clone(),
            options.alphas.clone(),
        );
        // Parts may be made on any CPU that computes the same bits.
        extraction.cpu.clear();
        let record = DataRecord::new(data, 0, data.len())?;
        let plan = serde_json::json!({
            "extraction": extraction,
            "choices": options.choices,
            "sample": options.sample,
            "clusters": options.clusters,
            "betas": options.betas,
            "restarts": options.restarts,
            "seed": options.seed,
            "data": record,
        });
        Ok(Work {
            data,
            options,
            subject,
            threads,
            origin: Origin {
                model: digest,
                data: record.sha256,
                ..Origin::default()
            },
            plan: plan.to_string(),
        })
    }

    /// Shards of the sample, each with its number.
    fn shards(&self) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        shards(0..self.subject.sample.len())
    }

    /// How often neurons are masked in a step.
    fn questions(&self, step: Step) -> usize {
        match step {
            Step::Paths => 6 * self.options.alphas.len(),
            Step::Abstract => 2 * self.options.clusters.len() * self.options.betas.len(),
        }
    }

    fn find(&self, step: Step, store: &ShardStore, index: usize, inputs: Range<usize>) -> Found {
        let answers = answers_spec(self.questions(step), inputs.len());
        store.find(&step.name(index), inputs, |reader| {
            reader.tensor(ANSWERS) == Some(&answers)
        })
    }

    /// Shards of a part that are still to be done.
    fn unfinished<'s>(
        &'s self,
        step: Step,
        store: &'s ShardStore,
        own: &'s Range<usize>,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + 's {
        let shards = self
            .shards()
            .filter(|(_, inputs)| own.contains(&inputs.start));
        shards.filter(move |(i, inputs)| self.find(step, store, *i, inputs.clone()) != Found::Whole)
    }

    fn metadata(&self) -> Result<String, ArtefactError> {
        serde_json::to_string(&self.origin).map_err(ArtefactError::Json)
    }

    /// Explains the inputs of a shard and masks their paths.
    fn mask_paths(
        &self,
        store: &ShardStore,
        index: usize,
        inputs: Range<usize>,
        progress: &mut dyn Progress,
    ) -> Result<(), TuneError> {
        let sets = self
            .subject
            .explain(inputs.clone(), self.threads, progress)?;
        let all = 0..inputs.len();
        let answers = Answers::of(Vec::new(), vec![all]);
        let study = self
            .subject
            .study(inputs.clone(), sets, answers, self.threads);
        mask_paths(&study, self.options, progress)?;
        let (sets, answers) = study.into_parts();
        let mut specs = sets.specs();
        specs.push(answers_spec(answers.len(), inputs.len()));
        let (name, metadata) = (Step::Paths.name(index), self.metadata()?);
        store.write(&name, inputs, &metadata, &specs, |writer| {
            sets.append_to(writer)?;
            let mut answers = answers.iter();
            answers.try_for_each(|answers| writer.append(ANSWERS, answers))?;
            Ok(())
        })
    }

    /// The sets of all inputs, and what the first step answered.
    fn first_step(
        &self,
        store: &ShardStore,
    ) -> Result<(crate::sets::Sets, Vec<Vec<u32>>), TuneError> {
        let mut sets = self.subject.no_sets();
        let mut answers = vec![Vec::new(); self.questions(Step::Paths)];
        for (i, inputs) in self.shards() {
            let reader = store.open(&Step::Paths.name(i), inputs.clone())?;
            let filled = sets.fill(&reader, inputs.len(), self.subject.layout());
            filled.ok_or_else(|| damaged(&reader))?;
            read_answers(&reader, &mut answers)?;
        }
        Ok((sets, answers))
    }

    /// Masks abstract paths for the inputs of some shards.
    fn mask_abstract(
        &self,
        store: &ShardStore,
        blocks: &[(usize, Range<usize>)],
        progress: &mut dyn Progress,
    ) -> Result<(), TuneError> {
        if blocks.is_empty() {
            return Ok(());
        }
        let (sets, known) = self.first_step(store)?;
        let first = known.len();
        let own = blocks.iter().map(|(_, inputs)| inputs.clone()).collect();
        let all = 0..self.subject.sample.len();
        let answers = Answers::of(known, own);
        let study = self.subject.study(all, sets, answers, self.threads);
        // What is recommended by the answers of a part means nothing.
        choose(&study, self.data, self.options, progress)?;
        let (_, answers) = study.into_parts();
        let (answers, metadata) = (answers.get(first..).unwrap_or_default(), self.metadata()?);
        for (i, inputs) in blocks {
            let name = Step::Abstract.name(*i);
            let specs = [answers_spec(answers.len(), inputs.len())];
            store.write(&name, inputs.clone(), &metadata, &specs, |writer| {
                let mut answers = answers.iter();
                answers.try_for_each(|answers| writer.append(ANSWERS, &answers[inputs.clone()]))?;
                Ok::<(), TuneError>(())
            })?;
        }
        Ok(())
    }
}

fn answers_spec(questions: usize, inputs: usize) -> TensorSpec {
    TensorSpec::of::<u32>(ANSWERS, &[questions, inputs])
}

/// Adds the answers of a shard to those of the shards before it.
fn read_answers(reader: &SafetensorsReader, answers: &mut [Vec<u32>]) -> Result<(), TuneError> {
    let found: Vec<u32> = reader.read(ANSWERS)?;
    let inputs = found.len() / answers.len().max(1);
    if inputs * answers.len() != found.len() || inputs == 0 {
        return Err(damaged(reader).into());
    }
    for (answers, found) in answers.iter_mut().zip(found.chunks_exact(inputs)) {
        answers.extend_from_slice(found);
    }
    Ok(())
}

fn damaged(reader: &SafetensorsReader) -> ArtefactError {
    ArtefactError::Artefact {
        file: reader.name().to_owned(),
        reason: "has another form than it should".to_owned(),
    }
}
