//! Faults of every kind that may befall what npcov writes: kills, races, damage, forgery.
//!
//! A few of each run with all tests. `make faults` runs many, by `NPCOV_FAULTS=full`.

#[cfg(unix)]
#[path = "../mutation/seconds.rs"]
mod seconds;
#[path = "../cli/support.rs"]
#[allow(dead_code)]
mod support;

#[cfg(unix)]
mod forged;
mod kills;
#[cfg(unix)]
mod mutants;
mod races;
#[cfg(unix)]
mod reseal;
#[cfg(unix)]
mod tampered;

use support::{Outcome, Project};

/// How often something is tried: a few times, or with `NPCOV_FAULTS=full` as often as it takes to be sure.
fn tries(few: usize, full: usize) -> usize {
    match std::env::var("NPCOV_FAULTS").as_deref() {
        Ok("full") => full,
        _ => few,
    }
}

/// Random numbers that are the same every time.
struct Random(u64);

impl Random {
    /// The next number (splitmix64).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below a bound that is not zero.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A number from 0 to 1.
    fn share(&mut self) -> f64 {
        self.next() as f64 / u64::MAX as f64
    }
}

/// Images of the fixtures, the second time around a little darker, and so on.
fn write_data(project: &Project, name: &str, inputs: usize) {
    let images = project.rows("fashion-1000.npz", "x");
    let labels = project.rows("fashion-1000.npz", "y");
    let (mut pixels, mut classes) = (Vec::with_capacity(inputs * 784), Vec::new());
    for i in 0..inputs {
        let shade = 1.0 - (i / images.len()) as f32 * 0.05;
        pixels.extend(images[i % images.len()].iter().map(|x| x * shade));
        classes.push(labels[i % labels.len()][0] as i64);
    }
    project.npz(name, &[28, 28], &pixels, &classes);
}

/// Runs a command that must succeed.
fn succeed(project: &Project, command: &str) -> Outcome {
    let outcome = project.run(command);
    assert_eq!(outcome.code, Some(0), "{command}\n{}", outcome.stderr);
    outcome
}
