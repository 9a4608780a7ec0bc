//! Arrays with labels, in all formats that have them.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use npcov::data::{self, Loader, Preprocessing};

use crate::mutator::{Random, change_bytes, change_text};

/// Words of headers.
const WORDS: &[&str] = &[
    "'descr'",
    "'<f4'",
    "'|u1'",
    "'>i8'",
    "'<f2'",
    "'|b1'",
    "'|O'",
    "True",
    "False",
    "(",
    ")",
    ",",
    "{",
    "}",
    ":",
    " ",
    "-1",
    "()",
    "(0,)",
    "(2, 0, 3)",
    "\u{0}",
];

/// Opens a file and reads all that it claims to hold, if that is little; `false` for one that is refused.
pub(crate) fn read(path: &Path) -> bool {
    let Ok(samples) = data::open(path) else {
        return false;
    };
    assert!(
        samples
            .labels()
            .is_none_or(|labels| labels.len() == samples.len())
    );
    let shape = samples.inputs()[0].shape().to_vec();
    let _ = samples.digest();
    let Ok(loader) = Loader::new(samples, &shape, &Preprocessing::default()) else {
        return false;
    };
    let few = (1usize << 20).checked_div(loader.sample_len()).unwrap_or(1);
    let first = 0..loader.len().min(few).min(100);
    let last = loader.len().saturating_sub(first.len())..loader.len();
    for rows in [first, last] {
        let mut out = vec![0.0; rows.len() * loader.sample_len()];
        let _ = loader.read(rows, &mut out);
    }
    true
}

/// An npy file: a header in Python, and numbers.
fn array(random: &mut Random, header: &str, data: &[u8]) -> Vec<u8> {
    let mut header = match random.one_in(3) {
        true => header.to_owned(),
        false => change_text(random, header, WORDS),
    };
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn samples(random: &mut Random) -> Vec<u8> {
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2, 3), }";
    array(random, header, &[0x3f; 4 * 2 * 3 * 4])
}

fn labels(random: &mut Random) -> Vec<u8> {
    match random.one_in(2) {
        true => {
            let header = "{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }";
            array(random, header, &[0; 4 * 8])
        }
        false => {
            let header = "{'descr': '|u1', 'fortran_order': True, 'shape': (4, 2), }";
            array(random, header, &[1, 0, 1, 0, 0, 1, 0, 1])
        }
    }
}

pub(crate) fn npy(number: u64, folder: &Path) -> bool {
    let mut random = Random::new("npy", number);
    let mut bytes = samples(&mut random);
    if random.one_in(3) {
        change_bytes(&mut random, &mut bytes);
    }
    let path = folder.join("mutant.npy");
    std::fs::write(&path, bytes).unwrap();
    read(&path)
}

/// An archive whose checksums are right, and whose sizes are, mostly.
pub(crate) fn npz(number: u64, folder: &Path) -> bool {
    let mut random = Random::new("npz", number);
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    let members = [
        ("x.npy", samples(&mut random)),
        ("y.npy", labels(&mut random)),
    ];
    for (name, content) in &members {
        let mut crc = flate2::Crc::new();
        crc.update(content);
        let deflated = random.one_in(2);
        let packed = match deflated {
            false => content.clone(),
            true => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            }
        };
        let mut size = |right: usize| match random.one_in(8) {
            true => random.number() as u32,
            false => right as u32,
        };
        let method: u16 = if deflated { 8 } else { 0 };
        let mut entry = vec![20, 0, 0, 0];
        entry.extend(method.to_le_bytes());
        entry.extend([0; 4]);
        entry.extend(crc.sum().to_le_bytes());
        entry.extend(size(packed.len()).to_le_bytes());
        entry.extend(size(content.len()).to_le_bytes());
        entry.extend((name.len() as u16).to_le_bytes());
        entry.extend([0, 0]);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&entry);
        directory.extend([0; 10]);
        directory.extend(size(bytes.len()).to_le_bytes());
        directory.extend(name.as_bytes());
        bytes.extend(b"PK\x03\x04");
        bytes.extend(&entry);
        bytes.extend(name.as_bytes());
        bytes.extend(packed);
    }
    let start = bytes.len() as u32;
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([2, 0, 2, 0]);
    bytes.extend((directory.len() as u32).to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend([0, 0]);
    if random.one_in(3) {
        change_bytes(&mut random, &mut bytes);
    }
    let path = folder.join("mutant.npz");
    std::fs::write(&path, bytes).unwrap();
    read(&path)
}

/// Images and the labels beside them, plain or packed.
pub(crate) fn idx(number: u64, folder: &Path) -> bool {
    let mut random = Random::new("idx", number);
    for kind in ["images-idx3", "labels-idx1"] {
        for packed in ["", ".gz"] {
            let _ = std::fs::remove_file(folder.join(format!("train-{kind}-ubyte{packed}")));
        }
    }
    let images: &[u8] = &[0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 2];
    let labels: &[u8] = &[0, 0, 8, 1, 0, 0, 0, 4];
    let mut path = folder.join("train-images-idx3-ubyte");
    for (kind, header, len) in [("images-idx3", images, 24), ("labels-idx1", labels, 4)] {
        let mut bytes = header.to_vec();
        if random.one_in(2) {
            change_bytes(&mut random, &mut bytes);
        }
        bytes.extend(vec![1; len]);
        let mut name = format!("train-{kind}-ubyte");
        if random.one_in(2) {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&bytes).unwrap();
            bytes = encoder.finish().unwrap();
            name += ".gz";
        }
        if random.one_in(4) {
            change_bytes(&mut random, &mut bytes);
        }
        if kind == "images-idx3" {
            path = folder.join(&name);
        }
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    read(&path)
}

/// Records of either form, in files of either name.
pub(crate) fn cifar(number: u64, folder: &Path) -> bool {
    let mut random = Random::new("cifar", number);
    let labels = 1 + random.below(2);
    let record: Vec<u8> = [&[3; 2][..labels], &[7; 3072]].concat();
    let mut bytes = record.repeat(random.below(4));
    // A file of a few bytes more or less is refused by its length: most changes keep that.
    match random.one_in(3) {
        true => change_bytes(&mut random, &mut bytes),
        false => {
            let at = random.below(bytes.len());
            bytes
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte = random.next() as u8);
        }
    }
    let inside = folder.join("cifar");
    std::fs::create_dir_all(&inside).unwrap();
    std::fs::write(inside.join("data_batch_1.bin"), &bytes).unwrap();
    match random.one_in(2) {
        true => read(&inside.join("data_batch_1.bin")),
        false => read(&inside),
    }
}
