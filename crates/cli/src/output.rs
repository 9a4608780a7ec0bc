//! Files that a command writes, which must be none of those that it reads.
//!
//! What is read and what is written may become known in any order: each is held against all that is known already.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::anyhow;

use npcov::DecisionGraph;
use npcov::data::formats::is_of_folder;

use crate::config::Config;

/// The outputs of a command, held against each other and against every input before work begins. An output takes the
/// place of a file of its name, and a user's model or data must not be it.
pub(crate) struct Outputs {
    /// What is read.
    inputs: Vec<Identity>,
    files: Vec<Output>,
    /// Folders in which files are made and removed.
    folders: Vec<Output>,
}

struct Output {
    flag: &'static str,
    path: PathBuf,
    file: Identity,
}

impl Output {
    fn new(flag: &'static str, path: &Path) -> Output {
        Output {
            flag,
            path: path.to_owned(),
            file: Identity::of(path),
        }
    }

    /// Whether a file of this name takes the place of an input, or of a sample in it where that is a folder.
    fn replaces(&self, input: &Identity) -> bool {
        let is_sample = || self.path.is_file() && is_of_folder(&self.path);
        self.file == *input || (self.file.is_inside(input) && is_sample())
    }

    /// Whether an input is in this folder.
    fn holds(&self, input: &Identity) -> bool {
        self.file == *input || input.is_inside(&self.file)
    }

    fn overwrites(&self) -> anyhow::Error {
        anyhow!(
            "`{} {}` would overwrite what is read",
            self.flag,
            self.path.display()
        )
    }
}

impl Outputs {
    /// Outputs with the flags that name them. Neither is another one, nor the file of settings.
    pub(crate) fn new<'a>(
        config: &Config,
        outputs: impl IntoIterator<Item = (&'static str, Option<&'a Path>)>,
    ) -> anyhow::Result<Outputs> {
        let mut outputs = Outputs::of_settings(outputs)?;
        outputs.spare_all(config.file())?;
        Ok(outputs)
    }

    /// The same for commands that write settings.
    pub(crate) fn of_settings<'a>(
        outputs: impl IntoIterator<Item = (&'static str, Option<&'a Path>)>,
    ) -> anyhow::Result<Outputs> {
        let mut all = Outputs {
            inputs: Vec::new(),
            files: Vec::new(),
            folders: Vec::new(),
        };
        for (flag, path) in outputs {
            if let Some(path) = path {
                all.add(flag, path)?;
            }
        }
        Ok(all)
    }

    /// One more file.
    pub(crate) fn add(&mut self, flag: &'static str, path: &Path) -> anyhow::Result<()> {
        let output = Output::new(flag, path);
        let same = |other: &&Output| other.file == output.file;
        let around = |folder: &&Output| folder.holds(&output.file);
        let mut others = self.files.iter().filter(same);
        if let Some(other) = others.next().or(self.folders.iter().find(around)) {
            return Err(clash(other, &output));
        }
        if self.inputs.iter().any(|input| output.replaces(input)) {
            return Err(output.overwrites());
        }
        self.files.push(output);
        Ok(())
    }

    /// A folder whose files come and go.
    pub(crate) fn add_folder(&mut self, flag: &'static str, path: &Path) -> anyhow::Result<()> {
        let folder = Output::new(flag, path);
        if let Some(other) = self.files.iter().find(|other| folder.holds(&other.file)) {
            return Err(clash(other, &folder));
        }
        if self.inputs.iter().any(|input| folder.holds(input)) {
            return Err(folder.overwrites());
        }
        self.folders.push(folder);
        Ok(())
    }

    /// Something that is read. Fails where an output would take its place.
    pub(crate) fn spare(&mut self, input: impl AsRef<Path>) -> anyhow::Result<()> {
        let input = Identity::of(input.as_ref());
        let mut hit = self.files.iter().filter(|file| file.replaces(&input));
        let in_folder = self.folders.iter().find(|folder| folder.holds(&input));
        if let Some(output) = hit.next().or(in_folder) {
            return Err(output.overwrites());
        }
        self.inputs.push(input);
        Ok(())
    }

    /// The same for several inputs.
    pub(crate) fn spare_all(
        &mut self,
        inputs: impl IntoIterator<Item = impl AsRef<Path>>,
    ) -> anyhow::Result<()> {
        inputs.into_iter().try_for_each(|input| self.spare(input))
    }

    /// The same for data, with the labels beside it.
    pub(crate) fn spare_data(&mut self, spec: impl AsRef<OsStr>) -> anyhow::Result<()> {
        self.spare_all(npcov::data::formats::files(spec))
    }

    /// The same for a decision graph: its file, its model, and the data that it was learnt from, wherever that is looked for.
    pub(crate) fn spare_graph(&mut self, graph: &DecisionGraph) -> anyhow::Result<()> {
        self.spare_all(graph.model().network().files())?;
        self.spare_all(graph.learnt().file().path())?;
        let mut places = crate::pages::training_places(graph).into_iter();
        places.try_for_each(|place| self.spare_data(place))
    }
}

