//! RQ1 in words and as a picture.

use npcov::masking::Inconsistency;
use npcov_lab::{Bands, Rq1, Rq1Point};

use super::{drawn, facts, numbers, printed, remark};
use crate::number::{count, share};
use crate::plot::{Axis, Line, Panel, Panels, Series};
use crate::visible::on_one_line;

const FIFTHS: [&str; 5] = ["0-20%", "20-40%", "40-60%", "60-80%", "80-100%"];

/// What masking critical decision paths does, for people to read.
pub fn rq1(found: &Rq1) -> String {
    let mut rows = vec![("inputs", drawn(found.inputs, found.available, found.seed))];
    if found.counted != found.inputs {
        let counted = format!("{}, classified as labelled", count(found.counted));
        rows.push(("counted", counted));
    }
    if found.controls != found.counted {
        rows.push(("controls", format!("on {} of them", count(found.controls))));
    }
    let mut text = format!(
        "RQ1: does the path decide? {}\n{}",
        on_one_line(&found.data),
        facts(&rows)
    );
    text +=
        "\npredictions that change without the path (Inc.C), without all but the path (Inc.NC)\n";
    text += &masking(found);
    text += "\ncontrols: the same with other neurons, as many in each layer; a stranger's path is that of an\n\
             input of another class, and follows says how many are then taken for that class\n";
    text += &controls(found);
    if found.points.iter().any(|point| point.shift.is_some()) {
        text += "\nhow far the number moves, in standard deviations of the training data, in the mean: without the\n\
                 neurons, and without all others\n";
        text += &shifts(found);
    }
    text += &format!(
        "\npredictions that change without a fifth of the path, the most relevant first (alpha {}{})\n",
        found.bands.alpha,
        match found.bands.form {
            Bands::Even => "",
            Bands::Rounded => ", cut by rounding",
        }
    );
    text += &bands(found);
    text += &format!(
        "\nsimilarity of paths of {} inputs of {}\n",
        count(found.compared),
        on_one_line(&found.similarity_data)
    );
    text += &similarity(found);
    if found
        .points
        .iter()
        .any(|point| !point.similarity_by_distance.is_empty())
    {
        text += "\nthe same by how many bins two inputs are apart\n";
        text += &similarity_by_distance(found);
    }
    text + &remark(found.paper, 1)
}

fn masking(found: &Rq1) -> String {
    let mut table = numbers(7);
    if found.paper.is_some() {
        table.row(["", "", "", "", "paper"]);
    }
    let mut head = vec!["alpha", "width", "Inc.C", "Inc.NC"];
    if found.paper.is_some() {
        head.extend(["width", "Inc.C", "Inc.NC"]);
    }
    table.row(head);
    for point in &found.points {
        let ours = [
            point.alpha.to_string(),
            share(point.width),
            share(point.path.inc_c),
            share(point.path.inc_nc),
        ];
        let theirs = point.published.iter().flatten().map(|&x| printed(Some(x)));
        table.row(ours.into_iter().chain(theirs));
    }
    table.lines()
}

fn controls(found: &Rq1) -> String {
    let mut table = numbers(8);
    table.row(["", "activated", "", "random", "", "stranger", "", ""]);
    table.row([
        "alpha", "Inc.C", "Inc.NC", "Inc.C", "Inc.NC", "Inc.C", "Inc.NC", "follows",
    ]);
    for point in &found.points {
        let sets = [point.activated, point.random, point.stranger.path];
        let cells = sets.iter().flat_map(|i| [share(i.inc_c), share(i.inc_nc)]);
        let row = [point.alpha.to_string()].into_iter().chain(cells);
        table.row(row.chain([share(point.stranger.follows)]));
    }
    table.lines()
}

fn shifts(found: &Rq1) -> String {
    let mut table = numbers(9);
    table.row(["", "path", "", "activated", "", "random", "", "stranger"]);
    let pairs = ["without", "only"].repeat(4);
    table.row(std::iter::once("alpha").chain(pairs));
    for point in &found.points {
        let Some(shift) = point.shift else {
            continue;
        };
        let sets = [shift.path, shift.activated, shift.random, shift.stranger];
        let cells = sets.iter().flat_map(|s| [s.without, s.only]);
        let cells = cells.map(|sd| format!("{sd:.3}"));
        table.row(std::iter::once(point.alpha.to_string()).chain(cells));
    }
    table.lines()
}

