//! What comes first: what was found in a sentence, whether the rules hold, and the numbers that people ask for.

use npcov::coverage::{Check, Condition, Finding, SuiteReport};
use npcov_report::criterion_label;
use npcov_report::number::{count, decimals, percent, share};

use super::frame;
use super::overview::capital;
use super::{Site, To, pointer};
use crate::markup::{Markup, short};

/// What was found, in words.
pub(super) fn hero(site: &Site<'_>, main: &mut Markup) {
    let suites = site.dossier.suites();
    let gaps: usize = suites.iter().map(|suite| suite.thin().len()).sum();
    main.tag("h1").text(match gaps {
        0 => "No gaps found".to_owned(),
        1 => "1 gap: a kind of input that is hardly tested".to_owned(),
        many => format!(
            "{} gaps: kinds of inputs that are hardly tested",
            count(many)
        ),
    });
    for (number, suite) in suites.iter().enumerate() {
        main.tag("p").class("headline").holding(|line| {
            if suites.len() > 1 {
                line.tag("strong").name(&suite.name);
                line.text(": ");
            }
            missing(line, suite);
            reached(site, line, number, suite);
        });
    }
}

/// What a suite has too few inputs of.
fn missing(line: &mut Markup, suite: &SuiteReport) {
    let thin = suite.thin();
    let (whole, parts): (Vec<_>, Vec<_>) = thin.iter().partition(|thin| thin.cluster.is_none());
    let mut told = Vec::new();
    for (found, one, many, all) in [
        (&whole, "class", "classes", suite.classes.len()),
        (&parts, "cluster", "clusters", suite.clusters.len()),
    ] {
        if !found.is_empty() {
            let empty = found.iter().filter(|thin| thin.inputs == 0).count();
            let words = if all == 1 { one } else { many };
            let none = match empty {
                0 => String::new(),
                all if all == found.len() => ", none of them with a single input".to_owned(),
                some => format!(", {} of them without a single input", count(some)),
            };
            told.push(format!(
                "{} of {} {words}{none}",
                count(found.len()),
                count(all)
            ));
        }
    }
    match told.is_empty() {
        true => line.text(
            "Every class and every cluster, a group of inputs that the model decides alike, has about as many inputs as \
             training lets expect. ",
        ),
        false => line.text(&format!(
            "Far fewer inputs than training lets expect: {}. A cluster is a group of inputs that the model decides alike. ",
            told.join("; ")
        )),
    }
}

/// How much of what random training inputs reach a suite reaches.
fn reached(site: &Site<'_>, line: &mut Markup, number: usize, suite: &SuiteReport) {
    let report = &site.dossier.compared.report;
    for name in npcov_report::main_criteria(report) {
        let Some(baselines) = suite.baselines.get(name) else {
            continue;
        };
        let Some(of_random) = baselines.of_random else {
            continue;
        };
        line.text("The suite reaches ");
        let at = |field: &str| pointer(&[&"suites", &number, &"yardsticks", &name, &field]);
        line.tag("strong")
            .at(at("of_random"))
            .text(share(of_random));
        if let Some(spread) = baselines.spread {
            line.text(" (± ");
            line.tag("span").at(at("spread")).text(share(spread));
            line.text(")");
        }
        line.text(&format!(
            " of the decision logic that {} random training inputs reach.",
            count(suite.inputs)
        ));
        return;
    }
}

/// Whether the rules hold, and why not.
pub(super) fn verdict(site: &Site<'_>, main: &mut Markup) {
    let Some(check) = &site.dossier.check else {
        return;
    };
    let failed = check.findings.iter().filter(|f| !f.passed).count();
    let all = check.findings.len();
    let (class, words) = match (check.passed, all) {
        (true, 1) => ("verdict passed", "✔ Passed: the rule holds".to_owned()),
        (true, _) => ("verdict passed", format!("✔ Passed: all {all} rules hold")),
        (false, 1) => (
            "verdict failed",
            "✘ Failed: the rule does not hold".to_owned(),
        ),
        (false, _) => {
            let verb = if failed == 1 { "does" } else { "do" };
            (
                "verdict failed",
                format!("✘ Failed: {failed} of {all} rules {verb} not hold"),
            )
        }
    };
    main.tag("section")
        .attr("class", class)
        .attr("aria-labelledby", "verdict")
        .holding(|verdict| {
            verdict.tag("h2").attr("id", "verdict").text(words);
            let list = |markup: &mut Markup, passed: bool| {
                markup.tag("ul").holding(|list| {
                    for finding in check.findings.iter().filter(|f| f.passed == passed) {
                        list.tag("li")
                            .holding(|item| rule(site, item, check, finding));
                    }
                });
            };
            if failed > 0 {
                list(verdict, false);
            }
            if all > failed {
                verdict.tag("details").holding(|details| {
                    let words = match all - failed {
                        1 => "1 rule holds".to_owned(),
                        many => format!("{} rules hold", count(many)),
                    };
                    details.tag("summary").text(words);
                    list(details, true);
                });
            }
        });
}

