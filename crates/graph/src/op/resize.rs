//! Interpolation along axes.

use super::structure::{to_i64, to_usize};
use super::{Import, Op, arguments, require_float};
use crate::ValueId;
use crate::builder::{Builder, NodeContext, axes};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::TensorType;

/// Elements of an axis before and after it is resized, together. There are a few taps for each.
const LONGEST_AXES: usize = 1 << 20;

/// How the elements between the given ones are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Interpolation {
    /// The nearest element.
    Nearest(NearestRounding),
    /// Linear in each axis.
    Linear,
    /// Cubic in each axis, with the given coefficient.
    Cubic {
        /// Coefficient `a` of the cubic kernel.
        coefficient: f32,
        /// Whether taps outside the input are left out and the weights renormalised.
        exclude_outside: bool,
    },
}

/// Which element is the nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NearestRounding {
    /// Halves go down.
    RoundPreferFloor,
    /// Halves go up.
    RoundPreferCeil,
    /// Always down.
    Floor,
    /// Always up.
    Ceil,
}

/// How an output coordinate becomes an input coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinates {
    /// Centres of pixels coincide.
    HalfPixel,
    /// As `HalfPixel`, with the image's centre kept when the extent was rounded.
    HalfPixelSymmetric,
    /// As `HalfPixel`, but 0 when the output has one element.
    PytorchHalfPixel,
    /// First and last elements coincide.
    AlignCorners,
    /// Plain division by the scale.
    Asymmetric,
}

/// One axis of a resize.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisMap {
    /// The axis.
    pub axis: usize,
    /// Extent of the output.
    pub output: usize,
    /// Factor from input to output as the model gives it; not always the quotient of the extents.
    pub scale: f32,
}

/// Separable interpolation.
#[derive(Clone, Debug, PartialEq)]
pub struct Resize {
    /// The axes that change, in ascending order.
    pub axes: Vec<AxisMap>,
    /// How elements are made.
    pub interpolation: Interpolation,
    /// How coordinates are related.
    pub coordinates: Coordinates,
    /// Whether an axis that shrinks is smoothed: every input element then counts somewhere.
    pub antialias: bool,
}

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "Resize" => Some(import_resize),
        "Upsample" => Some(import_upsample),
        _ => None,
    }
}

impl Resize {
    /// For each output position along an axis of extent `input`: the input positions it is a
    /// weighted sum of, and their weights. Positions beyond the border are the border's.
    ///
    /// ```
    /// use npcov_graph::op::{AxisMap, Coordinates, Interpolation, Resize};
    ///
    /// let map = AxisMap { axis: 2, output: 4, scale: 2.0 };
    /// let resize = Resize {
    ///     axes: vec![map.clone()],
    ///     interpolation: Interpolation::Linear,
    ///     coordinates: Coordinates::HalfPixel,
    ///     antialias: false,
    /// };
    /// let taps = resize.taps(&map, 2);
    /// assert_eq!(taps[0], [(0, 1.0)]);
    /// assert_eq!(taps[1], [(0, 0.75), (1, 0.25)]);
    /// ```
    pub fn taps(&self, map: &AxisMap, input: usize) -> Vec<Vec<(usize, f32)>> {
        if input == 0 {
            return vec![Vec::new(); map.output];
        }
        let coordinate = |i| self.coordinate(map, input, i);
        (0..map.output)
            .map(|i| gather_taps(&self.weights(coordinate(i), map.scale, input), input))
            .collect()
    }

    /// The input coordinate of an output position: ONNX's `x_original` of `x_resized`.
    fn coordinate(&self, map: &AxisMap, input: usize, position: usize) -> f64 {
        let (n, x) = (input as f64, position as f64);
        // A scale that was computed from the extents has lost bits: rounding would be wrong by
        // one element where the true coordinate is whole or a half. The extents have not.
        let exact = map.output as f64 / n;
        let scale =
            match (f64::from(map.scale) - exact).abs() <= exact * 2.0 * f64::from(f32::EPSILON) {
                true => exact,
                false => f64::from(map.scale),
            };
        // The output's extent before it was rounded to a whole number.
        let extent = scale * n;
        // x / scale, dividing once.
        let divided = |x: f64| {
            if scale == exact {
                x * n / map.output as f64
            } else {
                x / scale
            }
        };
        match self.coordinates {
            Coordinates::HalfPixel => divided(x + 0.5) - 0.5,
            Coordinates::HalfPixelSymmetric => {
                let offset = n / 2.0 * (1.0 - map.output as f64 / extent);
                offset + divided(x + 0.5) - 0.5
            }
            Coordinates::PytorchHalfPixel | Coordinates::AlignCorners if map.output == 1 => 0.0,
            Coordinates::PytorchHalfPixel => divided(x + 0.5) - 0.5,
            Coordinates::AlignCorners => {
                let last = if scale == exact {
                    map.output as f64
                } else {
                    extent
                } - 1.0;
                x * (n - 1.0) / last
            }
            Coordinates::Asymmetric => divided(x),
        }
    }

