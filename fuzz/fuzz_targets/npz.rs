//! An npz file of any bytes is read or refused, array by array.
#![no_main]

use libfuzzer_sys::fuzz_target;
use npcov_data::Source;
use npcov_data::npz::Archive;

fuzz_target!(|bytes: &[u8]| {
    let Ok(archive) = Archive::open(Source::from_bytes(bytes.to_vec())) else {
        return;
    };
    for name in archive.names().take(4) {
        if let Ok(Some(rows)) = archive.array(name) {
            // The last row alone: a deflated member may hold a thousand times the bytes of its file.
            let last = rows.len().saturating_sub(1)..rows.len();
            let mut out = vec![0.0; last.len() * rows.sample_len()];
            rows.read_f32(last, &mut Vec::new(), &mut out)
                .expect("an opened array is complete");
        }
    }
});