fn bands(found: &Rq1) -> String {
    let mut table = numbers(6);
    table.row(std::iter::once("").chain(FIFTHS));
    let ours = found.bands.inconsistency.iter().map(|&x| share(x));
    table.row(std::iter::once("ours".to_owned()).chain(ours));
    if let Some(published) = found.bands.published {
        let theirs = published.map(|x| printed(Some(x)));
        table.row(std::iter::once("paper".to_owned()).chain(theirs));
    }
    table.lines()
}

fn similarity(found: &Rq1) -> String {
    let mut table = numbers(5);
    let mut head = vec!["alpha", "intra", "inter"];
    if found.paper.is_some() {
        table.row(["", "", "", "paper"]);
        head.extend(["intra", "inter"]);
    }
    table.row(head);
    for point in &found.points {
        let mean = |value: Option<f64>| value.map_or("-".to_owned(), share);
        let ours = [
            point.alpha.to_string(),
            mean(point.similarity.intra),
            mean(point.similarity.inter),
        ];
        let theirs = point.published_similarity.iter().flatten();
        table.row(ours.into_iter().chain(theirs.map(|&x| printed(Some(x)))));
    }
    table.lines()
}

fn similarity_by_distance(found: &Rq1) -> String {
    let lists = found.points.iter().map(|p| p.similarity_by_distance.len());
    let most = lists.max().unwrap_or(0);
    let mut table = numbers(most + 1);
    let distances = (0..most).map(|distance| distance.to_string());
    table.row(std::iter::once("alpha".to_owned()).chain(distances));
    for point in &found.points {
        let means = point.similarity_by_distance.iter();
        let means = means.map(|mean| mean.map_or("-".to_owned(), share));
        table.row(std::iter::once(point.alpha.to_string()).chain(means));
    }
    table.lines()
}

/// The same as a picture: Inc.C, Inc.NC and similarity over alpha, and the fifths.
pub fn rq1_plot(found: &Rq1) -> String {
    let alphas: Vec<f64> = found.points.iter().map(|point| point.alpha).collect();
    let series = |name: &str| Series {
        name: name.to_owned(),
        dashed: false,
    };
    let paper = Series {
        dashed: true,
        ..series("paper's path")
    };
    let line = |series: usize, of: &dyn Fn(&Rq1Point) -> Option<f64>| Line {
        series,
        points: found
            .points
            .iter()
            .filter_map(|point| Some((point.alpha, of(point)?)))
            .collect(),
    };
    let panel = |title: &str, of: &dyn Fn(&Inconsistency) -> f64, published: usize| Panel {
        title: title.to_owned(),
        x: Axis::through("alpha", &alphas),
        y: Axis::shares(""),
        lines: vec![
            line(0, &|p| Some(of(&p.path))),
            line(1, &|p| Some(of(&p.activated))),
            line(2, &|p| Some(of(&p.random))),
            line(3, &|p| Some(of(&p.stranger.path))),
            line(4, &|p| Some(p.published?[published] / 100.0)),
        ],
    };
    let fifths = |shares: &[f64]| -> Vec<(f64, f64)> {
        shares
            .iter()
            .enumerate()
            .map(|(i, &x)| (i as f64, x))
            .collect()
    };
    let ticks = FIFTHS.iter().enumerate();
    let bands = Panel {
        title: format!("without a fifth of the path (alpha {})", found.bands.alpha),
        x: Axis {
            label: "neurons of the path, by relevance".to_owned(),
            low: -0.4,
            high: 4.4,
            ticks: ticks
                .map(|(i, name)| (i as f64, (*name).to_owned()))
                .collect(),
        },
        y: Axis::shares(""),
        lines: vec![
            Line {
                series: 0,
                points: fifths(&found.bands.inconsistency),
            },
            Line {
                series: 4,
                points: fifths(
                    &found
                        .bands
                        .published
                        .map_or(Vec::new(), |b| b.iter().map(|x| x / 100.0).collect()),
                ),
            },
        ],
    };
    let mut all = Panels {
        title: format!("RQ1: {}", found.data),
        columns: 3,
        series: vec![
            series("path"),
            series("most activated"),
            series("random"),
            series("stranger's path"),
        ],
        panels: vec![
            panel("Inc.C: changed without the neurons", &|i| i.inc_c, 1),
            panel("Inc.NC: changed without all others", &|i| i.inc_nc, 2),
            bands,
        ],
    };
    if found.paper.is_some() {
        all.series.push(paper);
    }
    all.svg()
}
