//! Masking studies in words.

use npcov::masking::{
    AlphaPoint, Basis, Control, GridPoint, Inconsistency, PathParameters, Recommendation, Tuning,
};

use crate::number::{count, share};
use crate::table::{Align, Table};
use crate::visible::on_one_line;

/// What masking does for every choice of parameters, for people to read.
pub fn tuning(found: &Tuning) -> String {
    let mut facts = Table::new([Align::Left, Align::Left]);
    let inputs = match found.inputs == found.available {
        true => count(found.inputs),
        false => format!(
            "{} of {}, drawn with seed {}",
            count(found.inputs),
            count(found.available),
            found.seed
        ),
    };
    facts.row(["inputs", &inputs]);
    if found.counted != found.inputs {
        let counted = format!("{}, classified as labelled", count(found.counted));
        facts.row(["counted", &counted]);
    }
    let PathParameters {
        alpha,
        clusters,
        beta,
    } = found.chosen;
    facts.row([
        "chosen",
        &format!("alpha {alpha}, clusters {clusters}, beta {beta}"),
    ]);
    let mut text = format!("{}\n{}", on_one_line(&found.data), facts.lines());

    text +=
        "\npredictions that change without the path (Inc.C), without all but the path (Inc.NC)\n";
    text += &alphas(found);
    text += &reason(&format!("alpha {alpha}"), "paths", &found.alpha);
    if let Some(point) = found.alphas.get(found.alpha.point) {
        for control in &found.rivals {
            text += &rival(point, *control);
        }
    }

    text += "\nthe same with abstract paths of clusters, at this alpha\n";
    text += &grid(found);
    let clusters = things(clusters, "cluster");
    if found.abstraction.basis == Basis::Narrowest {
        let groups = things(found.natural_clusters, "group");
        text += &format!(
            "* {clusters}: by themselves, the paths of a class fall into {groups} (median of the \
             classes)\n"
        );
    }
    let chosen = format!("{clusters} and beta {beta}");
    text + &reason(&chosen, "abstract paths of so many", &found.abstraction)
}

fn alphas(found: &Tuning) -> String {
    let mut align = vec![Align::Left];
    align.resize(9, Align::Right);
    let mut table = Table::new(align);
    table.row(["", "", "", "path", "", "activated", "", "random", ""]);
    table.row([
        "", "alpha", "width", "Inc.C", "Inc.NC", "Inc.C", "Inc.NC", "Inc.C", "Inc.NC",
    ]);
    for (i, point) in found.alphas.iter().enumerate() {
        let first = [
            mark(i == found.alpha.point),
            point.alpha.to_string(),
            share(point.width),
        ];
        let sets = [point.path, point.activated, point.random];
        table.row(first.into_iter().chain(sets.iter().flat_map(shares)));
    }
    table.lines()
}

fn grid(found: &Tuning) -> String {
    let mut align = vec![Align::Left];
    align.resize(7, Align::Right);
    let mut table = Table::new(align);
    table.row(["", "clusters", "beta", "paths", "width", "Inc.C", "Inc.NC"]);
    for (i, point) in found.grid.iter().enumerate() {
        let GridPoint {
            clusters,
            beta,
            paths,
            width,
            path,
        } = point;
        let first = [
            mark(i == found.abstraction.point),
            clusters.to_string(),
            beta.to_string(),
            paths.to_string(),
            share(*width),
        ];
        table.row(first.into_iter().chain(shares(path)));
    }
    table.lines()
}

fn mark(chosen: bool) -> String {
    if chosen { "*" } else { "" }.to_owned()
}

fn shares(found: &Inconsistency) -> [String; 2] {
    [share(found.inc_c), share(found.inc_nc)]
}

/// Why a point was chosen.
fn reason(chosen: &str, what: &str, found: &Recommendation) -> String {
    let (best, lowest) = (share(found.best_inc_c), share(found.lowest_inc_nc));
    let points = |slack: f64| format!("{} points", (100.0 * slack).round());
    match found.basis {
        Basis::Narrowest => format!(
            "* {chosen}: the narrowest {what} with Inc.C within {} of the best ({best}) and Inc.NC \
             within {} of the lowest ({lowest})\n",
            points(found.inc_c_slack),
            points(found.inc_nc_slack),
        ),
        Basis::LargestDifference => format!(
            "* {chosen}: the largest difference of Inc.C and Inc.NC, because no {what} have both \
             Inc.C within {} of the best ({best}) and Inc.NC within {} of the lowest ({lowest})\n",
            points(found.inc_c_slack),
            points(found.inc_nc_slack),
        ),
    }
}

