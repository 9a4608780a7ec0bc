//! What scikit-learn's converters put around a network (domain `ai.onnx.ml`): steps that prepare
//! columns of a table, linear models, and what makes labels of scores.

use super::reduce::reduce;
use super::{ArgMax, Binary, Gather, Gemm, Import, Op, ReduceKind, Softmax, Unary};
use crate::ValueId;
use crate::builder::{Builder, NodeContext};
use crate::classifier::second_of_two;
use crate::error::{NodeErrorKind, OpError};
use crate::tensor::{DType, Tensor};

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "Scaler" => Some(import_scaler),
        "Normalizer" => Some(import_normalizer),
        "Imputer" => Some(import_imputer),
        "Binarizer" => Some(import_binarizer),
        "OneHotEncoder" => Some(import_one_hot),
        "FeatureVectorizer" => Some(import_feature_vectorizer),
        "ArrayFeatureExtractor" => Some(import_extractor),
        "LabelEncoder" => Some(import_label_encoder),
        "LinearClassifier" => Some(import_linear_classifier),
        "LinearRegressor" => Some(import_linear_regressor),
        "ZipMap" => Some(import_zip_map),
        _ => None,
    }
}

/// Why an operator of a model that is no network cannot be imported.
pub(crate) fn no_network(domain: &str, op_type: &str) -> Option<NodeErrorKind> {
    match (domain, op_type) {
        ("ai.onnx.ml", "SVMClassifier" | "SVMRegressor") => Some(NodeErrorKind::SupportVectors),
        ("ai.onnx.ml", _) if op_type.starts_with("TreeEnsemble") => Some(NodeErrorKind::Trees),
        _ => None,
    }
}

/// `(x - offset) * scale`, each one number or one per column.
fn import_scaler(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let mut y = b.cast(node.input(0)?, DType::F32)?;
    for (name, f) in [("offset", Binary::Sub), ("scale", Binary::Mul)] {
        if let Some(numbers) = node.attributes.floats(name)? {
            let numbers = b.tensor(Tensor::vector(numbers));
            y = b.binary(f, y, numbers)?;
        }
    }
    Ok(vec![y])
}

/// Each row over its largest element, the sum of its absolute values or its length. A row of zeros
/// stays.
fn import_normalizer(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let kind = match node.attributes.string("norm", "MAX")?.as_str() {
        "MAX" => ReduceKind::Max,
        "L1" => ReduceKind::L1,
        "L2" => ReduceKind::L2,
        other => return Err(OpError::invalid(format!("`norm` is `{other}`"))),
    };
    let x = b.cast(node.input(0)?, DType::F32)?;
    let last = b.rank(x).checked_sub(1);
    let last = last.ok_or_else(|| OpError::invalid("the input has no axis"))?;
    // Probabilities add up to one as they are.
    let softmax = Op::Softmax(Softmax {
        axis: last,
        log: false,
    });
    let is_softmax = b.graph.producer(x).is_some_and(|node| node.op == softmax);
    if kind == ReduceKind::L1 && (is_softmax || second_of_two(b.graph, x).is_some()) {
        return Ok(vec![x]);
    }
    let size = reduce(b, kind, vec![last], true, x)?;
    let (nothing, one) = (b.scalar(0.0), b.scalar(1.0));
    let is_zero = b.binary(Binary::Equal, size, nothing)?;
    let size = b.push(Op::Where, &[is_zero, one, size])?;
    Ok(vec![b.binary(Binary::Div, x, size)?])
}