    /// Positions, which may lie outside of the input, and weights at a coordinate.
    fn weights(&self, x: f64, scale: f32, input: usize) -> Vec<(f64, f64)> {
        // To smooth, the kernel is stretched until neighbouring outputs share their inputs.
        let shrink = match self.antialias {
            true => f64::from(scale).min(1.0),
            false => 1.0,
        };
        match self.interpolation {
            Interpolation::Nearest(rounding) => vec![(rounding.round(x), 1.0)],
            Interpolation::Linear if shrink < 1.0 => {
                let mut taps = kernel(x, 1.0, shrink, |x| 1.0 - x.abs());
                normalise(&mut taps);
                taps
            }
            Interpolation::Linear => {
                let left = x.floor();
                vec![(left, 1.0 - (x - left)), (left + 1.0, x - left)]
            }
            Interpolation::Cubic {
                coefficient,
                exclude_outside,
            } => {
                let mut taps = kernel(x, 2.0, shrink, |x| cubic(x, f64::from(coefficient)));
                if exclude_outside {
                    taps.retain(|&(p, _)| p >= 0.0 && p < input as f64);
                }
                if exclude_outside || shrink < 1.0 {
                    normalise(&mut taps);
                }
                taps
            }
        }
    }

    /// The output's type: other extents along the axes that change.
    pub fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let [x] = arguments(inputs)?;
        require_float("the input", x)?;
        let mut output = x.clone();
        for (i, map) in self.axes.iter().enumerate() {
            let ascending = i == 0 || self.axes[i - 1].axis < map.axis;
            let extent = output
                .shape
                .get_mut(map.axis)
                .filter(|d| ascending && **d > 0);
            let extent = extent.filter(|_| map.scale.is_finite() && map.scale > 0.0);
            if let Some(&mut input) = extent
                && input.saturating_add(map.output) > LONGEST_AXES
            {
                return Err(OpError::unsupported(format!(
                    "an axis of {input} elements becomes one of {}; both together may have {LONGEST_AXES}",
                    map.output
                )));
            }
            *extent.ok_or_else(|| OpError::invalid(format!("{map:?} of `{x}`")))? = map.output;
        }
        Ok(output)
    }

    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        match self.interpolation {
            Interpolation::Nearest(rounding) => {
                node.string("mode", "nearest");
                node.string("nearest_mode", rounding.name());
            }
            Interpolation::Linear => node.string("mode", "linear"),
            Interpolation::Cubic {
                coefficient,
                exclude_outside,
            } => {
                node.string("mode", "cubic");
                node.float("cubic_coeff_a", coefficient);
                node.int("exclude_outside", i64::from(exclude_outside));
            }
        }
        node.string("coordinate_transformation_mode", self.coordinates.name());
        node.int("antialias", i64::from(self.antialias));
        let axes: Vec<usize> = self.axes.iter().map(|m| m.axis).collect();
        let scales: Vec<f32> = self.axes.iter().map(|m| m.scale).collect();
        node.ints("axes", &to_i64(&axes));
        node.no_input();
        node.floats_input(&scales);
    }
}

/// The weights of a kernel around `x` that is zero from `radius` on, with distances scaled by
/// `shrink`.
fn kernel(x: f64, radius: f64, shrink: f64, f: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    let reach = radius / shrink;
    let first = (x - reach).floor() + 1.0;
    (0..(2.0 * reach).ceil() as usize)
        .map(|i| first + i as f64)
        .filter(|&position| position < x + reach)
        .map(|position| (position, f((position - x) * shrink)))
        .collect()
}

