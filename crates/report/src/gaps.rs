//! What a suite is missing, in words and as a picture.

use npcov::coverage::{CountedBy, Gap, Gaps, PresentInput, TypicalInput};
use npcov::data::{Element, Loader};

use crate::image_grid::{ImageGrid, ImageGroup};
use crate::number::{count, decimals};
use crate::picture::PictureError;
use crate::table::{Align, Table};
use crate::thin::{NOTHING_JUDGED, not_judged, what_was_judged};
use crate::visible::on_one_line;

/// Inputs of a pool that are named in a line; the file and JSON have all.
const SHOWN: usize = 10;

/// Characters in a line of inputs.
const LINE: usize = 64;

/// What inputs of a gap are.
const TYPICAL: &str = "typical in training";
const PRESENT: &str = "in the suite";
const NEAREST: &str = "nearest in the suite";
const TO_ADD: &str = "in the pool, to add";

/// What a suite is missing, for people to read.
pub fn gaps(found: &Gaps) -> String {
    let suite = on_one_line(&found.suites.join(" + "));
    let inputs = counted(found.inputs, "input");
    let (gaps, judged) = (found.gaps.len(), what_was_judged(&found.judged));
    let verdict = match (gaps, &judged) {
        (0, None) => NOTHING_JUDGED.to_owned(),
        (0, Some(_)) => "no gaps".to_owned(),
        (gaps, _) => counted(gaps, "gap"),
    };
    let mut text = format!("{suite}: {inputs}, {verdict}\n");
    if let (0, Some(judged)) = (gaps, judged) {
        text +=
            &format!("  In none of {judged} are there far fewer than training would let expect.\n");
    }
    for gap in &found.gaps {
        text += &format!("\n{}\n{}", title(gap), details(gap, found));
    }
    let not_judged = not_judged(&found.judged);
    if gaps > 0 && !not_judged.is_empty() {
        text.push('\n');
    }
    for line in not_judged {
        text += &format!("  {line}\n");
    }
    if let Some(pool) = found.pool.as_ref().filter(|pool| pool.taken == 0) {
        text += &format!("\nnothing of {} to add\n", on_one_line(&pool.data));
    } else if let Some(pool) = &found.pool {
        let taken = format!("{} of {}", count(pool.taken), counted(pool.inputs, "input"));
        let file = pool.file.as_ref().map(|file| format!("written to {file}"));
        let end = file.as_deref().unwrap_or("to add");
        text += &format!(
            "\n{}\n",
            on_one_line(&format!("{taken} of {} {end}", pool.data))
        );
    }
    text
}

/// A number of things.
fn counted(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(number))
}

fn title(gap: &Gap) -> String {
    let class = match &gap.name {
        Some(name) => format!("class {} {}", gap.class, on_one_line(name)),
        None => format!("class {}", gap.class),
    };
    let place = match (gap.cluster, gap.by) {
        (Some(cluster), _) => format!("{class}, cluster {cluster}"),
        (None, CountedBy::Prediction) => class,
        (None, CountedBy::Label) => format!("{class}, by label"),
    };
    let (inputs, expected) = (counted(gap.inputs, "input"), decimals(gap.expected, 1));
    format!(
        "{place}: {inputs}, {expected} expected, {} to add",
        count(gap.missing)
    )
}

fn details(gap: &Gap, found: &Gaps) -> String {
    let labelled = |label: Option<i64>| {
        let label = label.filter(|&label| usize::try_from(label) != Ok(gap.class))?;
        let names = found.class_names.as_deref().unwrap_or_default();
        let name = usize::try_from(label).ok().and_then(|i| names.get(i));
        Some(name.map_or(label.to_string(), |name| format!("{label} {name}")))
    };
    let called = |input: usize, sample: &Option<String>, label: Option<i64>| {
        let input = sample.clone().unwrap_or_else(|| input.to_string());
        match labelled(label) {
            Some(label) => format!("{input} (labelled {label})"),
            None => input,
        }
    };
    let typical = |input: &TypicalInput| called(input.input, &input.sample, input.label);
    let present = |input: &PresentInput| called(input.input, &input.sample, input.label);
    let mut table = Table::new([Align::Left, Align::Left]);
    let mut lines = |head: &str, inputs: Vec<String>, nothing: &str| {
        let inputs = match inputs.is_empty() {
            true => vec![nothing.to_owned()],
            false => wrapped(&inputs),
        };
        for (i, line) in inputs.into_iter().enumerate() {
            table.row([
                if i == 0 {
                    head.to_owned()
                } else {
                    String::new()
                },
                line,
            ]);
        }
    };
    let nothing = "nothing of it";
    lines(
        TYPICAL,
        gap.exemplars.iter().map(typical).collect(),
        nothing,
    );
    lines(PRESENT, gap.present.iter().map(present).collect(), nothing);
    if !gap.nearest.is_empty() {
        lines(NEAREST, gap.nearest.iter().map(present).collect(), nothing);
    }
    if let Some(add) = &gap.add {
        let mut inputs: Vec<String> = add.iter().take(SHOWN).map(typical).collect();
        if let more @ 1.. = add.len().saturating_sub(SHOWN) {
            inputs.push(format!("and {} more", count(more)));
        }
        let unlabelled = found.pool.as_ref().is_some_and(|pool| !pool.labelled);
        let nothing = match gap.by == CountedBy::Label && unlabelled {
            true => "nothing: the pool has no labels",
            false => nothing,
        };
        lines(TO_ADD, inputs, nothing);
        if add.len() < gap.missing && !add.is_empty() {
            let lacking = count(gap.missing - add.len());
            lines("", vec![format!("{lacking} are still missing")], nothing);
        }
    }
    table.lines()
}

