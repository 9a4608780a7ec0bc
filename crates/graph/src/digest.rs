//! Which model something was computed from, whatever its file was called.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::GraphError;
use crate::model::OnnxModel;
use crate::onnx::proto::{GraphProto, NodeProto, TensorProto};

impl OnnxModel {
    /// The SHA-256 digest of the model, of the very bytes that were read: files that have been
    /// replaced since do not matter.
    ///
    /// Of a model in one file, it is that file's. Of a model with external data, it is the digest of
    /// the digests of all its files, one after the other: the model's own, then those it refers to,
    /// each once and in the order of the first reference.
    ///
    /// Half a gigabyte takes up to a second, the first time.
    pub fn digest(&self) -> Result<[u8; 32], GraphError> {
        if let Some(digest) = self.digest.get() {
            return Ok(*digest);
        }
        let digest = self.compute_digest()?;
        Ok(*self.digest.get_or_init(|| digest))
    }

    /// The files that it was read from: its own, then those of its external data, each once.
    pub fn files(&self) -> Result<Vec<PathBuf>, GraphError> {
        let mut files: Vec<PathBuf> = self.path().map(Path::to_owned).into_iter().collect();
        for tensor in self.tensors() {
            let file = self.external.file_of(tensor)?;
            files.extend(file.filter(|file| !files.contains(file)));
        }
        Ok(files)
    }

    fn compute_digest(&self) -> Result<[u8; 32], GraphError> {
        let own = Sha256::digest(&self.file);
        let mut all = Sha256::new_with_prefix(own);
        let mut seen = HashSet::new();
        for tensor in self.tensors() {
            let Some(path) = self.external.file_of(tensor)? else {
                continue;
            };
            if seen.contains(&path) {
                continue;
            }
            let content = self.external.content(&path);
            all.update(Sha256::digest(content.map_err(|source| {
                let path = path.clone();
                GraphError::Io { path, source }
            })?));
            seen.insert(path);
        }
        Ok(if seen.is_empty() { own } else { all.finalize() }.into())
    }

    /// Every stored tensor: the graph's before the functions', initialisers before nodes.
    fn tensors(&self) -> Vec<&TensorProto> {
        let mut tensors = Vec::new();
        add_graph(self.graph(), &mut tensors);
        for function in &self.proto.functions {
            tensors.extend(function.attribute_proto.iter().filter_map(|a| a.t.as_ref()));
            add_nodes(&function.node, &mut tensors);
        }
        tensors
    }
}

fn add_graph<'a>(graph: &'a GraphProto, tensors: &mut Vec<&'a TensorProto>) {
    tensors.extend(&graph.initializer);
    add_nodes(&graph.node, tensors);
}

