//! `npcov tune`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use npcov::data::{OutputLock, require_place, write_whole};
use npcov::masking::PathParameters;
use npcov::{Model, ModelOptions, TuneOptions};
use toml_edit::{DocumentMut, Item, Table, TomlError, Value};

use crate::args::{Format, TuneArgs};
use crate::config::{Config, not_toml, read_settings};
use crate::output::Outputs;
use crate::printer::Printer;
use crate::progress::ProgressBar;
use crate::samples;

/// The table of the settings file that parameters of paths stand in.
const TABLE: &str = "paths";

/// Masks paths, prints what that does and which parameters to take, and writes these to a settings
/// file where wanted.
pub(crate) fn run(args: &TuneArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let model = config.model(&args.model)?;
    let data = config.data(&args.data)?;
    let mut outputs = Outputs::of_settings([("--write", args.write.as_deref())])?;
    outputs.spare(&model)?;
    outputs.spare_data(&data)?;
    outputs.spare_all(config.class_names_file(&args.data.classes))?;
    let settings = TuneOptions {
        method: config.method(&args.method)?,
        choices: (config.paths).choices(&args.path_choices, None, Some(&args.study_choices)),
        sample: (!args.all).then_some(args.sample),
        alphas: args.alphas.clone(),
        clusters: args.clusters.clone(),
        betas: args.betas.clone(),
        seed: args.seed,
        restarts: config.paths.restarts(),
    };
    let options = ModelOptions {
        batch_norm: config.batch_norm(&args.method),
        ..config.network(&args.model)
    };
    let model = Model::open_with(&model, &options)?.with_threads(config.threads(args.run.threads));
    outputs.spare_all(model.network().files())?;
    let model = config.prepare(model, &args.data)?;
    samples::say_preset(&settings.method, model.network(), printer);
    // What cannot be written is said before hours of work, not after them.
    let open = |path: &Path| {
        require_place(path).map_err(npcov::Error::from)?;
        // The lock of the file is that of its parts, which those have who join them.
        let lock = (!args.parts.join)
            .then(|| OutputLock::beside(path))
            .transpose();
        SettingsFile::open(path, lock.map_err(npcov::Error::from)?)
    };
    let mut file = match (&args.write, args.parts.shard) {
        (Some(path), None) => Some(open(path)?),
        _ => None,
    };
    let data = model.open_data(&data)?;
    let model = samples::resolve(model, &data, printer)?;
    samples::warn(&model.warnings(&data)?, printer);
    if let (Some(part), Some(path)) = (args.parts.shard, &args.write) {
        let inputs = part.rows(0..settings.inputs(data.len())).len();
        let mut progress = ProgressBar::new(inputs, printer).of_work(settings.work(inputs));
        let done = model.tune_part(&data, &settings, part, path, &mut progress);
        drop(progress);
        return printer.data(&match (done?, args.run.print.format) {
            (done, Format::Text) => npcov_report::tuned_part(&done),
            (done, Format::Json) => npcov_report::json(&done),
        });
    }
    let inputs = settings.inputs(data.len());
    let mut progress = ProgressBar::new(inputs, printer).of_work(settings.work(data.len()));
    let tuning = match (&args.write, args.parts.join) {
        (Some(path), true) => {
            let joined = model.join_tuning(&data, &settings, path)?;
            // What was read before others were kept out may have changed.
            open(path)?.write(&joined.tuning.chosen)?;
            joined.remove_parts().map_err(npcov::Error::from)?
        }
        _ => {
            let tuning = model.tune(&data, &settings, &mut progress)?;
            if let Some(file) = &mut file {
                file.write(&tuning.chosen)?;
            }
            tuning
        }
    };
    drop(progress);
    printer.data(&match args.run.print.format {
        Format::Text => npcov_report::tuning(&tuning),
        Format::Json => npcov_report::json(&tuning),
    })
}

/// A settings file of which everything but the parameters of paths stays as it is.
struct SettingsFile {
    path: PathBuf,
    document: DocumentMut,
    /// Nobody else changes it before it is written.
    _lock: Option<OutputLock>,
}