/// Words in lines that are not too long.
fn wrapped(words: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (i, word) in words.iter().enumerate() {
        let end = if i + 1 < words.len() { "," } else { "" };
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < LINE => {
                *line += &format!(" {word}{end}");
            }
            _ => lines.push(format!("{word}{end}")),
        }
    }
    lines
}

/// Where the inputs of gaps can be seen.
#[derive(Default)]
pub struct GapImages<'a> {
    /// The training data.
    pub training: Option<&'a Loader<'a>>,
    /// Data of the suites, each with its digest.
    pub suites: Vec<(String, &'a Loader<'a>)>,
    /// The pool.
    pub pool: Option<&'a Loader<'a>>,
}

/// Gaps as a picture: for each a row of typical training inputs, rows of inputs of the suite, of it and nearest to it,
/// and one of inputs of the pool, below what they are. Rows of which there is nothing to show are left out. `None` where inputs are no images, or
/// there is nothing to show.
pub fn gap_sheet(found: &Gaps, images: &GapImages<'_>) -> Result<Option<ImageGrid>, PictureError> {
    let loaders = [images.training, images.pool];
    let suites = images.suites.iter().map(|(_, data)| *data);
    let Some(first) = loaders.into_iter().flatten().chain(suites).next() else {
        return Ok(None);
    };
    let (Some(shape), element) = (first.image(), first.input().element()) else {
        return Ok(None);
    };
    // Images of another size or scale do not stand in one picture with these.
    let alike =
        |data: &Loader<'_>| data.image() == Some(shape) && data.input().element() == element;
    let read = |data: Option<&Loader<'_>>, inputs: &[usize]| {
        let mut row = Vec::new();
        if let Some(data) = data.filter(|data| alike(data)) {
            for &input in inputs.iter().filter(|&&input| input < data.len()) {
                let mut image = vec![0.0; data.sample_len()];
                data.read_stored(input..input + 1, &mut image)?;
                row.push(image);
            }
        }
        Ok::<_, PictureError>(row)
    };
    let rows = |inputs: &[TypicalInput]| -> Vec<usize> {
        inputs.iter().take(SHOWN).map(|input| input.input).collect()
    };
    let mut groups = Vec::new();
    for gap in &found.gaps {
        let of_suite = |inputs: &[PresentInput]| {
            let mut row = Vec::new();
            for input in inputs.iter().take(SHOWN) {
                let mut suites = images.suites.iter();
                let data = suites.find(|(digest, _)| *digest == input.data);
                row.extend(read(data.map(|(_, data)| *data), &[input.input])?);
            }
            Ok::<_, PictureError>(row)
        };
        let add = rows(gap.add.as_deref().unwrap_or_default());
        let all = [
            (TYPICAL, read(images.training, &rows(&gap.exemplars))?),
            (PRESENT, of_suite(&gap.present)?),
            (NEAREST, of_suite(&gap.nearest)?),
            (TO_ADD, read(images.pool, &add)?),
        ];
        let shown = all.into_iter().filter(|(_, row)| !row.is_empty());
        groups.push(ImageGroup {
            title: title(gap),
            rows: shown
                .map(|(caption, row)| (caption.to_owned(), row))
                .collect(),
        });
    }
    groups.retain(|group: &ImageGroup| !group.rows.is_empty());
    Ok(ImageGrid::new(shape, &groups, element == Element::U8))
}

#[cfg(test)]
mod tests {
    use npcov::coverage::{GapPool, Judged};

    use super::*;

