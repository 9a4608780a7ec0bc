//! What holds for all pages: sizes, names, numbers.

use npcov::criteria::Amount;

use super::*;
use crate::example::{Extent, SMALL, dossier};

/// Budgets of a page.
const OVERVIEW_BYTES: usize = 300 << 10;
const PAGE_BYTES: usize = 2 << 20;
const SHAPES: usize = 2000;

fn check_budgets(extent: &Extent<'_>) {
    let dossier = dossier(extent);
    for page in Site::new(&dossier, true).pages() {
        let (elements, shapes) = (page.markup.elements(), page.markup.shapes());
        assert!(
            elements <= MOST_ELEMENTS,
            "single file: {elements} elements"
        );
        assert!(shapes <= SHAPES, "single file: {shapes} shapes");
    }
    for page in Site::new(&dossier, false).pages() {
        let (elements, shapes) = (page.markup.elements(), page.markup.shapes());
        let file = page.file.clone();
        assert!(elements <= MOST_ELEMENTS, "{file}: {elements} elements");
        assert!(shapes <= SHAPES, "{file}: {shapes} shapes");
        let bytes = page.into_html().len();
        let most = if file == "index.html" {
            OVERVIEW_BYTES
        } else {
            PAGE_BYTES
        };
        assert!(bytes <= most, "{file}: {bytes} bytes");
    }
}

#[test]
fn the_script_is_small() {
    assert!(frame::SCRIPT.len() <= 60 << 10);
}

#[test]
fn a_usual_report_is_within_its_budgets() {
    check_budgets(&Extent {
        classes: 10,
        clusters: 7,
        layers: 15,
        neurons: 512,
        inputs: 10_000,
        ..SMALL
    });
}

#[test]
fn several_suites_are_within_their_budgets() {
    check_budgets(&Extent {
        suites: 3,
        classes: 10,
        clusters: 5,
        layers: 15,
        neurons: 512,
        inputs: 10_000,
        ..SMALL
    });
}

#[test]
fn a_thousand_classes_are_within_their_budgets_and_paginated() {
    let extent = Extent {
        classes: 1000,
        clusters: 4,
        layers: 16,
        neurons: 64,
        inputs: 10_000,
        ..SMALL
    };
    check_budgets(&extent);
    let dossier = dossier(&extent);
    let site = Site::new(&dossier, false);
    assert_eq!(site.class_pages(), 10);
    assert_eq!(site.classes_on(9).last().unwrap().class, 999);
}

#[test]
fn many_layers_and_many_clusters_of_a_class_are_within_their_budgets() {
    check_budgets(&Extent {
        classes: 2,
        clusters: 300,
        layers: 100,
        neurons: 32,
        inputs: 1000,
        ..SMALL
    });
}

/// Whatever things are called, nothing of it becomes an element or an attribute, and nothing is obeyed.
#[test]
fn hostile_names_are_text() {
    let names = [
        "<script>alert(1)</script>".to_owned(),
        "\" onmouseover=\"alert(1)\" x=\"".to_owned(),
        "'><img src=x onerror=alert(1)>".to_owned(),
        "</title></table></script><b>".to_owned(),
        "javascript:alert(1)".to_owned(),
        "\u{202e}\u{2066}evil\u{2069} \u{1b}[31m\0\u{7}\u{85}".to_owned(),
        "ערבית עברית".to_owned(),
        "a".repeat(10_000),
        "../../etc/passwd".to_owned(),
        "&lt;b&gt; ]]> --> %s {{x}}".to_owned(),
        String::new(),
    ];
    let plain: Vec<(String, usize)> = elements("shirt");
    for name in &names {
        let found = elements(name);
        assert_eq!(found.len(), plain.len(), "{name:?}");
        for ((file, elements), (_, usual)) in found.iter().zip(&plain) {
            // A name that is too long is there once more, whole.
            let more = if name.len() == 10_000 { 4 } else { 0 };
            // Without a name there is only a number.
            let fewer = if name.is_empty() { *usual } else { more };
            assert!(
                *elements <= usual + more && *elements >= usual.saturating_sub(fewer),
                "{file} of {name:?}: {elements}, not {usual}"
            );
        }
        let mut small = dossier(&Extent { name, ..SMALL });
        small.notes.push(name.clone());
        for page in Site::new(&small, false)
            .pages()
            .into_iter()
            .chain(Site::new(&small, true).pages())
        {
            let file = page.file.clone();
            // In data for the script, quotes have a backslash.
            let html = page.into_html().replace("\\\"", "quote");
            assert!(
                !html.contains("<script>alert")
                    && !html.contains("<img src=x")
                    && !html.contains("\" onmouseover"),
                "{file}"
            );
            assert!(!html.contains("href=\"javascript"), "{file}");
            assert!(!html.chars().any(|c| c.is_control() && c != '\n'), "{file}");
            assert!(!html.contains(['\u{202e}', '\u{2066}']), "{file}");
        }
    }
}

