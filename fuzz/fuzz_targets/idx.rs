//! An IDX file of any bytes, plain or compressed, is read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use npcov_data::{Source, idx};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(rows) = idx::open(&Source::from_bytes(bytes.to_vec())) {
        let last = rows.len().saturating_sub(1)..rows.len();
        let mut out = vec![0.0; last.len() * rows.sample_len()];
        rows.read_f32(last, &mut Vec::new(), &mut out)
            .expect("an opened array is complete");
    }
});
