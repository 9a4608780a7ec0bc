//! Data of Python as samples.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use npcov::data::rows::{NumberFormat, Rows};
use npcov::data::{Arrays, Classes, DataError, Element, Samples as _, Source, Targets};
use npcov_cli::embed::Data;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::array::Foreign;
use crate::error::{raised, raised_from};
use crate::work::work;

/// Samples in arrays or files.
#[pyclass(frozen, module = "npcov._npcov")]
pub(crate) struct Samples(pub(crate) Data);

/// Labels, and names of classes and samples.
pub(crate) type Words = (Option<Labels>, Option<Vec<String>>, Option<Vec<String>>);

/// Classes, or rows of as many numbers as a model gives.
#[derive(FromPyObject)]
pub(crate) enum Labels {
    Classes(WholeNumbers),
    Numbers(usize, Vec<f64>),
}

/// Whole numbers one after the other, each in a byte as long as all fit.
pub(crate) struct WholeNumbers(pub(crate) Classes<'static>);

impl<'a, 'py> FromPyObject<'a, 'py> for WholeNumbers {
    type Error = PyErr;

    fn extract(numbers: Borrowed<'a, 'py, PyAny>) -> PyResult<WholeNumbers> {
        let numbers = numbers.try_iter()?.map(|number| number?.extract());
        Ok(WholeNumbers(numbers.collect::<PyResult<_>>()?))
    }
}

#[pymethods]
impl Samples {
    /// What `--data` names.
    #[staticmethod]
    fn open(py: Python<'_>, spec: OsString) -> PyResult<Samples> {
        let opened = py.detach(|| Data::open(&spec));
        opened.map(Samples).map_err(|error| raised(py, &error))
    }

    /// Arrays in memory, each with the name of its input, read where they lie. `words`: labels, names of
    /// classes, names of samples.
    #[staticmethod]
    fn arrays(
        py: Python<'_>,
        name: String,
        inputs: Vec<(String, Bound<'_, PyAny>)>,
        words: Words,
    ) -> PyResult<Samples> {
        let mut arrays: Option<Arrays<'static>> = None;
        for (input, array) in inputs {
            let array = Foreign::new(&array)?;
            let with = |arrays, array| add(arrays, &input, array);
            arrays = Some(with(arrays, array)?.map_err(|error| raised_from(py, error))?);
        }
        let arrays = arrays.ok_or_else(|| PyTypeError::new_err("there are no arrays"))?;
        finish(py, arrays.named(name), words)
    }

    /// Inputs in files that hold nothing but their numbers, in C order: name, file, type and shape of each. Once
    /// they are open, the files may be removed.
    #[staticmethod]
    fn spooled(
        py: Python<'_>,
        name: String,
        inputs: Vec<(String, PathBuf, String, Vec<usize>)>,
        words: Words,
    ) -> PyResult<Samples> {
        let open = || -> Result<Option<Arrays<'static>>, DataError> {
            let mut arrays = None;
            for (input, path, kind, shape) in inputs {
                let rows = Source::open(&path).map_err(npcov::data::ReadError::Io);
                let rows = rows.and_then(|source| Rows::new(format(&kind, shape), source));
                let rows = rows.map_err(|error| error.in_file(&name))?;
                arrays = Some(with_rows(arrays, &input, rows)?);
            }
            Ok(arrays)
        };
        let arrays = open().map_err(|error| raised_from(py, error))?;
        let arrays = arrays.ok_or_else(|| PyTypeError::new_err("there are no inputs"))?;
        finish(py, arrays.named(name), words)
    }

    /// How many there are.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.read(py)?.len())
    }

    /// What the whole is called.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.read(py)?.name().to_owned())
    }

    /// What each sample holds for every input: name, shape, type of its numbers.
    #[getter]
    fn inputs(&self, py: Python<'_>) -> PyResult<Vec<(String, Vec<usize>, String)>> {
        let samples = self.read(py)?;
        let inputs = samples.inputs().iter();
        Ok(inputs
            .map(|i| {
                (
                    i.name().to_owned(),
                    i.shape().to_vec(),
                    i.element().to_string(),
                )
            })
            .collect())
    }

    /// The digest that artefacts know the data by.
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        let data = self.0.clone();
        let (digest, _) = work(py, None, move |_| {
            let digest = data.samples()?.digest();
            Ok(digest.map_err(npcov::Error::from)?.to_string())
        })?;
        Ok(digest)
    }
}

