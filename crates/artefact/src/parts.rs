//! Work that several processes share, in the words of its shards.

use std::ops::Range;

use npcov_run::Found;
use serde::{Deserialize, Serialize};

use crate::error::ArtefactError;
use crate::store::{Flaw, ShardStore};

/// What a shard says it was made from, beside the plan's digest, which does not tell what differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Digest of the model.
    pub model: String,
    /// Digest of the decision graph, where there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub graph: String,
    /// Digest of the data.
    pub data: String,
}

impl Origin {
    /// What differs for a shard that was made by another plan.
    fn difference(&self, metadata: &str) -> &'static str {
        match serde_json::from_str::<Origin>(metadata) {
            Ok(found) if found.model != self.model => "made by another model",
            Ok(found) if found.graph != self.graph => "made with another graph",
            Ok(found) if found.data != self.data => "made from other data",
            _ => "made with other settings",
        }
    }
}

/// A part of some work that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedPart {
    /// Which part of how many, as `2/4`.
    pub part: String,
    /// The folder that it was added to.
    pub folder: String,
    /// The first of its inputs.
    pub start: usize,
    /// The one behind the last; the same as the first where there are more parts than shards.
    pub end: usize,
}

/// A shard that work cannot go on without.
pub struct WantedShard<'a> {
    /// Its name.
    pub name: String,
    /// Its inputs.
    pub inputs: Range<usize>,
    /// Whether it is there.
    pub found: Found,
    /// What it should be made from.
    pub origin: &'a Origin,
}

impl ShardStore {
    /// Makes sure that shards are there. Those that are missing, damaged, or made for something else are an
    /// error that names them.
    pub fn require<'a>(
        &self,
        wanted: impl IntoIterator<Item = WantedShard<'a>>,
    ) -> Result<(), ArtefactError> {
        let (mut all, mut wrong) = (0, Vec::new());
        for shard in wanted {
            all += 1;
            if shard.found == Found::Whole {
                continue;
            }
            let (name, inputs) = (&shard.name, shard.inputs);
            let flaw = match self.flaw(name, inputs.clone()) {
                Flaw::Missing => "missing".to_owned(),
                Flaw::Damaged => "damaged".to_owned(),
                Flaw::OtherVersion(version) => format!("written by npcov {version}"),
                Flaw::OtherShard(other) => format!("it is `{other}`"),
                Flaw::OtherPlan { metadata } => shard.origin.difference(&metadata).to_owned(),
            };
            let (first, last) = (inputs.start, inputs.end - 1);
            wrong.push(format!(
                "`{name}.safetensors`, inputs {first} to {last}: {flaw}"
            ));
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(ArtefactError::Parts {
                folder: self.folder_name(),
                all,
                wrong,
            }),
        }
    }

    /// The folder of shards, in words; nothing in memory.
    pub fn folder_name(&self) -> String {
        let folder = self.folder();
        folder.map_or(String::new(), |folder| folder.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use npcov_data::safetensors::{SafetensorsWriter, TensorSpec};
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn shards_that_do_not_belong_are_told_apart() {
        let folder = TempDir::new().unwrap();
        let store = ShardStore::shared(&folder.path().join("a"), "\"plan\"").unwrap();
        let origin = Origin {
            model: "m".to_owned(),
            graph: "g".to_owned(),
            data: "d".to_owned(),
        };
        let specs = [TensorSpec::of::<u32>("x", &[2])];
        let write = |index: usize, metadata: serde_json::Value| {
            let file = store.folder().unwrap();
            let file = file.join(format!("inputs-00000{index}.safetensors"));
            let mut writer = SafetensorsWriter::create(file, &metadata.to_string(), &specs)?;
            writer.append("x", &[1_u32, 2])?;
            writer.finish()
        };
        let shard = |index: usize, plan: &str, version: &str| {
            let name = format!("inputs-00000{index}");
            json!({ "name": name, "inputs": [0, 2], "plan": plan, "version": version })
        };
        let version = env!("CARGO_PKG_VERSION");
        let of = |model: &str, graph: &str, data: &str| json!({ "shard": shard(0, "other", version), "model": model, "graph": graph, "data": data });
        let no_graph = json!({ "shard": shard(0, "other", version), "model": "m", "data": "d" });
        for (metadata, flaw) in [
            (of("M", "g", "d"), "made by another model"),
            (of("m", "G", "d"), "made with another graph"),
            (no_graph, "made with another graph"),
            (of("m", "g", "D"), "made from other data"),
            (of("m", "g", "d"), "made with other settings"),
            (
                json!({ "shard": shard(0, "", "0.0.0") }),
                "written by npcov 0.0.0",
            ),
            (json!({}), "damaged"),
        ] {
            write(0, metadata).unwrap();
            let wanted = |name: &str, found: Found| WantedShard {
                name: name.to_owned(),
                inputs: 0..2,
                found,
                origin: &origin,
            };
            let found = store.find("inputs-000000", 0..2, |_| true);
            let error = store.require([
                wanted("inputs-000000", found),
                wanted("inputs-000001", Found::Nothing),
                wanted("inputs-000002", Found::Whole),
            ]);
            let Err(ArtefactError::Parts { all, wrong, .. }) = error else {
                panic!("{flaw}: {error:?}");
            };
            let line = |name: &str, flaw: &str| format!("`{name}`, inputs 0 to 1: {flaw}");
            let lines = [
                line("inputs-000000.safetensors", flaw),
                line("inputs-000001.safetensors", "missing"),
            ];
            assert_eq!((all, wrong), (3, lines.to_vec()));
        }
    }
}
