//! HTML, written element by element. Whatever comes from a file can only become text or the value of an
//! attribute, and is escaped there: names of elements and attributes are words of this crate.

use npcov_report::visible;

/// Names longer than this are cut; the page of what they name has them whole.
const LONGEST_NAME: usize = 60;

/// A part of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Markup {
    html: String,
    elements: usize,
    shapes: usize,
}

impl Markup {
    pub(crate) fn new() -> Markup {
        Markup::default()
    }

    /// How many elements it has.
    pub(crate) fn elements(&self) -> usize {
        self.elements
    }

    /// How many of them are shapes of drawings.
    #[cfg_attr(not(test), expect(dead_code, reason = "budgets are tests"))]
    pub(crate) fn shapes(&self) -> usize {
        self.shapes
    }

    pub(crate) fn into_html(self) -> String {
        self.html
    }

    /// Begins an element.
    pub(crate) fn tag(&mut self, name: &'static str) -> Tag<'_> {
        self.elements += 1;
        self.shapes += usize::from(matches!(
            name,
            "rect" | "circle" | "path" | "line" | "polyline"
        ));
        self.html.push('<');
        self.html.push_str(name);
        Tag { markup: self, name }
    }

    /// Adds text.
    pub(crate) fn text(&mut self, text: &str) {
        push_escaped(&mut self.html, text);
    }

    /// Adds a name that somebody chose: text that leaves the direction of its surroundings alone, and is cut
    /// where it is long.
    pub(crate) fn name(&mut self, name: &str) {
        self.tag("bdi").text(short(name));
    }

    /// The style sheet of this crate, in the page.
    pub(crate) fn style(&mut self, css: &'static str) {
        self.elements += 1;
        self.html += &format!("<style>{css}</style>");
    }

    /// The script of this crate, in the page.
    pub(crate) fn script(&mut self, script: &'static str) {
        self.elements += 1;
        self.html += &format!("<script>{script}</script>");
    }

    /// Data for the script: JSON in which nothing can end the element.
    pub(crate) fn data(&mut self, id: &'static str, data: &impl serde::Serialize) {
        self.elements += 1;
        // Data holds no map with keys other than strings, the only thing that fails here.
        let json = serde_json::to_string(data).unwrap_or_default();
        let mut units = [0; 2];
        let json: String = json
            .chars()
            .map(|character| match character {
                '<' => "\\u003c".to_owned(),
                plain if plain.is_ascii() => plain.to_string(),
                other => {
                    let units = other.encode_utf16(&mut units).iter();
                    units.map(|unit| format!("\\u{unit:04x}")).collect()
                }
            })
            .collect();
        self.html += &format!("<script type=\"application/json\" id=\"{id}\">{json}</script>");
    }
}

/// An element that has begun.
#[must_use = "an element must be ended"]
pub(crate) struct Tag<'m> {
    markup: &'m mut Markup,
    name: &'static str,
}

impl Tag<'_> {
    /// Gives it an attribute.
    pub(crate) fn attr(self, name: &'static str, value: impl AsRef<str>) -> Self {
        let html = &mut self.markup.html;
        html.push(' ');
        html.push_str(name);
        html.push_str("=\"");
        push_escaped(html, value.as_ref());
        html.push('"');
        self
    }

    /// The same, where there is a value.
    pub(crate) fn attr_if(self, name: &'static str, value: Option<impl AsRef<str>>) -> Self {
        match value {
            Some(value) => self.attr(name, value),
            None => self,
        }
    }

    pub(crate) fn class(self, class: &'static str) -> Self {
        self.attr("class", class)
    }

    /// Says where in `report.json` the number is that this element shows.
    pub(crate) fn at(self, pointer: impl AsRef<str>) -> Self {
        self.attr("data-at", pointer)
    }

    /// Ends it with text in it.
    pub(crate) fn text(self, text: impl AsRef<str>) {
        self.holding(|inside| inside.text(text.as_ref()));
    }

    /// Ends it with a name in it.
    pub(crate) fn name(self, name: &str) {
        self.holding(|inside| inside.name(name));
    }

    /// Ends it with other elements in it.
    pub(crate) fn holding(self, inside: impl FnOnce(&mut Markup)) {
        self.markup.html.push('>');
        inside(self.markup);
        self.markup.html += &format!("</{}>", self.name);
    }

    /// Ends it with nothing in it: elements that HTML closes at once, and shapes.
    pub(crate) fn empty(self) {
        self.markup.html += "/>";
    }
}

/// A name that is not too long for a line.
pub(crate) fn short(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

fn push_escaped(html: &mut String, text: &str) {
    for character in visible(text).chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_named_stays_text() {
        let mut page = Markup::new();
        let name = "</p><script>alert('x')</script>\" onload=\"y\u{202e}z\u{7}";
        page.tag("p").attr("title", name).name(name);
        page.data("numbers", &[name]);
        assert_eq!(
            page.clone().into_html(),
            "<p title=\"&lt;/p&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot; \
             onload=&quot;y\\u{202e}z\\u{7}\"><bdi>&lt;/p&gt;&lt;script&gt;alert(&#39;x&#39;)\
             &lt;/script&gt;&quot; onload=&quot;y\\u{202e}z\\u{7}</bdi></p>\
             <script type=\"application/json\" id=\"numbers\">[\"\\u003c/p>\\u003cscript>alert('x')\
             \\u003c/script>\\\" onload=\\\"y\\u202ez\\u0007\"]</script>"
        );
        assert_eq!((page.elements(), page.shapes()), (3, 0));
    }

    #[test]
    fn elements_hold_elements() {
        let mut page = Markup::new();
        page.tag("svg").attr("role", "img").holding(|svg| {
            svg.tag("title").text("a & b");
            svg.tag("rect").attr("x", "1").empty();
        });
        let html = "<svg role=\"img\"><title>a &amp; b</title><rect x=\"1\"/></svg>";
        assert_eq!((page.elements(), page.shapes()), (3, 1));
        assert_eq!(page.into_html(), html);
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(short("äöü"), "äöü");
        let long = short(&"ä".repeat(10_000));
        assert_eq!(long.chars().count(), LONGEST_NAME + 1);
        assert!(long.ends_with('…'));
    }
}
