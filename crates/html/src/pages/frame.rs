//! What all pages have: head, navigation, foot.

use npcov_report::number::whole_percent;

use super::{Page, Site, To, file, neurons};
use crate::markup::Markup;

pub(crate) const STYLE: &str = include_str!("../../assets/style.css");
pub(crate) const SCRIPT: &str = include_str!("../../assets/script.js");

/// Suites that the head of a page names.
const MOST_NAMED: usize = 3;

/// A page with a title.
pub(super) fn page(
    site: &Site<'_>,
    to: To,
    title: &str,
    content: impl FnOnce(&mut Markup),
) -> Page {
    page_between(site, to, title, [None, None, None], content)
}

/// A page that has one above it, and neighbours: what the keys `u`, `[` and `]` lead to.
pub(super) fn page_between(
    site: &Site<'_>,
    to: To,
    title: &str,
    [up, previous, next]: [Option<To>; 3],
    content: impl FnOnce(&mut Markup),
) -> Page {
    let mut markup = Markup::new();
    let suites: Vec<String> = (site.dossier.suites().iter())
        .map(|suite| crate::markup::short(&suite.name))
        .collect();
    markup.tag("html").attr("lang", "en").holding(|html| {
        html.tag("head").holding(|head| {
            head.tag("meta").attr("charset", "utf-8").empty();
            let viewport = "width=device-width, initial-scale=1";
            head.tag("meta").attr("name", "viewport").attr("content", viewport).empty();
            head.tag("meta").attr("name", "color-scheme").attr("content", "light dark").empty();
            // Nothing is loaded from anywhere but beside the page.
            let policy = "default-src 'none'; img-src 'self' data: file:; \
                          style-src 'self' 'unsafe-inline' file:; script-src 'self' 'unsafe-inline' file:";
            head.tag("meta").attr("http-equiv", "Content-Security-Policy").attr("content", policy).empty();
            head.tag("title").text(format!("{title} · {} · npcov", suites.join(", ")));
            match site.single {
                true => head.style(STYLE),
                false => head.tag("link").attr("rel", "stylesheet").attr("href", "style.css").empty(),
            }
            for (rel, to) in [("up", up), ("prev", previous), ("next", next)] {
                if let Some(address) = to.and_then(|to| site.address(to)) {
                    head.tag("link").attr("rel", rel).attr("href", address).empty();
                }
            }
        });
        html.tag("body").attr("id", "top").holding(|body| {
            body.tag("a").class("skip").attr("href", "#main").text("To the content");
            body.tag("header").holding(|header| {
                header.tag("div").class("bar").holding(|bar| navigation(site, to, bar));
            });
            body.tag("main").attr("id", "main").attr("tabindex", "-1").holding(content);
            body.tag("footer").holding(|footer| foot(site, footer));
            match site.single {
                true => body.script(SCRIPT),
                false => body.tag("script").attr("src", "script.js").attr("defer", "").text(""),
            }
        });
    });
    Page {
        file: file(to),
        markup,
    }
}

fn navigation(site: &Site<'_>, here: To, header: &mut Markup) {
    header.tag("p").class("brand").holding(|brand| {
        site.link(brand, To::Overview, |words| words.text("npcov"));
    });
    header
        .tag("nav")
        .attr("aria-label", "Pages")
        .holding(|nav| {
            let first_cards =
                (0..site.dossier.facts.layers.len()).find(|&l| neurons::has_cards(site.dossier, l));
            let places = [
                (To::Overview, "Overview"),
                (To::Classes(0), "Classes"),
                (To::Errors, "Errors"),
                (To::Explorer, "Explorer"),
                (To::Neurons(first_cards.unwrap_or(usize::MAX)), "Neurons"),
                (To::Changes, "Changes"),
            ];
            for (to, words) in places {
                let Some(address) = site.address(to) else {
                    continue;
                };
                let current = std::mem::discriminant(&to) == std::mem::discriminant(&here);
                let tag = nav.tag("a").attr("href", address);
                tag.attr_if("aria-current", current.then_some("page"))
                    .text(words);
            }
        });
    // Which suites, on every page.
    let suites = site.dossier.suites();
    header.tag("p").class("about").holding(|about| {
        for (i, suite) in suites.iter().enumerate().take(MOST_NAMED) {
            about.text(if i > 0 { ", " } else { "" });
            about.name(&suite.name);
        }
        if suites.len() > MOST_NAMED {
            about.text(&format!(" and {} more", suites.len() - MOST_NAMED));
        }
    });
}

