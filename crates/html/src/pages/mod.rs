//! The pages of a report.

mod changes;
mod class;
mod classes;
mod cluster;
mod drawing;
mod errors;
mod explorer;
mod facts;
pub(crate) mod frame;
mod gap;
mod headline;
mod input;
mod neurons;
mod overview;
pub(crate) mod sights;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use crate::dossier::Dossier;
use crate::markup::Markup;

/// Clusters in a report that is a single file, at most.
const IN_SINGLE: usize = 10;
/// Elements of a page, at most: what is no page of its own gives way.
const MOST_ELEMENTS: usize = 5000;
/// Classes on one page of the index; fewer than twice as many are on one.
const CLASSES_ON_PAGE: usize = 100;
/// Clusters that have a page, at most.
const MOST_CLUSTERS: usize = 1500;

/// A page.
pub(crate) struct Page {
    /// Its file.
    pub(crate) file: String,
    /// What it holds.
    pub(crate) markup: Markup,
}

impl Page {
    /// The bytes of its file.
    pub(crate) fn into_html(self) -> String {
        format!("<!DOCTYPE html>\n{}\n", self.markup.into_html())
    }
}

/// Something that has a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Overview,
    Classes(usize),
    Class(usize),
    Cluster(usize),
    Input(usize, usize),
    Errors,
    Explorer,
    Neurons(usize),
    Changes,
}

/// A report that is being written.
pub(crate) struct Site<'d> {
    pub(crate) dossier: &'d Dossier,
    /// Whether all is one file, with everything in it.
    pub(crate) single: bool,
    /// Clusters that have a page.
    clusters: Vec<usize>,
    /// How many files the index of classes has.
    class_pages: usize,
}

