//! Text from files, made harmless: whoever names a layer or a class chooses any characters.
//!
//! A terminal obeys control characters, and marks of direction make a line look like another one. They are shown as
//! Rust writes them, `\u{1b}`.

/// Text of one or more lines whose characters are only shown, never obeyed. Lines stay lines.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => shown.push('\n'),
            other => push(&mut shown, other),
        }
    }
    shown
}

/// The same on a single line.
pub(crate) fn on_one_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    text.chars()
        .for_each(|character| push(&mut shown, character));
    shown
}

fn push(shown: &mut String, character: char) {
    match is_obeyed(character) {
        true => shown.extend(character.escape_default()),
        false => shown.push(character),
    }
}

/// Whether a character is not shown, but changes how others are: control characters, marks of direction, separators of
/// lines.
pub(crate) fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_that_a_terminal_obeys() {
        let text = "red \x1b[31m, bell \x07, CSI \u{9b}2J, back \r, tab \t, DEL \x7f, \u{202e}turned\u{2069}\n";
        let shown = "red \\u{1b}[31m, bell \\u{7}, CSI \\u{9b}2J, back \\r, tab \\t, DEL \\u{7f}, \\u{202e}turned\\u{2069}";
        assert_eq!(visible(text), format!("{shown}\n"));
        assert_eq!(on_one_line(text), format!("{shown}\\n"));
        let plain = "häß, 中文, ±3/4, \"quoted\" \\ path";
        assert_eq!(visible(plain), plain);
    }
}
