//! Images in a folder.

use std::io::Write;
use std::path::Path;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

use crate::data::read;
use crate::mutator::{Random, change_bytes};

/// A folder with one image.
fn read_image(folder: &Path, name: &str, bytes: &[u8]) -> bool {
    let images = folder.join("images");
    std::fs::create_dir_all(&images).unwrap();
    std::fs::write(images.join(name), bytes).unwrap();
    read(&images)
}

/// A PNG whose chunks are changed and whose checksums are right: else no decoder would look further.
pub(crate) fn png(number: u64, folder: &Path) -> bool {
    let mut random = Random::new("png", number);
    let (colour, channels) = *random.choose(&[(0u8, 1), (2, 3), (3, 1), (4, 2), (6, 4)]);
    let depth = *random.choose(&[8u8, 8, 8, 16, 4, 2, 1]);
    let (width, height) = (1 + random.below(9), 1 + random.below(9));
    let mut header = Vec::new();
    header.extend((width as u32).to_be_bytes());
    header.extend((height as u32).to_be_bytes());
    header.extend([depth, colour, 0, 0, random.one_in(6) as u8]);
    let row = 1 + (width * channels * usize::from(depth)).div_ceil(8);
    let mut rows = vec![0; row * height];
    rows.iter_mut().for_each(|byte| *byte = random.next() as u8);
    (0..height).for_each(|y| rows[y * row] = random.below(6) as u8);
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&rows).unwrap();
    let palette: Vec<u8> = (0..3 * random.below(20)).map(|i| i as u8).collect();
    let mut chunks = vec![
        (*b"IHDR", header),
        (*b"PLTE", palette),
        (*b"tRNS", vec![9; random.below(8)]),
        (*b"IDAT", encoder.finish().unwrap()),
        (*b"IEND", Vec::new()),
    ];
    for _ in 0..random.below(3) {
        let i = random.below(chunks.len());
        match random.below(6) {
            0 => drop(chunks.remove(i)),
            1 => chunks.insert(i, chunks[i].clone()),
            2 => {
                let other = random.below(chunks.len());
                chunks.swap(i, other);
            }
            3 => chunks[i].0 = *random.choose(&[*b"gAMA", *b"acTL", *b"fcTL", *b"fdAT", *b"iCCP"]),
            _ => change_bytes(&mut random, &mut chunks[i].1),
        }
    }
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, content) in &chunks {
        let mut crc = Crc::new();
        crc.update(kind);
        crc.update(content);
        bytes.extend((content.len() as u32).to_be_bytes());
        bytes.extend(kind);
        bytes.extend(content);
        bytes.extend(crc.sum().to_be_bytes());
    }
    if random.one_in(6) {
        change_bytes(&mut random, &mut bytes);
    }
    read_image(folder, "mutant.png", &bytes)
}

pub(crate) fn jpeg(number: u64, folder: &Path) -> bool {
    let mut random = Random::new("jpeg", number);
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/tests/fixtures");
    let name = random.choose(&["grey.jpg", "rgb.jpg", "progressive.jpg"]);
    let mut bytes = std::fs::read(seeds.join(name)).unwrap();
    change_bytes(&mut random, &mut bytes);
    read_image(folder, "mutant.jpg", &bytes)
}
