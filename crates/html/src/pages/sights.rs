//! Inputs as they look, one by one and in strips.

use npcov_report::number::{count, four_digits, short as plain};

use super::{Site, To};
use crate::dossier::{Picture, Training};
use crate::markup::{Markup, short};
use crate::raster::{Raster, base64};
use crate::sight::Sight;

/// Pixels that one that is looked at alone has about.
const ALONE: usize = 168;
/// Features of an input in a strip.
const FEW: usize = 4;
/// Words of an input in a strip.
const FEW_WORDS: usize = 20;
/// Tokens that are shown.
const MOST_TOKENS: usize = 512;

/// How inputs in a strip look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// In a row of a table.
    Tiny,
    /// Among many.
    Small,
    /// To be looked at.
    Middle,
    /// The same, with the relevance of what is shown where that is known.
    Heat,
}

impl Look {
    /// Pixels that a picture has about.
    fn pixels(self) -> usize {
        match self {
            Look::Tiny => 32,
            Look::Small => 64,
            Look::Middle | Look::Heat => 84,
        }
    }

    /// Width and height of a drawn series.
    fn drawing(self) -> (usize, usize) {
        match self {
            Look::Tiny => (72, 28),
            Look::Small => (120, 48),
            Look::Middle => (168, 64),
            Look::Heat => (168, 92),
        }
    }
}

/// An input in a strip.
pub(super) struct Item<'a> {
    /// The digest of its dataset.
    pub(super) data: &'a str,
    /// Its position there.
    pub(super) row: usize,
    pub(super) sample: Option<&'a str>,
    pub(super) label: Option<i64>,
    /// The class that it is classified as, where another label is to be told.
    pub(super) class: Option<usize>,
    /// A line below it.
    pub(super) note: Option<String>,
    /// Where the number of that line is.
    pub(super) at: Option<String>,
    /// Its page.
    pub(super) to: Option<To>,
}

impl<'a> Item<'a> {
    /// An input of a dataset.
    pub(super) fn plain(
        data: &'a str,
        row: usize,
        sample: Option<&'a str>,
        label: Option<i64>,
    ) -> Item<'a> {
        Item {
            data,
            row,
            sample,
            label,
            class: None,
            note: None,
            at: None,
            to: None,
        }
    }

    /// An input of a suite.
    pub(super) fn of_suite(site: &Site<'a>, suite: usize, place: usize) -> Item<'a> {
        let (data, row) = site.row(suite, place);
        let view = site.dossier.input(suite, place);
        let sample = view.and_then(|view| view.sample.as_deref());
        Item {
            class: view.map(|view| view.prediction),
            to: Some(To::Input(suite, place)),
            ..Item::plain(data, row, sample, view.and_then(|view| view.label))
        }
    }

    /// A training input.
    pub(super) fn training(data: &'a str, input: &'a Training) -> Item<'a> {
        Item::plain(data, input.input, input.sample.as_deref(), input.label)
    }
}

/// Inputs side by side, with their relevance below where it is known and wanted.
pub(super) fn strip(
    site: &Site<'_>,
    markup: &mut Markup,
    title: &str,
    nothing: &str,
    look: Look,
    items: &[Item<'_>],
) {
    markup.tag("div").class("strip").holding(|strip| {
        if !title.is_empty() {
            strip.tag("p").class("strip-title").text(title);
        }
        if items.is_empty() {
            strip.tag("p").class("none").text(nothing);
            return;
        }
        strip
            .tag("ul")
            .class("inputs")
            .attr("role", "list")
            .attr_if("aria-label", (!title.is_empty()).then_some(title))
            .holding(|list| {
                for item in items {
                    list.tag("li").holding(|li| figure(site, li, item, look));
                }
            });
    });
}

/// Inputs in a cell of a table, without words.
pub(super) fn tiny(site: &Site<'_>, markup: &mut Markup, items: &[Item<'_>]) {
    let pictures = items
        .iter()
        .filter_map(|item| site.dossier.pictures.get(item.data, item.row));
    markup.tag("span").class("tiny").holding(|span| {
        for (i, picture) in pictures.enumerate() {
            // Words need the room of several pictures.
            let has_words = matches!(picture.sight, Sight::Row { .. } | Sight::Tokens { .. });
            if i == 0 || !has_words {
                small(site, span, picture, "", Look::Tiny);
            }
        }
    });
}