/// That paths are no better than other neurons.
fn rival(point: &AlphaPoint, control: Control) -> String {
    let (name, found) = match control {
        Control::Activated => ("the most activated neurons", point.activated),
        Control::Random => ("random neurons", point.random),
    };
    format!(
        "warning: {name}, as many in each layer, do as well as the path (Inc.C - Inc.NC is {} \
         against {}); these figures say little about it\n",
        share(found.difference()),
        share(point.path.difference()),
    )
}

fn things(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use npcov::paths::Choices;
    use serde_json::json;

    fn inc(c: f64, nc: f64) -> Inconsistency {
        Inconsistency {
            inc_c: c,
            inc_nc: nc,
        }
    }

    fn found() -> Tuning {
        let point = |alpha, width, path| AlphaPoint {
            alpha,
            width,
            path,
            activated: inc(0.9, 0.25),
            random: inc(0.125, 1.0),
        };
        let recommended = |point| Recommendation {
            point,
            basis: Basis::Narrowest,
            best_inc_c: 0.989,
            lowest_inc_nc: 0.0,
            inc_c_slack: 0.05,
            inc_nc_slack: 0.03,
            good: 2,
        };
        let found = json!({
            "data": "train.npz",
            "available": 60_000,
            "inputs": 2000,
            "counted": 2000,
            "method": { "attribution": "lrp", "overrides": [], "batch_norm": "identity" },
            "choices": Choices::default(),
            "seed": 3,
            "alphas": [
                point(0.7, 0.093, inc(0.893, 0.096)),
                point(1.0, 0.333, inc(0.989, 0.0)),
            ],
            "alpha": recommended(1),
            "rivals": [],
            "natural_clusters": 3,
            "grid": [{
                "clusters": 4,
                "beta": 0.8,
                "paths": 40,
                "width": 0.146,
                "path": inc(0.941, 0.039),
            }],
            "abstraction": recommended(0),
            "chosen": { "alpha": 1.0, "clusters": 4, "beta": 0.8 },
        });
        serde_json::from_value(found).unwrap()
    }

    #[test]
    fn tables_mark_what_is_chosen_and_say_why() {
        let expected = "\
train.npz
  inputs  2,000 of 60,000, drawn with seed 3
  chosen  alpha 1, clusters 4, beta 0.8

predictions that change without the path (Inc.C), without all but the path (Inc.NC)
                    path          activated          random
     alpha  width  Inc.C  Inc.NC      Inc.C  Inc.NC   Inc.C  Inc.NC
       0.7   9.3%  89.3%    9.6%      90.0%   25.0%   12.5%  100.0%
  *      1  33.3%  98.9%    0.0%      90.0%   25.0%   12.5%  100.0%
* alpha 1: the narrowest paths with Inc.C within 5 points of the best (98.9%) and Inc.NC within 3 \
points of the lowest (0.0%)

the same with abstract paths of clusters, at this alpha
     clusters  beta  paths  width  Inc.C  Inc.NC
  *         4   0.8     40  14.6%  94.1%    3.9%
* 4 clusters: by themselves, the paths of a class fall into 3 groups (median of the classes)
* 4 clusters and beta 0.8: the narrowest abstract paths of so many with Inc.C within 5 points of the \
best (98.9%) and Inc.NC within 3 points of the lowest (0.0%)
";
        assert_eq!(tuning(&found()), expected);
    }

    #[test]
    fn rivals_and_a_last_resort_are_said() {
        let mut found = found();
        found.rivals = vec![Control::Activated];
        found.alpha.basis = Basis::LargestDifference;
        found.counted = 1900;
        let text = tuning(&found);
        assert!(
            text.contains("  counted  1,900, classified as labelled\n"),
            "{text}"
        );
        let rival = "warning: the most activated neurons, as many in each layer, do as well as the \
                     path (Inc.C - Inc.NC is 65.0% against 98.9%); these figures say little about \
                     it\n";
        assert!(text.contains(rival), "{text}");
        assert!(
            text.contains("because no paths have both Inc.C within"),
            "{text}"
        );
    }
}