/// Makes the weights add up to 1.
fn normalise(taps: &mut [(f64, f64)]) {
    let sum: f64 = taps.iter().map(|t| t.1).sum();
    taps.iter_mut().for_each(|t| t.1 /= sum);
}

/// The cubic convolution kernel of Keys at distance `x` below 2.
fn cubic(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else {
        ((x - 5.0) * x + 8.0) * x * a - 4.0 * a
    }
}

/// Positions clamped to the input, weights of the same one added up.
fn gather_taps(weights: &[(f64, f64)], input: usize) -> Vec<(usize, f32)> {
    let mut taps: Vec<(usize, f64)> = Vec::with_capacity(weights.len());
    for &(position, weight) in weights.iter().filter(|t| t.1 != 0.0) {
        // The cast saturates below zero, the minimum above.
        let position = (position as usize).min(input - 1);
        match taps.last_mut() {
            Some(last) if last.0 == position => last.1 += weight,
            _ => taps.push((position, weight)),
        }
    }
    taps.into_iter().map(|(p, w)| (p, w as f32)).collect()
}

impl NearestRounding {
    fn round(self, x: f64) -> f64 {
        match self {
            NearestRounding::RoundPreferFloor => (x - 0.5).ceil(),
            NearestRounding::RoundPreferCeil => (x + 0.5).floor(),
            NearestRounding::Floor => x.floor(),
            NearestRounding::Ceil => x.ceil(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            NearestRounding::RoundPreferFloor => "round_prefer_floor",
            NearestRounding::RoundPreferCeil => "round_prefer_ceil",
            NearestRounding::Floor => "floor",
            NearestRounding::Ceil => "ceil",
        }
    }

    fn parse(name: &str) -> Result<Self, OpError> {
        use NearestRounding::{Ceil, Floor, RoundPreferCeil, RoundPreferFloor};
        [RoundPreferFloor, RoundPreferCeil, Floor, Ceil]
            .into_iter()
            .find(|r| r.name() == name)
            .ok_or_else(|| OpError::invalid(format!("`nearest_mode` is `{name}`")))
    }
}

impl Coordinates {
    fn name(self) -> &'static str {
        match self {
            Coordinates::HalfPixel => "half_pixel",
            Coordinates::HalfPixelSymmetric => "half_pixel_symmetric",
            Coordinates::PytorchHalfPixel => "pytorch_half_pixel",
            Coordinates::AlignCorners => "align_corners",
            Coordinates::Asymmetric => "asymmetric",
        }
    }

    fn parse(name: &str) -> Result<Self, OpError> {
        use Coordinates::{
            AlignCorners, Asymmetric, HalfPixel, HalfPixelSymmetric, PytorchHalfPixel,
        };
        [
            HalfPixel,
            HalfPixelSymmetric,
            PytorchHalfPixel,
            AlignCorners,
            Asymmetric,
        ]
        .into_iter()
        .find(|c| c.name() == name)
        .ok_or_else(|| {
            let message = format!("`coordinate_transformation_mode` is `{name}`");
            OpError::unsupported(message)
        })
    }
}

/// Before opset 11, and in Upsample, there are only scales and plain division. The nearest element
/// is not specified; ONNX's example and ONNX Runtime round up where the axis shrinks, down where
/// it grows.
fn import_upsample(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let scales = match node.attributes.floats("scales")? {
        Some(scales) => scales,
        None => builder.floats(node.input(1)?, "scales")?,
    };
    let shape = builder.shape(x);
    let all: Vec<usize> = (0..shape.len()).collect();
    let maps = by_scales(&shape, &all, &scales)?;
    let mode = node.attributes.string("mode", "nearest")?;
    let resize = |axes: Vec<AxisMap>, interpolation| Resize {
        axes,
        interpolation,
        coordinates: Coordinates::Asymmetric,
        antialias: false,
    };
    match mode.as_str() {
        "nearest" => {
            let (shrinking, growing) = maps.into_iter().partition(|m| m.scale < 1.0);
            let down = resize(shrinking, Interpolation::Nearest(NearestRounding::Ceil));
            let up = resize(growing, Interpolation::Nearest(NearestRounding::Floor));
            let x = append(builder, x, down)?;
            Ok(vec![append(builder, x, up)?])
        }
        "linear" | "bilinear" => Ok(vec![append(
            builder,
            x,
            resize(maps, Interpolation::Linear),
        )?]),
        other => Err(OpError::invalid(format!("`mode` is `{other}`"))),
    }
}