fn figure(site: &Site<'_>, markup: &mut Markup, item: &Item<'_>, look: Look) {
    let called = match item.sample {
        Some(name) => short(name),
        None => format!("{}", item.row),
    };
    let label = item.label.map(|label| site.label_text(label));
    let alt = match &label {
        Some(label) => format!("input {called}, labelled {label}"),
        None => format!("input {called}"),
    };
    let picture = site.dossier.pictures.get(item.data, item.row);
    let address = item.to.and_then(|to| site.address(to));
    let draw = |markup: &mut Markup| match picture {
        Some(picture) => small(site, markup, picture, &alt, look),
        None => markup.tag("span").class("absent").text("not shown"),
    };
    match &address {
        Some(address) => markup
            .tag("a")
            .attr("href", address)
            .attr("title", &alt)
            .holding(draw),
        None => draw(markup),
    }
    markup
        .tag("span")
        .class("called")
        .attr("title", &called)
        .text(match item.sample {
            Some(_) => shortest(&called),
            None => format!("#{called}"),
        });
    if let (Some(label), Some(class), Some(words)) = (item.label, item.class, &label)
        && label != class as i64
    {
        let tag = markup.tag("span").class("other");
        tag.attr("title", format!("labelled {words}")).text(words);
    }
    if let Some(note) = &item.note {
        let tag = markup.tag("span").class("note");
        tag.attr_if("data-at", item.at.as_ref()).text(note);
    }
}

/// The end of a long name, which tells files of a folder apart.
fn shortest(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    match letters.len() > 14 {
        true => std::iter::once('…')
            .chain(letters[letters.len() - 13..].iter().copied())
            .collect(),
        false => name.to_owned(),
    }
}

fn small(site: &Site<'_>, markup: &mut Markup, picture: &Picture, alt: &str, look: Look) {
    let heat = look == Look::Heat;
    match &picture.sight {
        Sight::Image {
            small, heat: found, ..
        } => {
            image(site, markup, small, look.pixels(), alt, &name(picture, ""));
            if let Some(found) = found.as_ref().filter(|_| heat) {
                image(
                    site,
                    markup,
                    found,
                    look.pixels(),
                    &format!("relevance of {alt}"),
                    &name(picture, "-heat"),
                );
            }
        }
        Sight::Series {
            channels,
            relevance,
        } => {
            let relevance = relevance.as_deref().filter(|_| heat);
            series(markup, channels, relevance, look.drawing(), alt);
        }
        Sight::Row { values, relevance } => {
            // Where all are shown, they are in one order everywhere.
            let relevance = relevance.as_deref();
            let order = strongest(values.len(), relevance.filter(|_| values.len() > FEW));
            let largest = relevance.map_or(0.0, |r| r.iter().fold(0.0f32, |m, r| m.max(r.abs())));
            markup.tag("span").class("words").holding(|words| {
                for i in order.into_iter().take(FEW) {
                    let part = relevance.filter(|_| heat).map_or(0.0, |r| r[i]);
                    let part = part / largest.max(f32::MIN_POSITIVE);
                    let pair = words
                        .tag("span")
                        .attr("class", format!("pair {}", token_class(part)));
                    pair.attr("style", format!("--part:{:.2}", part.abs()))
                        .holding(|pair| {
                            pair.tag("span").text(feature(site, i));
                            pair.text(" ");
                            pair.tag("b").text(plain(f64::from(values[i])));
                        });
                }
            });
        }
        Sight::Tokens { tokens, relevance } => {
            markup.tag("span").class("words").holding(|words| {
                let relevance = relevance.as_deref().filter(|_| heat);
                token_list(site, words, tokens, relevance, FEW_WORDS);
            });
        }
    }
}