impl<'d> Site<'d> {
    pub(crate) fn new(dossier: &'d Dossier, single: bool) -> Site<'d> {
        let mut clusters: Vec<usize> = (0..dossier.clusters.len()).collect();
        clusters.sort_by_key(|&cluster| need(dossier, cluster));
        clusters.truncate(if single { IN_SINGLE } else { MOST_CLUSTERS });
        clusters.sort_unstable();
        let classes = dossier.classes.len();
        let class_pages = match classes < 2 * CLASSES_ON_PAGE {
            true => 1,
            false => classes.div_ceil(CLASSES_ON_PAGE),
        };
        Site {
            dossier,
            single,
            clusters,
            class_pages,
        }
    }

    /// All pages.
    pub(crate) fn pages(&self) -> Vec<Page> {
        if self.single {
            return vec![self.single_page_within_budget()];
        }
        let dossier = self.dossier;
        let mut pages = vec![overview::page(self)];
        if self.has_class_index() {
            pages.extend((0..self.class_pages).map(|number| classes::page(self, number)));
        }
        pages.extend(dossier.classes.iter().map(|class| class::page(self, class)));
        for &cluster in &self.clusters {
            pages.push(cluster::page(self, &dossier.clusters[cluster]));
        }
        pages.extend(dossier.inputs.iter().map(|input| input::page(self, input)));
        if self.has_errors() {
            pages.push(errors::page(self));
        }
        if self.has_explorer() {
            pages.push(explorer::page(self));
        }
        let layers = 0..dossier.facts.layers.len();
        let with_cards = layers.filter(|&layer| neurons::has_cards(dossier, layer));
        pages.extend(with_cards.map(|layer| neurons::page(self, layer)));
        if dossier.compared.difference.is_some() {
            pages.push(changes::page(self));
        }
        pages
    }

    /// A single page with as many clusters as it has room for, those that matter most.
    fn single_page_within_budget(&self) -> Page {
        let mut site = Site {
            clusters: self.clusters.clone(),
            ..*self
        };
        loop {
            let page = site.single_page();
            let least = (site.clusters.iter().enumerate())
                .max_by_key(|&(_, &cluster)| need(self.dossier, cluster))
                .map(|(place, _)| place);
            match least {
                Some(least) if page.markup.elements() > MOST_ELEMENTS => {
                    site.clusters.remove(least);
                }
                _ => return page,
            }
        }
    }

    /// The overview, with what would be pages of their own as sections.
    fn single_page(&self) -> Page {
        frame::page(self, To::Overview, "Overview", |main| {
            overview::content(self, main);
            if self.has_errors() {
                main.tag("section").attr("id", "errors").holding(|section| {
                    section.tag("h2").text("Errors");
                    errors::content(self, section);
                });
            }
            if self.dossier.compared.difference.is_some() {
                main.tag("section")
                    .attr("id", "changes")
                    .holding(|section| {
                        section.tag("h2").text("What changed");
                        changes::content(self, section);
                    });
            }
            for &cluster in &self.clusters {
                let view = &self.dossier.clusters[cluster];
                let id = format!("cluster-{cluster}");
                main.tag("section").attr("id", id).holding(|section| {
                    section
                        .tag("h2")
                        .holding(|title| cluster::title(self, view, title));
                    cluster::content(self, view, section);
                });
            }
        })
    }

    pub(crate) fn has_class_index(&self) -> bool {
        self.dossier.classes.len() > overview::MOST_CLASSES
    }

    pub(crate) fn has_errors(&self) -> bool {
        let judged = |suite: &npcov::coverage::SuiteReport| suite.accuracy.is_some();
        self.dossier.suites().iter().any(judged)
    }

    pub(crate) fn has_explorer(&self) -> bool {
        let drawn = |cluster: &crate::dossier::ClusterView| cluster.anatomy.is_some();
        self.dossier.clusters.iter().any(drawn)
    }

    /// The address of a page, from any other; `None` where it is not part of the report.
    pub(crate) fn address(&self, to: To) -> Option<String> {
        let dossier = self.dossier;
        let has_page = match to {
            To::Overview => true,
            To::Classes(number) => {
                !self.single && self.has_class_index() && number < self.class_pages
            }
            To::Class(class) => !self.single && class < dossier.classes.len(),
            To::Cluster(cluster) => self.clusters.binary_search(&cluster).is_ok(),
            To::Input(suite, place) => !self.single && dossier.input(suite, place).is_some(),
            To::Errors => self.has_errors(),
            To::Explorer => !self.single && self.has_explorer(),
            To::Neurons(layer) => !self.single && neurons::has_cards(dossier, layer),
            To::Changes => dossier.compared.difference.is_some(),
        };
        if !has_page {
            return None;
        }
        Some(match (self.single, to) {
            (true, To::Overview) => "#top".to_owned(),
            (true, to) => format!("#{}", file(to).trim_end_matches(".html")),
            (false, to) => file(to),
        })
    }

    /// Words that lead to a page, where there is one.
    pub(crate) fn link(&self, markup: &mut Markup, to: To, words: impl FnOnce(&mut Markup)) {
        match self.address(to) {
            Some(address) => markup.tag("a").attr("href", address).holding(words),
            None => words(markup),
        }
    }

    /// A class by its name, or by its number where it has none.
    pub(crate) fn class(&self, markup: &mut Markup, class: usize) {
        self.link(markup, To::Class(class), |words| {
            self.class_words(words, class)
        });
    }

    /// The same without a link.
    pub(crate) fn class_words(&self, markup: &mut Markup, class: usize) {
        match self.dossier.class_name(class) {
            Some(name) if !name.is_empty() => markup.name(name),
            _ => markup.text(&format!("class {class}")),
        }
    }

    /// The number of a class, after its name.
    pub(crate) fn class_number(&self, markup: &mut Markup, class: usize) {
        if self
            .dossier
            .class_name(class)
            .is_some_and(|name| !name.is_empty())
        {
            markup.text(" ");
            markup.tag("span").class("id").text(class.to_string());
        }
    }

    /// The same as plain text.
    pub(crate) fn class_text(&self, class: usize) -> String {
        match self.dossier.class_name(class) {
            Some(name) if !name.is_empty() => crate::markup::short(name),
            _ => format!("class {class}"),
        }
    }

    /// A label as plain text.
    pub(crate) fn label_text(&self, label: i64) -> String {
        let class = usize::try_from(label).ok();
        match class.and_then(|class| self.dossier.class_name(class)) {
            Some(name) if !name.is_empty() => crate::markup::short(name),
            _ => label.to_string(),
        }
    }

    /// A cluster.
    pub(crate) fn cluster(&self, markup: &mut Markup, cluster: usize) {
        self.link(markup, To::Cluster(cluster), |words| {
            words.text(&format!("cluster {cluster}"))
        });
    }

    /// Where an input of a suite is: the digest of its dataset, and its position there.
    pub(crate) fn row(&self, suite: usize, place: usize) -> (&'d str, usize) {
        let dossier = self.dossier;
        let name = &dossier.suites()[suite].name;
        let mut left = place;
        for part in dossier.facts.data.iter().filter(|part| part.suite == *name) {
            let inputs = part.end - part.start;
            if left < inputs {
                return (&part.sha256, part.start + left);
            }
            left -= inputs;
        }
        ("", place)
    }

    /// Classes on a page of their index.
    pub(crate) fn classes_on(&self, number: usize) -> &'d [crate::dossier::ClassView] {
        let all = &self.dossier.classes;
        if self.class_pages == 1 {
            return all;
        }
        let start = number * CLASSES_ON_PAGE;
        &all[start..(start + CLASSES_ON_PAGE).min(all.len())]
    }

    pub(crate) fn class_pages(&self) -> usize {
        self.class_pages
    }
}

/// The file of a page.
fn file(to: To) -> String {
    let mut name = match to {
        To::Overview => "index".to_owned(),
        To::Classes(number) => format!("classes-{}", number + 1),
        To::Class(class) => format!("class-{class}"),
        To::Cluster(cluster) => format!("cluster-{cluster}"),
        To::Input(suite, place) => format!("input-{suite}-{place}"),
        To::Errors => "errors".to_owned(),
        To::Explorer => "explorer".to_owned(),
        To::Neurons(layer) => format!("neurons-{layer}"),
        To::Changes => "changes".to_owned(),
    };
    // Writing to a string cannot fail.
    let _ = write!(name, ".html");
    name
}

/// Clusters that are in need come first: thin ones, then those that are covered least.
fn need(dossier: &Dossier, cluster: usize) -> (bool, usize) {
    let of_suite = dossier
        .suites()
        .iter()
        .filter_map(|suite| suite.clusters.get(cluster));
    let thin = of_suite.into_iter().any(|cluster| cluster.thin);
    let covered = dossier.clusters[cluster].covered.iter().flatten().sum();
    (!thin, covered)
}

/// A step of the way to a number in `report.json`.
pub(crate) fn pointer(parts: &[&dyn std::fmt::Display]) -> String {
    let mut way = String::new();
    for part in parts {
        let text = part.to_string().replace('~', "~0").replace('/', "~1");
        way.push('/');
        way.push_str(&text);
    }
    way
}