fn import_resize(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    if node.opset < 11 {
        return import_upsample(node, builder);
    }
    let x = node.input(0)?;
    let attributes = &node.attributes;
    let coordinates = attributes.string("coordinate_transformation_mode", "half_pixel")?;
    let coordinates = Coordinates::parse(&coordinates)?;
    // Only the coordinates of a crop, refused above, look at it.
    attributes.ignore(&["extrapolation_value"]);
    let rounding = attributes.string("nearest_mode", "round_prefer_floor")?;
    let rounding = NearestRounding::parse(&rounding)?;
    let coefficient = attributes.float("cubic_coeff_a", -0.75)?;
    // Linear weights renormalised inside the border are those of the clamped positions.
    let exclude_outside = attributes.flag("exclude_outside", false)?;
    let interpolation = match attributes.string("mode", "nearest")?.as_str() {
        "nearest" => Interpolation::Nearest(rounding),
        "linear" => Interpolation::Linear,
        "cubic" => Interpolation::Cubic {
            coefficient,
            exclude_outside,
        },
        other => return Err(OpError::invalid(format!("`mode` is `{other}`"))),
    };
    let op = Resize {
        axes: import_axes(node, builder, x)?,
        interpolation,
        coordinates,
        antialias: attributes.flag("antialias", false)?,
    };
    Ok(vec![append(builder, x, op)?])
}

/// Appends a resize of the axes that change, if any does.
fn append(builder: &mut Builder<'_>, x: ValueId, mut op: Resize) -> Result<ValueId, OpError> {
    let shape = builder.shape(x);
    op.axes
        .retain(|m| m.output != shape[m.axis] || m.scale != 1.0);
    op.axes.sort_by_key(|m| m.axis);
    if op.axes.is_empty() {
        require_float("the input", &builder.graph.value(x).ty)?;
        return Ok(x);
    }
    builder.push(Op::Resize(op), &[x])
}

/// The axes from `scales` or `sizes`, whichever is given and not empty.
fn import_axes(
    node: &NodeContext<'_>,
    builder: &Builder<'_>,
    x: ValueId,
) -> Result<Vec<AxisMap>, OpError> {
    let shape = builder.shape(x);
    let along = match node.attributes.ints("axes")? {
        Some(list) => axes(&list, shape.len())?,
        None => (0..shape.len()).collect(),
    };
    let policy = node
        .attributes
        .string("keep_aspect_ratio_policy", "stretch")?;
    let given = |index| {
        let value: Option<ValueId> = node.optional(index);
        value.filter(|&v| builder.graph.value(v).ty.numel() > 0)
    };
    match (given(2), given(3)) {
        (Some(scales), None) => by_scales(&shape, &along, &builder.floats(scales, "scales")?),
        (None, Some(sizes)) => {
            let sizes = to_usize(&builder.ints(sizes, "sizes")?, "sizes")?;
            by_sizes(&shape, &along, &sizes, &policy)
        }
        _ => Err(OpError::invalid("it takes either `scales` or `sizes`")),
    }
}

fn by_scales(shape: &[usize], along: &[usize], scales: &[f32]) -> Result<Vec<AxisMap>, OpError> {
    if scales.len() != along.len() {
        let message = format!("{} scales for {} axes", scales.len(), along.len());
        return Err(OpError::invalid(message));
    }
    let map = |(&axis, &scale): (&usize, &f32)| {
        let output = scaled(shape[axis], scale);
        let output = output.ok_or_else(|| OpError::invalid(format!("a scale is {scale}")))?;
        Ok(AxisMap {
            axis,
            output,
            scale,
        })
    };
    along.iter().zip(scales).map(map).collect()
}

/// The extent that a scale leads to: the product rounded down, in the precision of the scale.
fn scaled(extent: usize, scale: f32) -> Option<usize> {
    let product = (extent as f32 * scale).floor();
    // Beyond 2^53 an extent is absurd, and not exact as a float.
    let possible = scale > 0.0 && (0.0..9e15).contains(&product);
    possible.then_some(product as usize)
}