/// Features in the order of their relevance, the strongest first; as they are where that is not known.
fn strongest(features: usize, relevance: Option<&[f32]>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..features).collect();
    if let Some(relevance) = relevance {
        order.sort_by(|&a, &b| relevance[b].abs().total_cmp(&relevance[a].abs()));
    }
    order
}

fn feature(site: &Site<'_>, feature: usize) -> String {
    match site.dossier.pictures.names.features.get(feature) {
        Some(name) => short(name),
        None => format!("feature {feature}"),
    }
}

fn word(site: &Site<'_>, token: u64) -> String {
    let words = &site.dossier.pictures.names.words;
    let found = usize::try_from(token).ok().and_then(|i| words.get(i));
    found.map_or_else(|| token.to_string(), |word| short(word))
}

/// The file of a picture.
pub(crate) fn name(picture: &Picture, kind: &str) -> String {
    format!("{}-{}{kind}.png", picture.key.data, picture.key.row)
}

/// The pictures of an input that are files.
pub(crate) fn files(picture: &Picture) -> Vec<(String, &Raster)> {
    let Sight::Image {
        small,
        large,
        heat,
        large_heat,
    } = &picture.sight
    else {
        return Vec::new();
    };
    [
        ("", Some(small)),
        ("-large", large.as_ref()),
        ("-heat", heat.as_ref()),
        ("-large-heat", large_heat.as_ref()),
    ]
    .into_iter()
    .filter_map(|(kind, raster)| Some((name(picture, kind), raster?)))
    .collect()
}

/// A picture of about so many pixels; small ones are enlarged by a whole number.
fn image(
    site: &Site<'_>,
    markup: &mut Markup,
    raster: &Raster,
    pixels: usize,
    alt: &str,
    file: &str,
) {
    let longest = raster.width.max(raster.height).max(1);
    let scale = (pixels / longest).max(1);
    let source = match site.single {
        true => format!("data:image/png;base64,{}", base64(&raster.png)),
        false => format!("pictures/{file}"),
    };
    markup
        .tag("img")
        .attr("src", source)
        .attr("width", (raster.width * scale).to_string())
        .attr("height", (raster.height * scale).to_string())
        .attr("alt", alt)
        .attr("loading", "lazy")
        .empty();
}

/// An input that is looked at alone, beside its relevance.
pub(super) fn alone(site: &Site<'_>, markup: &mut Markup, picture: &Picture, alt: &str) {
    match &picture.sight {
        Sight::Image {
            small,
            large,
            heat,
            large_heat,
        } => {
            let (raster, kind) = match large {
                Some(large) => (large, "-large"),
                None => (small, ""),
            };
            let heat = match large_heat {
                Some(heat) => Some((heat, "-large-heat")),
                None => heat.as_ref().map(|heat| (heat, "-heat")),
            };
            markup.tag("div").class("panels").holding(|panels| {
                let file = name(picture, kind);
                panels.tag("figure").holding(|figure| {
                    image(site, figure, raster, ALONE, alt, &file);
                    figure.tag("figcaption").text("as it is stored");
                });
                if let Some((heat, kind)) = heat {
                    let heat_file = name(picture, kind);
                    panels.tag("figure").holding(|figure| {
                        image(
                            site,
                            figure,
                            heat,
                            ALONE,
                            &format!("relevance of {alt}"),
                            &heat_file,
                        );
                        figure.tag("figcaption").text("relevance");
                    });
                    panels.tag("figure").holding(|figure| {
                        figure.tag("div").class("over").holding(|over| {
                            image(site, over, raster, ALONE, "", &file);
                            image(site, over, heat, ALONE, "", &heat_file);
                        });
                        figure.tag("figcaption").text("one over the other");
                    });
                }
            });
        }
        Sight::Series {
            channels,
            relevance,
        } => series(markup, channels, relevance.as_deref(), (640, 220), alt),
        Sight::Row { values, relevance } => row(site, markup, values, relevance.as_deref()),
        Sight::Tokens { tokens, relevance } => words(site, markup, tokens, relevance.as_deref()),
    }
    if picture.sight.has_heat() {
        markup.tag("p").class("legend").holding(|legend| {
            legend.tag("span").class("for").text("orange");
            legend.text(" supports the predicted class, ");
            legend.tag("span").class("against").text("blue");
            legend.text(" speaks against it.");
        });
    }
}

