//! Panels of lines, side by side.

use super::svg::{Anchor, COLOURS, FAINT, Svg};

/// Small plots in a grid, with one legend for all.
pub(crate) struct Panels {
    pub(crate) title: String,
    pub(crate) columns: usize,
    pub(crate) series: Vec<Series>,
    pub(crate) panels: Vec<Panel>,
}

/// A kind of line, the same in all panels.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) dashed: bool,
}

/// A plot.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

/// The numbers along a side.
#[derive(Clone)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Numbers that are written, with their words.
    pub(crate) ticks: Vec<(f64, String)>,
}

/// Points of a series.
pub(crate) struct Line {
    pub(crate) series: usize,
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 220.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 38.0;
const HEAD: f64 = 52.0;

/// Where title and legend begin, and how large their letters are.
const START: f64 = 10.0;
const TITLE: f64 = 15.0;
const NAME: f64 = 12.0;

/// Of a legend: the height of a row, what stands before a name and behind it, and what a letter takes at most.
const ROW: f64 = 18.0;
const MARK: f64 = 28.0;
const GAP: f64 = 18.0;
const LETTER: f64 = 6.6;

impl Panels {
    pub(crate) fn svg(&self) -> String {
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let rows = self.panels.len().div_ceil(columns);
        let (wide, high) = (LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM);
        let title = 2.0 * START + LETTER * TITLE / NAME * self.title.chars().count() as f64;
        let width = (columns as f64 * wide).max(title);
        let legend = self.legend(width);
        let head = HEAD + legend.last().map_or(0.0, |(_, y)| y - 36.0);
        let mut svg = Svg::new(width, head + rows as f64 * high);
        svg.text((START, 20.0), Anchor::Start, TITLE, &self.title);
        for (i, (series, (x, y))) in self.series.iter().zip(legend).enumerate() {
            svg.polyline(&[(x, y), (x + 22.0, y)], colour(i), dashes(series));
            svg.dot((x + 11.0, y), 2.5, colour(i));
            svg.text((x + MARK, y + 4.0), Anchor::Start, NAME, &series.name);
        }
        for (i, panel) in self.panels.iter().enumerate() {
            let corner = (
                (i % columns) as f64 * wide + LEFT,
                head + (i / columns) as f64 * high + TOP,
            );
            self.draw(panel, corner, &mut svg);
        }
        svg.finish()
    }

    /// Where each series stands in the legend; names that would leave the picture begin another row.
    fn legend(&self, width: f64) -> Vec<(f64, f64)> {
        let (mut x, mut y) = (START, 36.0);
        let place = |series: &Series| {
            let taken = MARK + LETTER * series.name.chars().count() as f64;
            if x > START && x + taken > width {
                (x, y) = (START, y + ROW);
            }
            let here = (x, y);
            x += taken + GAP;
            here
        };
        self.series.iter().map(place).collect()
    }

    fn draw(&self, panel: &Panel, (left, top): (f64, f64), svg: &mut Svg) {
        let (right, bottom) = (left + WIDTH, top + HEIGHT);
        svg.text((left, top - 8.0), Anchor::Start, 12.0, &panel.title);
        for (value, word) in &panel.y.ticks {
            let y = bottom - panel.y.place(*value) * HEIGHT;
            svg.line((left, y), (right, y), FAINT, 0.7);
            svg.text((left - 5.0, y + 3.5), Anchor::End, 10.0, word);
        }
        svg.line((left, bottom), (right, bottom), FAINT, 1.0);
        for (value, word) in &panel.x.ticks {
            let x = left + panel.x.place(*value) * WIDTH;
            svg.line((x, bottom), (x, bottom + 3.0), FAINT, 1.0);
            svg.text((x, bottom + 14.0), Anchor::Middle, 10.0, word);
        }
        let middle = ((left + right) / 2.0, bottom + 28.0);
        svg.text(middle, Anchor::Middle, 10.0, &panel.x.label);
        for line in &panel.lines {
            let place = |&(x, y): &(f64, f64)| {
                let x = left + panel.x.place(x) * WIDTH;
                (x, bottom - panel.y.place(y) * HEIGHT)
            };
            let points: Vec<_> = line.points.iter().map(place).collect();
            let dashes = self.series.get(line.series).map_or("", dashes);
            svg.polyline(&points, colour(line.series), dashes);
            for point in points {
                svg.dot(point, 2.5, colour(line.series));
            }
        }
    }
}

fn colour(series: usize) -> &'static str {
    COLOURS[series % COLOURS.len()]
}

