//! Rows of numbers along one axis.

use super::svg::{Anchor, COLOURS, FAINT, GREY, Svg};

/// A number, or several, for each of some names.
pub(crate) struct Rows {
    pub(crate) title: String,
    /// What the marks are, in the order of their colours.
    pub(crate) legend: Vec<(Mark, String)>,
    pub(crate) label: String,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) ticks: Vec<(f64, String)>,
    /// Whether places go by the logarithm.
    pub(crate) logarithmic: bool,
    /// A number that others are held against.
    pub(crate) reference: Option<f64>,
    pub(crate) rows: Vec<PlotRow>,
}

/// A row.
pub(crate) struct PlotRow {
    pub(crate) name: String,
    /// A number for each mark of the legend, with an interval; `None` where there is none.
    pub(crate) values: Vec<Option<Measured>>,
    /// Words at the end.
    pub(crate) note: String,
}

/// A number, and the ends of its interval.
pub(crate) type Measured = (f64, Option<(f64, f64)>);

/// How a number is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Dot,
    Cross,
    Bar,
}

/// The least room for names, and what a letter of them takes.
const LEFT: f64 = 110.0;
const LETTER: f64 = 7.2;
const WIDTH: f64 = 460.0;
const RIGHT: f64 = 130.0;
const HEAD: f64 = 52.0;
const BOTTOM: f64 = 40.0;

impl Rows {
    pub(crate) fn svg(&self) -> String {
        // Marks of a row stand below each other, so that they do not hide one another.
        let lanes = self.legend.len().max(1) as f64;
        let row = 10.0 * lanes + 8.0;
        let height = row * self.rows.len() as f64;
        let left = self.left();
        let mut svg = Svg::new(left + WIDTH + RIGHT, HEAD + height + BOTTOM);
        svg.text((10.0, 20.0), Anchor::Start, 15.0, &self.title);
        let mut x = 10.0;
        for (i, (mark, name)) in self.legend.iter().enumerate() {
            draw(&mut svg, *mark, (x + 5.0, 36.0), COLOURS[i % COLOURS.len()]);
            svg.text((x + 16.0, 40.0), Anchor::Start, 12.0, name);
            x += 34.0 + 6.6 * name.chars().count() as f64;
        }
        let bottom = HEAD + height;
        for (value, word) in &self.ticks {
            let x = self.place(*value);
            svg.line((x, HEAD), (x, bottom), FAINT, 0.7);
            svg.text((x, bottom + 14.0), Anchor::Middle, 10.0, word);
        }
        if let Some(reference) = self.reference {
            let x = self.place(reference);
            svg.line((x, HEAD), (x, bottom), GREY, 1.4);
        }
        let middle = (left + WIDTH / 2.0, bottom + 30.0);
        svg.text(middle, Anchor::Middle, 11.0, &self.label);
        for (i, found) in self.rows.iter().enumerate() {
            let top = HEAD + row * i as f64;
            let centre = top + row / 2.0 + 4.0;
            svg.text((left - 8.0, centre), Anchor::End, 12.0, &found.name);
            svg.text(
                (left + WIDTH + 8.0, centre),
                Anchor::Start,
                11.0,
                &found.note,
            );
            for (lane, value) in found.values.iter().enumerate() {
                let Some((value, interval)) = value else {
                    continue;
                };
                let colour = COLOURS[lane % COLOURS.len()];
                let y = top + 4.0 + 10.0 * (lane as f64 + 0.5);
                if let Some((low, high)) = interval {
                    svg.line((self.place(*low), y), (self.place(*high), y), colour, 1.6);
                }
                match self.legend.get(lane).map(|(mark, _)| *mark) {
                    Some(Mark::Bar) => {
                        let width = self.place(*value) - left;
                        svg.bar((left, y - 4.0), (width, 8.0), colour);
                    }
                    mark => draw(
                        &mut svg,
                        mark.unwrap_or(Mark::Dot),
                        (self.place(*value), y),
                        colour,
                    ),
                }
            }
        }
        svg.finish()
    }

    fn place(&self, value: f64) -> f64 {
        let of = |x: f64| match self.logarithmic {
            true => x.max(f64::MIN_POSITIVE).ln(),
            false => x,
        };
        let (low, high) = (of(self.low), of(self.high));
        let share = match high > low {
            true => ((of(value) - low) / (high - low)).clamp(0.0, 1.0),
            false => 0.5,
        };
        self.left() + share * WIDTH
    }

    /// Where the axis begins: names stand in front of it.
    fn left(&self) -> f64 {
        let letters = self.rows.iter().map(|row| row.name.chars().count());
        LEFT.max(letters.max().unwrap_or(0) as f64 * LETTER + 16.0)
    }
}

fn draw(svg: &mut Svg, mark: Mark, at: (f64, f64), colour: &str) {
    match mark {
        Mark::Dot => svg.dot(at, 4.0, colour),
        Mark::Cross => svg.cross(at, colour),
        Mark::Bar => svg.bar((at.0 - 5.0, at.1 - 4.0), (10.0, 8.0), colour),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(logarithmic: bool, low: f64) -> Rows {
        Rows {
            title: "title".to_owned(),
            legend: vec![
                (Mark::Dot, "ours".to_owned()),
                (Mark::Cross, "paper".to_owned()),
            ],
            label: "r".to_owned(),
            low,
            high: 100.0,
            ticks: vec![(1.0, "1".to_owned())],
            logarithmic,
            reference: Some(10.0),
            rows: vec![PlotRow {
                name: "snpc".to_owned(),
                values: vec![Some((10.0, Some((1.0, 100.0)))), None],
                note: "48".to_owned(),
            }],
        }
    }

    #[test]
    fn numbers_and_intervals_are_where_they_belong() {
        let svg = rows(true, 1.0).svg();
        // A tenth and a hundredth are as far apart as a tenth and one.
        assert!(svg.contains("cx=\"340\" cy=\"61\" r=\"4\""), "{svg}");
        assert!(
            svg.contains("x1=\"110\" y1=\"61\" x2=\"570\" y2=\"61\""),
            "{svg}"
        );
        let even = rows(false, -80.0).svg();
        assert!(even.contains("cx=\"340\" cy=\"61\""), "{even}");
    }

    #[test]
    fn long_names_have_room() {
        let mut long = rows(true, 1.0);
        long.rows[0].name = "a name of twenty-eight signs".to_owned();
        // 28 letters of 7.2, and 16 besides.
        assert_eq!(long.left(), 28.0 * 7.2 + 16.0);
        assert!(long.svg().contains("x=\"209.6\""), "{}", long.svg());
    }
}