/// Graphs in graphs are at most as deep as the decoder follows them.
fn add_nodes<'a>(nodes: &'a [NodeProto], tensors: &mut Vec<&'a TensorProto>) {
    for attribute in nodes.iter().flat_map(|node| &node.attribute) {
        tensors.extend(&attribute.t);
        if let Some(graph) = &attribute.g {
            add_graph(graph, tensors);
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::Specialisation;
    use crate::onnx::proto::{
        AttributeProto, EXTERNAL, FunctionProto, ModelProto, OperatorSetIdProto,
        StringStringEntryProto,
    };

    fn fixture(name: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        folder.join(name)
    }

    fn hex(digest: [u8; 32]) -> String {
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn digest(path: &Path) -> String {
        hex(OnnxModel::read(path).unwrap().digest().unwrap())
    }

    /// A folder that is removed with its test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let name = format!("npcov-digest-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn the_digest_of_a_model_in_one_file_is_the_files() {
        // sha256sum fixtures/lenet.onnx
        let expected = "d0e61c1e97dde5aa91228258265c4eea340e4779905fc47897bc460640f83ee9";
        assert_eq!(digest(&fixture("lenet.onnx")), expected);
        let bytes = std::fs::read(fixture("lenet.onnx")).unwrap();
        let model = OnnxModel::from_bytes(bytes).unwrap();
        assert_eq!(hex(model.digest().unwrap()), expected);
    }

    #[test]
    fn external_files_count_by_their_content() {
        // for f in fixtures/mlp-external.{onnx,bin}; do sha256sum $f | head -c 64; done \
        //     | xxd -r -p | sha256sum
        let expected = "591c07df4d40fdfe63bfecf98684282a82fa947f142e73425e77c6d0adf0cd2b";
        assert_eq!(digest(&fixture("mlp-external.onnx")), expected);
        let folder = Folder::new("external");
        let (model, weights) = (
            folder.0.join("renamed.onnx"),
            folder.0.join("mlp-external.bin"),
        );
        std::fs::copy(fixture("mlp-external.onnx"), &model).unwrap();
        let mut bytes = std::fs::read(fixture("mlp-external.bin")).unwrap();
        std::fs::write(&weights, &bytes).unwrap();
        assert_eq!(digest(&model), expected);
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&weights, &bytes).unwrap();
        assert_ne!(digest(&model), expected);
        std::fs::remove_file(&weights).unwrap();
        let error = OnnxModel::read(&model)
            .unwrap()
            .digest()
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("cannot find external file `mlp-external.bin`"),
            "{error}"
        );
    }

    /// Weights that were read before a file was replaced, and the digest that was asked for after,
    /// belong together; in either order.
    #[test]
    fn replaced_files_change_neither_weights_nor_digest() {
        let folder = Folder::new("replaced");
        let (path, weights) = (
            folder.0.join("mlp-external.onnx"),
            folder.0.join("mlp-external.bin"),
        );
        let numbers = |model: &OnnxModel| -> Vec<f32> {
            let graph = model.specialise(&Specialisation::default()).unwrap();
            let constants = graph.values().iter().filter_map(|v| v.constant.as_ref());
            constants.flat_map(|tensor| tensor.to_f32()).collect()
        };
        let expected = digest(&fixture("mlp-external.onnx"));
        let original = numbers(&OnnxModel::read(fixture("mlp-external.onnx")).unwrap());
        for digest_first in [true, false] {
            for name in ["mlp-external.onnx", "mlp-external.bin"] {
                std::fs::copy(fixture(name), folder.0.join(name)).unwrap();
            }
            let model = OnnxModel::read(&path).unwrap();
            match digest_first {
                true => assert_eq!(hex(model.digest().unwrap()), expected),
                false => assert_eq!(numbers(&model), original),
            }
            let zeros = vec![0; std::fs::metadata(&weights).unwrap().len() as usize];
            std::fs::write(&weights, zeros).unwrap();
            std::fs::write(&path, b"another model").unwrap();
            assert_eq!(numbers(&model), original);
            assert_eq!(hex(model.digest().unwrap()), expected);
            // A copy of the model has read what the model has.
            assert_eq!(hex(model.clone().digest().unwrap()), expected);
        }
    }

    fn external(location: &str) -> TensorProto {
        let entry = StringStringEntryProto {
            key: Some("location".to_owned()),
            value: Some(location.to_owned()),
        };
        TensorProto {
            name: Some("w".to_owned()),
            data_location: Some(EXTERNAL),
            external_data: vec![entry],
            ..Default::default()
        }
    }

    fn node(attribute: AttributeProto) -> NodeProto {
        NodeProto {
            attribute: vec![attribute],
            ..Default::default()
        }
    }

    fn constant(location: &str) -> NodeProto {
        node(AttributeProto {
            t: Some(external(location)),
            ..Default::default()
        })
    }

    fn model(graph: GraphProto, functions: Vec<FunctionProto>) -> Vec<u8> {
        let model = ModelProto {
            graph: Some(graph),
            functions,
            opset_import: vec![OperatorSetIdProto {
                domain: None,
                version: Some(17),
            }],
            ..Default::default()
        };
        model.encode_to_vec()
    }

    #[test]
    fn each_file_counts_once_wherever_it_is_referred_to() {
        let branch = AttributeProto {
            g: Some(Box::new(GraphProto {
                node: vec![constant("c")],
                initializer: vec![external("./a"), external("b")],
                ..Default::default()
            })),
            ..Default::default()
        };
        let graph = GraphProto {
            node: vec![node(branch), constant("d")],
            initializer: vec![external("a"), external("a")],
            ..Default::default()
        };
        let default = AttributeProto {
            t: Some(external("e")),
            ..Default::default()
        };
        let function = FunctionProto {
            node: vec![constant("f"), constant("b")],
            attribute_proto: vec![default],
            ..Default::default()
        };
        let bytes = model(graph, vec![function]);
        let folder = Folder::new("order");
        let path = folder.0.join("model");
        std::fs::write(&path, &bytes).unwrap();
        let mut expected = Sha256::digest(&bytes).to_vec();
        for (i, name) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
            let content = vec![i as u8; i * 40_000];
            std::fs::write(folder.0.join(name), &content).unwrap();
            expected.extend(Sha256::digest(&content));
        }
        assert_eq!(digest(&path), hex(Sha256::digest(&expected).into()));
    }

    #[test]
    fn files_that_cannot_be_read_are_errors() {
        let folder = Folder::new("errors");
        std::fs::create_dir_all(folder.0.join("folder")).unwrap();
        let with = |location: &str| {
            let initializer = vec![external(location)];
            model(
                GraphProto {
                    initializer,
                    ..Default::default()
                },
                vec![],
            )
        };
        for (location, expected) in [
            ("folder", "cannot access"),
            ("../secret", "outside of the model's folder"),
        ] {
            let path = folder.0.join("model");
            std::fs::write(&path, with(location)).unwrap();
            let error = OnnxModel::read(&path)
                .unwrap()
                .digest()
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{error}");
        }
        let error = OnnxModel::from_bytes(with("folder"))
            .unwrap()
            .digest()
            .unwrap_err();
        assert!(error.to_string().contains("read from a file"), "{error}");
    }
}