/// How many elements a reader of HTML finds on each page: what begins with `<` and a letter, outside of data and scripts.
fn elements(name: &str) -> Vec<(String, usize)> {
    let dossier = dossier(&Extent { name, ..SMALL });
    let pages = Site::new(&dossier, false).pages().into_iter();
    pages
        .map(|page| {
            let counted = page.markup.elements();
            let file = page.file.clone();
            let html = page.into_html();
            let bytes = html.as_bytes();
            let opening = |pair: &&[u8]| pair[0] == b'<' && pair[1].is_ascii_alphabetic();
            assert_eq!(bytes.windows(2).filter(opening).count(), counted, "{file}");
            (file, counted)
        })
        .collect()
}

#[test]
fn the_same_dossier_gives_the_same_bytes() {
    let pages = || -> Vec<String> {
        let dossier = dossier(&SMALL);
        Site::new(&dossier, false)
            .pages()
            .into_iter()
            .map(Page::into_html)
            .collect()
    };
    assert_eq!(pages(), pages());
}

/// Another input changes no address and no id of what was there.
#[test]
fn ids_are_stable() {
    let ids = |inputs: usize| -> Vec<String> {
        let dossier = dossier(&Extent { inputs, ..SMALL });
        let mut ids = Vec::new();
        for page in Site::new(&dossier, false).pages() {
            let file = page.file.clone();
            for part in page.into_html().split(" id=\"").skip(1) {
                ids.push(format!("{file}#{}", part.split('"').next().unwrap()));
            }
        }
        ids
    };
    let (before, after) = (ids(12), ids(13));
    assert!(before.iter().all(|id| after.contains(id)));
    assert!(after.len() > before.len());
}

/// Every number that says where it is from is the number there, as far as it is shown.
#[test]
fn numbers_are_those_of_the_json() {
    let mut dossier = dossier(&Extent { suites: 2, ..SMALL });
    dossier.compared.report.suites[0]
        .criteria
        .0
        .push(("kmnc:sections=10/2".to_owned(), Amount::Number(0.5)));
    let json: serde_json::Value = serde_json::from_str(&npcov_report::json(&dossier)).unwrap();
    let mut checked = 0;
    for page in Site::new(&dossier, false).pages() {
        let file = page.file.clone();
        let html = page.into_html();
        for part in html.split(" data-at=\"").skip(1) {
            let (pointer, rest) = part.split_once('"').unwrap();
            let text = rest.split_once('>').unwrap().1.split('<').next().unwrap();
            let value = json
                .pointer(pointer)
                .unwrap_or_else(|| panic!("{file}: nothing at {pointer}"));
            let value = value
                .as_f64()
                .unwrap_or_else(|| panic!("{file}: {pointer} is {value}"));
            assert!(
                agrees(text, value),
                "{file}: {pointer} is {value}, not {text}"
            );
            checked += 1;
        }
    }
    assert!(checked > 500, "{checked}");
}

/// Every share that says which numbers it is of is that of those.
#[test]
fn shares_are_those_of_the_json() {
    let dossier = dossier(&SMALL);
    let json: serde_json::Value = serde_json::from_str(&npcov_report::json(&dossier)).unwrap();
    let mut checked = 0;
    for page in Site::new(&dossier, false).pages() {
        let file = page.file.clone();
        for part in page.into_html().split(" data-ratio=\"").skip(1) {
            let (pointers, rest) = part.split_once('"').unwrap();
            let number = |pointer: &str| json.pointer(pointer).unwrap().as_f64().unwrap();
            let (a, b) = pointers.split_once(' ').unwrap();
            let value = number(a) / number(b);
            let text = rest.split('>').find(|text| text.contains('%')).unwrap();
            let text = text.split('<').next().unwrap();
            assert!(
                agrees(text, value),
                "{file}: {pointers} is {value}, not {text}"
            );
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked}");
}

/// Whether a text shows a number: they differ by half of its last digit at most.
fn agrees(text: &str, value: f64) -> bool {
    let digits: String = text
        .chars()
        .filter(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | 'e'))
        .collect();
    let digits = digits.trim_start_matches('e');
    let Ok(number) = digits.parse::<f64>() else {
        // Words before the number, such as `distance 0.50`.
        let Some(last) = text
            .split(' ')
            .rev()
            .find_map(|word| word.trim_end_matches('%').parse::<f64>().ok())
        else {
            return false;
        };
        return (last - value).abs() <= 0.0051 || (last / 100.0 - value).abs() <= 0.00051;
    };
    let scaled = if text.contains('%') {
        value * 100.0
    } else {
        value
    };
    let decimals = digits
        .split('e')
        .next()
        .and_then(|d| d.split_once('.'))
        .map_or(0, |(_, d)| d.len());
    let exponent: i32 = digits
        .split_once('e')
        .map_or(0, |(_, e)| e.parse().unwrap_or(0));
    let half = 0.5000001 * 10f64.powi(exponent - decimals as i32);
    (number - scaled).abs() <= half
}
