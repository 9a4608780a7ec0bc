//! Graphs, run by ONNX Runtime.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use npcov_engine::{Buffers, Engine, EngineError, EngineRecord, Prepared, Shown, Worker};
use npcov_graph::{DType, Graph};
use ort::environment::Environment;
use ort::session::builder::GraphOptimizationLevel;
use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, Tensor, TensorRef};

use crate::error::OnnxRuntimeError;
use crate::library::Library;
use crate::provider::Provider;

/// The engine's name.
const NAME: &str = "onnxruntime";

/// Sets of inputs that a worker takes at a time. They are computed one by one, so nothing depends on it.
const TOGETHER: usize = 16;

/// ONNX Runtime.
#[derive(Clone)]
pub struct OnnxRuntime {
    provider: Provider,
    environment: Environment,
    version: String,
}

impl OnnxRuntime {
    /// Loads its library from a place, or from where it is [found](Library::find).
    pub fn new(
        provider: Provider,
        library: Option<&Path>,
    ) -> Result<OnnxRuntime, OnnxRuntimeError> {
        let library = Library::find(library)?;
        let engine = OnnxRuntime {
            provider,
            environment: library.load()?,
            version: version(&library),
        };
        // A provider that the library or the machine lacks is known now, not when the first program is run.
        engine.builder()?;
        Ok(engine)
    }

    fn builder(&self) -> Result<ort::session::builder::SessionBuilder, OnnxRuntimeError> {
        let refused = |error: &dyn fmt::Display| OnnxRuntimeError::Refused(error.to_string());
        let builder = Session::builder(&self.environment).map_err(|e| refused(&e))?;
        let builder = builder.with_optimization_level(GraphOptimizationLevel::Level3);
        let builder = builder.map_err(|e| refused(&e))?.with_intra_threads(1);
        let builder = builder.map_err(|e| refused(&e))?.with_inter_threads(1);
        let builder = builder.map_err(|e| refused(&e))?;
        let builder = builder.with_deterministic_compute(true);
        let mut builder = builder.map_err(|e| refused(&e))?;
        if let Some(provider) = self.provider.dispatch() {
            builder = builder
                .with_execution_providers([provider])
                .map_err(|e| refused(&e))?;
        }
        Ok(builder)
    }
}

/// The library's version: as its file is called, or the revision that it was built from.
fn version(library: &Library) -> String {
    let file = library.path().file_name().unwrap_or_default();
    let file = file.to_string_lossy();
    let number = file.split_once(".so.").map(|(_, number)| number);
    if let Some(number) = number.filter(|number| number.contains('.')) {
        return number.to_owned();
    }
    let mut words = ort::info().split([',', ' ']);
    let revision = words.find_map(|word| word.strip_prefix("git-commit-id="));
    revision.unwrap_or("of unknown version").to_owned()
}

impl fmt::Debug for OnnxRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnnxRuntime")
            .field("provider", &self.provider)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

fn failed(error: impl fmt::Display) -> EngineError {
    EngineError::Failed {
        engine: NAME,
        reason: error.to_string(),
    }
}

impl Engine for OnnxRuntime {
    fn name(&self) -> &'static str {
        NAME
    }

    fn record(&self) -> EngineRecord {
        EngineRecord {
            engine: NAME.to_owned(),
            // What is added up in which order is the library's own business.
            arithmetic: format!("{NAME} {} {}", self.version, self.provider),
            kernels: NAME.to_owned(),
            cpu: self.provider.to_string(),
            together: TOGETHER,
        }
    }

    fn prepare(&self, graph: &Graph, kept: usize) -> Result<Box<dyn Prepared>, EngineError> {
        let names = (0..graph.outputs().len()).map(|i| format!("npcov.{i}"));
        let names: Vec<String> = names.collect();
        let model = graph.to_onnx_with(&names).map_err(failed)?;
        let port = |&value| {
            let ty = &graph.value(value).ty;
            (ty.shape.clone(), ty.dtype)
        };
        let program = Program {
            engine: self.clone(),
            buffers: Buffers::of(graph, kept, TOGETHER),
            inputs: graph.inputs().iter().map(port).collect(),
            names,
            model,
        };
        // What ONNX Runtime does not understand is an error here.
        program.session()?;
        Ok(Box::new(Runnable(Arc::new(program))))
    }
}

