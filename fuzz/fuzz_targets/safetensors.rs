//! A safetensors file of any bytes is read or refused; all that an opened one claims to hold is there, and where the file
//! has checksums it is what they say or damaged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use npcov_data::safetensors::{SafetensorsReader, TensorSpec, Scalar};
use npcov_data::{DataError, Element, Source};

fuzz_target!(|bytes: &[u8]| {
    let source = Source::from_bytes(bytes.to_vec());
    let Ok(reader) = SafetensorsReader::new(&source, "file") else {
        return;
    };
    for tensor in reader.tensors() {
        match tensor.element {
            Element::Bool => read::<bool>(&reader, tensor),
            Element::U8 => read::<u8>(&reader, tensor),
            Element::U16 => read::<u16>(&reader, tensor),
            Element::U32 => read::<u32>(&reader, tensor),
            Element::U64 => read::<u64>(&reader, tensor),
            Element::I64 => read::<i64>(&reader, tensor),
            Element::F32 => read::<f32>(&reader, tensor),
            Element::F64 => read::<f64>(&reader, tensor),
            Element::I8 | Element::I16 | Element::I32 | Element::F16 => {}
        }
    }
});

fn read<T: Scalar>(reader: &SafetensorsReader, tensor: &TensorSpec) {
    let all = match reader.read::<T>(&tensor.name) {
        Err(DataError::Damaged { .. }) if reader.is_sealed() => return,
        read => read.expect("an opened tensor is complete"),
    };
    let rows = tensor.shape.first().copied().unwrap_or(1);
    if let Some(row_len) = all.len().checked_div(rows) {
        let mut last = vec![T::default(); row_len];
        reader
            .read_row_into(&tensor.name, rows - 1, &mut last)
            .expect("an opened tensor has its rows");
    }
}
