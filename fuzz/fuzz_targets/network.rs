//! A model of any bytes is opened as a classifier or refused, with the run that tries its batch size out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use npcov::graph::{Dim, OnnxModel};
use npcov::run::{ModelOptions, Network};

fuzz_target!(|bytes: &[u8]| {
    let Ok(model) = OnnxModel::from_bytes(bytes.to_vec()) else {
        return;
    };
    // A large input takes long for good reason.
    let elements = |dims: &Vec<Dim>| {
        let extent = |dim: &Dim| match dim {
            Dim::Fixed(n) => *n,
            Dim::Open(_) => 1,
        };
        dims.iter().map(extent).fold(1, usize::saturating_mul)
    };
    let inputs = model.inputs();
    if inputs.iter().any(|input| input.dims.as_ref().map_or(0, elements) > 1 << 12) {
        return;
    }
    if let Ok(network) = Network::new(model, &ModelOptions::default()) {
        assert!(network.batch() > 0);
        let _ = network.logits_tracer();
    }
});
