//! RQ2 in words and as a picture.

use npcov::data::{Element, Loader};
use npcov::masking::{ChosenPoint, ClassChoice};
use npcov_lab::{Rq2, Rq2Classes, Rq2Point};

use super::{drawn, facts, numbers, printed, remark};
use crate::image_grid::{ImageGrid, ImageGroup};
use crate::number::{count, decimals, share};
use crate::picture::PictureError;
use crate::plot::{Axis, Line, Panel, Panels, Series};
use crate::visible::on_one_line;

/// The inputs of clusters as a picture: a row for each cluster, classes apart. `None` where inputs
/// are no images, or there is nothing to show.
pub fn cluster_grid(found: &Rq2, data: &Loader) -> Result<Option<ImageGrid>, PictureError> {
    let Some(shape) = data.image() else {
        return Ok(None);
    };
    let mut groups = Vec::new();
    for class in &found.sheet {
        let mut group = ImageGroup::default();
        for cluster in &class.clusters {
            let mut images = Vec::new();
            for &input in cluster {
                let mut image = vec![0.0; data.sample_len()];
                data.read_stored(input..input + 1, &mut image)?;
                images.push(image);
            }
            group.rows.push((String::new(), images));
        }
        groups.push(group);
    }
    let bytes = data.input().element() == Element::U8;
    Ok(ImageGrid::new(shape, &groups, bytes))
}

/// What masking abstract paths does, for people to read.
pub fn rq2(found: &Rq2) -> String {
    let mut rows = vec![("inputs", drawn(found.inputs, found.available, found.seed))];
    if found.counted != found.inputs {
        let counted = format!("{}, classified as labelled", count(found.counted));
        rows.push(("counted", counted));
    }
    let single = format!("alpha {}, width {}", found.alpha, share(found.width));
    rows.push(("single paths", single));
    let mut text = format!(
        "RQ2: do abstract paths? {}\n{}",
        on_one_line(&found.data),
        facts(&rows)
    );
    text += "\npredictions of members that change without the abstract path of their cluster (Inc.C),\n\
             without all but it (Inc.NC)\n";
    text += &masking(found);
    let similarity = &found.similarity;
    text += &format!(
        "\nsimilarity of paths of {} inputs, {} clusters of each class\n",
        count(similarity.compared),
        similarity.clusters
    );
    let mut table = numbers(5);
    table.row(["", "Intra_Cla", "Inter_Cla", "Intra_Clus", "Inter_Clus"]);
    let (classes, within) = (similarity.classes, similarity.within_classes);
    let ours = [classes.intra, classes.inter, within.intra, within.inter];
    let ours = ours.map(|x| x.map_or("-".to_owned(), |x| decimals(x, 3)));
    table.row(std::iter::once("ours".to_owned()).chain(ours));
    if let Some(published) = similarity.published {
        let theirs = published.map(|x| decimals(x, 3));
        table.row(std::iter::once("paper".to_owned()).chain(theirs));
    }
    text += &table.lines();
    text += &remark(found.paper, 2);
    text + &found.each_class.as_ref().map_or(String::new(), each_class)
}

/// Parameters of each class beside one choice for all.
fn each_class(found: &Rq2Classes) -> String {
    let all = &found.one_for_all;
    let mut text = format!(
        "\nparameters of each class, chosen on {} inputs by what masking does, judged by the {} others:\n\
         one choice for all, a number of clusters (k) of its own, and all three of its own\n",
        count(found.chosen_on),
        count(found.judged_on)
    );
    text += &facts(&[(
        "one for all",
        format!("alpha {}, k {}, beta {}", all.alpha, all.clusters, all.beta),
    )]);
    let mut table = numbers(15);
    table.row(["", "", "for all", "", "", "own k", "", "", "", "all own"]);
    table.row([
        "class", "inputs", "width", "Inc.C", "Inc.NC", "k", "width", "Inc.C", "Inc.NC", "alpha",
        "k", "beta", "width", "Inc.C", "Inc.NC",
    ]);
    let shares = |point: &ChosenPoint| {
        let found = &point.found;
        [found.width, found.path.inc_c, found.path.inc_nc]
    };
    for class in &found.classes {
        let (clusters, own) = (&class.own_clusters, &class.own);
        let mut row = vec![class.class.to_string(), count(class.judged_on)];
        row.extend(shares(&class.one_for_all).map(share));
        row.push(clusters.found.clusters.to_string());
        row.extend(shares(clusters).map(share));
        row.extend([
            own.alpha.to_string(),
            own.found.clusters.to_string(),
            own.found.beta.to_string(),
        ]);
        row.extend(shares(own).map(share));
        table.row(row);
    }
    type Of = fn(&ClassChoice) -> &ChosenPoint;
    let choices: [Of; 3] = [|c| &c.one_for_all, |c| &c.own_clusters, |c| &c.own];
    let [all, clusters, own] = choices.map(|of| {
        let mut sums = [0.0; 3];
        for class in &found.classes {
            for (sum, share) in sums.iter_mut().zip(shares(of(class))) {
                *sum += share;
            }
        }
        sums.map(|sum| share(sum / found.classes.len().max(1) as f64))
    });
    let mut row = vec!["mean".to_owned(), String::new()];
    row.extend(all);
    row.push(String::new());
    row.extend(clusters);
    row.extend([String::new(), String::new(), String::new()]);
    row.extend(own);
    table.row(row);
    text += &table.lines();
    let [all, clusters, own] = choices.map(|of| {
        let differences = found.classes.iter().map(|c| of(c).found.path.difference());
        share(differences.reduce(f64::min).unwrap_or(0.0))
    });
    text + &format!(
        "least Inc.C - Inc.NC of a class: {all} for all, {clusters} with own k, {own} with all own\n"
    )
}