/// What a rule is about, and what it found.
fn rule(site: &Site<'_>, item: &mut Markup, check: &Check, finding: &Finding) {
    let about = match &finding.rule {
        Condition::FailUnder { .. } => "Too little",
        Condition::FailOnDrop { .. } => "Fallen",
        Condition::FailOnThin { .. } => "Hardly tested",
        Condition::FailOnLoss { .. } => "Coverage",
        Condition::FailOnThinClusters { .. } => "Hardly tested",
        Condition::LossNotJudged { .. } => "Not judged",
        Condition::NewlyThin { .. } => "Lost",
        Condition::MoreCopies { .. } => "Copies",
        Condition::MissingSuite => "Suite",
    };
    let about = match (&finding.rule, finding.passed) {
        (Condition::FailUnder { .. } | Condition::FailOnDrop { .. }, true) => "Enough",
        (
            Condition::FailOnThin { .. }
            | Condition::FailOnThinClusters { .. }
            | Condition::NewlyThin { .. },
            true,
        ) => "Classes and clusters",
        _ => about,
    };
    item.tag("strong").text(about);
    item.text(": ");
    // The gaps stand below; a rule that is about them names them.
    let mut told = finding.clone();
    if !matches!(
        told.rule,
        Condition::NewlyThin { .. }
            | Condition::FailOnThin { .. }
            | Condition::FailOnThinClusters { .. }
    ) {
        told.thin.clear();
    }
    let words = npcov_report::finding(&told, check.model_changed == Some(true));
    let prefix = format!("suite `{}`: ", finding.suite);
    let words = match site.dossier.suites().len() {
        1 => words.strip_prefix(&prefix).unwrap_or(&words),
        _ => &words,
    };
    item.text(words);
    item.text(".");
}

/// The numbers that people ask for first.
pub(super) fn tiles(site: &Site<'_>, main: &mut Markup, suite: usize, found: &SuiteReport) {
    if site.dossier.suites().len() > 1 {
        main.tag("h2").class("suite").name(&found.name);
    }
    let at = |field: &str| pointer(&[&"suites", &suite, &field]);
    let tiles = main.tag("ul").class("tiles").attr("role", "list");
    tiles.holding(|tiles| {
        let mut tile =
            |class: &'static str, value: &dyn Fn(&mut Markup), words: &dyn Fn(&mut Markup)| {
                tiles.tag("li").attr("class", class).holding(|tile| {
                    tile.tag("span").class("value").holding(value);
                    tile.tag("span").class("what").holding(words);
                });
            };
        let gaps = found.thin().len();
        let class = if gaps > 0 { "tile low" } else { "tile" };
        tile(class, &|v| v.text(&count(gaps)), &|w| {
            let words = if gaps == 1 { "gap" } else { "gaps" };
            match gaps > 0 {
                true => w
                    .tag("a")
                    .attr("href", format!("#gaps-{suite}-title"))
                    .text(words),
                false => w.text(words),
            }
        });
        for name in npcov_report::main_criteria(&site.dossier.compared.report) {
            let baselines = found.baselines.get(name);
            let Some(of_random) = baselines.and_then(|baselines| baselines.of_random) else {
                continue;
            };
            let at = pointer(&[&"suites", &suite, &"yardsticks", &name, &"of_random"]);
            let value = |v: &mut Markup| {
                v.tag("span").at(&at).text(share(of_random));
                frame::bar(v, of_random);
            };
            let words = format!(
                "of what a random sample reaches ({})",
                criterion_label(name)
            );
            tile("tile", &value, &|w| w.text(&words));
        }
        if let Some(accuracy) = found.accuracy {
            let value = |v: &mut Markup| {
                v.tag("span").at(at("accuracy")).text(percent(accuracy));
                frame::bar(v, accuracy);
            };
            tile("tile", &value, &|w| w.text("classified as labelled"));
        }
        let inputs = |v: &mut Markup| v.tag("span").at(at("inputs")).text(count(found.inputs));
        tile("tile", &inputs, &|w| w.text("inputs"));
        for (number, name, words) in [
            (found.unfamiliar, "unfamiliar", "unfamiliar inputs"),
            (found.contested, "contested", "contested inputs"),
        ] {
            let Some(number) = number else { continue };
            let at = |field: &str| pointer(&[&"suites", &suite, &name, &field]);
            let value = |v: &mut Markup| {
                v.tag("span").at(at("inputs")).text(count(number.inputs));
            };
            tile("tile", &value, &|w| {
                match site.address(To::Errors) {
                    Some(address) => {
                        let address = match site.single {
                            true => format!("#{name}-{suite}"),
                            false => format!("{address}#{name}-{suite}"),
                        };
                        let has = number.inputs > 0;
                        w.tag("a")
                            .attr_if("href", has.then_some(address))
                            .text(words);
                    }
                    None => w.text(words),
                }
                w.text(", ");
                w.tag("span")
                    .at(at("expected"))
                    .text(decimals(number.expected, 0));
                w.text(" are usual");
            });
        }
    });
}

/// What a suite is called where there are several.
pub(super) fn suite_words(site: &Site<'_>, words: &str, suite: usize) -> String {
    match site.dossier.suites().len() {
        1 => capital(words),
        _ => format!("{}: {words}", short(&site.dossier.suites()[suite].name)),
    }
}
