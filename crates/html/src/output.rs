//! Pages in files.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use npcov::data::{write_soon, write_whole};
use npcov_report::{Document, json};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::dossier::Dossier;
use crate::error::HtmlError;
use crate::pages::frame::{SCRIPT, STYLE};
use crate::pages::sights::files;
use crate::pages::{Page, Site};

/// What marks a folder as a report, and holds its numbers.
const NUMBERS: &str = "report.json";

/// The folder in it for pictures.
const PICTURES: &str = "pictures";

/// The largest file that is looked into for an earlier report.
const LARGEST: u64 = 1 << 30;

/// What is in [`NUMBERS`].
#[derive(Serialize)]
struct Numbers<'a> {
    #[serde(flatten)]
    dossier: &'a Dossier,
    /// The other files of the report.
    files: BTreeSet<&'a str>,
}

/// What tells that a file is one of these, and what belongs to it.
#[derive(Deserialize)]
struct Earlier {
    #[serde(rename = "facts")]
    _facts: IgnoredAny,
    #[serde(rename = "views")]
    _views: IgnoredAny,
    /// None of reports that did not list them.
    #[serde(default)]
    files: BTreeSet<String>,
}

/// Writes a report into a folder: `index.html`, pages that it leads to, pictures, and `report.json` with everything that
/// is shown. Of an earlier report there, the files that it lists are replaced or removed; a folder with other files is
/// left alone, and so is one that is a link.
pub fn write_folder(dossier: &Dossier, folder: impl AsRef<Path>) -> Result<(), HtmlError> {
    let folder = folder.as_ref();
    let earlier = earlier_files(folder)?;
    let pictures = folder.join(PICTURES);
    require_folder(folder)?;
    require_folder(&pictures)?;
    fs::create_dir_all(&pictures).map_err(failed(&pictures))?;
    let mut written: Vec<(String, Vec<u8>)> = vec![
        ("style.css".to_owned(), STYLE.into()),
        ("script.js".to_owned(), SCRIPT.into()),
    ];
    for (name, raster) in dossier.pictures.iter().flat_map(files) {
        written.push((format!("{PICTURES}/{name}"), raster.png.clone()));
    }
    for page in Site::new(dossier, false).pages() {
        written.push((page.file.clone(), page.into_html().into()));
    }
    let names = written.iter().map(|(name, _)| name.as_str()).collect();
    // Before the list of them is replaced, so that nothing is ever left that no list has.
    for old in earlier
        .iter()
        .filter(|old| !BTreeSet::contains(&names, old.as_str()))
    {
        remove(folder, old)?;
    }
    let numbers = json(&Numbers {
        dossier,
        files: names,
    });
    // First, so that a report that could not be finished is known as one.
    write_soon(folder.join(NUMBERS), numbers.as_bytes())?;
    for (name, bytes) in &written {
        write_soon(folder.join(name), bytes)?;
    }
    Ok(())
}

fn failed(file: &Path) -> impl FnOnce(io::Error) -> HtmlError {
    let file = file.to_owned();
    move |source| HtmlError::Write { file, source }
}

/// The files that an earlier report in a folder lists as its own. A folder with anything else in it is an error.
fn earlier_files(folder: &Path) -> Result<BTreeSet<String>, HtmlError> {
    let is_empty = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => true,
    };
    if is_empty {
        return Ok(BTreeSet::new());
    }
    let bytes = npcov_file::read(folder.join(NUMBERS), LARGEST).ok();
    let earlier: Option<Document<Earlier>> =
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let earlier = earlier.ok_or_else(|| HtmlError::Occupied(folder.to_owned()))?;
    Ok(earlier.result.files)
}

/// Fails where there is something that is no folder, such as a link: what is behind it is not the report's.
fn require_folder(path: &Path) -> Result<(), HtmlError> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_dir() => {
            let error = io::Error::other("it is no folder, but a link or a file");
            Err(failed(path)(error))
        }
        _ => Ok(()),
    }
}

/// Removes a file of an earlier report, where its name is one that reports give.
fn remove(folder: &Path, name: &str) -> Result<(), HtmlError> {
    let (own, ending) = match name.strip_prefix(PICTURES) {
        Some(picture) => (picture.strip_prefix('/').unwrap_or_default(), ".png"),
        None => (name, ".html"),
    };
    let is_given = own.strip_suffix(ending).is_some_and(|stem| {
        let mut letters = stem.bytes();
        letters.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    });
    let path = folder.join(name);
    if !is_given || !fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
        return Ok(());
    }
    fs::remove_file(&path).map_err(failed(&path))
}

/// Writes a report as a single file: the overview, and the clusters that are in need most.
pub fn write_file(dossier: &Dossier, file: impl AsRef<Path>) -> Result<(), HtmlError> {
    let html: String = Site::new(dossier, true)
        .pages()
        .into_iter()
        .map(Page::into_html)
        .collect();
    Ok(write_whole(file, html.as_bytes())?)
}
