//! Times k-means: the native side of `benches/kmeans/run.py`.
//!
//! `cargo run --release -p npcov-paths --example kmeans_time -- FILE CLUSTERS THREADS` clusters each
//! group of rows of the file and prints the seconds and the inertia of all groups together. For
//! each group the file has the number of rows and of words in a row, then the rows, all as u64 in
//! little-endian order.

use std::time::Instant;

use npcov_paths::{BitRows, KMeans};

#[allow(clippy::print_stdout, reason = "the times are its output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, clusters, threads] = &args[..] else {
        return Err("usage: kmeans_time FILE CLUSTERS THREADS".into());
    };
    let kmeans = KMeans {
        clusters: clusters.parse()?,
        ..KMeans::default()
    };
    let threads = threads.parse()?;
    let bytes = std::fs::read(file)?;
    let mut words = bytes
        .as_chunks()
        .0
        .iter()
        .map(|&word| u64::from_le_bytes(word));
    let mut groups = Vec::new();
    while let Some(len) = words.next() {
        let width = words.next().ok_or("no words in a row")? as usize;
        let mut rows = BitRows::new(width);
        for _ in 0..len {
            let row: Vec<u64> = words.by_ref().take(width).collect();
            if row.len() < width {
                return Err("the file ends within a row".into());
            }
            rows.push(&row);
        }
        groups.push(rows);
    }
    let start = Instant::now();
    let inertia: f64 = groups
        .iter()
        .map(|rows| kmeans.run(rows, threads).inertia)
        .sum();
    println!("{} {inertia}", start.elapsed().as_secs_f64());
    Ok(())
}