    fn typical(input: usize, sample: Option<&str>, label: i64) -> TypicalInput {
        TypicalInput {
            input,
            sample: sample.map(str::to_owned),
            label: Some(label),
            cluster: 4,
            distance: 1.5,
        }
    }

    fn example() -> Gaps {
        let mut found = Gaps::default();
        found.suites = vec!["unit".to_owned(), "field".to_owned()];
        found.inputs = 1820;
        found.class_names = Some(vec!["bag".to_owned(), "shoe".to_owned()]);
        (found.judged.classes, found.judged.clusters) = (2, 6);
        found.gaps = vec![Gap {
            class: 1,
            name: Some("shoe".to_owned()),
            cluster: Some(4),
            by: CountedBy::Prediction,
            inputs: 1,
            expected: 164.04,
            p: 1e-70,
            missing: 180,
            exemplars: vec![typical(7, Some("shoe/7.png"), 1), typical(9, None, 0)],
            present: Vec::new(),
            nearest: Vec::new(),
            add: None,
            wanted: Vec::new(),
        }];
        found
    }

    #[test]
    fn gaps_are_named_with_their_inputs() {
        let mut found = example();
        assert_eq!(
            gaps(&found),
            "unit + field: 1,820 inputs, 1 gap\n\n\
             class 1 shoe, cluster 4: 1 input, 164.0 expected, 180 to add\n  \
             typical in training  shoe/7.png, 9 (labelled 0 bag)\n  \
             in the suite         nothing of it\n"
        );
        found.gaps[0].cluster = None;
        found.gaps[0].add = Some((100..112).map(|i| typical(i, None, 1)).collect());
        found.pool = Some(GapPool {
            data: "pool.npz".to_owned(),
            inputs: 8000,
            labelled: false,
            taken: 12,
            file: Some("add.npz".to_owned()),
        });
        let text = gaps(&found);
        let end =
            "  in the pool, to add  100, 101, 102, 103, 104, 105, 106, 107, 108, 109, and 2 more\n";
        assert!(text.contains(end), "{text}");
        assert!(text.contains("\nclass 1 shoe: 1 input, "), "{text}");
        assert!(text.contains("168 are still missing\n"), "{text}");
        assert!(
            text.ends_with("\n12 of 8,000 inputs of pool.npz written to add.npz\n"),
            "{text}"
        );
        found.gaps[0].by = CountedBy::Label;
        found.gaps[0].add = Some(Vec::new());
        let text = gaps(&found);
        assert!(
            text.contains("\nclass 1 shoe, by label: 1 input, "),
            "{text}"
        );
        let none = "in the pool, to add  nothing: the pool has no labels\n";
        assert!(text.contains(none), "{text}");
        found.pool = None;
        found.gaps[0].nearest = vec![PresentInput {
            data: String::new(),
            input: 3,
            sample: Some("shoe/3.png".to_owned()),
            label: None,
            unfamiliar: None,
        }];
        let nearest = "  in the suite          nothing of it\n  nearest in the suite  shoe/3.png\n";
        assert!(gaps(&found).contains(nearest), "{}", gaps(&found));
        found.gaps.clear();
        assert_eq!(
            gaps(&found),
            "unit + field: 1,820 inputs, no gaps\n  \
             In none of 2 classes and 6 clusters are there far fewer than training would let expect.\n"
        );
    }

    #[test]
    fn a_suite_that_is_too_small_is_not_called_complete() {
        let mut found = example();
        found.gaps.clear();
        found.judged = Judged {
            classes_not_judged: 2,
            enough: Some(20),
            clusters_not_judged: 6,
            enough_of_class: Some(57),
            ..Judged::default()
        };
        assert_eq!(
            gaps(&found),
            "unit + field: 1,820 inputs, nothing could be judged\n  \
             too small to judge 2 of 2 classes; 20 inputs would do\n  \
             too small to judge 6 of 6 clusters; 57 inputs of each class would do\n"
        );
        found.pool = Some(GapPool {
            data: "pool.npz".to_owned(),
            inputs: 8000,
            labelled: false,
            taken: 0,
            file: None,
        });
        assert!(gaps(&found).ends_with("\nnothing of pool.npz to add\n"));
    }

    #[test]
    fn without_data_there_is_no_picture() {
        assert_eq!(gap_sheet(&example(), &GapImages::default()).unwrap(), None);
    }

    #[test]
    fn long_lists_take_several_lines() {
        let words: Vec<String> = (0..4).map(|i| format!("folder/{i}/{:x<20}", "")).collect();
        let lines = wrapped(&words);
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.chars().count() <= LINE + 2));
        assert_eq!(lines.join(" "), words.join(", "));
    }
}
