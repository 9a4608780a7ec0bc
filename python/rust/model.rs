//! Models.

use std::path::PathBuf;

use npcov_cli::embed::{Answer, FileOrBytes, Listener, model, mutation};
use pyo3::prelude::*;

use crate::array::Array;
use crate::error::raised;
use crate::graph::DecisionGraph;
use crate::mutation::Killed;
use crate::samples::Samples;
use crate::work::work;
use crate::{Told, told};

/// A model's file, or the bytes of one.
#[derive(FromPyObject)]
pub(crate) enum OnnxSource {
    Bytes(Vec<u8>),
    File(PathBuf),
}

impl OnnxSource {
    pub(crate) fn get(&self) -> FileOrBytes<'_> {
        match self {
            OnnxSource::Bytes(bytes) => FileOrBytes::Bytes(bytes),
            OnnxSource::File(path) => FileOrBytes::File(path),
        }
    }
}

/// Named arrays.
type Arrays = Vec<(String, Array)>;

/// An explanation, its numbers, and a picture.
pub(crate) type Explained = (Told, Arrays, Option<Vec<u8>>);

fn arrays(numbers: Vec<(String, npcov::TraceArray)>) -> Arrays {
    let array = |(name, array)| (name, Array::from(array));
    numbers.into_iter().map(array).collect()
}

/// A model that is ready to be asked.
#[pyclass(frozen, module = "npcov._npcov")]
pub(crate) struct Model(pub(crate) npcov::Model);

/// What is inside a model's file.
#[pyfunction]
pub(crate) fn inspect(py: Python<'_>, source: OnnxSource, flags: Vec<String>) -> PyResult<Told> {
    let answer = py.detach(|| model::inspect(source.get(), &flags));
    let answer = answer.map_err(|error| raised(py, &error))?;
    Ok(told(answer, Vec::new()))
}

/// Writes a program that is made from a model as ONNX.
#[pyfunction]
pub(crate) fn compile(
    py: Python<'_>,
    source: OnnxSource,
    flags: Vec<String>,
    output: PathBuf,
) -> PyResult<Told> {
    let compile = || {
        let mut nothing = ();
        let mut listener = Listener::new(&mut nothing);
        let answer = model::compile(source.get(), &flags, &output, &mut listener)?;
        Ok(told(answer, listener.warnings))
    };
    py.detach(compile).map_err(|error| raised(py, &error))
}

#[pymethods]
impl Model {
    /// Opens a model. `preprocessed_by` names what its caller does with data before npcov sees it.
    #[new]
    #[pyo3(signature = (source, flags, class_names=None, preprocessed_by=None))]
    fn new(
        py: Python<'_>,
        source: OnnxSource,
        flags: Vec<String>,
        class_names: Option<Vec<String>>,
        preprocessed_by: Option<String>,
    ) -> PyResult<Model> {
        let open = || -> anyhow::Result<npcov::Model> {
            let model = model::open(source.get(), &flags, class_names)?;
            let mut preprocessing = model.preprocessing().clone();
            preprocessing.by_caller = preprocessed_by;
            Ok(model.with_preprocessing(preprocessing))
        };
        py.detach(open)
            .map(Model)
            .map_err(|error| raised(py, &error))
    }

    /// Its digest, external data included.
    #[getter]
    fn sha256(&self) -> String {
        npcov::data::Digest::from(*self.0.network().digest()).to_string()
    }

    /// Its file; `None` for a model in memory.
    #[getter]
    fn file(&self) -> Option<PathBuf> {
        self.0.network().file().map(Into::into)
    }

    /// All files that it was read from: its own, then those of external data.
    #[getter]
    fn files(&self) -> Vec<PathBuf> {
        self.0.network().files().to_vec()
    }

    /// Number of classes.
    #[getter]
    fn classes(&self) -> usize {
        self.0.network().classes()
    }

    /// Shape of one input.
    #[getter]
    fn input_shape(&self) -> Vec<usize> {
        self.0.network().sample_shape().to_vec()
    }

    /// Names of classes, where somebody gave them.
    #[getter]
    fn class_names(&self) -> Option<Vec<String>> {
        self.0.class_names().map(<[String]>::to_vec)
    }

    /// Name and neurons of each path layer.
    #[getter]
    fn layers(&self) -> Vec<(String, usize)> {
        let layers = self.0.network().layers().iter();
        layers.map(|l| (l.name.clone(), l.neurons)).collect()
    }

    /// How many samples there are, read as the model reads them.
    fn count(&self, py: Python<'_>, data: &Samples) -> PyResult<usize> {
        let samples = py.detach(|| data.0.for_model(&self.0));
        let samples = samples.map_err(|error| raised(py, &error))?;
        Ok(samples.len())
    }

    /// The digest of samples, read as the model reads them.
    fn digest(&self, py: Python<'_>, data: &Samples) -> PyResult<String> {
        let (model, data) = (self.0.clone(), data.0.clone());
        let (digest, _) = work(py, None, move |_| {
            let digest = data.for_model(&model)?.digest();
            Ok(digest.map_err(npcov::Error::from)?.to_string())
        })?;
        Ok(digest)
    }