/// Lines of a series, and below them the relevance of each step: up what supports, down what speaks against.
fn series(
    markup: &mut Markup,
    channels: &[Vec<f32>],
    relevance: Option<&[f32]>,
    (width, height): (usize, usize),
    alt: &str,
) {
    let points = channels.first().map_or(0, Vec::len);
    let part = if relevance.is_some() { 0.65 } else { 1.0 };
    let (width, height) = (width as f64, height as f64);
    let above = height * part - 2.0;
    let x = |i: usize| (i as f64 + 0.5) * width / points.max(1) as f64;
    // What stands beside words that say the same is no picture of its own.
    let described = !alt.is_empty();
    let svg = markup
        .tag("svg")
        .class("series")
        .attr_if("role", described.then_some("img"))
        .attr_if("aria-label", described.then_some(alt))
        .attr_if("aria-hidden", (!described).then_some("true"));
    let box_ = format!("0 0 {width} {height}");
    svg.attr("viewBox", box_)
        .attr("width", width.to_string())
        .attr("height", height.to_string())
        .holding(|svg| {
            for (number, channel) in channels.iter().enumerate() {
                let low = channel.iter().copied().fold(f32::INFINITY, f32::min);
                let high = channel.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let range = f64::from(if high > low { high - low } else { 1.0 });
                let line: Vec<String> = channel
                    .iter()
                    .enumerate()
                    .map(|(i, &y)| {
                        format!(
                            "{:.1},{:.1}",
                            x(i),
                            above - f64::from(y - low) / range * (above - 2.0)
                        )
                    })
                    .collect();
                let class = if number % 2 == 0 {
                    "line"
                } else {
                    "line other"
                };
                svg.tag("polyline")
                    .attr("class", class)
                    .attr("points", line.join(" "))
                    .empty();
            }
            let Some(relevance) = relevance else { return };
            let largest = relevance
                .iter()
                .fold(0.0f32, |m, r| m.max(r.abs()))
                .max(f32::MIN_POSITIVE);
            let middle = height * (1.0 + part) / 2.0;
            let half = height * (1.0 - part) / 2.0;
            let bars = |positive: bool| -> String {
                let bar = |(i, &r): (usize, &f32)| {
                    let size = f64::from(r / largest) * half;
                    ((r > 0.0) == positive && r != 0.0)
                        .then(|| format!("M{:.1} {middle:.1}v{:.1}", x(i), -size))
                };
                relevance.iter().enumerate().filter_map(bar).collect()
            };
            let thick = format!("{:.2}", width / points.max(1) as f64);
            svg.tag("line")
                .class("axis")
                .attr("x1", "0")
                .attr("x2", width.to_string())
                .attr("y1", format!("{middle:.1}"))
                .attr("y2", format!("{middle:.1}"))
                .empty();
            svg.tag("path")
                .class("for")
                .attr("stroke-width", &thick)
                .attr("d", bars(true))
                .empty();
            svg.tag("path")
                .class("against")
                .attr("stroke-width", &thick)
                .attr("d", bars(false))
                .empty();
        });
}

