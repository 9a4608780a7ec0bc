//! What clusters lose when only some inputs of a class are landmarks: for each number of them, how many clusters there
//! are, and how far they agree with those of all inputs (adjusted Rand index, 1 for the same clusters).
//!
//!     cargo run --release -p npcov --example landmarks -- MODEL DATA DIVIDE [together]
//!
//! Inputs are clustered class by class, by prediction; with `together`, all as if they were one class.

use std::collections::BTreeMap;

use npcov::data::Preprocessing;
use npcov::paths::{Choices, GraphClustering};
use npcov::run::{Method, PathExtractor};
use npcov::{Model, data};

/// The landmarks that are tried.
const LANDMARKS: [usize; 4] = [10_000, 5_000, 2_000, 1_000];

/// Seeds of the landmarks that are drawn, and of the communities.
const SEEDS: [u64; 3] = [0, 1, 2];

#[allow(clippy::print_stdout, reason = "the numbers are its output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (model, file, divide, together) = match &words[..] {
        [model, file, divide] => (model, file, divide, false),
        [model, file, divide, word] if word == "together" => (model, file, divide, true),
        _ => return Err("usage: landmarks MODEL DATA DIVIDE [together]".into()),
    };
    let scale = Preprocessing {
        divide: Some(divide.parse()?),
        ..Preprocessing::default()
    };
    let model = Model::open(model)?.with_preprocessing(scale);
    let loader = model.loader(data::open(file)?)?;
    let (network, method, threads) = (model.network(), Method::default(), model.threads());
    let alpha = vec![0.8; network.classes()];
    let extractor = PathExtractor::new(network, &method, &Choices::default(), &alpha)?;
    let width = extractor.layout().total_neurons();
    let mut classes: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    extractor.run::<npcov::Error>(&loader, 0..loader.len(), threads, |batch| {
        let profiles = batch.profiles.chunks_exact(width);
        for (&class, profile) in batch.predictions.iter().zip(profiles) {
            let class = if together { 0 } else { class };
            classes.entry(class).or_default().extend(profile);
        }
        Ok(())
    })?;
    for (class, profiles) in &classes {
        let inputs = profiles.len() / width;
        let cluster = |landmarks: usize, seed: u64| {
            let clustering = GraphClustering {
                landmarks,
                seed,
                ..GraphClustering::default()
            };
            clustering.run(profiles, width, threads)
        };
        let all = cluster(inputs, 0);
        println!(
            "class {class}: {inputs} inputs, {} clusters",
            clusters(&all)
        );
        let fewer = LANDMARKS.into_iter().filter(|&count| count < inputs);
        for landmarks in [inputs].into_iter().chain(fewer) {
            // Of all inputs, the same seed finds the same.
            let seeds = SEEDS.iter().skip(usize::from(landmarks == inputs));
            let found: Vec<Vec<u32>> = seeds.map(|&seed| cluster(landmarks, seed)).collect();
            let told = |labels: &Vec<u32>| {
                format!("{:.3} ({})", adjusted_rand(&all, labels), clusters(labels))
            };
            let told: Vec<String> = found.iter().map(told).collect();
            println!("  {landmarks:>6} landmarks: {}", told.join("  "));
        }
    }
    Ok(())
}

fn clusters(labels: &[u32]) -> usize {
    labels.iter().max().map_or(0, |&last| last as usize + 1)
}

/// How far two divisions of the same inputs agree, beyond chance.
fn adjusted_rand(a: &[u32], b: &[u32]) -> f64 {
    let pairs = |count: u64| (count * count.saturating_sub(1) / 2) as f64;
    let mut both: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let (mut of_a, mut of_b) = (vec![0; clusters(a)], vec![0; clusters(b)]);
    for (&x, &y) in a.iter().zip(b) {
        *both.entry((x, y)).or_default() += 1;
        of_a[x as usize] += 1;
        of_b[y as usize] += 1;
    }
    let sum = |counts: Vec<u64>| counts.into_iter().map(pairs).sum::<f64>();
    let together = sum(both.into_values().collect());
    let (in_a, in_b) = (sum(of_a), sum(of_b));
    let expected = in_a * in_b / pairs(a.len() as u64).max(1.0);
    let most = (in_a + in_b) / 2.0;
    match most - expected {
        // All inputs are in one cluster, both times.
        0.0 => 1.0,
        rest => (together - expected) / rest,
    }
}
