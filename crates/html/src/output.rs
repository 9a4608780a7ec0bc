//! Pages in files.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use npcov::data::write_whole;
use npcov_report::json;

use crate::dossier::Dossier;
use crate::error::HtmlError;
use crate::pages::frame::{SCRIPT, STYLE};
use crate::pages::sights::files;
use crate::pages::{Page, Site};

/// What marks a folder as a report, and holds its numbers.
const NUMBERS: &str = "report.json";

/// Writes a report into a folder: `index.html`, pages that it leads to, pictures, and `report.json` with everything that
/// is shown. An earlier report there is replaced; a folder with other files is left alone.
pub fn write_folder(dossier: &Dossier, folder: impl AsRef<Path>) -> Result<(), HtmlError> {
    let folder = folder.as_ref();
    let failed = |file: &Path| {
        let file = file.to_owned();
        move |source: io::Error| HtmlError::Write { file, source }
    };
    let is_empty = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => true,
    };
    if !is_empty && !folder.join(NUMBERS).is_file() {
        return Err(HtmlError::Occupied(folder.to_owned()));
    }
    let pictures = folder.join("pictures");
    fs::create_dir_all(&pictures).map_err(failed(&pictures))?;
    let mut written: BTreeSet<PathBuf> = BTreeSet::new();
    let mut write = |path: PathBuf, bytes: &[u8]| {
        fs::write(&path, bytes).map_err(failed(&path))?;
        written.insert(path);
        Ok::<(), HtmlError>(())
    };
    // First, so that a report that could not be finished is known as one.
    write(folder.join(NUMBERS), json(dossier).as_bytes())?;
    write(folder.join("style.css"), STYLE.as_bytes())?;
    write(folder.join("script.js"), SCRIPT.as_bytes())?;
    for (name, raster) in dossier.pictures.iter().flat_map(files) {
        write(pictures.join(name), &raster.png)?;
    }
    for page in Site::new(dossier, false).pages() {
        let path = folder.join(&page.file);
        write(path, page.into_html().as_bytes())?;
    }
    // What an earlier report left behind.
    for (place, ending) in [(folder, "html"), (&pictures, "png")] {
        for entry in fs::read_dir(place).map_err(failed(place))?.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == ending) && !written.contains(&path) {
                fs::remove_file(&path).map_err(failed(&path))?;
            }
        }
    }
    Ok(())
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
