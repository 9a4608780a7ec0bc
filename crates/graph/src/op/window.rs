//! Sliding windows: what convolutions and pools share.

use std::ops::Range;

use super::structure::to_i64;
use crate::LARGEST_INPUT;
use crate::builder::NodeContext;
use crate::error::OpError;
use crate::onnx::export::OnnxNode;

/// The largest extent, step or pad of a window: no tensor has a longer axis. Products of two of them, and with extents,
/// can be counted.
const LARGEST: usize = LARGEST_INPUT;

/// A window that slides over the spatial axes; one entry per spatial axis in every field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Extent of the window in taps.
    pub kernel: Vec<usize>,
    /// Distance between neighbouring windows.
    pub strides: Vec<usize>,
    /// Distance between neighbouring taps.
    pub dilations: Vec<usize>,
    /// Positions added before the first element.
    pub pads_begin: Vec<usize>,
    /// Positions added after the last element.
    pub pads_end: Vec<usize>,
}

/// ONNX's `auto_pad`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AutoPad {
    /// The pads are given.
    NotSet,
    /// As many windows as strides fit into the input; an odd pad goes to the end.
    SameUpper,
    /// As many windows as strides fit into the input; an odd pad goes to the beginning.
    SameLower,
    /// No pads.
    Valid,
}

impl AutoPad {
    pub(super) fn import(node: &NodeContext<'_>) -> Result<Self, OpError> {
        match node.attributes.string("auto_pad", "NOTSET")?.as_str() {
            "" | "NOTSET" => Ok(AutoPad::NotSet),
            "SAME_UPPER" => Ok(AutoPad::SameUpper),
            "SAME_LOWER" => Ok(AutoPad::SameLower),
            "VALID" => Ok(AutoPad::Valid),
            other => Err(OpError::invalid(format!("`auto_pad` is `{other}`"))),
        }
    }
}

impl Window {
    /// A window of the given extent that slides by one, without dilation or padding.
    pub fn sized(kernel: impl Into<Vec<usize>>) -> Window {
        let kernel = kernel.into();
        let all = |n: usize| vec![n; kernel.len()];
        Window {
            strides: all(1),
            dilations: all(1),
            pads_begin: all(0),
            pads_end: all(0),
            kernel,
        }
    }

    /// Number of spatial axes.
    pub fn rank(&self) -> usize {
        self.kernel.len()
    }

    /// Distance from the first to one past the last tap along an axis, or `None` when it is
    /// beyond what an address can count.
    pub fn extent(&self, axis: usize) -> Option<usize> {
        let gaps = self.kernel.get(axis)?.checked_sub(1)?;
        gaps.checked_mul(*self.dilations.get(axis)?)?.checked_add(1)
    }

    /// Number of windows along each axis of an input of the given spatial extents. With `ceil`, a
    /// last window that only begins inside the input counts too.
    pub fn output(&self, input: &[usize], ceil: bool) -> Result<Vec<usize>, OpError> {
        let rank = self.rank();
        let lengths = [
            self.strides.len(),
            self.dilations.len(),
            self.pads_begin.len(),
            self.pads_end.len(),
            input.len(),
        ];
        if lengths.iter().any(|&l| l != rank) {
            let message = format!("a window of {rank} axes slides over {} axes", input.len());
            return Err(OpError::invalid(message));
        }
        let steps = self
            .kernel
            .iter()
            .chain(&self.strides)
            .chain(&self.dilations);
        if steps.into_iter().any(|&step| step == 0) {
            return Err(OpError::invalid("a kernel extent, stride or dilation is 0"));
        }
        (0..rank)
            .map(|axis| self.windows(axis, input[axis], ceil))
            .collect::<Option<_>>()
            .ok_or_else(|| {
                let kernel = crate::ShapeDisplay(&self.kernel);
                let input = crate::ShapeDisplay(input);
                let message = format!("a window of `{kernel}` does not fit into `{input}`");
                OpError::invalid(message)
            })
    }

    /// Number of windows along one axis; `None` when not even one fits.
    fn windows(&self, axis: usize, input: usize, ceil: bool) -> Option<usize> {
        let stride = self.strides[axis];
        let inner = input.checked_add(self.pads_begin[axis])?;
        let padded = inner.checked_add(self.pads_end[axis])?;
        // Rounding the quotient up is rounding the dividend plus `stride - 1` down.
        let slack = if ceil { stride - 1 } else { 0 };
        let room = padded.checked_add(slack)?.checked_sub(self.extent(axis)?)?;
        let windows = room / stride + 1;
        // ONNX drops a window that rounding up made and that begins in the end padding.
        let dropped = ceil && windows > 1 && (windows - 1).checked_mul(stride)? >= inner;
        Some(if dropped { windows - 1 } else { windows })
    }