/// A graph as ONNX.
struct Program {
    engine: OnnxRuntime,
    buffers: Buffers,
    /// Shape and type of each input.
    inputs: Vec<(Vec<usize>, DType)>,
    names: Vec<String>,
    model: Vec<u8>,
}

impl Program {
    fn session(&self) -> Result<Session, EngineError> {
        let mut builder = self.engine.builder().map_err(failed)?;
        builder.commit_from_memory(&self.model).map_err(failed)
    }
}

struct Runnable(Arc<Program>);

impl Prepared for Runnable {
    fn buffers(&self) -> &Buffers {
        &self.0.buffers
    }

    /// ONNX Runtime does not say what it will take; its copy of the weights is the part that is known.
    fn worker_bytes(&self) -> usize {
        self.0.model.len()
    }

    fn worker(&self) -> Result<Box<dyn Worker>, EngineError> {
        Ok(Box::new(SessionWorker {
            session: self.0.session()?,
            program: self.0.clone(),
            shown: Vec::new(),
        }))
    }
}

struct SessionWorker {
    session: Session,
    program: Arc<Program>,
    /// A value that is shown.
    shown: Vec<f32>,
}

impl Worker for SessionWorker {
    fn run(
        &mut self,
        count: usize,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        show: &mut dyn FnMut(usize, Shown<'_>),
    ) -> Result<(), EngineError> {
        let SessionWorker {
            session,
            program,
            shown,
        } = self;
        program.buffers.check(count, inputs, outputs)?;
        for set in 0..count {
            let mut values = Vec::new();
            for ((shape, dtype), (numbers, len)) in
                (program.inputs.iter()).zip(inputs.iter().zip(&program.buffers.inputs))
            {
                values.push(value(shape, *dtype, &numbers[set * len..][..*len])?);
            }
            let found = session.run(&values[..]).map_err(failed)?;
            for (i, name) in program.names.iter().enumerate() {
                let result = found
                    .get(name)
                    .ok_or_else(|| failed("an output is missing"))?;
                match outputs.get_mut(i) {
                    Some(output) => {
                        let len = program.buffers.outputs[i];
                        read(result, &mut output[set * len..][..len])?;
                    }
                    None => {
                        shown.resize(result.shape().num_elements(), 0.0);
                        read(result, shown)?;
                        show(i - outputs.len(), Shown::new(shown, 1, 1));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Numbers as a tensor of the type that an input has.
fn value<'a>(
    shape: &[usize],
    dtype: DType,
    numbers: &'a [f32],
) -> Result<SessionInputValue<'a>, EngineError> {
    let shape = shape.to_vec();
    Ok(match dtype {
        DType::F32 => TensorRef::from_array_view((shape, numbers))
            .map_err(failed)?
            .into(),
        DType::I64 => {
            let whole: Vec<i64> = numbers.iter().map(|&x| x as i64).collect();
            Tensor::from_array((shape, whole)).map_err(failed)?.into()
        }
        DType::Bool => {
            let truths: Vec<bool> = numbers.iter().map(|&x| x != 0.0).collect();
            Tensor::from_array((shape, truths)).map_err(failed)?.into()
        }
    })
}

/// A tensor of any type as numbers.
fn read(value: &DynValue, out: &mut [f32]) -> Result<(), EngineError> {
    if let Ok((_, numbers)) = value.try_extract_tensor::<f32>() {
        fill(out, numbers, |x| x)
    } else if let Ok((_, numbers)) = value.try_extract_tensor::<i64>() {
        fill(out, numbers, |x| x as f32)
    } else {
        let (_, truths) = value.try_extract_tensor::<bool>().map_err(failed)?;
        fill(out, truths, |x| f32::from(u8::from(x)))
    }
}

fn fill<T: Copy>(
    out: &mut [f32],
    numbers: &[T],
    number: impl Fn(T) -> f32,
) -> Result<(), EngineError> {
    if out.len() != numbers.len() {
        return Err(EngineError::Buffer {
            what: "an output of ONNX Runtime".to_owned(),
            got: numbers.len(),
            expected: out.len(),
        });
    }
    for (out, &x) in out.iter_mut().zip(numbers) {
        *out = number(x);
    }
    Ok(())
}