fn dashes(series: &Series) -> &'static str {
    if series.dashed { "5 3" } else { "" }
}

impl Axis {
    /// Shares from 0 to 1, written in per cent.
    pub(crate) fn shares(label: &str) -> Axis {
        let tick = |share: f64| (share, format!("{}%", (100.0 * share).round()));
        Axis {
            label: label.to_owned(),
            low: 0.0,
            high: 1.0,
            ticks: [0.0, 0.25, 0.5, 0.75, 1.0].map(tick).to_vec(),
        }
    }

    /// An axis that reaches from the least to the largest of some numbers, which are all written.
    pub(crate) fn through(label: &str, values: &[f64]) -> Axis {
        let (low, high) = values
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| {
                (low.min(x), high.max(x))
            });
        Axis {
            label: label.to_owned(),
            low,
            high,
            ticks: values.iter().map(|&x| (x, x.to_string())).collect(),
        }
    }

    /// A number's place along the side, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        match self.high > self.low {
            true => ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0),
            false => 0.5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_where_their_numbers_are() {
        let panels = Panels {
            title: "title".to_owned(),
            columns: 3,
            series: vec![Series {
                name: "one".to_owned(),
                dashed: true,
            }],
            panels: vec![Panel {
                title: "panel".to_owned(),
                x: Axis::through("alpha", &[0.5, 1.0]),
                y: Axis::shares(""),
                lines: vec![Line {
                    series: 0,
                    points: vec![(0.5, 0.0), (1.0, 1.0)],
                }],
            }],
        };
        let svg = panels.svg();
        // From the lower left corner to the upper right one.
        assert!(svg.contains("points=\"44,226 264,76\""), "{svg}");
        assert!(
            svg.contains(">75%</text>") && svg.contains("stroke-dasharray"),
            "{svg}"
        );
        assert!(svg.contains("width=\"274\" height=\"264\""), "{svg}");
    }

    #[test]
    fn a_legend_stays_inside_of_the_picture() {
        let series = |letters: usize| Series {
            name: "n".repeat(letters),
            dashed: false,
        };
        let panels = Panels {
            title: String::new(),
            columns: 1,
            series: vec![series(10), series(10), series(10), series(100), series(1)],
            panels: Vec::new(),
        };
        // A name of ten letters takes 28 + 66, and 18 keep it from the next one: 10 to 104, 122 to 216, 234 to 328.
        let expected = [
            (10.0, 36.0),
            (122.0, 36.0),
            (10.0, 54.0),
            (10.0, 72.0),
            (10.0, 90.0),
        ];
        assert_eq!(panels.legend(274.0), expected);
        assert_eq!(panels.legend(328.0)[2], (234.0, 36.0));
        assert_eq!(panels.legend(327.0)[2], (10.0, 54.0));
        // What follows makes room.
        let svg = panels.svg();
        assert!(svg.contains("height=\"106\""), "{svg}");
    }

    #[test]
    fn a_picture_is_as_wide_as_its_title() {
        let width = |letters: usize| {
            let panels = Panels {
                title: "n".repeat(letters),
                columns: 1,
                series: Vec::new(),
                panels: Vec::new(),
            };
            let svg = panels.svg();
            let (_, width) = svg.split_once("width=\"").unwrap();
            let (width, _) = width.split_once('"').unwrap();
            width.parse::<f64>().unwrap()
        };
        // A panel takes 274, and a letter of a title 8.25.
        assert_eq!([width(0), width(30)], [274.0; 2]);
        assert!((width(40) - (10.0 + 40.0 * 8.25 + 10.0)).abs() < 1.0);
    }

    #[test]
    fn an_axis_of_one_number_has_it_in_the_middle() {
        let axis = Axis::through("", &[0.8]);
        assert_eq!((axis.place(0.8), axis.place(0.7)), (0.5, 0.5));
    }
}