    /// The engine, as it is recorded: its name, how products are added up, kernels.
    #[getter]
    fn engine(&self) -> (String, String, String) {
        let record = self.0.network().engine().record();
        (record.engine, record.arithmetic, record.kernels)
    }

    #[pyo3(signature = (data, flags, output=None, activations=false, progress=None))]
    fn predict(
        &self,
        py: Python<'_>,
        data: &Samples,
        flags: Vec<String>,
        output: Option<PathBuf>,
        activations: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Told, Arrays)> {
        let (model, data) = (self.0.clone(), data.0.clone());
        let (found, warnings) = work(py, progress, move |listener| {
            model::predict(
                &model,
                &data,
                &flags,
                output.as_deref(),
                activations,
                listener,
            )
        })?;
        Ok((told(found.answer, warnings), arrays(found.arrays)))
    }

    #[pyo3(signature = (data, flags, output=None, progress=None))]
    fn explain(
        &self,
        py: Python<'_>,
        data: &Samples,
        flags: Vec<String>,
        output: Option<PathBuf>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Explained> {
        let (model, data) = (self.0.clone(), data.0.clone());
        let (found, warnings) = work(py, progress, move |listener| {
            model::explain(&model, &data, &flags, output.as_deref(), listener)
        })?;
        Ok(explained(found, warnings))
    }

    #[pyo3(signature = (data, flags, progress=None))]
    fn tune(
        &self,
        py: Python<'_>,
        data: &Samples,
        flags: Vec<String>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Told> {
        let (model, data) = (self.0.clone(), data.0.clone());
        let (answer, warnings): (Answer, _) = work(py, progress, move |listener| {
            model::tune(&model, &data, &flags, listener)
        })?;
        Ok(told(answer, warnings))
    }

    #[pyo3(signature = (data, flags, calibration=None, output=None, progress=None))]
    fn build(
        &self,
        py: Python<'_>,
        data: &Samples,
        flags: Vec<String>,
        calibration: Option<&Samples>,
        output: Option<PathBuf>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(DecisionGraph, Vec<String>)> {
        let (model, data) = (self.0.clone(), data.0.clone());
        let calibration = calibration.map(|data| data.0.clone());
        let (graph, warnings) = work(py, progress, move |listener| {
            let (calibration, output) = (calibration.as_ref(), output.as_deref());
            model::build(&model, &data, calibration, &flags, output, listener)
        })?;
        Ok((DecisionGraph(graph), warnings))
    }

    #[pyo3(signature = (data, flags, calibration, output, progress=None))]
    fn build_part(
        &self,
        py: Python<'_>,
        data: &Samples,
        flags: Vec<String>,
        calibration: Option<&Samples>,
        output: PathBuf,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Told> {
        let (model, data) = (self.0.clone(), data.0.clone());
        let calibration = calibration.map(|data| data.0.clone());
        let (answer, warnings) = work(py, progress, move |listener| {
            model::build_part(
                &model,
                &data,
                calibration.as_ref(),
                &flags,
                &output,
                listener,
            )
        })?;
        Ok(told(answer, warnings))
    }

    #[pyo3(signature = (data, flags, judge=None, graph=None, output=None, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "called by name, from Python")]
    fn mutate(
        &self,
        py: Python<'_>,
        data: &Samples,
        flags: Vec<String>,
        judge: Option<&Samples>,
        graph: Option<&DecisionGraph>,
        output: Option<PathBuf>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Killed, Vec<String>)> {
        let (model, data) = (self.0.clone(), data.0.clone());
        let beside = mutation::Beside {
            judge: judge.map(|data| data.0.clone()),
            graph: graph.map(|graph| graph.0.clone()),
        };
        let (state, warnings) = work(py, progress, move |listener| {
            mutation::mutate(&model, &data, &beside, &flags, output.as_deref(), listener)
        })?;
        Ok((Killed(state), warnings))
    }

    /// The arrays are those of the npz file, but for the shape of `x`, which is that of the data.
    #[pyo3(signature = (data, flags, output=None, progress=None))]
    fn attack(
        &self,
        py: Python<'_>,
        data: &Samples,
        flags: Vec<String>,
        output: Option<PathBuf>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Told, Arrays)> {
        let (model, data) = (self.0.clone(), data.0.clone());
        let ((answer, found, shape), warnings) = work(py, progress, move |listener| {
            let (answer, found) =
                model::attack(&model, &data, &flags, output.as_deref(), listener)?;
            let samples = data.for_model(&model)?;
            Ok((answer, found, samples.inputs()[0].shape().to_vec()))
        })?;
        // As the file has them.
        let distances = found
            .distances
            .iter()
            .map(|&distance| distance as f32)
            .collect();
        let arrays = [
            ("x", Array::rows(&shape, found.samples)),
            ("y", Array::whole(found.labels)),
            ("prediction", Array::whole(found.predictions)),
            ("success", Array::truths(found.success)),
            ("index", Array::whole(found.rows)),
            ("distance", Array::rows(&[], distances)),
        ];
        let arrays = arrays.map(|(name, array)| (name.to_owned(), array));
        Ok((told(answer, warnings), arrays.into()))
    }
}

pub(crate) fn explained(found: model::Numbers, warnings: Vec<String>) -> Explained {
    (
        told(found.answer, warnings),
        arrays(found.arrays),
        found.picture,
    )
}
