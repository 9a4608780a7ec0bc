//! Commands in the documents are commands: flags that are gone, or renamed, are found here.

use std::path::Path;

use clap::Parser;

use super::Cli;

/// The commands of a document: lines of code that begin with `npcov`, with those that they go on in.
fn commands(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut goes_on = false;
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        let code = line.strip_prefix("    ").or(fenced.then_some(line));
        let Some(code) = code.map(str::trim) else {
            goes_on = false;
            continue;
        };
        let code = code.strip_prefix("$ ").unwrap_or(code);
        let (code, more) = match code.strip_suffix('\\') {
            Some(code) => (code.trim_end(), true),
            None => (code, false),
        };
        match (goes_on, found.last_mut()) {
            (true, Some(last)) => *last += &format!(" {code}"),
            _ if code.starts_with("npcov ") => found.push(code.to_owned()),
            _ => continue,
        }
        goes_on = more;
    }
    found
}

#[test]
fn commands_in_documents_can_be_given() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().path());
    let guides = docs.filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("guide-") && name.ends_with(".md")
    });
    let mut tried = 0;
    for page in guides.chain([root.join("README.md")]) {
        for command in commands(&std::fs::read_to_string(&page).unwrap()) {
            // What a shell does with the output, or a word on it.
            let ends = [" | ", " > ", " >> ", " && ", " # ", "  "];
            let end = ends.iter().filter_map(|end| command.find(end)).min();
            let words = command[..end.unwrap_or(command.len())].split_whitespace();
            let words = words.map(|word| word.trim_matches('\''));
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("{}: `{command}`: {error}", page.display());
            }
            tried += 1;
        }
    }
    assert!(tried >= 60, "{tried} commands are few");
}
