//! The elements of a picture.

use crate::visible::on_one_line;

/// Words and axes: a grey that is read on white and on black.
pub(super) const GREY: &str = "#7d8590";
/// Lines behind the data.
pub(super) const FAINT: &str = "#7d859055";
/// Colours that people with any sight tell apart (Okabe and Ito), on white and on black.
pub(super) const COLOURS: [&str; 6] = [
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9",
];

/// A picture that is being drawn.
pub(super) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

/// Where words stand beside their point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Svg {
        Svg {
            width,
            height,
            body: String::new(),
        }
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        self.body += &format!(
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>\n",
            number(from.0),
            number(from.1),
            number(to.0),
            number(to.1)
        );
    }

    pub(super) fn polyline(&mut self, points: &[(f64, f64)], colour: &str, dashes: &str) {
        let list: Vec<String> = points
            .iter()
            .map(|&(x, y)| format!("{},{}", number(x), number(y)))
            .collect();
        let dashes = match dashes {
            "" => String::new(),
            dashes => format!(" stroke-dasharray=\"{dashes}\""),
        };
        self.body += &format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"{dashes}/>\n",
            list.join(" ")
        );
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), radius: f64, colour: &str) {
        self.body += &format!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\" fill=\"{colour}\"/>\n",
            number(x),
            number(y)
        );
    }

    pub(super) fn cross(&mut self, (x, y): (f64, f64), colour: &str) {
        const ARM: f64 = 4.0;
        self.line((x - ARM, y - ARM), (x + ARM, y + ARM), colour, 1.8);
        self.line((x - ARM, y + ARM), (x + ARM, y - ARM), colour, 1.8);
    }

    pub(super) fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        self.body += &format!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{colour}\"/>\n",
            number(x),
            number(y),
            number(width.max(0.0)),
            number(height)
        );
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, size: f64, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.body += &format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"{GREY}\">{}</text>\n",
            number(x),
            number(y),
            escaped(text)
        );
    }

    pub(super) fn finish(self) -> String {
        let (width, height) = (number(self.width), number(self.height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"system-ui, sans-serif\">\n{}</svg>\n",
            self.body
        )
    }
}

/// A coordinate with a tenth of a pixel, the same text for the same number everywhere.
pub(super) fn number(x: f64) -> String {
    let tenths = (10.0 * x).round() / 10.0 + 0.0;
    format!("{tenths}")
}

fn escaped(text: &str) -> String {
    on_one_line(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cannot_be_markup() {
        let mut svg = Svg::new(10.0, 5.0);
        svg.text((1.0, 2.04), Anchor::End, 9.0, "a<b & c>d\u{1}");
        let text = svg.finish();
        assert!(text.contains(">a&lt;b &amp; c&gt;d\\u{1}</text>"), "{text}");
        assert!(text.contains("y=\"2\""), "{text}");
        assert!(text.starts_with("<svg xmlns") && text.ends_with("</svg>\n"));
    }
}
