//! Stored tensors, inside of the model or in files beside it.

use std::collections::HashMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use half::{bf16, f16};
use prost::Message;

use super::proto::{EXTERNAL, TensorProto, data_type as kind};
use crate::error::GraphError;
use crate::tensor::{DType, Data, Tensor};

/// The largest file of external data. It is in memory as a whole, and its numbers once more as `f32`.
const LARGEST_EXTERNAL: u64 = 1 << 34;

/// A model's external data: files in its own folder, or none for a model from memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExternalData {
    folder: Option<PathBuf>,
    /// The files that were read, for good: what is computed with a model, and the digest that says
    /// which model it was, come from the same bytes, whatever happens to the files.
    files: Arc<Mutex<HashMap<PathBuf, Bytes>>>,
}

/// The canonical element type of an ONNX one.
pub(crate) fn dtype_of(onnx: i32) -> Option<DType> {
    match onnx {
        kind::FLOAT | kind::FLOAT16 | kind::BFLOAT16 | kind::DOUBLE => Some(DType::F32),
        kind::UINT8
        | kind::INT8
        | kind::UINT16
        | kind::INT16
        | kind::INT32
        | kind::INT64
        | kind::UINT32
        | kind::UINT64 => Some(DType::I64),
        kind::BOOL => Some(DType::Bool),
        _ => None,
    }
}

/// Bytes of one element in `raw_data`.
fn width(onnx: i32) -> usize {
    match onnx {
        kind::UINT8 | kind::INT8 | kind::BOOL => 1,
        kind::UINT16 | kind::INT16 | kind::FLOAT16 | kind::BFLOAT16 => 2,
        kind::DOUBLE | kind::INT64 | kind::UINT64 => 8,
        _ => 4,
    }
}

/// Converts a stored tensor.
pub(crate) fn read_tensor(
    proto: &TensorProto,
    external: &ExternalData,
) -> Result<Tensor, GraphError> {
    let name = proto.name.clone().unwrap_or_default();
    let fail = |reason: String| GraphError::Tensor {
        name: name.clone(),
        reason,
    };
    let onnx = proto.data_type.unwrap_or_default();
    if dtype_of(onnx).is_none() {
        return Err(fail(match onnx {
            kind::STRING => "strings are not supported".to_owned(),
            _ => format!("element type {onnx} is not supported"),
        }));
    }
    let shape: Vec<usize> = proto
        .dims
        .iter()
        .map(|&d| usize::try_from(d).map_err(|_| fail(format!("negative extent `{d}`"))))
        .collect::<Result<_, _>>()?;
    let bytes = shape
        .iter()
        .try_fold(width(onnx), |acc, &d| acc.checked_mul(d))
        .ok_or_else(|| fail(format!("absurd shape {shape:?}")))?;
    let data = if proto.data_location == Some(EXTERNAL) {
        let raw = external.read(proto, bytes).map_err(fail)?;
        from_raw(onnx, &raw)
    } else if let Some(raw) = proto.raw_data.as_ref().filter(|raw| !raw.is_empty()) {
        if raw.len() != bytes {
            return Err(fail(format!("{} bytes for shape {shape:?}", raw.len())));
        }
        from_raw(onnx, raw)
    } else {
        from_typed(onnx, proto)
    };
    let count = data.len();
    Tensor::new(shape.clone(), data)
        .ok_or_else(|| fail(format!("{count} elements for shape {shape:?}")))
}

impl Tensor {
    /// Decodes a tensor in ONNX's own file format, a `TensorProto`: what ONNX's tests keep their
    /// inputs and outputs in.
    pub fn from_onnx(bytes: &[u8]) -> Result<Tensor, GraphError> {
        let proto = TensorProto::decode(bytes).map_err(|e| GraphError::Tensor {
            name: String::new(),
            reason: e.to_string(),
        })?;
        read_tensor(&proto, &ExternalData::default())
    }
}