fn by_sizes(
    shape: &[usize],
    along: &[usize],
    sizes: &[usize],
    policy: &str,
) -> Result<Vec<AxisMap>, OpError> {
    if sizes.len() != along.len() {
        let message = format!("{} sizes for {} axes", sizes.len(), along.len());
        return Err(OpError::invalid(message));
    }
    let quotient = |(&axis, &size): (&usize, &usize)| size as f64 / shape[axis] as f64;
    let quotients = along.iter().zip(sizes).map(quotient);
    let common = match policy {
        "stretch" => None,
        "not_larger" => Some(quotients.fold(f64::INFINITY, f64::min)),
        "not_smaller" => Some(quotients.fold(0.0, f64::max)),
        other => {
            let message = format!("`keep_aspect_ratio_policy` is `{other}`");
            return Err(OpError::invalid(message));
        }
    };
    let mut maps = Vec::with_capacity(along.len());
    for (&axis, &size) in along.iter().zip(sizes) {
        let output = match common {
            Some(scale) => (scale * shape[axis] as f64 + 0.5).floor() as usize,
            None => size,
        };
        let scale = common.unwrap_or(output as f64 / shape[axis] as f64) as f32;
        let scale = at_least(scale, shape[axis], output).ok_or_else(|| {
            OpError::unsupported(format!(
                "{} resized to {output} at scale {scale}",
                shape[axis]
            ))
        })?;
        maps.push(AxisMap {
            axis,
            output,
            scale,
        });
    }
    Ok(maps)
}

