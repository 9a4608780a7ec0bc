//! The rules as they are defined.

use npcov_program::{AlphaBeta, Gamma, Rule};

/// A linear operator: output `j` is the sum of `weights[j][i] * x[i]`.
pub(crate) struct Matrix {
    pub(crate) weights: Vec<Vec<f64>>,
    /// Whether input `i` is one of output `j`'s, whatever its weight.
    pub(crate) connected: Vec<Vec<bool>>,
}

/// The relevance of each input, when `r` arrives at the outputs. `bias` is what each output has
/// beside its inputs' contributions, and takes a share.
pub(crate) fn relevance(
    matrix: &Matrix,
    rule: Rule,
    x: &[f64],
    bias: &[f64],
    r: &[f64],
) -> Vec<f64> {
    let mut relevance = vec![0.0; x.len()];
    for (j, weights) in matrix.weights.iter().enumerate() {
        let shares = match rule {
            Rule::Flat => flat(&matrix.connected[j]),
            Rule::ZBox(z_box) => {
                let (low, high) = (f64::from(z_box.low), f64::from(z_box.high));
                let contribution =
                    |(w, x): (&f64, &f64)| w * x - w.max(0.0) * low - w.min(0.0) * high;
                let c: Vec<f64> = weights.iter().zip(x).map(contribution).collect();
                epsilon(&c, 0.0, f64::from(npcov_program::EPSILON))
            }
            Rule::AlphaBeta(_)
            | Rule::Epsilon(_)
            | Rule::Gamma(_)
            | Rule::Identity
            | Rule::Gradient(_) => {
                let c: Vec<f64> = weights.iter().zip(x).map(|(w, x)| w * x).collect();
                shares(rule, &c, bias[j])
            }
        };
        for (i, share) in shares.into_iter().enumerate() {
            relevance[i] += share * r[j];
        }
    }
    relevance
}

/// The share of each contribution `c` to a unit in that unit's relevance, for the rules that
/// depend on contributions alone.
fn shares(rule: Rule, c: &[f64], bias: f64) -> Vec<f64> {
    let p: f64 = c.iter().map(|c| c.max(0.0)).sum::<f64>() + bias.max(0.0);
    let n: f64 = c.iter().map(|c| c.min(0.0)).sum::<f64>() + bias.min(0.0);
    let each = |share: &dyn Fn(f64) -> f64| c.iter().map(|&c| share(c)).collect();
    match rule {
        Rule::AlphaBeta(AlphaBeta {
            beta,
            epsilon,
            rare,
        }) => {
            let (beta, epsilon) = (f64::from(beta), f64::from(epsilon));
            let alpha = 1.0 + beta;
            match (p != 0.0, n != 0.0) {
                (false, false) => each(&|_| 0.0),
                (true, false) if rare => each(&|c| c.max(0.0) / (p + epsilon / alpha)),
                (false, true) if rare && beta == 0.0 => each(&|_| 0.0),
                (false, true) if rare => each(&|c| c.min(0.0) / (n - epsilon / beta)),
                (has_p, has_n) => each(&|c| {
                    let positive = match has_p {
                        true => alpha * c.max(0.0) / (p + epsilon),
                        false => 0.0,
                    };
                    let negative = match has_n && beta != 0.0 {
                        true => beta * c.min(0.0) / (n - epsilon),
                        false => 0.0,
                    };
                    positive - negative
                }),
            }
        }
        Rule::Epsilon(rule) => epsilon(c, bias, f64::from(rule.epsilon)),
        Rule::Gamma(Gamma { gamma, epsilon: e }) => {
            let sign = p + n;
            let enlarged = |c: f64| match c * sign > 0.0 {
                true => c * (1.0 + f64::from(gamma)),
                false => c,
            };
            let c: Vec<f64> = c.iter().map(|&c| enlarged(c)).collect();
            match sign == 0.0 {
                true => vec![0.0; c.len()],
                false => epsilon(&c, enlarged(bias), f64::from(e)),
            }
        }
        Rule::Flat | Rule::ZBox(_) | Rule::Identity | Rule::Gradient(_) => {
            panic!("{rule} does not depend on contributions alone")
        }
    }
}

/// `c / (z + epsilon sign(z))`, nothing where `z` is 0.
fn epsilon(c: &[f64], bias: f64, epsilon: f64) -> Vec<f64> {
    let z = c.iter().sum::<f64>() + bias;
    let share = |c: &f64| match z == 0.0 {
        true => 0.0,
        false => c / (z + epsilon * z.signum()),
    };
    c.iter().map(share).collect()
}

fn flat(connected: &[bool]) -> Vec<f64> {
    let count = connected.iter().filter(|&&c| c).count();
    let share = |&c: &bool| match c {
        true => 1.0 / count as f64,
        false => 0.0,
    };
    connected.iter().map(share).collect()
}