/// Missing values by others, one number or one per column.
fn import_imputer(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let (value, missing) = match b.dtype(x) {
        DType::F32 => (
            node.attributes
                .floats("imputed_value_floats")?
                .map(Tensor::vector),
            Tensor::scalar(node.attributes.float("replaced_value_float", 0.0)?),
        ),
        DType::I64 => (
            node.attributes
                .ints("imputed_value_int64s")?
                .map(Tensor::ints),
            Tensor::ints(vec![node.attributes.int("replaced_value_int64", 0)?]),
        ),
        DType::Bool => return Err(OpError::invalid("the input is of type bool")),
    };
    // Of the other element type, which does not occur here.
    node.attributes.ignore(&[
        "imputed_value_floats",
        "imputed_value_int64s",
        "replaced_value_float",
        "replaced_value_int64",
    ]);
    let value = value.ok_or_else(|| OpError::invalid("it has no value to impute"))?;
    let is_missing = match missing.as_f32() {
        Some(&[number]) if number.is_nan() => b.unary(Unary::IsNaN, x)?,
        _ => {
            let missing = b.tensor(missing);
            b.binary(Binary::Equal, x, missing)?
        }
    };
    let value = b.tensor(value);
    Ok(vec![b.push(Op::Where, &[is_missing, value, x])?])
}

/// 1 above a threshold, else 0.
fn import_binarizer(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let threshold = node.attributes.float("threshold", 0.0)?;
    let x = b.cast(node.input(0)?, DType::F32)?;
    let threshold = b.scalar(threshold);
    let y = b.binary(Binary::Greater, x, threshold)?;
    Ok(vec![b.cast(y, DType::F32)?])
}

/// For each number, a 1 at its place in a list of categories: a new last axis. One that is not listed is all zeros,
/// whatever `zeros` says: an exporter's runtime would refuse it.
fn import_one_hot(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let categories = node.attributes.ints("cats_int64s")?;
    node.attributes.ignore(&["cats_strings", "zeros"]);
    let categories = categories.filter(|c| !c.is_empty()).ok_or_else(|| {
        OpError::unsupported("its categories are texts; encode them as numbers before the model")
    })?;
    let x = b.cast(node.input(0)?, DType::F32)?;
    let mut shape = b.shape(x);
    shape.push(1);
    let x = b.push(Op::Reshape(shape), &[x])?;
    let categories = b.tensor(Tensor::ints(categories));
    let categories = b.cast(categories, DType::F32)?;
    let y = b.binary(Binary::Equal, x, categories)?;
    Ok(vec![b.cast(y, DType::F32)?])
}

/// Columns side by side.
fn import_feature_vectorizer(
    node: &NodeContext<'_>,
    b: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    node.attributes.ignore(&["inputdimensions"]);
    let columns = node
        .variadic()?
        .into_iter()
        .map(|x| b.cast(x, DType::F32))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(vec![b.push(Op::Concat(1), &columns)?])
}

/// Elements along the last axis.
fn import_extractor(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let (x, places) = (node.input(0)?, node.input(1)?);
    let count = b.shape(places).iter().product();
    let places = b.reshape(places, [count])?;
    let axis = b.rank(x).checked_sub(1);
    let axis = axis.ok_or_else(|| OpError::invalid("the input has no axis"))?;
    let y = b.push(Op::Gather(Gather { axis }), &[x, places])?;
    Ok(vec![match axis {
        0 => b.reshape(y, [1, count])?,
        _ => y,
    }])
}

/// Other numbers for numbers, by a list of pairs.
fn import_label_encoder(
    node: &NodeContext<'_>,
    b: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let attributes = &node.attributes;
    let listed = |kind: &str| -> Result<Option<Tensor>, OpError> {
        let ints = attributes
            .ints(&format!("{kind}_int64s"))?
            .map(Tensor::ints);
        let floats = attributes.floats(&format!("{kind}_floats"))?;
        Ok(ints.or(floats.map(Tensor::vector)))
    };
    let texts = || OpError::unsupported("it is about texts");
    let keys = listed("keys")?.ok_or_else(texts)?;
    let values = listed("values")?.ok_or_else(texts)?;
    let default = match values.as_i64() {
        Some(_) => Tensor::ints(vec![attributes.int("default_int64", -1)?]),
        None => Tensor::vector(vec![attributes.float("default_float", 0.0)?]),
    };
    attributes.ignore(&["default_string", "default_int64", "default_float"]);
    let (keys, places) = (keys.to_f32(), values.to_f32());
    if keys.len() != places.len() {
        return Err(OpError::invalid("keys and values are not of one number"));
    }
    let dtype = values.ty().dtype;
    let x = b.cast(node.input(0)?, DType::F32)?;
    let shape = b.shape(x);
    let default = b.tensor(default);
    let default = b.cast(default, DType::F32)?;
    let mut y = b.push(Op::Expand(shape), &[default])?;
    // The first pair of a key is the one that counts.
    for (key, value) in keys.into_iter().zip(places).rev() {
        let (key, value) = (b.scalar(key), b.scalar(value));
        let is_key = b.binary(Binary::Equal, x, key)?;
        y = b.push(Op::Where, &[is_key, value, y])?;
    }
    Ok(vec![b.cast(y, dtype)?])
}