/// Elements stored as little-endian bytes.
fn from_raw(onnx: i32, raw: &[u8]) -> Data {
    macro_rules! each {
        ($t:ty, $n:literal, $f:expr) => {
            raw.as_chunks::<$n>()
                .0
                .iter()
                .map(|&b| $f(<$t>::from_le_bytes(b)))
                .collect()
        };
    }
    match onnx {
        kind::FLOAT => Data::F32(each!(f32, 4, |x| x)),
        kind::DOUBLE => Data::F32(each!(f64, 8, |x| x as f32)),
        kind::FLOAT16 => Data::F32(each!(f16, 2, |x: f16| x.to_f32())),
        kind::BFLOAT16 => Data::F32(each!(bf16, 2, |x: bf16| x.to_f32())),
        kind::UINT8 => Data::I64(each!(u8, 1, i64::from)),
        kind::INT8 => Data::I64(each!(i8, 1, i64::from)),
        kind::UINT16 => Data::I64(each!(u16, 2, i64::from)),
        kind::INT16 => Data::I64(each!(i16, 2, i64::from)),
        kind::UINT32 => Data::I64(each!(u32, 4, i64::from)),
        kind::INT32 => Data::I64(each!(i32, 4, i64::from)),
        kind::UINT64 => Data::I64(each!(u64, 8, |x| x as i64)),
        kind::INT64 => Data::I64(each!(i64, 8, |x| x)),
        _ => Data::Bool(raw.iter().map(|&b| b != 0).collect()),
    }
}

/// Elements stored in the field of their own type; small types share `int32_data`.
fn from_typed(onnx: i32, proto: &TensorProto) -> Data {
    let ints = &proto.int32_data;
    match onnx {
        kind::FLOAT => Data::F32(proto.float_data.clone()),
        kind::DOUBLE => Data::F32(proto.double_data.iter().map(|&x| x as f32).collect()),
        kind::FLOAT16 => Data::F32(
            ints.iter()
                .map(|&b| f16::from_bits(b as u16).to_f32())
                .collect(),
        ),
        kind::BFLOAT16 => Data::F32(
            ints.iter()
                .map(|&b| bf16::from_bits(b as u16).to_f32())
                .collect(),
        ),
        kind::INT64 => Data::I64(proto.int64_data.clone()),
        kind::UINT32 | kind::UINT64 => {
            Data::I64(proto.uint64_data.iter().map(|&x| x as i64).collect())
        }
        kind::BOOL => Data::Bool(ints.iter().map(|&b| b != 0).collect()),
        _ => Data::I64(ints.iter().map(|&x| i64::from(x)).collect()),
    }
}

/// What a tensor says of its place in another file.
fn entry<'a>(proto: &'a TensorProto, key: &str) -> Option<&'a str> {
    proto
        .external_data
        .iter()
        .find(|e| e.key.as_deref() == Some(key))
        .and_then(|e| e.value.as_deref())
}

fn location(proto: &TensorProto) -> Result<&str, String> {
    entry(proto, "location").ok_or_else(|| "its external file has no name".to_owned())
}

impl ExternalData {
    /// The external data of a model in the given folder.
    pub(crate) fn new(folder: Option<PathBuf>) -> ExternalData {
        ExternalData {
            folder,
            files: Arc::default(),
        }
    }

    /// The content of a file, as it was when it was first asked for.
    pub(crate) fn content(&self, path: &Path) -> io::Result<Bytes> {
        // A file whose reading panicked is not there, so it is read again.
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = files.get(path) {
            return Ok(content.clone());
        }
        let content = Bytes::from(npcov_file::read(path, LARGEST_EXTERNAL)?);
        files.insert(path.to_owned(), content.clone());
        Ok(content)
    }

    /// The file that a tensor is stored in, where that is not the model's own.
    pub(crate) fn file_of(&self, proto: &TensorProto) -> Result<Option<PathBuf>, GraphError> {
        if proto.data_location != Some(EXTERNAL) {
            return Ok(None);
        }
        match location(proto).and_then(|location| self.resolve(location)) {
            Ok(path) => Ok(Some(path)),
            Err(reason) => Err(GraphError::Tensor {
                name: proto.name.clone().unwrap_or_default(),
                reason,
            }),
        }
    }

    /// The bytes of a tensor that is stored in another file.
    fn read(&self, proto: &TensorProto, bytes: usize) -> Result<Bytes, String> {
        let number = |key: &str| {
            entry(proto, key)
                .map(|v| v.parse::<u64>().map_err(|_| format!("`{key}` is `{v}`")))
                .transpose()
        };
        let location = location(proto)?;
        let offset = number("offset")?.unwrap_or(0);
        if let Some(length) = number("length")?
            && length != bytes as u64
        {
            return Err(format!("`{location}` holds {length} bytes, {bytes} wanted"));
        }
        let path = self.resolve(location)?;
        let content = self
            .content(&path)
            .map_err(|e| format!("cannot read `{}`: {e}", path.display()))?;
        // The shape is a claim of the model.
        let range = usize::try_from(offset)
            .ok()
            .and_then(|start| Some(start..start.checked_add(bytes)?))
            .filter(|range| range.end <= content.len());
        let range = range.ok_or_else(|| {
            let available = content.len();
            format!("`{location}` has {available} bytes, the tensor ends after {offset} + {bytes}")
        })?;
        Ok(content.slice(range))
    }

