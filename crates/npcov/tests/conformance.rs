//! The ONNX project's own backend tests, which the wheel `onnx==1.16.2` carries as files.
//!
//! `make conformance` installs the wheel, sets `NPCOV_ONNX_TESTS` to its folder
//! `onnx/backend/test/data` and runs these tests, which are ignored otherwise: `cargo test` names them
//! as such. Asked for without the variable, they fail.
//!
//! **Which cases.** Those of the folders `node`, `simple`, `pytorch-operator` and
//! `pytorch-converted` that are written in an operator set npcov reads, with operators it knows,
//! and that are about `f32`: at least one input is, and no input or output is a float of another
//! width, a text or no tensor at all.
//!
//! **How a case is run.** A graph needs some inputs as constants (shapes, axes), and the engine
//! prefers others to be (weights). So each case is tried with every [`Binding`]; those that are
//! refused do not count, and all that are not must give the expected outputs. The case stands at
//! one place of a micro-batch, its elements in other orders stand at the other places.
//!
//! **What must hold.** A case passes when at least one binding runs and none differs. The cases
//! that no binding runs are listed with a reason in `conformance-exceptions.txt`, and so are those
//! whose expected outputs are wrong; a case that is not listed, or listed in vain, is an error.

#![allow(clippy::print_stdout, reason = "the counts are for people to read")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use npcov::engine::native::Native;
use npcov::engine::{Engine, KEEP_ALL};
use npcov::graph::{DType, Graph, OnnxModel, Specialisation, Tensor};

/// The least number of cases that must pass.
const MUST_PASS: usize = 690;

/// Allowed distance, as a part of the largest expected number.
const TOLERANCE: f32 = 1e-4;

/// ONNX's own rule for each number: `|got - expected| <= ABSOLUTE + RELATIVE * |expected|`.
const RELATIVE: f32 = 1e-3;
const ABSOLUTE: f32 = 1e-7;

/// ONNX's number of the type `f32`.
const FLOAT: i32 = 1;

/// Where the case stands among the inputs that are computed together, if there are as many.
const PLACE: usize = 5;

/// Which inputs of a case are constants of the graph, from few to all.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Binding {
    /// Integers.
    Integers,
    /// Integers and truth values.
    Discrete,
    /// All but the first `f32` input.
    Parameters,
    /// Everything: what is tested then is mostly the folding of constants.
    Everything,
}

const BINDINGS: [Binding; 4] = [
    Binding::Integers,
    Binding::Discrete,
    Binding::Parameters,
    Binding::Everything,
];

impl Binding {
    fn is_constant(self, inputs: &[(String, Tensor)], i: usize) -> bool {
        let dtype = inputs[i].1.dtype();
        match self {
            Binding::Integers => dtype == DType::I64,
            Binding::Discrete => dtype != DType::F32,
            Binding::Parameters => {
                inputs.iter().position(|(_, t)| t.dtype() == DType::F32) != Some(i)
            }
            Binding::Everything => true,
        }
    }
}

struct Case {
    name: String,
    model: OnnxModel,
    /// Name and value of each input.
    inputs: Vec<(String, Tensor)>,
    outputs: Vec<Tensor>,
}

/// The files `input_0.pb`, `input_1.pb`, ... of a folder.
fn tensors(folder: &Path, kind: &str) -> Option<Vec<Tensor>> {
    (0..)
        .map(|i| folder.join(format!("{kind}_{i}.pb")))
        .take_while(|path| path.exists())
        .map(|path| Tensor::from_onnx(&std::fs::read(path).unwrap()).ok())
        .collect()
}

/// The case in a folder, if it is one of those that this test is about.
fn case(name: String, folder: &Path) -> Option<Case> {
    let model = OnnxModel::read(folder.join("model.onnx")).ok()?;
    let declared = model.inputs();
    let outputs = model.outputs();
    let of_interest = declared.iter().chain(&outputs).all(|d| match d.dtype {
        Some(DType::F32) => d.onnx_type == FLOAT,
        Some(_) => true,
        None => false,
    });
    (of_interest && model.unknown_operators().is_empty()).then_some(())?;
    let data = folder.join("test_data_set_0");
    let inputs = tensors(&data, "input")?;
    let outputs = tensors(&data, "output")?;
    let float = |t: &Tensor| t.dtype() == DType::F32;
    (inputs.iter().any(float) && !outputs.is_empty()).then_some(())?;
    assert_eq!(declared.len(), inputs.len(), "{name}");
    let names = declared.into_iter().map(|d| d.name);
    Some(Case {
        name,
        model,
        inputs: names.zip(inputs).collect(),
        outputs,
    })
}