impl SettingsFile {
    /// Reads the file, if there is one.
    fn open(path: &Path, lock: Option<OutputLock>) -> anyhow::Result<SettingsFile> {
        let text = match path.try_exists() {
            Ok(false) => String::new(),
            _ => read_settings(path)?,
        };
        let document: DocumentMut = text
            .parse()
            .map_err(|error: TomlError| not_toml(path, &text, error.span(), error.message()))?;
        if document
            .get(TABLE)
            .is_some_and(|item| !item.is_table_like())
        {
            bail!("`{}`: `{TABLE}` is no table", path.display());
        }
        Ok(SettingsFile {
            path: path.to_owned(),
            document,
            _lock: lock,
        })
    }

    fn write(&mut self, chosen: &PathParameters) -> anyhow::Result<()> {
        let clusters = i64::try_from(chosen.clusters).unwrap_or(i64::MAX);
        self.set("alpha", chosen.alpha.into());
        self.set("clusters", clusters.into());
        self.set("beta", chosen.beta.into());
        let text = self.document.to_string();
        Ok(write_whole(&self.path, text.as_bytes()).map_err(npcov::Error::from)?)
    }

    /// Gives a key another value; comments around it stay.
    fn set(&mut self, key: &str, mut value: Value) {
        let table = self
            .document
            .entry(TABLE)
            .or_insert(Item::Table(Table::new()));
        let Some(table) = table.as_table_like_mut() else {
            return;
        };
        match table.get_mut(key) {
            Some(Item::Value(old)) => {
                *value.decor_mut() = old.decor().clone();
                *old = value;
            }
            _ => {
                table.insert(key, Item::Value(value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHOSEN: PathParameters = PathParameters {
        alpha: 1.0,
        clusters: 7,
        beta: 0.9,
    };

    /// A file of this text, after the parameters were written to it.
    fn written(text: Option<&str>) -> anyhow::Result<String> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("npcov.toml");
        if let Some(text) = text {
            std::fs::write(&path, text)?;
        }
        SettingsFile::open(&path, None)?.write(&CHOSEN)?;
        Ok(std::fs::read_to_string(&path)?)
    }

    #[test]
    fn a_file_is_made() {
        let text = "[paths]\nalpha = 1.0\nclusters = 7\nbeta = 0.9\n";
        assert_eq!(written(None).unwrap(), text);
        assert_eq!(written(Some("")).unwrap(), text);
    }

    #[test]
    fn everything_else_stays() {
        let text = "# settings\nmodel = \"m.onnx\" # ours\n\n[paths] # tuned\n# by hand\nalpha  =  0.7 # why?\n\
                    threshold = \"positive-mass\"\n\n[explain]\npreset = 'npc'\n";
        let expected = "# settings\nmodel = \"m.onnx\" # ours\n\n[paths] # tuned\n# by hand\nalpha  =  1.0 # why?\n\
                        threshold = \"positive-mass\"\nclusters = 7\nbeta = 0.9\n\n[explain]\npreset = 'npc'\n";
        assert_eq!(written(Some(text)).unwrap(), expected);
        // Once written, nothing is left to change.
        assert_eq!(written(Some(expected)).unwrap(), expected);
    }

    #[test]
    fn other_forms_of_the_table() {
        let inline = written(Some("paths = { beta = 0.5 }\n")).unwrap();
        assert_eq!(
            inline,
            "paths = { beta = 0.9 , alpha = 1.0, clusters = 7 }\n"
        );
        let dotted = written(Some("paths.alpha = 0.5\nmodel = \"m.onnx\"\n")).unwrap();
        let read: toml::Table = toml::from_str(&dotted).unwrap();
        assert_eq!(read["paths"]["alpha"].as_float(), Some(1.0));
        assert_eq!(read["paths"]["clusters"].as_integer(), Some(7));
        assert_eq!(read["model"].as_str(), Some("m.onnx"));
        let class_wise = written(Some("[paths.alpha]\nall = 0.5\n")).unwrap();
        let read: toml::Table = toml::from_str(&class_wise).unwrap();
        assert_eq!(read["paths"]["alpha"].as_float(), Some(1.0));
    }

    #[test]
    fn what_is_no_settings_file_is_refused() {
        for (text, expected) in [
            ("paths = 3\n", "npcov.toml`: `paths` is no table"),
            ("[[paths]]\n", "npcov.toml`: `paths` is no table"),
            ("model = \n", "npcov.toml` is not TOML: line 1, column 9: "),
        ] {
            let error = written(Some(text)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