    /// The taps of window `output` that lie inside an input of extent `input`, along one axis.
    /// With dilation it can be empty: neighbouring taps may step over a short input.
    ///
    /// ```
    /// use npcov_graph::op::Window;
    ///
    /// let window = Window {
    ///     kernel: vec![3],
    ///     strides: vec![1],
    ///     dilations: vec![1],
    ///     pads_begin: vec![1],
    ///     pads_end: vec![1],
    /// };
    /// assert_eq!(window.tap_range(0, 0, 5), 1..3);
    /// assert_eq!(window.tap_range(0, 2, 5), 0..3);
    /// assert_eq!(window.tap_range(0, 4, 5), 0..2);
    /// ```
    pub fn tap_range(&self, axis: usize, output: usize, input: usize) -> Range<usize> {
        // Tap k of window o reads the input at p = o*stride + k*dilation - pad, and is inside
        // when 0 <= p < input. With first = o*stride that is
        //     pad - first <= k*dilation < input + pad - first
        // and, k being whole, dividing by the dilation and rounding up gives both bounds:
        //     ceil((pad - first) / dilation) <= k < ceil((input + pad - first) / dilation).
        // A difference below zero admits every k on the left, none on the right: in both cases
        // the bound is 0, which is what saturating gives.
        let (dilation, pad) = (self.dilations[axis].max(1), self.pads_begin[axis]);
        let first = output.saturating_mul(self.strides[axis]);
        let end = input.saturating_add(pad).saturating_sub(first);
        let end = end.div_ceil(dilation).min(self.kernel[axis]);
        let begin = pad.saturating_sub(first).div_ceil(dilation).min(end);
        begin..end
    }

    /// Reads `kernel_shape`, `strides`, `dilations` and the pads for an input of the given spatial
    /// extents. `kernel` is what the weights say; without weights the attribute must.
    pub(super) fn import(
        node: &NodeContext<'_>,
        input: &[usize],
        kernel: Option<&[usize]>,
    ) -> Result<Self, OpError> {
        let auto_pad = AutoPad::import(node)?;
        let mut window = Window::import_explicit(node, input.len(), kernel)?;
        if auto_pad != AutoPad::NotSet {
            window.pads_begin.fill(0);
            window.pads_end.fill(0);
        }
        if matches!(auto_pad, AutoPad::SameUpper | AutoPad::SameLower) {
            for axis in 0..input.len() {
                let total = window
                    .same_padding(axis, input[axis])
                    .ok_or_else(too_large)?;
                window.pad(axis, total, auto_pad);
            }
        }
        Ok(window)
    }

    /// As [`Window::import`], for a caller that deals with `auto_pad` itself.
    pub(super) fn import_explicit(
        node: &NodeContext<'_>,
        rank: usize,
        kernel: Option<&[usize]>,
    ) -> Result<Self, OpError> {
        let kernel = match (positive(node, "kernel_shape", rank)?, kernel) {
            (Some(given), Some(weights)) if given != weights => {
                let message = "`kernel_shape` is not that of the weights";
                return Err(OpError::invalid(message));
            }
            (_, Some(weights)) => weights.to_vec(),
            (Some(given), None) => given,
            (None, None) => return Err(OpError::invalid("`kernel_shape` is missing")),
        };
        let mut pads = match node.attributes.ints("pads")? {
            Some(pads) => pads.into_iter().map(pad).collect::<Result<Vec<_>, _>>()?,
            None => vec![0; 2 * rank],
        };
        if pads.len() != 2 * rank {
            let message = format!("`pads` has {} entries for {rank} axes", pads.len());
            return Err(OpError::invalid(message));
        }
        let pads_end = pads.split_off(rank);
        Ok(Window {
            kernel,
            strides: positive(node, "strides", rank)?.unwrap_or_else(|| vec![1; rank]),
            dilations: positive(node, "dilations", rank)?.unwrap_or_else(|| vec![1; rank]),
            pads_begin: pads,
            pads_end,
        })
    }

    /// The padding with which there is one window per started stride of the input.
    fn same_padding(&self, axis: usize, input: usize) -> Option<usize> {
        let stride = self.strides[axis];
        let last = input
            .div_ceil(stride)
            .saturating_sub(1)
            .checked_mul(stride)?;
        let reach = last.checked_add(self.extent(axis)?)?;
        Some(reach.saturating_sub(input))
    }

    /// Distributes padding over both sides, the odd one as `auto_pad` says.
    pub(super) fn pad(&mut self, axis: usize, total: usize, auto_pad: AutoPad) {
        let half = total / 2;
        let rest = total - half;
        let upper = auto_pad == AutoPad::SameUpper;
        (self.pads_begin[axis], self.pads_end[axis]) =
            if upper { (half, rest) } else { (rest, half) };
    }

