//! Where the library of ONNX Runtime is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use ort::environment::Environment;

use crate::error::OnnxRuntimeError;

/// The variable that names the library's file.
const VARIABLE: &str = "ORT_DYLIB_PATH";

/// The environment of the process, and the library it is of. Loading another one is impossible.
static LOADED: Mutex<Option<(PathBuf, Environment)>> = Mutex::new(None);

/// The file of ONNX Runtime's library, or the place where it would be.
///
/// It is looked for where the user says, then where `ORT_DYLIB_PATH` says, then in the package `onnxruntime` (or
/// `onnxruntime-gpu`, which has the same name inside) of the Python that is found first: of an active environment,
/// then of the search path. In the end the system is asked for a library of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library(PathBuf);

impl Library {
    /// Looks for it.
    pub fn find(given: Option<&Path>) -> Result<Library, OnnxRuntimeError> {
        if let Some(path) = given {
            return Library::at(path);
        }
        if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            return Library::at(Path::new(&path));
        }
        let mut looked = vec![format!("`{VARIABLE}`, which is not set")];
        for python in pythons() {
            match of_python(&python) {
                Some(path) => return Ok(Library(path)),
                None => looked.push(format!("the packages of `{}`", python.display())),
            }
        }
        let name = file_name();
        for folder in ["/usr/local/lib", "/usr/lib", "/opt/onnxruntime/lib"] {
            if let Some(path) = in_folder(Path::new(folder)) {
                return Ok(Library(path));
            }
            looked.push(format!("`{folder}/{name}`"));
        }
        Err(OnnxRuntimeError::NotFound(looked))
    }

    /// A file, or the one in a folder.
    fn at(path: &Path) -> Result<Library, OnnxRuntimeError> {
        let found = match path.is_dir() {
            true => in_folder(path),
            false => path.is_file().then(|| path.to_owned()),
        };
        found
            .map(Library)
            .ok_or_else(|| OnnxRuntimeError::NotFound(vec![format!("`{}`", path.display())]))
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Loads it, or finds it loaded.
    pub(crate) fn load(&self) -> Result<Environment, OnnxRuntimeError> {
        let path = self.0.canonicalize().unwrap_or_else(|_| self.0.clone());
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((before, environment)) = &*loaded {
            return match *before == path {
                true => Ok(environment.clone()),
                false => Err(OnnxRuntimeError::AnotherLibrary {
                    loaded: before.display().to_string(),
                    wanted: path.display().to_string(),
                }),
            };
        }
        let builder = ort::init_from(&path).map_err(|e| OnnxRuntimeError::Load(e.to_string()))?;
        let environment = builder
            .with_name("npcov")
            // Nothing is told to anybody.
            .with_telemetry(false)
            .build()
            .map_err(|error| OnnxRuntimeError::Load(error.to_string()))?;
        *loaded = Some((path, environment.clone()));
        Ok(environment)
    }
}

fn file_name() -> String {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    format!("{DLL_PREFIX}onnxruntime{DLL_SUFFIX}")
}

/// The library in a folder, whatever version stands behind its name. Of several, the one whose name is last.
fn in_folder(folder: &Path) -> Option<PathBuf> {
    use std::env::consts::DLL_PREFIX;
    let is_library = |name: &str| match cfg!(target_os = "linux") {
        true => name.starts_with("libonnxruntime.so"),
        false => {
            name.starts_with(&format!("{DLL_PREFIX}onnxruntime.")) && !name.contains("providers")
        }
    };
    let files = std::fs::read_dir(folder).ok()?.flatten();
    let files = files.map(|entry| entry.path());
    files
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(is_library) && path.is_file()
        })
        .max()
}

/// The Pythons that may have it, the first one first.
fn pythons() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for variable in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        if let Some(prefix) = std::env::var_os(variable) {
            let inner = if cfg!(windows) {
                "python.exe"
            } else {
                "bin/python"
            };
            found.push(Path::new(&prefix).join(inner));
        }
    }
    found.extend(["python3", "python"].map(PathBuf::from));
    found
}

/// The library of a Python's package. The package is found and not imported, which would take long.
fn of_python(python: &Path) -> Option<PathBuf> {
    const FIND: &str = "import importlib.util as u; s = u.find_spec('onnxruntime'); \
                        print(s.submodule_search_locations[0] if s else '')";
    let said = Command::new(python)
        .args(["-I", "-c", FIND])
        .output()
        .ok()?;
    let folder = String::from_utf8(said.stdout).ok()?;
    let folder = folder.trim();
    match said.status.success() && !folder.is_empty() {
        true => in_folder(&Path::new(folder).join("capi")),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_given_is_the_only_one() {
        let error = Library::find(Some(Path::new("/nowhere/lib.so"))).unwrap_err();
        let message =
            "the library of ONNX Runtime is not found; looked at `/nowhere/lib.so`. `pip install";
        assert!(error.to_string().starts_with(message), "{error}");
    }
}
