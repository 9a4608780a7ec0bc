//! Running the binary in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use npcov::data::npz::{Archive, Compression, NpzWriter};
use npcov::data::{self, Loader, Preprocessing};
use tempfile::TempDir;

/// A temporary folder to run commands in, with all models and data of the fixtures in it.
pub(crate) struct Project {
    folder: TempDir,
}

/// What a command did.
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

impl Project {
    pub(crate) fn new() -> Project {
        Project::with_fixtures_in("")
    }

    pub(crate) fn with_fixtures_in(folder: &str) -> Project {
        let project = Project {
            folder: TempDir::new().unwrap(),
        };
        for from in ["", "attention/", "sequences/"] {
            for entry in std::fs::read_dir(fixtures().join(from)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    continue;
                }
                let name = path.file_name().unwrap().to_str().unwrap();
                let name = format!("{folder}/{from}{name}");
                project.write(&name, std::fs::read(&path).unwrap());
            }
        }
        project
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name.trim_start_matches('/'))
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// An npz file with `x` of the given sample shape and, if there are any, labels `y`.
    pub(crate) fn npz(&self, name: &str, shape: &[usize], x: &[f32], y: &[i64]) {
        let mut writer = NpzWriter::create(self.path(name), Compression::Stored).unwrap();
        let samples = writer.array::<f32>("x", shape).unwrap();
        writer.append(&samples, x).unwrap();
        if !y.is_empty() {
            let labels = writer.array::<i64>("y", &[]).unwrap();
            writer.append(&labels, y).unwrap();
        }
        writer.finish().unwrap();
    }

    /// A dataset of whole numbers, without labels.
    pub(crate) fn npz_ints(&self, name: &str, shape: &[usize], x: &[i64]) {
        let mut writer = NpzWriter::create(self.path(name), Compression::Stored).unwrap();
        let samples = writer.array::<i64>("x", shape).unwrap();
        writer.append(&samples, x).unwrap();
        writer.finish().unwrap();
    }

    /// A folder of PNG images out of `fashion-1000.npz`: one folder for each of some classes, with the first
    /// `most` images of its label in it.
    pub(crate) fn images(&self, folder: &str, classes: &[(i64, &str)], most: usize) {
        let images = self.rows("fashion-1000.npz", "x");
        let labels = self.rows("fashion-1000.npz", "y");
        for &(label, class) in classes {
            let own = labels
                .iter()
                .zip(&images)
                .filter(|(y, _)| y[0] as i64 == label);
            for (i, (_, image)) in own.take(most).enumerate() {
                let pixels: Vec<u8> = image.iter().map(|&x| x as u8).collect();
                let mut file = Vec::new();
                let mut encoder = png::Encoder::new(&mut file, 28, 28);
                encoder.set_color(png::ColorType::Grayscale);
                let mut writer = encoder.write_header().unwrap();
                writer.write_image_data(&pixels).unwrap();
                writer.finish().unwrap();
                self.write(&format!("{folder}/{class}/{i:03}.png"), file);
            }
        }
    }

    /// The texts of an array in an npz file of the project.
    pub(crate) fn texts(&self, name: &str, array: &str) -> Vec<String> {
        let archive = Archive::open(data::Source::open(&self.path(name)).unwrap()).unwrap();
        archive.texts(array).unwrap().unwrap()
    }

    /// The rows of an array in an npz file of the project.
    pub(crate) fn rows(&self, name: &str, array: &str) -> Vec<Vec<f32>> {
        let spec = format!("{}:{array}", self.path(name).display());
        let dataset = data::open(&spec).unwrap();
        let shape = dataset.inputs()[0].shape().to_vec();
        let loader = Loader::new(dataset, &shape, &Preprocessing::default()).unwrap();
        let mut values = vec![0.0; loader.len() * loader.sample_len()];
        loader.read(0..loader.len(), &mut values).unwrap();
        values
            .chunks(loader.sample_len())
            .map(<[f32]>::to_vec)
            .collect()
    }

    /// The binary, in the project's folder and an empty environment.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_npcov"));
        command
            .args(arguments.split_whitespace())
            .current_dir(self.folder.path())
            .env_clear()
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &str) -> Outcome {
        self.outcome(self.command(arguments))
    }

    /// The same with 200 MB of memory and a second of computing.
    #[cfg(unix)]
    pub(crate) fn in_little_memory(&self, arguments: &str) -> Outcome {
        self.limited("ulimit -v 204800; ulimit -t 1", arguments)
    }

    /// The same with other limits, as a shell sets them.
    #[cfg(unix)]
    pub(crate) fn limited(&self, limits: &str, arguments: &str) -> Outcome {
        let plain = self.command(arguments);
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{limits}; exec \"$@\""), "sh"])
            .arg(plain.get_program())
            .args(plain.get_args())
            .current_dir(self.folder.path())
            .env_clear()
            // Arenas of other threads would take address space, which is what is limited.
            .env("MALLOC_ARENA_MAX", "1")
            .stdin(Stdio::null());
        self.outcome(command)
    }

    /// What a command does, with nothing of the machine in it.
    pub(crate) fn outcome(&self, mut command: Command) -> Outcome {
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| {
            String::from_utf8(bytes)
                .unwrap()
                .replace(self.folder.path().to_str().unwrap(), "[FOLDER]")
                .replace(env!("CARGO_PKG_VERSION"), "[VERSION]")
        };
        Outcome {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: without_progress(&text(output.stderr)),
        }
    }

    /// Runs a command and describes everything that can be seen of it.
    pub(crate) fn snapshot(&self, arguments: &str) -> String {
        let outcome = self.run(arguments);
        format!(
            "$ npcov {arguments}\nexit code: {}\n----- stdout -----\n{}----- stderr -----\n{}",
            outcome.code.map_or("none".to_owned(), |c| c.to_string()),
            outcome.stdout,
            outcome.stderr
        )
    }
}

/// Leaves out the lines that tell how far work is, which only slow machines see.
fn without_progress(text: &str) -> String {
    let is_progress =
        |line: &&str| line.starts_with("note: ") && line.trim_end().ends_with(" left");
    text.split_inclusive('\n')
        .filter(|line| !is_progress(line))
        .collect()
}