impl Samples {
    /// As they were read last, or as they are without a model.
    fn read(&self, py: Python<'_>) -> PyResult<Arc<dyn npcov::data::Samples>> {
        let samples = py.detach(|| self.0.samples());
        samples.map_err(|error| raised(py, &error))
    }
}

/// Adds an input, by the type of its numbers.
fn add(
    arrays: Option<Arrays<'static>>,
    input: &str,
    array: Foreign,
) -> PyResult<Result<Arrays<'static>, DataError>> {
    let shape = array.shape.clone();
    macro_rules! numbers {
        ($type:ty) => {{
            let numbers = array.numbers::<$type>()?;
            match arrays {
                None => Arrays::new(input, &shape, numbers),
                Some(arrays) => arrays.with_input(input, &shape, numbers),
            }
        }};
    }
    Ok(match &*array.kind.clone() {
        "|b1" => numbers!(bool),
        "|u1" => numbers!(u8),
        "|i1" => numbers!(i8),
        "<u2" => numbers!(u16),
        "<i2" => numbers!(i16),
        "<u4" => numbers!(u32),
        "<i4" => numbers!(i32),
        "<u8" => numbers!(u64),
        "<i8" => numbers!(i64),
        "<f4" => numbers!(f32),
        "<f8" => numbers!(f64),
        "<f2" => {
            let source = Source::from_bytes(array.bytes(2));
            let rows = Rows::new(format("<f2", shape), source);
            let rows = rows.map_err(|error| error.in_file("an array in memory"));
            rows.and_then(|rows| with_rows(arrays, input, rows))
        }
        other => {
            return Err(PyTypeError::new_err(format!(
                "numbers of type `{other}` cannot be read"
            )));
        }
    })
}

fn with_rows(
    arrays: Option<Arrays<'static>>,
    input: &str,
    rows: Rows,
) -> Result<Arrays<'static>, DataError> {
    match arrays {
        None => Arrays::of_rows(input, rows),
        Some(arrays) => arrays.with_rows(input, rows),
    }
}

fn format(kind: &str, shape: Vec<usize>) -> NumberFormat {
    let element = match kind {
        "|b1" => Element::Bool,
        "|u1" => Element::U8,
        "|i1" => Element::I8,
        "<u2" => Element::U16,
        "<i2" => Element::I16,
        "<u4" => Element::U32,
        "<i4" => Element::I32,
        "<u8" => Element::U64,
        "<i8" => Element::I64,
        "<f2" => Element::F16,
        "<f8" => Element::F64,
        _ => Element::F32,
    };
    NumberFormat {
        element,
        big_endian: false,
        fortran_order: false,
        shape,
    }
}

fn finish(
    py: Python<'_>,
    arrays: Arrays<'static>,
    (labels, class_names, sample_names): Words,
) -> PyResult<Samples> {
    let with = || -> Result<Arrays<'static>, DataError> {
        let mut arrays = arrays;
        arrays = match labels {
            None => arrays,
            Some(Labels::Classes(WholeNumbers(classes))) => arrays.with_classes(classes)?,
            Some(Labels::Numbers(width, numbers)) => {
                let targets = Targets::new(width, numbers);
                arrays.with_targets(targets.map_err(|error| error.in_file("labels"))?)?
            }
        };
        if let Some(names) = class_names {
            arrays = arrays.with_class_names(names)?;
        }
        if let Some(names) = sample_names {
            arrays = arrays.with_sample_names(names)?;
        }
        Ok(arrays)
    };
    let arrays = with().map_err(|error| raised_from(py, error))?;
    Ok(Samples(Data::new(Arc::new(arrays))))
}
