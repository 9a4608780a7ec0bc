//! Names of samples as tensors: their bytes one after the other, and where each one ends.

use npcov_data::DataError;
use npcov_data::safetensors::{SafetensorsReader, SafetensorsWriter, TensorSpec};

use crate::error::ArtefactError;

/// The tensors that names are written to; none where there are no names.
pub(crate) fn specs(prefix: &str, names: &[String]) -> Vec<TensorSpec> {
    if names.is_empty() {
        return Vec::new();
    }
    let bytes = names.iter().map(String::len).sum();
    vec![
        TensorSpec::of::<u8>(format!("{prefix}.bytes"), &[bytes]),
        TensorSpec::of::<u64>(format!("{prefix}.ends"), &[names.len()]),
    ]
}

/// Writes names to their tensors, behind others that end at `end`, and moves that on.
pub(crate) fn write(
    writer: &mut SafetensorsWriter,
    prefix: &str,
    names: &[String],
    end: &mut u64,
) -> Result<(), DataError> {
    for name in names {
        *end += name.len() as u64;
        writer.append(&format!("{prefix}.bytes"), name.as_bytes())?;
        writer.append(&format!("{prefix}.ends"), &[*end])?;
    }
    Ok(())
}

/// Reads the names of so many samples; none where there are none.
pub(crate) fn read(
    reader: &SafetensorsReader,
    prefix: &str,
    count: usize,
) -> Result<Vec<String>, ArtefactError> {
    if reader.tensor(&format!("{prefix}.ends")).is_none() {
        return Ok(Vec::new());
    }
    let bytes: Vec<u8> = reader.read(&format!("{prefix}.bytes"))?;
    let ends: Vec<u64> = reader.read(&format!("{prefix}.ends"))?;
    let mut start = 0;
    let mut names = Vec::with_capacity(ends.len());
    for end in ends {
        let name = usize::try_from(end).ok().and_then(|end| {
            let name = bytes.get(std::mem::replace(&mut start, end)..end)?;
            Some(str::from_utf8(name).ok()?.to_owned())
        });
        names.extend(name);
    }
    match names.len() == count && start == bytes.len() {
        true => Ok(names),
        false => Err(ArtefactError::Artefact {
            file: reader.name().to_owned(),
            reason: format!("`{prefix}` does not name its samples"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use npcov_data::Source;

    fn written(bytes: &[u8], ends: &[u64]) -> SafetensorsReader {
        let specs = [
            TensorSpec::of::<u8>("names.bytes", &[bytes.len()]),
            TensorSpec::of::<u64>("names.ends", &[ends.len()]),
        ];
        let mut writer = SafetensorsWriter::in_memory("{}", &specs).unwrap();
        writer.append("names.bytes", bytes).unwrap();
        writer.append("names.ends", ends).unwrap();
        let source = Source::from_bytes(writer.into_bytes().unwrap());
        SafetensorsReader::new(&source, "test").unwrap()
    }

    #[test]
    fn names_come_back() {
        let names = ["cat/0.png", "", "Käfer/1.png"].map(str::to_owned);
        let mut writer = SafetensorsWriter::in_memory("{}", &specs("names", &names)).unwrap();
        let mut end = 0;
        write(&mut writer, "names", &names[..1], &mut end).unwrap();
        write(&mut writer, "names", &names[1..], &mut end).unwrap();
        let source = Source::from_bytes(writer.into_bytes().unwrap());
        let reader = SafetensorsReader::new(&source, "test").unwrap();
        assert_eq!(read(&reader, "names", 3).unwrap(), names);
        assert!(read(&reader, "names", 2).is_err());
        assert_eq!(read(&reader, "others", 2).unwrap(), [""; 0]);
    }

    #[test]
    fn damaged_names_are_refused() {
        for (bytes, ends) in [
            (&b"ab"[..], &[1, 3][..]),
            (b"ab", &[2, 1]),
            (b"ab", &[1, 1]),
            (b"a\xff", &[1, 2]),
            (b"ab", &[1, u64::MAX]),
        ] {
            assert!(read(&written(bytes, ends), "names", 2).is_err());
        }
    }
}
