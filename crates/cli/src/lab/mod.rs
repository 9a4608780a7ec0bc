//! `npcov lab`.

mod coverage;
mod kinds;
mod masking;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use npcov::data::{Loader, OutputLock, write_whole};
use npcov_lab::{LabError, WorkFolder};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::args::{Format, LabArgs, LabOptions, Question};
use crate::config::Config;
use crate::output::Outputs;
use crate::printer::Printer;

/// Makes an experiment, prints what it gave, and writes that into a folder.
pub(crate) fn run(args: &LabArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    match &args.question {
        Question::Rq1(args) => masking::rq1(args, config, printer),
        Question::Rq2(args) => masking::rq2(args, config, printer),
        Question::Rq3(args) => coverage::rq3(args, config, printer),
        Question::Rq4(args) => coverage::rq4(args, config, printer),
        Question::Rq5(args) => coverage::rq5(args, config, printer),
        Question::Rq6(args) => kinds::rq6(args, config, printer),
        Question::Rq7(args) => kinds::rq7(args, config, printer),
    }
}

/// Where the results of an experiment go.
struct Results<'a> {
    options: &'a LabOptions,
    /// The experiment, as its files are called.
    name: &'static str,
}

/// What tells an experiment from another one: finished parts are those of an equal plan.
#[derive(Serialize)]
struct Plan {
    version: &'static str,
    model: String,
    data: Vec<String>,
    settings: String,
}

impl<'a> Results<'a> {
    /// Makes the folder. One that cannot be written into, or that holds what is read under the name of a result, is said
    /// before hours of work.
    fn new(
        options: &'a LabOptions,
        name: &'static str,
        config: &Config,
        files: impl IntoIterator<Item = impl AsRef<Path>>,
        data: &[&OsStr],
    ) -> anyhow::Result<Results<'a>> {
        let folder = &options.output;
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
        let results = Results { options, name };
        let mut outputs = Outputs::new(config, [])?;
        for extension in [".json", ".svg", ".txt", "-clusters.png", "-classes.toml"] {
            outputs.add("--output", &results.file(extension))?;
        }
        outputs.add_folder("--output", &results.file(".parts"))?;
        outputs.spare_all(files)?;
        data.iter().try_for_each(|data| outputs.spare_data(data))?;
        Ok(results)
    }

    /// The finished parts of an earlier run with the same model, data and settings.
    fn work(
        &self,
        model: String,
        data: &[&Loader],
        settings: &impl std::fmt::Debug,
        printer: &Printer,
    ) -> anyhow::Result<WorkFolder> {
        let mut digests = Vec::new();
        for loader in data {
            let fingerprint = loader.fingerprint().map_err(npcov::Error::from)?;
            digests.push(fingerprint.digest().to_string());
        }
        let plan = Plan {
            version: env!("CARGO_PKG_VERSION"),
            model,
            data: digests,
            settings: format!("{settings:?}"),
        };
        let work = WorkFolder::open(&self.file(".parts"), &plan).map_err(plain)?;
        if !work.damaged().is_empty() {
            printer.note(&format!(
                "what an earlier run left of {} is damaged: it is computed again",
                work.damaged().join(", ")
            ));
        }
        Ok(work)
    }

    /// The right to write results of an experiment that keeps no parts, of data as it is now.
    fn lock(&self, data: &Loader) -> anyhow::Result<OutputLock> {
        data.fingerprint().map_err(npcov::Error::from)?;
        let lock = OutputLock::by(&self.file(".parts"), &self.file(".json"));
        Ok(lock.map_err(npcov::Error::from)?)
    }

    /// Fails where data is not what it was when the work began: a result is of the data that it names.
    fn unchanged(&self, data: &[&Loader], work: Option<&WorkFolder>) -> anyhow::Result<()> {
        for loader in data {
            let then = loader.fingerprint().map_err(npcov::Error::from)?;
            if let Err(changed) = then.check(loader.samples(), 0..loader.len()) {
                work.map_or(Ok(()), WorkFolder::disown).map_err(plain)?;
                return Err(npcov::Error::from(changed).into());
            }
        }
        Ok(())
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.options
            .output
            .join(format!("{}{extension}", self.name))
    }

    /// Writes a result and its picture, and prints it.
    fn finish<T: Serialize + DeserializeOwned>(
        &self,
        result: &T,
        text: &str,
        plot: &str,
        printer: &Printer,
    ) -> anyhow::Result<()> {
        let json = npcov_report::json(result);
        write(&self.file(".json"), json.as_bytes())?;
        write(&self.file(".svg"), plot.as_bytes())?;
        write(&self.file(".txt"), text.as_bytes())?;
        printer.note(&format!(
            "results are in `{}`, `.svg` and `.txt`",
            self.file(".json").display()
        ));
        printer.data(match self.options.run.print.format {
            Format::Text => text,
            Format::Json => &json,
        })
    }
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    Ok(write_whole(path, bytes).map_err(npcov::Error::from)?)
}

/// An error as hints know it.
fn plain(error: LabError) -> anyhow::Error {
    match error {
        LabError::Npcov(error) => error.into(),
        error => error.into(),
    }
}