/// Of the scores of two classes, the second one's, where the first one's is its negative.
fn single_score(mut weights: Vec<f32>, mut intercepts: Vec<f32>) -> (Vec<f32>, Vec<f32>) {
    let mirrored = |numbers: &[f32]| {
        let (first, second) = numbers.split_at(numbers.len() / 2);
        first.len() == second.len() && first.iter().zip(second).all(|(a, b)| *a == -b)
    };
    if mirrored(&weights) && mirrored(&intercepts) {
        weights.drain(..weights.len() / 2);
        intercepts.drain(..intercepts.len() / 2);
    }
    (weights, intercepts)
}

/// `x w' + intercepts`, a row of `w` for each of `rows` scores; with `sigmoid`, a sigmoid follows.
fn scores(
    node: &NodeContext<'_>,
    b: &mut Builder<'_>,
    rows: Option<usize>,
    sigmoid: bool,
) -> Result<ValueId, OpError> {
    let x = b.cast(node.input(0)?, DType::F32)?;
    let &[_, columns] = &b.shape(x)[..] else {
        return Err(OpError::unsupported("the input is no table"));
    };
    let mut weights = node.attributes.floats("coefficients")?.unwrap_or_default();
    let mut intercepts = node.attributes.floats("intercepts")?.unwrap_or_default();
    if sigmoid && weights.len() == columns.saturating_mul(2) {
        (weights, intercepts) = single_score(weights, intercepts);
    }
    let rows = rows.unwrap_or_else(|| weights.len() / columns.max(1));
    let weights = Tensor::vector(weights).reshaped([rows, columns]);
    let weights = weights.ok_or_else(|| {
        OpError::invalid(format!("its coefficients are not for {columns} columns"))
    })?;
    let mut inputs = vec![x, b.tensor(weights)];
    if !intercepts.is_empty() {
        inputs.push(b.tensor(Tensor::vector(intercepts)));
    }
    let gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    };
    b.push(Op::Gemm(gemm), &inputs)
}

/// Labels and scores.
fn import_linear_classifier(
    node: &NodeContext<'_>,
    b: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    node.attributes
        .ignore(&["multi_class", "classlabels_strings"]);
    let labels = node.attributes.ints("classlabels_ints")?;
    let transform = node.attributes.string("post_transform", "NONE")?;
    let z = scores(node, b, None, transform == "LOGISTIC")?;
    let single = b.shape(z)[1] == 1;
    let y = match (transform.as_str(), single) {
        ("NONE", false) => z,
        ("SOFTMAX", false) => {
            let softmax = Softmax {
                axis: 1,
                log: false,
            };
            b.push(Op::Softmax(softmax), &[z])?
        }
        ("LOGISTIC", false) => b.unary(Unary::Sigmoid, z)?,
        // One score tells two classes apart.
        ("NONE", true) => {
            let other = b.unary(Unary::Neg, z)?;
            b.push(Op::Concat(1), &[other, z])?
        }
        ("LOGISTIC", true) => {
            let p = b.unary(Unary::Sigmoid, z)?;
            let one = b.scalar(1.0);
            let other = b.binary(Binary::Sub, one, p)?;
            b.push(Op::Concat(1), &[other, p])?
        }
        (other, _) => {
            return Err(OpError::unsupported(format!(
                "`post_transform` is `{other}`"
            )));
        }
    };
    let label = match (node.used_outputs.first(), labels) {
        (Some(true), Some(labels)) => {
            let arg = ArgMax {
                axis: 1,
                keep_dims: false,
                select_last: false,
                minimum: false,
            };
            let place = b.push(Op::ArgMax(arg), &[y])?;
            let labels = b.tensor(Tensor::ints(labels));
            b.push(Op::Gather(Gather { axis: 0 }), &[labels, place])?
        }
        (Some(true), None) => return Err(OpError::unsupported("its labels are texts")),
        // Nobody looks at it.
        _ => y,
    };
    Ok(vec![label, y])
}