/// All cases.
fn cases() -> Vec<Case> {
    let root = std::env::var_os("NPCOV_ONNX_TESTS").map(PathBuf::from);
    let root = root.expect("NPCOV_ONNX_TESTS is not set; run `make conformance`, which sets it");
    let mut cases = Vec::new();
    for folder in ["node", "simple", "pytorch-operator", "pytorch-converted"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        let mut names: Vec<String> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        for name in names {
            let path = root.join(folder).join(&name);
            cases.extend(case(format!("{folder}/{name}"), &path));
        }
    }
    cases
}

/// What became of a case.
#[derive(Debug)]
enum Outcome {
    Passed,
    /// Passed, but nothing of it depends on an input: the engine had no part in it.
    Folded,
    /// Ran, with a wrong result.
    Failed(String),
    /// Was refused.
    Unsupported(String),
}

/// Judges all cases, on a few threads.
fn judge(cases: &[Case], judge: impl Fn(&Case) -> Outcome + Sync) -> BTreeMap<&str, Outcome> {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            // A panic is a failure of its case, and must not hide the others.
            let outcome = catch_unwind(AssertUnwindSafe(|| judge(case)))
                .unwrap_or_else(|_| Outcome::Failed("it panicked".to_owned()));
            outcomes.lock().unwrap().insert(case.name.as_str(), outcome);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    outcomes.into_inner().unwrap()
}

impl Case {
    /// The graph under a binding, or why there is none.
    fn graph(&self, binding: Binding) -> Result<Graph, String> {
        let mut options = Specialisation::default();
        for (i, (name, tensor)) in self.inputs.iter().enumerate() {
            if binding.is_constant(&self.inputs, i) {
                options.constants.insert(name.clone(), tensor.clone());
            } else {
                options.shapes.insert(name.clone(), tensor.shape().to_vec());
            }
        }
        self.model.specialise(&options).map_err(|e| e.to_string())
    }

    /// The outputs of a graph of this case.
    fn run(&self, graph: &Graph, binding: Binding) -> Result<Vec<Vec<f32>>, String> {
        let engine: &dyn Engine = &Native::default();
        let prepared = engine.prepare(graph, KEEP_ALL).map_err(|e| e.to_string())?;
        let together = prepared.together();
        let varying = |i: &usize| !binding.is_constant(&self.inputs, *i);
        let inputs: Vec<Vec<f32>> = (0..self.inputs.len())
            .filter(varying)
            .map(|i| self.inputs[i].1.to_f32())
            .collect();
        let run = |count: usize, place: usize| {
            let batches: Vec<Vec<f32>> = inputs
                .iter()
                .map(|sample| {
                    let mut batch = Vec::new();
                    for p in 0..count {
                        let mut other = sample.clone();
                        let turn = (p + together - place) % together;
                        other.rotate_left(turn % sample.len().max(1));
                        batch.extend(other);
                    }
                    batch
                })
                .collect();
            let batches: Vec<&[f32]> = batches.iter().map(Vec::as_slice).collect();
            let lens = prepared.output_lens();
            let mut outputs: Vec<Vec<f32>> =
                lens.iter().map(|len| vec![0.0; count * len]).collect();
            let mut slices: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
            let mut worker = prepared.worker().unwrap();
            worker
                .run(count, &batches, &mut slices, &mut |_, _| {})
                .map_err(|e| e.to_string())?;
            let own = |(y, len): (&Vec<f32>, &usize)| y[place * len..][..*len].to_vec();
            Ok::<_, String>(outputs.iter().zip(lens).map(own).collect::<Vec<_>>())
        };
        let among_others = run(together, PLACE.min(together - 1))?;
        assert_eq!(bits(&among_others), bits(&run(1, 0)?), "the place matters");
        Ok(among_others)
    }

    /// What is wrong with the outputs of a graph.
    fn compare(&self, graph: &Graph, outputs: &[Vec<f32>]) -> Result<(), String> {
        for (i, expected) in self.outputs.iter().enumerate() {
            let ty = &graph.value(graph.outputs()[i]).ty;
            if *ty != expected.ty() {
                return Err(format!("output {i} is {ty}, expected {}", expected.ty()));
            }
            let exact = expected.dtype() != DType::F32;
            close(&outputs[i], &expected.to_f32(), exact).map_err(|e| format!("output {i}{e}"))?;
        }
        Ok(())
    }

    /// Runs the case with every binding.
    fn results(&self) -> Outcome {
        let mut refused = Vec::new();
        let mut ran_on_inputs = false;
        for binding in BINDINGS {
            let ran = self.graph(binding).and_then(|graph| {
                let outputs = self.run(&graph, binding)?;
                Ok((graph, outputs))
            });
            match ran {
                Err(reason) => refused.push(reason),
                Ok((graph, outputs)) => {
                    if let Err(difference) = self.compare(&graph, &outputs) {
                        return Outcome::Failed(format!("{binding:?}: {difference}"));
                    }
                    ran_on_inputs |= binding != Binding::Everything;
                }
            }
        }
        match refused.len() == BINDINGS.len() {
            true => Outcome::Unsupported(refused.swap_remove(0)),
            false if ran_on_inputs => Outcome::Passed,
            false => Outcome::Folded,
        }
    }