fn foot(site: &Site<'_>, footer: &mut Markup) {
    let version = env!("CARGO_PKG_VERSION");
    footer.tag("p").holding(|line| {
        line.text(&format!("Made by npcov {version}. "));
        if !site.single {
            line.text("All numbers are in ");
            line.tag("a")
                .attr("href", "report.json")
                .text("report.json");
            line.text(". ");
        }
        line.tag("span")
            .attr("id", "keys")
            .attr("hidden", "")
            .holding(|keys| {
                keys.text("Press ");
                keys.tag("kbd").text("?");
                keys.text(" for the keys.");
            });
    });
}

/// Steps from the overview to a page.
pub(super) fn crumbs(site: &Site<'_>, markup: &mut Markup, steps: &[(To, String)]) {
    if site.single {
        return;
    }
    markup
        .tag("nav")
        .class("crumbs")
        .attr("aria-label", "Where this is")
        .holding(|nav| {
            site.link(nav, To::Overview, |words| words.text("Overview"));
            for (to, words) in steps {
                nav.text(" › ");
                site.link(nav, *to, |link| link.text(words));
            }
        });
}

/// A table that the script can sort, and filter where it is asked to.
pub(super) fn table(
    markup: &mut Markup,
    caption: &str,
    heads: &[(&str, bool)],
    rows: impl FnOnce(&mut Markup),
) {
    markup
        .tag("div")
        .class("scroll")
        .attr("tabindex", "0")
        .attr("role", "group")
        .attr("aria-label", caption)
        .holding(|div| {
            div.tag("table").class("sortable").holding(|table| {
                table.tag("caption").text(caption);
                table.tag("thead").holding(|head| {
                    head.tag("tr").holding(|row| {
                        for &(words, is_number) in heads {
                            let tag = row.tag("th").attr("scope", "col");
                            tag.attr_if("class", is_number.then_some("n")).text(words);
                        }
                    });
                });
                table.tag("tbody").holding(rows);
            });
        });
}

/// A cell with a share and a bar of it; `of` says where the two numbers are that it is the ratio of.
pub(super) fn meter(row: &mut Markup, part: f64, of: Option<[String; 2]>, thin: bool) {
    let tag = row
        .tag("td")
        .class(if thin { "n meter low" } else { "n meter" });
    tag.attr_if("data-ratio", of.map(|of| of.join(" ")))
        .holding(|cell| {
            cell.tag("span").class("percent").text(whole_percent(part));
            bar(cell, part);
        });
}

/// A bar that is filled by a part.
pub(super) fn bar(markup: &mut Markup, part: f64) {
    let filled = format!("--part:{:.3}", part.clamp(0.0, 1.0));
    markup.tag("span").class("track").holding(|track| {
        track
            .tag("span")
            .class("filled")
            .attr("style", filled)
            .text("");
    });
}

/// A field that filters the rows of the tables on the page; the script shows it.
pub(super) fn filter(markup: &mut Markup, what: &str) {
    markup
        .tag("p")
        .class("filter")
        .attr("hidden", "")
        .holding(|line| {
            line.tag("label").holding(|label| {
                label.text(&format!("Show only {what} with "));
                label
                    .tag("input")
                    .attr("type", "search")
                    .attr("id", "filter")
                    .attr("autocomplete", "off")
                    .empty();
            });
            line.tag("span")
                .attr("id", "matches")
                .attr("role", "status")
                .text("");
        });
}
