//! Safetensors files as bytes, taken apart and put together again by the definition of the format.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The tensor that holds checksums.
const SEAL: &str = "npcov.sha256";

/// Bytes that have one checksum.
const BLOCK: usize = 1 << 16;

/// A file in parts.
#[derive(Clone)]
pub(crate) struct Parts {
    /// The header without the seal; nothing else of it is checked.
    pub(crate) header: Map<String, Value>,
    /// What follows it, the seal's bytes left out.
    pub(crate) data: Vec<u8>,
}

/// Where a tensor's bytes are said to be.
pub(crate) fn range(entry: &Value) -> Option<(usize, usize)> {
    let ends = entry.get("data_offsets")?;
    let end = |i: usize| ends.get(i)?.as_u64().map(|end| end as usize);
    Some((end(0)?, end(1)?))
}

/// Takes a file apart.
pub(crate) fn parts(bytes: &[u8]) -> Parts {
    let len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Map<String, Value> = serde_json::from_slice(&bytes[8..8 + len]).unwrap();
    let mut data = bytes[8 + len..].to_vec();
    let seal = header.remove(SEAL).unwrap();
    let (start, end) = range(&seal).unwrap();
    data.drain(start..end);
    for entry in header.values_mut() {
        if let Some((from, to)) = range(entry).filter(|(from, _)| *from >= end) {
            entry["data_offsets"] = serde_json::json!([from - (end - start), to - (end - start)]);
        }
    }
    Parts { header, data }
}

/// Puts a file together, with a seal that fits whatever it says.
pub(crate) fn sealed(parts: &Parts) -> Vec<u8> {
    let Parts { header, data } = parts;
    let mut tensors: Vec<(&String, &Value)> = header
        .iter()
        .filter(|(name, _)| *name != "__metadata__")
        .collect();
    tensors.sort_by_key(|(name, _)| *name);
    let mut digests = Vec::new();
    for (_, entry) in tensors {
        let bytes = range(entry).and_then(|(start, end)| data.get(start..end));
        for block in bytes.unwrap_or_default().chunks(BLOCK) {
            digests.extend_from_slice(&Sha256::digest(block));
        }
    }
    let mut header = header.clone();
    let (start, end) = (data.len(), data.len() + digests.len() + 32);
    header.insert(
        SEAL.to_owned(),
        serde_json::json!({
            "dtype": "U8",
            "shape": [digests.len() / 32 + 1, 32],
            "data_offsets": [start, end],
        }),
    );
    let json = serde_json::to_vec(&header).unwrap();
    let start = [&(json.len() as u64).to_le_bytes()[..], &json].concat();
    let root = Sha256::new()
        .chain_update(&start)
        .chain_update(&digests)
        .finalize();
    [&start[..], data, &digests, &root].concat()
}