    /// Writes the attributes that [`Window::import`] reads.
    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        node.ints("kernel_shape", &to_i64(&self.kernel));
        node.ints("strides", &to_i64(&self.strides));
        node.ints("dilations", &to_i64(&self.dilations));
        let pads = [to_i64(&self.pads_begin), to_i64(&self.pads_end)].concat();
        node.ints("pads", &pads);
    }
}

/// The error for extents beyond what an address can count.
pub(super) fn too_large() -> OpError {
    OpError::invalid("the extents are too large")
}

/// An attribute with one number above zero per axis.
fn positive(
    node: &NodeContext<'_>,
    name: &str,
    rank: usize,
) -> Result<Option<Vec<usize>>, OpError> {
    let Some(values) = node.attributes.ints(name)? else {
        return Ok(None);
    };
    if values.len() != rank {
        let message = format!("`{name}` has {} entries for {rank} axes", values.len());
        return Err(OpError::invalid(message));
    }
    let positive = |v: i64| {
        let value = usize::try_from(v)
            .ok()
            .filter(|v| (1..=LARGEST).contains(v));
        value.ok_or_else(|| OpError::invalid(format!("`{name}` contains {v}")))
    };
    values
        .into_iter()
        .map(positive)
        .collect::<Result<_, _>>()
        .map(Some)
}

fn pad(value: i64) -> Result<usize, OpError> {
    let pad = usize::try_from(value).ok().filter(|&pad| pad <= LARGEST);
    pad.ok_or_else(|| OpError::unsupported(format!("`pads` contains {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(kernel: usize, stride: usize, dilation: usize, pads: (usize, usize)) -> Window {
        Window {
            kernel: vec![kernel],
            strides: vec![stride],
            dilations: vec![dilation],
            pads_begin: vec![pads.0],
            pads_end: vec![pads.1],
        }
    }

    #[test]
    fn the_number_of_windows_is_rounded_down_or_up() {
        let cases = [
            // (window, input, floor, ceil): floor((n + pads - extent) / stride) + 1, by hand.
            (window(3, 2, 1, (0, 0)), 6, 2, 3),
            (window(3, 2, 1, (1, 1)), 7, 4, 4),
            (window(3, 1, 2, (0, 0)), 7, 3, 3),
            // The fourth window would begin at 6 - 1 = 5, in the end padding.
            (window(2, 2, 1, (1, 1)), 5, 3, 3),
            (window(1, 3, 1, (0, 0)), 11, 4, 4),
        ];
        for (window, input, floor, ceil) in cases {
            assert_eq!(
                window.output(&[input], false),
                Ok(vec![floor]),
                "{window:?}"
            );
            assert_eq!(window.output(&[input], true), Ok(vec![ceil]), "{window:?}");
        }
    }

    #[test]
    fn only_rounding_up_accepts_a_window_larger_than_the_input() {
        let window = window(3, 2, 1, (0, 0));
        assert!(window.output(&[2], false).is_err());
        assert_eq!(window.output(&[2], true), Ok(vec![1]));
        // The window's end lies a whole stride behind the input's.
        assert!(window.output(&[1], true).is_err());
    }

    #[test]
    fn absurd_windows_are_errors() {
        for window in [
            window(0, 1, 1, (0, 0)),
            window(1, 0, 1, (0, 0)),
            window(1, 1, 0, (0, 0)),
            window(usize::MAX, 1, usize::MAX, (0, 0)),
            window(1, 1, 1, (usize::MAX, usize::MAX)),
        ] {
            assert!(window.output(&[5], false).is_err(), "{window:?}");
        }
        assert!(window(1, 1, 1, (0, 0)).output(&[5, 5], false).is_err());
    }

    #[test]
    fn tap_ranges_hold_exactly_the_taps_inside() {
        for kernel in 1..5 {
            for stride in 1..4 {
                for dilation in 1..4 {
                    for pad in 0..4 {
                        for input in 1..6 {
                            check_taps(&window(kernel, stride, dilation, (pad, 0)), input);
                        }
                    }
                }
            }
        }
    }

    /// Compares with the definition, tap by tap.
    fn check_taps(window: &Window, input: usize) {
        for output in 0..5 {
            let inside = |k: &usize| {
                let p = (output * window.strides[0] + k * window.dilations[0]) as isize
                    - window.pads_begin[0] as isize;
                (0..input as isize).contains(&p)
            };
            let expected: Vec<usize> = (0..window.kernel[0]).filter(inside).collect();
            let got: Vec<usize> = window.tap_range(0, output, input).collect();
            assert_eq!(got, expected, "{window:?}, window {output} over {input}");
        }
    }
}