fn import_linear_regressor(
    node: &NodeContext<'_>,
    b: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let transform = node.attributes.string("post_transform", "NONE")?;
    if transform != "NONE" {
        let message = format!("`post_transform` is `{transform}`");
        return Err(OpError::unsupported(message));
    }
    let targets = node.attributes.int("targets", 1)?;
    let targets =
        usize::try_from(targets).map_err(|_| OpError::invalid(format!("{targets} targets")))?;
    Ok(vec![scores(node, b, Some(targets), false)?])
}

/// A dictionary from labels to probabilities for each input: here, the probabilities.
fn import_zip_map(node: &NodeContext<'_>, _: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    node.attributes
        .ignore(&["classlabels_int64s", "classlabels_strings"]);
    Ok(vec![node.input(0)?])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, assert_close, floats, ints};
    use super::*;

    /// Rows by hand: `(1 - 0.5) * 2`, `(2 - 1) * 4`.
    #[test]
    fn columns_are_scaled() {
        let got = Case::new("Scaler", 1)
            .constant(floats(&[1, 2], &[1.0, 2.0]))
            .floats("offset", &[0.5, 1.0])
            .floats("scale", &[2.0, 4.0])
            .value();
        assert_eq!(got, floats(&[1, 2], &[1.0, 4.0]));
    }

    #[test]
    fn rows_are_normalised() {
        let rows = || floats(&[2, 2], &[3.0, -4.0, 0.0, 0.0]);
        for (norm, expected) in [
            ("MAX", [1.0, -4.0 / 3.0]),
            ("L1", [3.0 / 7.0, -4.0 / 7.0]),
            ("L2", [0.6, -0.8]),
        ] {
            let got = Case::new("Normalizer", 1)
                .constant(rows())
                .string("norm", norm)
                .value();
            let expected = floats(&[2, 2], &[expected[0], expected[1], 0.0, 0.0]);
            assert_close(&got, &expected, 1e-6);
        }
    }

    #[test]
    fn missing_values_are_imputed() {
        let case = |missing| {
            Case::new("Imputer", 1)
                .constant(floats(&[1, 3], &[f32::NAN, 2.0, -1.0]))
                .floats("imputed_value_floats", &[7.0, 8.0, 9.0])
                .float("replaced_value_float", missing)
        };
        let got = case(f32::NAN).value();
        assert_eq!(got, floats(&[1, 3], &[7.0, 2.0, -1.0]));
        let got = case(-1.0).value().to_f32();
        assert!(got[0].is_nan());
        assert_eq!(got[1..], [2.0, 9.0]);
    }

    #[test]
    fn numbers_above_a_threshold_are_ones() {
        let got = Case::new("Binarizer", 1)
            .constant(floats(&[1, 3], &[0.4, 0.5, 0.6]))
            .float("threshold", 0.5)
            .value();
        assert_eq!(got, floats(&[1, 3], &[0.0, 0.0, 1.0]));
    }

    #[test]
    fn categories_become_places() {
        let case = || Case::new("OneHotEncoder", 1).constant(ints(&[3, 1], &[7, 2, 5]));
        let got = case().ints("cats_int64s", &[2, 7]).int("zeros", 1).value();
        let expected = [0.0, 1.0, 1.0, 0.0, 0.0, 0.0];
        assert_eq!(got, floats(&[3, 1, 2], &expected));
        let texts = case().error();
        assert!(texts.contains("its categories are texts"), "{texts}");
    }

    /// The example of the ONNX documentation of ArrayFeatureExtractor.
    #[test]
    fn columns_are_extracted() {
        let x: Vec<f32> = (0..12).map(|x| x as f32).collect();
        let got = Case::new("ArrayFeatureExtractor", 1)
            .constant(floats(&[3, 4], &x))
            .constant(ints(&[2], &[0, 1]))
            .value();
        assert_eq!(got, floats(&[3, 2], &[0.0, 1.0, 4.0, 5.0, 8.0, 9.0]));
        let row = Case::new("ArrayFeatureExtractor", 1)
            .constant(ints(&[3], &[5, 6, 7]))
            .constant(ints(&[1, 2], &[2, 0]))
            .value();
        assert_eq!(row, ints(&[1, 2], &[7, 5]));
    }

    #[test]
    fn labels_are_encoded_unless_they_are_texts() {
        let case = || Case::new("LabelEncoder", 2).constant(ints(&[3], &[4, 9, 5]));
        let got = case()
            .ints("keys_int64s", &[5, 4, 4])
            .ints("values_int64s", &[50, 40, 41])
            .value();
        assert_eq!(got, ints(&[3], &[40, -1, 50]));
        let got = case()
            .ints("keys_int64s", &[5])
            .floats("values_floats", &[0.5])
            .float("default_float", 2.0)
            .value();
        assert_eq!(got, floats(&[3], &[2.0, 2.0, 0.5]));
        let texts = case().ints("keys_int64s", &[5]).error();
        assert_eq!(texts, "unsupported: it is about texts");
    }

    #[test]
    fn a_linear_classifier_has_scores_and_a_softmax_is_normalised_already() {
        let case = |transform| {
            Case::new("LinearClassifier", 1)
                .input(DType::F32, &[1, 2])
                .floats("coefficients", &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0])
                .floats("intercepts", &[0.0, 0.1, 0.2])
                .ints("classlabels_ints", &[7, 8, 9])
                .string("post_transform", transform)
        };
        let names = |case: Case| -> Vec<&'static str> {
            let imported = case.import().unwrap();
            imported.ops().iter().map(|op| op.name()).collect()
        };
        let labels = ["Gemm", "Softmax", "ArgMax", "Gather"];
        assert_eq!(names(case("SOFTMAX").outputs(2)), labels);
        assert_eq!(names(case("NONE").unused()), ["Gemm"]);
        assert_eq!(
            case("PROBIT").error(),
            "unsupported: `post_transform` is `PROBIT`"
        );
    }

    /// scikit-learn writes the score of two classes twice, once with the other sign.
    #[test]
    fn the_scores_of_two_classes_are_one() {
        let ops = |weights: &[f32]| -> Vec<&'static str> {
            let case = Case::new("LinearClassifier", 1)
                .input(DType::F32, &[1, 2])
                .floats("coefficients", weights)
                .floats("intercepts", &[-0.5, 0.5])
                .ints("classlabels_ints", &[0, 1])
                .string("post_transform", "LOGISTIC")
                .unused();
            let imported = case.import().unwrap();
            imported.ops().iter().map(|op| op.name()).collect()
        };
        assert_eq!(
            ops(&[1.0, -2.0, -1.0, 2.0]),
            ["Gemm", "Sigmoid", "Sub", "Concat"]
        );
        assert_eq!(ops(&[1.0, -2.0, -1.0, 3.0]), ["Gemm", "Sigmoid"]);
    }

    #[test]
    fn a_linear_regressor_is_one_product() {
        let case = |columns| {
            Case::new("LinearRegressor", 1)
                .input(DType::F32, &[1, columns])
                .floats("coefficients", &[1.0, 2.0, 3.0, 4.0])
                .floats("intercepts", &[0.5, 0.25])
                .int("targets", 2)
        };
        assert_eq!(case(2).import().unwrap().ty().shape, [1, 2]);
        assert_eq!(case(3).error(), "its coefficients are not for 3 columns");
    }

    #[test]
    fn trees_are_told_from_what_is_unknown() {
        let why = |op_type| no_network("ai.onnx.ml", op_type);
        for trees in ["TreeEnsembleClassifier", "TreeEnsemble"] {
            assert_eq!(why(trees), Some(NodeErrorKind::Trees));
        }
        assert_eq!(why("SVMClassifier"), Some(NodeErrorKind::SupportVectors));
        assert_eq!(why("Scaler"), None);
        assert_eq!(no_network("", "TreeEnsemble"), None);
    }
}