    /// The file of that name, if it is inside of the model's folder: also after links are followed.
    fn resolve(&self, location: &str) -> Result<PathBuf, String> {
        let folder = self
            .folder
            .as_ref()
            .ok_or("external data needs a model that is read from a file")?;
        let relative = Path::new(location);
        let plain = relative
            .components()
            .all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
        let outside = || format!("external file `{location}` is outside of the model's folder");
        if !plain {
            return Err(outside());
        }
        let canonical = |p: &Path| {
            p.canonicalize()
                .map_err(|e| format!("cannot find external file `{location}`: {e}"))
        };
        let path = canonical(&folder.join(relative))?;
        match path.starts_with(canonical(folder)?) {
            true => Ok(path),
            false => Err(outside()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::proto::StringStringEntryProto;
    use super::*;

    fn raw(onnx: i32, dims: &[i64], bytes: &[u8]) -> TensorProto {
        TensorProto {
            dims: dims.to_vec(),
            data_type: Some(onnx),
            raw_data: Some(bytes.to_vec().into()),
            ..Default::default()
        }
    }

    fn read(proto: &TensorProto) -> Result<Tensor, GraphError> {
        read_tensor(proto, &ExternalData::default())
    }

    #[test]
    fn every_width_becomes_one_of_three_types() {
        // 1.5 in each format, written out by hand.
        let floats: [(i32, &[u8]); 4] = [
            (kind::FLOAT, &[0, 0, 0xc0, 0x3f]),
            (kind::DOUBLE, &[0, 0, 0, 0, 0, 0, 0xf8, 0x3f]),
            (kind::FLOAT16, &[0, 0x3e]),
            (kind::BFLOAT16, &[0xc0, 0x3f]),
        ];
        for (onnx, bytes) in floats {
            assert_eq!(read(&raw(onnx, &[1], bytes)).unwrap().to_f32(), [1.5]);
        }
        let minus_two = read(&raw(kind::INT16, &[1], &[0xfe, 0xff])).unwrap();
        assert_eq!(minus_two.as_i64(), Some(&[-2][..]));
    }

    #[test]
    fn tensors_are_read_from_files_of_their_own() {
        let proto = raw(kind::UINT8, &[2], &[1, 255]);
        let tensor = Tensor::from_onnx(&proto.encode_to_vec()).unwrap();
        assert_eq!(tensor, Tensor::ints(vec![1, 255]));
        assert!(Tensor::from_onnx(&[0xff]).is_err());
        // No bytes are a message without any field.
        assert!(Tensor::from_onnx(&[]).is_err());
    }

    #[test]
    fn shapes_that_do_not_fit_are_errors() {
        for dims in [&[3][..], &[-1], &[i64::MAX, i64::MAX]] {
            assert!(read(&raw(kind::FLOAT, dims, &[0; 8])).is_err(), "{dims:?}");
        }
        assert!(read(&raw(kind::STRING, &[0], &[])).is_err());
    }

    fn external(location: &str, offset: &str) -> TensorProto {
        let entry = |key: &str, value: &str| StringStringEntryProto {
            key: Some(key.to_owned()),
            value: Some(value.to_owned()),
        };
        TensorProto {
            dims: vec![2],
            data_type: Some(kind::UINT8),
            data_location: Some(EXTERNAL),
            external_data: vec![entry("location", location), entry("offset", offset)],
            ..Default::default()
        }
    }

    #[test]
    fn external_data_stays_inside_of_the_folder() {
        let root = std::env::temp_dir().join(format!("npcov-external-{}", std::process::id()));
        let folder = root.join("model");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("weights"), [1, 2, 3, 4]).unwrap();
        std::fs::write(root.join("secret"), [9, 9, 9, 9]).unwrap();
        let data = ExternalData::new(Some(folder.clone()));
        let read = |location, offset| read_tensor(&external(location, offset), &data);
        assert_eq!(read("weights", "2").unwrap().as_i64(), Some(&[3, 4][..]));
        assert!(read("weights", "3").is_err());
        assert!(read("weights", "18446744073709551615").is_err());
        let absolute = root.join("secret");
        for path in ["../secret", absolute.to_str().unwrap(), "missing"] {
            assert!(read(path, "0").is_err(), "{path}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(root.join("secret"), folder.join("link")).unwrap();
            let error = read("link", "0").unwrap_err().to_string();
            assert!(error.contains("outside of the model's folder"), "{error}");
        }
        std::fs::remove_dir_all(root).unwrap();
    }
}