/// Two outputs in one place.
fn clash(one: &Output, other: &Output) -> anyhow::Error {
    let [one, other] =
        [one, other].map(|output| format!("`{} {}`", output.flag, output.path.display()));
    anyhow!("{one} and {other} are the same file, or one is in the other")
}

/// What tells whether two paths lead to the same file: through links of both kinds, and before it exists.
#[derive(Debug)]
struct Identity {
    /// With all links followed, as far as the way exists.
    path: PathBuf,
    /// Device and number of the file.
    #[cfg(unix)]
    node: Option<(u64, u64)>,
}

impl Identity {
    fn of(path: &Path) -> Identity {
        Identity {
            path: resolved(path),
            #[cfg(unix)]
            node: std::fs::metadata(path).ok().map(|found| {
                use std::os::unix::fs::MetadataExt;
                (found.dev(), found.ino())
            }),
        }
    }

    fn is_inside(&self, folder: &Identity) -> bool {
        self.path != folder.path && self.path.starts_with(&folder.path)
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Identity) -> bool {
        #[cfg(unix)]
        if self.node.is_some() && self.node == other.node {
            return true;
        }
        self.path == other.path
    }
}

/// A path with all links followed, as far as the way exists.
fn resolved(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if folder == Path::new("") => {
            resolved(Path::new(".")).join(name)
        }
        (Some(folder), Some(name)) => resolved(folder).join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(files: &[&Path]) -> anyhow::Result<Outputs> {
        Outputs::of_settings(files.iter().map(|file| ("--output", Some(*file))))
    }

    #[test]
    fn a_file_is_the_same_by_every_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("data")).unwrap();
        for file in ["model", "data/1.png", "other"] {
            std::fs::write(at(file), file).unwrap();
        }
        let other_way = at("data/../model");
        let mut names = vec![at("model"), other_way.clone()];
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(at("model"), at("soft")).unwrap();
            std::fs::hard_link(at("model"), at("hard")).unwrap();
            names.extend([at("soft"), at("hard")]);
        }
        for output in &names {
            let mut outputs = outputs(&[output]).unwrap();
            for input in &names {
                let error = outputs.spare(input).unwrap_err().to_string();
                assert!(error.contains("would overwrite what is read"), "{error}");
            }
            assert!(outputs.spare(at("other")).is_ok());
            assert!(outputs.spare(at("data")).is_ok());
        }
        // Inside of a folder of data, what exists is kept, and something more does no harm.
        assert!(
            outputs(&[&at("data/1.png")])
                .unwrap()
                .spare(at("data"))
                .is_err()
        );
        assert!(
            outputs(&[&at("data/2.png")])
                .unwrap()
                .spare(at("data"))
                .is_ok()
        );
    }

    #[test]
    fn outputs_are_different_files_also_before_they_exist() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("sub")).unwrap();
        assert!(outputs(&[&at("a"), &at("b")]).is_ok());
        let error = outputs(&[&at("a"), &at("sub/../a")]).err().unwrap();
        assert!(error.to_string().contains("are the same file"), "{error}");
        let mut outputs = outputs(&[&at("new/a")]).unwrap();
        assert!(outputs.add_folder("--html", &at("sub/../new")).is_err());
    }

    #[test]
    fn a_folder_that_is_cleaned_holds_no_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("parts")).unwrap();
        std::fs::write(at("parts/mine.npz"), "").unwrap();
        let mut outputs = outputs(&[]).unwrap();
        outputs.add_folder("--output", &at("parts")).unwrap();
        assert!(outputs.spare(at("parts/mine.npz")).is_err());
        assert!(outputs.spare(at("mine.npz")).is_ok());
        // Nor another output.
        assert!(outputs.add("--picture", &at("parts/a.png")).is_err());
        assert!(outputs.add("--picture", &at("a.png")).is_ok());
    }

    #[test]
    fn inputs_and_outputs_may_be_told_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("sub")).unwrap();
        std::fs::write(at("sub/graph"), "").unwrap();
        let mut outputs = outputs(&[]).unwrap();
        outputs.spare(at("sub/graph")).unwrap();
        let error = outputs.add("--output", &at("sub/graph")).unwrap_err();
        let refused = "would overwrite what is read";
        assert!(error.to_string().ends_with(refused), "{error}");
        let error = outputs.add_folder("--html", &at("sub")).unwrap_err();
        assert!(error.to_string().ends_with(refused), "{error}");
        assert!(outputs.add("--output", &at("sub/other")).is_ok());
    }
}