/// Features with values and bars of relevance.
fn row(site: &Site<'_>, markup: &mut Markup, values: &[f32], relevance: Option<&[f32]>) {
    const MOST: usize = 100;
    let order = strongest(values.len(), relevance);
    let largest = relevance.map_or(0.0, |r| r.iter().fold(0.0f32, |m, r| m.max(r.abs())));
    let heads = [
        ("feature", false),
        ("value", true),
        ("relevance", true),
        ("drawn", false),
    ];
    let heads = if relevance.is_some() {
        &heads[..]
    } else {
        &heads[..2]
    };
    super::frame::table(markup, "Features, the most relevant first", heads, |rows| {
        for &i in order.iter().take(MOST) {
            rows.tag("tr").holding(|tr| {
                tr.tag("th").attr("scope", "row").text(feature(site, i));
                tr.tag("td")
                    .class("n")
                    .text(four_digits(f64::from(values[i])));
                if let Some(relevance) = relevance {
                    let r = relevance[i];
                    tr.tag("td").class("n").text(four_digits(f64::from(r)));
                    tr.tag("td").class("bars").holding(|cell| {
                        let width = f64::from(r.abs() / largest.max(f32::MIN_POSITIVE)) * 60.0;
                        let start = if r < 0.0 { 60.0 - width } else { 60.0 };
                        let svg = cell
                            .tag("svg")
                            .attr("viewBox", "0 0 120 12")
                            .attr("width", "120")
                            .attr("height", "12");
                        svg.attr("aria-hidden", "true").holding(|svg| {
                            svg.tag("line")
                                .class("axis")
                                .attr("x1", "60")
                                .attr("x2", "60")
                                .attr("y1", "0")
                                .attr("y2", "12")
                                .empty();
                            let class = if r < 0.0 { "against fill" } else { "for fill" };
                            svg.tag("rect")
                                .attr("class", class)
                                .attr("x", format!("{start:.1}"))
                                .attr("y", "2")
                                .attr("width", format!("{width:.1}"))
                                .attr("height", "8")
                                .empty();
                        });
                    });
                }
            });
        }
    });
    if values.len() > MOST {
        markup
            .tag("p")
            .text(format!("and {} more features", count(values.len() - MOST)));
    }
}

/// Words, with the colour of their relevance; what speaks against is also underlined by dots.
fn words(site: &Site<'_>, markup: &mut Markup, tokens: &[u64], relevance: Option<&[f32]>) {
    markup.tag("p").class("tokens").holding(|line| {
        token_list(site, line, tokens, relevance, MOST_TOKENS);
    });
}

/// How something looks that supports or speaks against.
fn token_class(part: f32) -> &'static str {
    match part {
        part if part > 0.0 => "token for",
        part if part < 0.0 => "token against",
        _ => "token",
    }
}

/// The first of some tokens.
fn token_list(
    site: &Site<'_>,
    line: &mut Markup,
    tokens: &[u64],
    relevance: Option<&[f32]>,
    most: usize,
) {
    let largest = relevance.map_or(0.0, |r| r.iter().fold(0.0f32, |m, r| m.max(r.abs())));
    let Some(relevance) = relevance else {
        let words: Vec<String> = tokens.iter().take(most).map(|&t| word(site, t)).collect();
        line.text(&words.join(" "));
        if tokens.len() > most {
            line.text(" …");
        }
        return;
    };
    for (i, &token) in tokens.iter().take(most).enumerate() {
        let part = relevance[i] / largest.max(f32::MIN_POSITIVE);
        line.tag("span")
            .attr("class", token_class(part))
            .attr("style", format!("--part:{:.2}", part.abs()))
            .attr("title", four_digits(f64::from(relevance[i])))
            .text(word(site, token));
        line.text(" ");
    }
    if tokens.len() > most {
        line.text(&format!("and {} more", count(tokens.len() - most)));
    }
}

/// A strip of neurons as a picture.
pub(super) fn neurons(markup: &mut Markup, raster: &Raster, alt: &str) {
    let source = format!("data:image/png;base64,{}", base64(&raster.png));
    markup
        .tag("img")
        .class("neurons")
        .attr("src", source)
        .attr("alt", alt)
        .empty();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_their_end() {
        assert_eq!(shortest("cat.png"), "cat.png");
        assert_eq!(
            shortest("a/very/long/folder/n01440764_18.JPEG"),
            "…40764_18.JPEG"
        );
    }

    #[test]
    fn the_most_relevant_come_first() {
        assert_eq!(strongest(3, None), [0, 1, 2]);
        assert_eq!(strongest(3, Some(&[0.5, -2.0, 1.0])), [1, 2, 0]);
    }
}