    /// Writes the graph of every binding as ONNX, reads it and runs it again.
    fn round_trip(&self) -> Outcome {
        let mut passed = false;
        for binding in BINDINGS {
            let Ok(graph) = self.graph(binding) else {
                continue;
            };
            // A file gets the plain operators of a recurrent layer, whose sums round in another order.
            let plain = graph.lowered(|_| true).unwrap();
            let Ok(outputs) = self.run(&plain, binding) else {
                continue;
            };
            // An extent of zero counts as open, so it must be given.
            let shape = |&i| (graph.value(i).name.clone(), graph.shape(i).to_vec());
            let options = Specialisation {
                shapes: graph.inputs().iter().map(shape).collect(),
                ..Specialisation::default()
            };
            let again = OnnxModel::from_bytes(graph.to_onnx().unwrap())
                .and_then(|model| model.specialise(&options))
                .map_err(|e| e.to_string())
                .and_then(|again| self.run(&again, binding));
            match again {
                Err(reason) => return Outcome::Failed(format!("{binding:?}: {reason}")),
                Ok(again) if bits(&again) != bits(&outputs) => {
                    return Outcome::Failed(format!("{binding:?}: {again:?} {outputs:?}"));
                }
                Ok(_) => passed = true,
            }
        }
        match passed {
            true => Outcome::Passed,
            false => Outcome::Unsupported(String::new()),
        }
    }
}

fn bits(outputs: &[Vec<f32>]) -> Vec<u32> {
    outputs.concat().iter().map(|x| x.to_bits()).collect()
}

fn close(got: &[f32], expected: &[f32], exact: bool) -> Result<(), String> {
    let finite = expected.iter().filter(|x| x.is_finite());
    let largest = finite.fold(0.0_f32, |max, x| max.max(x.abs()));
    for (at, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let same = got == expected || (got.is_nan() && expected.is_nan());
        let allowed = (TOLERANCE * largest).min(ABSOLUTE + RELATIVE * expected.abs());
        // Written so that NaN is never close.
        if !(same || !exact && (got - expected).abs() <= allowed) {
            return Err(format!(", element {at}: got {got}, expected {expected}"));
        }
    }
    Ok(())
}

/// How the reason of a case begins that runs, and whose expected outputs are wrong.
const WRONG: &str = "expected outputs are wrong";

/// The cases that need not pass, with the reasons.
fn exceptions() -> BTreeMap<&'static str, &'static str> {
    include_str!("conformance-exceptions.txt")
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| {
            line.split_once(": ")
                .unwrap_or_else(|| panic!("`{line}` gives no reason"))
        })
        .collect()
}

#[test]
#[ignore = "needs the ONNX project's files: run `make conformance`"]
fn backend_cases_have_the_expected_results() {
    let cases = cases();
    let exceptions = exceptions();
    let outcomes = judge(&cases, Case::results);
    let (mut passed, mut folded, mut failed, mut unsupported, mut wrong) = (0, 0, 0, 0, 0);
    let mut complaints = Vec::new();
    for (name, outcome) in &outcomes {
        let exception = exceptions.get(name);
        let is_wrong = exception.is_some_and(|reason| reason.starts_with(WRONG));
        match outcome {
            Outcome::Passed | Outcome::Folded => {
                passed += 1;
                folded += usize::from(matches!(outcome, Outcome::Folded));
                if exception.is_some() {
                    complaints.push(format!("{name}: passes, but is listed"));
                }
            }
            Outcome::Failed(_) if is_wrong => wrong += 1,
            Outcome::Failed(reason) => {
                failed += 1;
                complaints.push(format!("{name}: failed: {reason}"));
            }
            Outcome::Unsupported(reason) => {
                unsupported += 1;
                if exception.is_none() || is_wrong {
                    complaints.push(format!("{name}: unsupported: {reason}"));
                }
            }
        }
    }
    for name in exceptions.keys() {
        if !outcomes.contains_key(name) {
            complaints.push(format!("{name}: listed, but no case"));
        }
    }
    println!(
        "ONNX backend tests: {passed} passed ({folded} of them on constants only), \
         {failed} failed, {unsupported} unsupported, {wrong} with wrong expected outputs"
    );
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    assert!(passed >= MUST_PASS, "{passed} of {MUST_PASS} passed");
}

#[test]
#[ignore = "needs the ONNX project's files: run `make conformance`"]
fn written_graphs_give_the_same_bits() {
    let cases = cases();
    let outcomes = judge(&cases, Case::round_trip);
    let complaints: Vec<String> = outcomes
        .iter()
        .filter_map(|(name, outcome)| match outcome {
            Outcome::Failed(reason) => Some(format!("{name}: {reason}")),
            _ => None,
        })
        .collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}
