//! Classes that are clustered by many processes, each of which holds some of their paths at a time.
//!
//! One process leads. It lays the distinct paths of a class out in files beside the parts of the graph, asks whoever sees
//! these about them, and keeps the clusters as [one that clustered the class alone](crate::portions) would. Answers
//! depend on a file and the question alone ([`npcov_paths::kmeans`]).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use npcov_artefact::ShardStore;
use npcov_data::safetensors::{SafetensorsReader, TensorSpec};
use npcov_data::{DataError, Digester};
use npcov_paths::kmeans::{Answer, PointBlock, Question};
use npcov_paths::{BitRows, BlockBytes, Clustering, cluster_blocks, is_spread};
use npcov_run::Network;

use crate::build::{BuildOptions, Learning, Prepared, open_shards};
use crate::classes::Classes;
use crate::error::CoverageError;

/// Gives what all of some files answer, in order; nothing where that is not to be had.
pub type Ask<'a> = dyn FnMut(&[PathBuf], &Question) -> Option<Vec<Answer>> + 'a;

/// Clusters classes by k-means whose paths take more than so many bytes, when all [parts](crate::build_part) of the inputs
/// are there, and keeps what comes out with them. Of the paths, `ask` gives what is asked of blocks; a class of which it
/// gives nothing is left as it is, for [`cluster_part`](crate::cluster_part) or [`join_parts`](crate::join_parts). So are
/// those whose number of clusters is to be found. Gives the classes that were clustered.
pub fn cluster_spread<'a>(
    network: &Arc<Network>,
    inputs: impl Into<Learning<'a>>,
    options: &BuildOptions,
    output: &Path,
    bytes: BlockBytes,
    ask: &mut Ask<'_>,
) -> Result<Vec<usize>, CoverageError> {
    let prepared = Prepared::new(network, inputs.into(), options, Some(output))?;
    if !matches!(options.clustering, Clustering::KMeans) {
        return Ok(Vec::new());
    }
    let store = ShardStore::shared(output, &prepared.plan)?;
    let training = prepared.inputs.training;
    let shards = open_shards(&store, &prepared.forms[0], training)?;
    let learn = options.learn_options(network.classes(), training.threads);
    let keeps_apart = prepared.inputs.calibration.is_none();
    let classes = Classes::new(&options.clustering, &learn, &shards, keeps_apart);
    let known = shards.known();
    let is_large = |class: &usize| {
        is_spread(
            known,
            &learn,
            (*class, classes.members(*class).count()),
            bytes,
        )
    };
    let large: Vec<usize> = (0..network.classes()).filter(is_large).collect();
    if large.is_empty() {
        return Ok(large);
    }
    prepared.require_all(&store)?;
    let mut clustered = Vec::new();
    for class in large {
        if classes.is_kept(&store, class) {
            continue;
        }
        let mut blocks = Blocks::default();
        let members: Vec<u32> = classes.members(class).collect();
        let kept = std::cell::RefCell::new(&mut blocks);
        let labels = cluster_blocks(
            known,
            &shards,
            &learn,
            (class, &members),
            bytes,
            |block| kept.borrow_mut().write(&store, class, &block),
            |question| ask(&kept.borrow().0, question),
        )?;
        if let Some(labels) = labels {
            let found = classes.by_kmeans(class, labels)?;
            classes.write_class(&store, class, &found)?;
            clustered.push(class);
        }
    }
    Ok(clustered)
}

/// Files with the points of a class. They are removed when they are not needed any more.
#[derive(Default)]
struct Blocks(Vec<PathBuf>);

impl Blocks {
    fn write(
        &mut self,
        store: &ShardStore,
        class: usize,
        block: &PointBlock,
    ) -> Result<(), CoverageError> {
        let Some(folder) = store.folder() else {
            return Ok(());
        };
        // Nobody answers from another machine's file of the same name.
        let mut contents = Digester::default();
        (block.weights.iter()).for_each(|weight| contents.update(&weight.to_le_bytes()));
        let words = block.points.rows().flatten();
        words.for_each(|word| contents.update(&word.to_le_bytes()));
        let contents = contents.finish().to_string();
        let name = format!("points-{class:06}-{:06}-{contents}", block.number);
        let (rows, width) = (block.points.len(), block.points.width());
        let specs = [
            TensorSpec::of::<u64>("number", &[1]),
            TensorSpec::of::<u32>("weight", &[rows]),
            TensorSpec::of::<u64>("point", &[rows, width]),
        ];
        self.0.push(folder.join(format!("{name}.safetensors")));
        store.write(&name, 0..rows, "{}", &specs, |writer| {
            writer.append("number", &[block.number as u64])?;
            writer.append("weight", &block.weights)?;
            (block.points.rows()).try_for_each(|row| writer.append("point", row))?;
            Ok(())
        })
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        for file in &self.0 {
            // What is left of them goes with the parts.
            let _ = fs::remove_file(file);
        }
    }
}

/// What a file of points answers, in whatever process; nothing where it is no such file, or the question is about others.
pub fn answer_block(file: &Path, question: &Question) -> Result<Option<Answer>, DataError> {
    let reader = SafetensorsReader::open(file)?;
    let numbers: Vec<u64> = reader.read("number")?;
    let weights: Vec<u32> = reader.read("weight")?;
    let words: Vec<u64> = reader.read("point")?;
    let of_rows = reader.tensor("point").map(|spec| spec.shape.as_slice());
    let (Some(&number), Some(&[rows, columns])) = (numbers.first(), of_rows) else {
        return Ok(None);
    };
    if rows != weights.len() {
        return Ok(None);
    }
    let mut points = BitRows::new(columns);
    let rows = words.chunks_exact(columns.max(1));
    rows.for_each(|row| points.push(row));
    let block = PointBlock {
        number: number as usize,
        points,
        weights,
    };
    Ok(block.answer(question))
}