/// What classes chose for themselves, as settings for `npcov build --config`.
pub fn rq2_settings(found: &Rq2Classes) -> String {
    let all = &found.one_for_all;
    let mut text = format!(
        "# What each class chose for itself, and for others what was chosen for all.\n\
         [paths]\nalpha = {:?}\nclusters = {}\nbeta = {:?}\n",
        all.alpha, all.clusters, all.beta
    );
    for ClassChoice { class, own, .. } in &found.classes {
        text += &format!(
            "class.{class} = {{ alpha = {:?}, clusters = {}, beta = {:?} }}\n",
            own.alpha, own.found.clusters, own.found.beta
        );
    }
    text
}

fn masking(found: &Rq2) -> String {
    let mut table = numbers(9);
    let mut head = vec!["clusters", "beta", "paths", "width", "Inc.C", "Inc.NC"];
    if found.paper.is_some() {
        table.row(["", "", "", "", "", "", "paper"]);
        head.extend(["width", "Inc.C", "Inc.NC"]);
    }
    table.row(head);
    for Rq2Point {
        found: point,
        published,
    } in &found.points
    {
        let ours = [
            point.clusters.to_string(),
            point.beta.to_string(),
            point.paths.to_string(),
            share(point.width),
            share(point.path.inc_c),
            share(point.path.inc_nc),
        ];
        let theirs = published.iter().flatten().map(|&x| printed(Some(x)));
        table.row(ours.into_iter().chain(theirs));
    }
    table.lines()
}

/// The same as a picture: a panel for each number of clusters.
pub fn rq2_plot(found: &Rq2) -> String {
    let mut clusters: Vec<usize> = found.points.iter().map(|p| p.found.clusters).collect();
    clusters.dedup();
    let series = |name: &str, dashed: bool| Series {
        name: name.to_owned(),
        dashed,
    };
    let panel = |&count: &usize| {
        let points: Vec<&Rq2Point> = found
            .points
            .iter()
            .filter(|point| point.found.clusters == count)
            .collect();
        let betas: Vec<f64> = points.iter().map(|point| point.found.beta).collect();
        let line = |series: usize, of: &dyn Fn(&Rq2Point) -> Option<f64>| Line {
            series,
            points: points
                .iter()
                .filter_map(|point| Some((point.found.beta, of(point)?)))
                .collect(),
        };
        let published = |column: usize| move |p: &Rq2Point| Some(p.published?[column] / 100.0);
        Panel {
            title: match count {
                1 => "1 cluster".to_owned(),
                count => format!("{count} clusters"),
            },
            x: Axis::through("beta", &betas),
            y: Axis::shares(""),
            lines: vec![
                line(0, &|p| Some(p.found.path.inc_c)),
                line(1, &|p| Some(p.found.path.inc_nc)),
                line(2, &|p| Some(p.found.width)),
                line(3, &published(1)),
                line(4, &published(2)),
                line(5, &published(0)),
            ],
        }
    };
    let mut all = Panels {
        title: format!("RQ2: {}", found.data),
        columns: 4,
        series: vec![
            series("Inc.C", false),
            series("Inc.NC", false),
            series("width", false),
        ],
        panels: clusters.iter().map(panel).collect(),
    };
    if found.paper.is_some() {
        let theirs = ["paper's Inc.C", "paper's Inc.NC", "paper's width"];
        all.series.extend(theirs.map(|name| series(name, true)));
    }
    all.svg()
}