/// The scale, raised by its last bits where rounding made it lead to one element too few, so that
/// the extent follows from the scale wherever the resize is run.
fn at_least(scale: f32, extent: usize, output: usize) -> Option<f32> {
    [scale, scale.next_up(), scale.next_up().next_up()]
        .into_iter()
        .find(|&s| scaled(extent, s) == Some(output))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, floats, ints};
    use super::*;
    use crate::tensor::DType;

    fn resize(opset: i64, shape: &[usize]) -> Case {
        Case::new("Resize", opset).input(DType::F32, shape)
    }

    fn scales(shape: &[usize], scales: &[f32]) -> Case {
        resize(13, shape)
            .absent()
            .constant(floats(&[scales.len()], scales))
    }

    fn sizes(shape: &[usize], sizes: &[i64]) -> Case {
        resize(18, shape)
            .absent()
            .absent()
            .constant(ints(&[sizes.len()], sizes))
    }

    /// The node applied to 1, 2, 3, ... along its only axis that changes.
    fn line(case: Case) -> Vec<f32> {
        let imported = case.import().unwrap();
        match imported.ops()[..] {
            [Op::Resize(op)] => {
                let [map] = &op.axes[..] else {
                    panic!("{op:?}")
                };
                let extent = imported.graph.shape(imported.graph.inputs()[0])[map.axis];
                let value =
                    |taps: Vec<(usize, f32)>| taps.iter().map(|&(p, w)| (p + 1) as f32 * w).sum();
                op.taps(map, extent).into_iter().map(value).collect()
            }
            ref other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn assert_line(case: Case, expected: &[f32]) {
        let got = line(case);
        assert_eq!(got.len(), expected.len());
        for (a, b) in got.iter().zip(expected) {
            assert!((a - b).abs() < 1e-5, "{got:?} is not {expected:?}");
        }
    }

    #[test]
    fn linear_values_of_the_onnx_documentation() {
        // "Resize" of the ONNX operators: last rows of examples, whose data are products of
        // 1, 2, 3, ... along one axis, by name of the example.
        // resize_downsample_scales_linear, ..._align_corners
        let four = || scales(&[1, 4], &[1.0, 0.6]).string("mode", "linear");
        assert_line(four(), &[1.3333333, 3.0]);
        let corners = || four().string("coordinate_transformation_mode", "align_corners");
        assert_line(corners(), &[1.0, 3.142857]);
        // resize_upsample_scales_linear, ..._align_corners
        let two = || scales(&[1, 2], &[1.0, 2.0]).string("mode", "linear");
        assert_line(two(), &[1.0, 1.25, 1.75, 2.0]);
        let corners = two().string("coordinate_transformation_mode", "align_corners");
        assert_line(corners, &[1.0, 1.3333333, 1.6666667, 2.0]);
        // resize_downsample_scales_linear_half_pixel_symmetric
        let symmetric = four().string("coordinate_transformation_mode", "half_pixel_symmetric");
        assert_line(symmetric, &[1.6666667, 3.3333333]);
        // resize_downsample_sizes_linear_pytorch_half_pixel: 4 to 3, and 4 to 1
        let pytorch = |n| {
            sizes(&[1, 4], &[1, n])
                .string("mode", "linear")
                .string("coordinate_transformation_mode", "pytorch_half_pixel")
        };
        assert_line(pytorch(3), &[1.1666667, 2.5, 3.8333333]);
        assert_line(pytorch(1), &[1.0]);
    }

    #[test]
    fn cubic_values_of_the_onnx_documentation() {
        // First rows of the examples, whose rows and columns grow alike: the 4x4 data are
        // 1 + 4 i + j and interpolation is separable, so with c(x) the value of 1, 2, 3, 4 at x the
        // first element is c(x) + 4 (c(x) - 1).
        let four = |s| scales(&[1, 4], &[1.0, s]).string("mode", "cubic");
        let corner = |case| {
            let c = line(case)[0];
            c + 4.0 * (c - 1.0)
        };
        // resize_upsample_scales_cubic, ..._A_n0p5_exclude_outside, resize_downsample_scales_cubic
        assert!((corner(four(2.0)) - 0.47265625).abs() < 1e-5);
        let outside = four(2.0)
            .float("cubic_coeff_a", -0.5)
            .int("exclude_outside", 1);
        assert!((corner(outside) - 0.558_823_5).abs() < 1e-5);
        assert!((corner(four(0.8)) - 1.471_191_4).abs() < 1e-5);
        // resize_upsample_scales_cubic_asymmetric
        let asymmetric = four(2.0).string("coordinate_transformation_mode", "asymmetric");
        assert_line(
            asymmetric,
            &[1.0, 1.40625, 2.0, 2.5, 3.0, 3.59375, 4.0, 4.09375],
        );
    }

    #[test]
    fn smoothed_values_of_the_onnx_documentation() {
        // resize_downsample_scales_linear_antialias, ..._cubic_antialias: the data are 1 + j + 4i
        // at row i and column j, so the first output, 2.875 and 2.5180721, is 1 + 5j.
        let four = |mode| {
            scales(&[1, 4], &[1.0, 0.6])
                .string("mode", mode)
                .int("antialias", 1)
        };
        assert_line(four("linear"), &[1.375, 3.0]);
        assert_line(four("cubic"), &[1.3036144, 3.0714286]);
        // An axis that grows is not smoothed.
        let two = || scales(&[1, 2], &[1.0, 2.0]).string("mode", "linear");
        assert_eq!(line(two().int("antialias", 1)), line(two()));
    }

    #[test]
    fn nearest_values_of_the_onnx_documentation() {
        // resize_upsample_scales_nearest, resize_downsample_scales_nearest
        assert_line(
            scales(&[1, 2], &[1.0, 3.0]),
            &[1.0, 1.0, 1.0, 2.0, 2.0, 2.0],
        );
        assert_line(scales(&[1, 4], &[1.0, 0.6]), &[1.0, 3.0]);
        // resize_upsample_sizes_nearest: 2 to 7 and 2 to 8
        assert_line(
            sizes(&[1, 2], &[1, 7]),
            &[1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0],
        );
        // resize_upsample_sizes_nearest_floor_align_corners, ..._ceil_half_pixel: 4 to 8
        let floor = sizes(&[4], &[8])
            .string("nearest_mode", "floor")
            .string("coordinate_transformation_mode", "align_corners");
        assert_line(floor, &[1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0]);
        let ceil = sizes(&[4], &[8]).string("nearest_mode", "ceil");
        assert_line(ceil, &[1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 4.0]);
        // resize_upsample_sizes_nearest_round_prefer_ceil_asymmetric
        let half_up = sizes(&[4], &[8])
            .string("nearest_mode", "round_prefer_ceil")
            .string("coordinate_transformation_mode", "asymmetric");
        assert_line(half_up, &[1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 4.0]);
    }

    #[test]
    fn whole_coordinates_stay_whole() {
        // floor(i * n / m) in integers; a rounded scale would miss some of them by one.
        for (n, m) in [(6, 4), (3, 7), (10, 3), (49, 7), (9, 3), (100, 30), (7, 21)] {
            let case = sizes(&[n], &[m as i64])
                .string("nearest_mode", "floor")
                .string("coordinate_transformation_mode", "asymmetric");
            let expected: Vec<f32> = (0..m).map(|i| (i * n / m + 1) as f32).collect();
            assert_line(case, &expected);
        }
    }

    #[test]
    fn the_extent_follows_from_the_scale() {
        for n in 1..60 {
            for m in 1..60 {
                let scale = at_least((m as f64 / n as f64) as f32, n, m);
                assert_eq!(scale.and_then(|s| scaled(n, s)), Some(m), "{n} to {m}");
            }
        }
    }

    #[test]
    fn upsample_and_the_first_resize_divide_coordinates() {
        let upsample = Case::new("Upsample", 7)
            .input(DType::F32, &[1, 2])
            .floats("scales", &[1.0, 2.0]);
        assert_line(upsample, &[1.0, 1.0, 2.0, 2.0]);
        let linear = Case::new("Upsample", 9)
            .input(DType::F32, &[1, 2])
            .constant(floats(&[2], &[1.0, 2.0]))
            .string("mode", "linear");
        assert_line(linear, &[1.0, 1.5, 2.0, 2.0]);
        // "Resize" of opset 10, resize_downsample_nearest and resize_downsample_linear.
        let ten = || resize(10, &[1, 4]).constant(floats(&[2], &[1.0, 0.6]));
        assert_line(ten(), &[1.0, 3.0]);
        assert_line(ten().string("mode", "linear"), &[1.0, 2.6666667]);
        let mixed = resize(10, &[4, 4])
            .constant(floats(&[2], &[2.0, 0.5]))
            .import()
            .unwrap();
        assert_eq!(mixed.ops().len(), 2);
        assert_eq!(mixed.ty().shape, [8, 2]);
    }

    #[test]
    fn an_aspect_ratio_can_be_kept() {
        // resize_upsample_sizes_nearest_not_larger, ..._not_smaller: 2x2 to 7x8
        let keep = |policy| {
            let case = sizes(&[1, 1, 2, 2], &[7, 8]).ints("axes", &[2, 3]);
            case.string("keep_aspect_ratio_policy", policy)
                .import()
                .unwrap()
                .ty()
                .shape
                .clone()
        };
        assert_eq!(keep("not_larger"), [1, 1, 7, 7]);
        assert_eq!(keep("not_smaller"), [1, 1, 8, 8]);
    }

    #[test]
    fn only_axes_that_change_remain() {
        let imported = scales(&[1, 3, 2, 2], &[1.0, 1.0, 2.0, 1.0])
            .import()
            .unwrap();
        let [Op::Resize(resize)] = imported.ops()[..] else {
            panic!("one interpolation");
        };
        let axes: Vec<usize> = resize.axes.iter().map(|m| m.axis).collect();
        assert_eq!(axes, [2]);
        assert!(
            scales(&[1, 3], &[1.0, 1.0])
                .import()
                .unwrap()
                .ops()
                .is_empty()
        );
    }

    #[test]
    fn other_resizes_are_refused() {
        for case in [
            scales(&[1, 2], &[1.0]),
            scales(&[1, 2], &[1.0, 0.0]),
            scales(&[1, 2], &[1.0, -2.0]),
            scales(&[1, 2], &[1.0, f32::NAN]),
            scales(&[1, 2], &[1.0, f32::INFINITY]),
            scales(&[1, 2], &[1e15, 1e15]),
            scales(&[1, 2], &[1.0, 2.0]).constant(ints(&[2], &[1, 4])),
            scales(&[1, 2], &[1.0, 2.0]).string("mode", "sinc"),
            scales(&[1, 2], &[1.0, 2.0]).string("nearest_mode", "random"),
            scales(&[1, 2], &[1.0, 2.0])
                .string("coordinate_transformation_mode", "tf_crop_and_resize"),
            scales(&[0, 2], &[2.0, 2.0]),
            sizes(&[1, 2], &[1, -4]),
            sizes(&[1, 2], &[i64::MAX, i64::MAX]),
            sizes(&[0, 2], &[3, 2]),
            sizes(&[1, 2], &[4]).string("keep_aspect_ratio_policy", "stretch"),
            resize(13, &[1, 2]),
        ] {
            assert!(case.import().is_err());
        }
    }
}
