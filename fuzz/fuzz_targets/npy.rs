//! An npy file of any bytes is read or refused; a header that is read survives being written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use npcov_data::Source;
use npcov_data::npy::{self, Header};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = Header::parse(bytes) {
        let again = Header::parse(&header.to_bytes()).expect("a written header is read");
        assert_eq!(again.shape(), header.shape());
        assert_eq!(again.element(), header.element());
    }
    if let Ok(rows) = npy::open(&Source::from_bytes(bytes.to_vec())) {
        let mut out = vec![0.0; rows.len() * rows.sample_len()];
        rows.read_f32(0..rows.len(), &mut Vec::new(), &mut out)
            .expect("an opened array is complete");
    }
});
