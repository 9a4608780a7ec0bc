//! How the axes of a stored sample become those of the model's input.
//!
//! What the shapes alone decide is decided; where two arrangements fit, or where the order of flat numbers is not known,
//! an error names `--layout`, which says how the *data* lies. The model's side is told by its shape: of a rank-3 input the
//! channel axis is the one of length 1, 3 or 4, and the first one, ONNX's convention, where that does not tell.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How a sample lies in the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Rows of pixels, one channel.
    Hw,
    /// One plane of pixels per channel.
    Chw,
    /// Channels side by side in each pixel.
    Hwc,
    /// Numbers in exactly the order the model wants them, whatever the shapes say.
    Flat,
}

impl FromStr for Layout {
    type Err = String;

    /// Reads `hw`, `chw`, `hwc` or `flat`, in any case and with or without the `n` of the batch axis.
    fn from_str(text: &str) -> Result<Layout, String> {
        match text.to_ascii_lowercase().as_str() {
            "hw" | "nhw" => Ok(Layout::Hw),
            "chw" | "nchw" => Ok(Layout::Chw),
            "hwc" | "nhwc" => Ok(Layout::Hwc),
            "flat" => Ok(Layout::Flat),
            _ => Err(format!(
                "`{text}` is no layout; use `hw`, `chw`, `hwc` or `flat`"
            )),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layout::Hw => "hw",
            Layout::Chw => "chw",
            Layout::Hwc => "hwc",
            Layout::Flat => "flat",
        })
    }
}

/// As the text that users write: `chw`.
impl Serialize for Layout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Layout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Layout, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// What is done to the numbers of each sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrange {
    AsIs,
    /// `pixels` pixels of `channels` numbers become `channels` planes.
    HwcToChw {
        pixels: usize,
        channels: usize,
    },
    /// The other way round.
    ChwToHwc {
        pixels: usize,
        channels: usize,
    },
}

impl Arrange {
    /// Moves one sample; both slices have its length.
    pub(crate) fn apply(self, from: &[f32], to: &mut [f32]) {
        match self {
            Arrange::AsIs => to.copy_from_slice(from),
            Arrange::HwcToChw { pixels, channels } => {
                for (channel, plane) in to.chunks_exact_mut(pixels).enumerate() {
                    for (value, pixel) in plane.iter_mut().zip(from.chunks_exact(channels)) {
                        *value = pixel[channel];
                    }
                }
            }
            Arrange::ChwToHwc { pixels, channels } => {
                for (channel, plane) in from.chunks_exact(pixels).enumerate() {
                    for (value, pixel) in plane.iter().zip(to.chunks_exact_mut(channels)) {
                        pixel[channel] = *value;
                    }
                }
            }
        }
    }

    /// What undoes it.
    pub(crate) fn inverse(self) -> Arrange {
        match self {
            Arrange::AsIs => Arrange::AsIs,
            Arrange::HwcToChw { pixels, channels } => Arrange::ChwToHwc { pixels, channels },
            Arrange::ChwToHwc { pixels, channels } => Arrange::HwcToChw { pixels, channels },
        }
    }

    /// Rearranging one channel or one pixel moves nothing.
    fn simplified(self) -> Arrange {
        match self {
            Arrange::HwcToChw { pixels, channels } | Arrange::ChwToHwc { pixels, channels }
                if pixels == 1 || channels == 1 =>
            {
                Arrange::AsIs
            }
            other => other,
        }
    }
}

/// Where the channels of the model's input are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channels {
    /// There is one channel, or none is known.
    One,
    /// The first of three axes.
    First,
    /// The last of three axes.
    Last,
}

/// The channel axis of the model's input by its shape alone.
fn channels_of(wanted: &[usize]) -> Channels {
    let few = |axis: usize| matches!(axis, 1 | 3 | 4);
    match *wanted {
        [first, _, last] if few(last) && !few(first) => Channels::Last,
        [_, _, _] => Channels::First,
        _ => Channels::One,
    }
}

/// Where the pixels of an image are among the numbers of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageShape {
    /// Rows of pixels.
    pub height: usize,
    /// Pixels in a row.
    pub width: usize,
    /// Numbers of a pixel.
    pub channels: usize,
    /// Whether the numbers of a pixel stand side by side, instead of in planes.
    pub channels_last: bool,
}

impl ImageShape {
    /// The position of a number among those of a sample.
    pub fn position(&self, row: usize, column: usize, channel: usize) -> usize {
        let pixel = row * self.width + column;
        match self.channels_last {
            true => pixel * self.channels + channel,
            false => channel * self.height * self.width + pixel,
        }
    }
}

/// The image that samples of the shape `wanted` are, if they are one. A model that takes flat numbers gets them in the
/// order of the data, so the shape of the data, `stored`, tells what they show.
pub(crate) fn image_shape(
    stored: &[usize],
    wanted: &[usize],
    channels: Channels,
) -> Option<ImageShape> {
    let (height, width, count, channels_last) = match (wanted, channels) {
        (&[c, h, w], Channels::First | Channels::One) => (h, w, c, false),
        (&[h, w, c], Channels::Last) => (h, w, c, true),
        (&[h, w], _) => (h, w, 1, false),
        ([_], _) if squeezed(stored).len() > 1 => {
            let (h, w, c, layout) = image_axes(stored, None).ok()?;
            (h, w, c, layout == Layout::Hwc)
        }
        _ => return None,
    };
    Some(ImageShape {
        height,
        width,
        channels: count,
        channels_last,
    })
    .filter(|_| height > 1 && width > 1)
}

/// Decides how samples of the shape `stored` become samples of the shape `wanted`, or says what stands in the way.
pub(crate) fn arrange(
    stored: &[usize],
    wanted: &[usize],
    layout: Option<Layout>,
) -> Result<(Arrange, Channels), String> {
    let (have, need) = (size(stored), size(wanted));
    if have.is_none() || have != need {
        return Err(size_mismatch(stored, wanted));
    }
    match layout {
        None => infer(stored, wanted),
        Some(Layout::Flat) => Ok((Arrange::AsIs, channels_of(wanted))),
        Some(Layout::Hw) => {
            let (from, to) = (squeezed(stored), squeezed(wanted));
            let image = from.len() <= 2 && to.len() <= 2;
            if image && (from == to || from.len() <= 1 || to.len() <= 1) {
                Ok((Arrange::AsIs, channels_of(wanted)))
            } else {
                Err("`--layout hw` does not fit: it is for one channel".to_owned())
            }
        }
        Some(Layout::Chw) => explicit(stored, wanted, true),
        Some(Layout::Hwc) => explicit(stored, wanted, false),
    }
}

/// Whether there are more channels than one side of an image has pixels, and not more than the other.
fn is_between(channels: usize, rows: usize, columns: usize) -> bool {
    channels > rows.min(columns) && channels <= rows.max(columns)
}

fn infer(stored: &[usize], wanted: &[usize]) -> Result<(Arrange, Channels), String> {
    let (from, to) = (squeezed(stored), squeezed(wanted));
    // Every arrangement that fits the shapes; one without effect is the same as none.
    let mut fitting = Vec::new();
    if from == to {
        fitting.push((Arrange::AsIs, channels_of(wanted)));
    }
    let mut unlikely = false;
    if let (&[a, b, c], &[_, _, _]) = (stored, wanted) {
        for (fits, likely, arrange, channels) in [
            (
                wanted == [c, a, b],
                !is_between(c, a, b),
                Arrange::HwcToChw {
                    pixels: a * b,
                    channels: c,
                },
                Channels::First,
            ),
            (
                wanted == [b, c, a],
                !is_between(a, b, c),
                Arrange::ChwToHwc {
                    pixels: b * c,
                    channels: a,
                },
                Channels::Last,
            ),
        ] {
            // `[32, 3, 32]` for `[3, 32, 32]` is rather a mistake than 32 channels of 3x32 pixels.
            unlikely |= fits && !likely;
            let arrange = arrange.simplified();
            if fits && fitting.iter().all(|&(known, _)| known != arrange) {
                fitting.push((arrange, channels));
            }
        }
    }
    match fitting.as_slice() {
        [(arrange, _)] if unlikely && *arrange != Arrange::AsIs => {
            return Err("the axes do not match, unless there are more channels than rows but not than columns, or the \
                        other way round; if that is meant, add `--layout chw` or `--layout hwc`, as the data lies"
                .to_owned());
        }
        [only] => return Ok(*only),
        [_, ..] => {
            return Err("the shapes do not tell the order of the axes; add `--layout chw` or `--layout hwc`, as the data \
                        lies"
                .to_owned());
        }
        [] => {}
    }
    // One side is flat. A single channel has one order; several have two.
    match (from.len() <= 1, to.len() <= 1) {
        (true, _) if one_channel(wanted) => Ok((Arrange::AsIs, channels_of(wanted))),
        (_, true) if one_channel(stored) => Ok((Arrange::AsIs, channels_of(wanted))),
        (true, _) => Err(
            "flat numbers do not tell the order of the axes; add `--layout chw` or `--layout hwc`, as the data lies"
                .to_owned(),
        ),
        (_, true) => Err(flat_model()),
        _ => Err("the axes do not match".to_owned()),
    }
}

/// Whether a shape has no channels to tell apart, wherever its channel axis is.
fn one_channel(shape: &[usize]) -> bool {
    match shape {
        [first, _, last] => *first == 1 || *last == 1,
        _ => squeezed(shape).len() <= 2,
    }
}

/// The layout of the data is given; the model's follows from which of its two possible shapes is wanted.
fn explicit(
    stored: &[usize],
    wanted: &[usize],
    planes: bool,
) -> Result<(Arrange, Channels), String> {
    let (channels, height, width) = match (stored, wanted) {
        (&[a, b, c], _) if planes => (a, b, c),
        (&[a, b, c], _) => (c, a, b),
        (&[h, w], _) => (1, h, w),
        ([] | [_], &[a, b, c]) if channels_of(wanted) == Channels::First => (a, b, c),
        ([] | [_], &[a, b, c]) => (c, a, b),
        ([] | [_], &[h, w]) => (1, h, w),
        ([] | [_], [] | [_]) => return Ok((Arrange::AsIs, Channels::One)),
        _ => return Err("`--layout chw` and `--layout hwc` are for images".to_owned()),
    };
    let pixels = height * width;
    let (same, arrange) = if planes {
        (Channels::First, Arrange::ChwToHwc { pixels, channels })
    } else {
        (Channels::Last, Arrange::HwcToChw { pixels, channels })
    };
    let shape = |target| match target {
        Channels::First => [channels, height, width],
        _ => [height, width, channels],
    };
    // Where both shapes are the same, the model is taken to be in ONNX's order, channels first.
    for target in [Channels::First, Channels::Last] {
        if wanted == shape(target) {
            let arrange = if target == same {
                Arrange::AsIs
            } else {
                arrange.simplified()
            };
            return Ok((arrange, target));
        }
    }
    match squeezed(wanted).as_slice() {
        [_] if channels > 1 => Err(flat_model()),
        to if channels == 1 && (to.len() <= 1 || to == squeezed(&[height, width])) => {
            Ok((Arrange::AsIs, channels_of(wanted)))
        }
        _ => Err(format!(
            "data of {channels} channels, {height}x{width} pixels, does not fit"
        )),
    }
}

fn flat_model() -> String {
    "the shapes do not tell in which order the model wants the channels; if the data lies in that order, add `--layout \
     flat`"
        .to_owned()
}

fn size_mismatch(stored: &[usize], wanted: &[usize]) -> String {
    let (from, to) = (squeezed(stored), squeezed(wanted));
    let grey = from.len() == 2
        && match to.as_slice() {
            &[a, b, c] => {
                from == [a, b] && matches!(c, 3 | 4) || from == [b, c] && matches!(a, 3 | 4)
            }
            _ => false,
        };
    if grey {
        "the images are grey, the model is for colour; repeat the channel in the data if that is meant".to_owned()
    } else {
        "the sizes differ".to_owned()
    }
}

fn size(shape: &[usize]) -> Option<usize> {
    shape
        .iter()
        .try_fold(1usize, |product, &axis| product.checked_mul(axis))
}

fn squeezed(shape: &[usize]) -> Vec<usize> {
    shape.iter().copied().filter(|&axis| axis != 1).collect()
}

/// Height, width, channels and whether channels come first, of 8-bit images that are to be resized.
pub(crate) fn image_axes(
    stored: &[usize],
    layout: Option<Layout>,
) -> Result<(usize, usize, usize, Layout), String> {
    let few = |axis: usize| matches!(axis, 1 | 3 | 4);
    match (stored, layout) {
        (&[h, w], None | Some(Layout::Hw)) => Ok((h, w, 1, Layout::Hw)),
        (&[c, h, w], Some(Layout::Chw)) => Ok((h, w, c, Layout::Chw)),
        (&[h, w, c], Some(Layout::Hwc)) => Ok((h, w, c, Layout::Hwc)),
        (&[c, h, w], None) if few(c) && !few(w) => Ok((h, w, c, Layout::Chw)),
        (&[h, w, c], None) if few(c) && !few(h) => Ok((h, w, c, Layout::Hwc)),
        ([_, _, _], None) => {
            Err("the shape does not tell which axis is the channel; add `--layout chw` or `--layout hwc`".to_owned())
        }
        _ => Err("only images with known height and width can be resized".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok(stored: &[usize], wanted: &[usize], layout: Option<Layout>) -> (Arrange, Channels) {
        arrange(stored, wanted, layout)
            .unwrap_or_else(|error| panic!("{stored:?} {wanted:?}: {error}"))
    }

    fn error(stored: &[usize], wanted: &[usize], layout: Option<Layout>) -> String {
        arrange(stored, wanted, layout).unwrap_err()
    }

    #[test]
    fn equal_shapes_and_axes_of_length_1_change_nothing() {
        for (stored, wanted) in [
            (&[3, 32, 32][..], &[3, 32, 32][..]),
            (&[32, 32, 3], &[32, 32, 3]),
            (&[28, 28], &[1, 28, 28]),
            (&[28, 28], &[28, 28, 1]),
            (&[1, 28, 28], &[28, 28]),
            (&[28, 28, 1], &[1, 28, 28]),
            (&[784], &[1, 28, 28]),
            (&[784], &[28, 28]),
            (&[28, 28], &[784]),
            (&[1, 28, 28], &[784]),
            (&[], &[1]),
            (&[2, 3, 4, 5], &[2, 3, 4, 5]),
        ] {
            assert_eq!(
                ok(stored, wanted, None).0,
                Arrange::AsIs,
                "{stored:?} {wanted:?}"
            );
        }
    }

    #[test]
    fn channels_are_moved_where_the_shapes_tell() {
        let to_chw = Arrange::HwcToChw {
            pixels: 1024,
            channels: 3,
        };
        let to_hwc = Arrange::ChwToHwc {
            pixels: 1024,
            channels: 3,
        };
        assert_eq!(
            ok(&[32, 32, 3], &[3, 32, 32], None),
            (to_chw, Channels::First)
        );
        assert_eq!(
            ok(&[3, 32, 32], &[32, 32, 3], None),
            (to_hwc, Channels::Last)
        );
        // Numbers hwc = 100 h + 10 w + c of a 2x3 image with 2 channels.
        let hwc: Vec<f32> = [0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121]
            .map(|v| v as f32)
            .to_vec();
        let chw: Vec<f32> = [0, 10, 20, 100, 110, 120, 1, 11, 21, 101, 111, 121]
            .map(|v| v as f32)
            .to_vec();
        let mut out = vec![0.0; 12];
        ok(&[2, 3, 2], &[2, 2, 3], Some(Layout::Hwc))
            .0
            .apply(&hwc, &mut out);
        assert_eq!(out, chw);
        ok(&[2, 2, 3], &[2, 3, 2], Some(Layout::Chw))
            .0
            .apply(&chw, &mut out);
        assert_eq!(out, hwc);
    }

    #[test]
    fn ambiguous_shapes_name_the_option() {
        for (stored, wanted) in [
            (&[3, 3, 3][..], &[3, 3, 3][..]),
            (&[3, 3, 1], &[3, 1, 3]),
            (&[2, 1, 3], &[6]),
            (&[3072], &[3, 32, 32]),
            (&[3072], &[32, 32, 3]),
            (&[3, 32, 32], &[3072]),
            (&[32, 32, 3], &[3072]),
        ] {
            let message = error(stored, wanted, None);
            assert!(
                message.contains("--layout"),
                "{stored:?} {wanted:?}: {message}"
            );
        }
    }

    #[test]
    fn channels_in_the_middle_are_no_channels() {
        for (stored, wanted) in [
            (&[32, 3, 32][..], &[3, 32, 32][..]),
            (&[32, 3, 32], &[32, 32, 3]),
        ] {
            let message = error(stored, wanted, None);
            assert!(message.contains("more channels than rows"), "{message}");
        }
        assert!(arrange(&[32, 3, 32], &[3, 32, 32], Some(Layout::Chw)).is_ok());
        // More channels than both is what the maps of a deep layer have.
        assert!(arrange(&[8, 8, 64], &[64, 8, 8], None).is_ok());
        assert!(arrange(&[2, 1, 3], &[3, 2, 1], None).is_ok());
    }

    #[test]
    fn a_given_layout_settles_it() {
        use Layout::*;
        let to_chw = |pixels, channels| Arrange::HwcToChw { pixels, channels };
        let to_hwc = |pixels, channels| Arrange::ChwToHwc { pixels, channels };
        for (stored, wanted, layout, expected) in [
            (&[3, 3, 3][..], &[3, 3, 3][..], Chw, Arrange::AsIs),
            (&[3, 3, 3], &[3, 3, 3], Hwc, to_chw(9, 3)),
            (&[3072], &[3, 32, 32], Chw, Arrange::AsIs),
            (&[3072], &[3, 32, 32], Hwc, to_chw(1024, 3)),
            (&[3072], &[32, 32, 3], Chw, to_hwc(1024, 3)),
            (&[3072], &[32, 32, 3], Hwc, Arrange::AsIs),
            (&[3072], &[3, 32, 32], Flat, Arrange::AsIs),
            (&[3, 32, 32], &[3072], Flat, Arrange::AsIs),
            (&[32, 32, 3], &[32, 32, 3], Hwc, Arrange::AsIs),
            (&[784], &[1, 28, 28], Hw, Arrange::AsIs),
            (&[28, 28], &[1, 28, 28], Chw, Arrange::AsIs),
            (&[28, 28, 1], &[784], Hwc, Arrange::AsIs),
            (&[1, 28, 28], &[28, 28], Chw, Arrange::AsIs),
        ] {
            let found = ok(stored, wanted, Some(layout)).0;
            assert_eq!(found, expected, "{stored:?} {wanted:?} {layout}");
        }
        assert!(error(&[3, 32, 32], &[3072], Some(Chw)).contains("--layout flat"));
        assert!(error(&[3, 32, 32], &[32, 32, 3], Some(Hwc)).contains("does not fit"));
        assert!(error(&[3, 32, 32], &[3, 32, 32], Some(Hw)).contains("one channel"));
    }

    #[test]
    fn sizes_that_differ_are_errors() {
        assert_eq!(
            error(&[28, 28], &[3, 28, 28], None),
            error(&[28, 28], &[28, 28, 3], None)
        );
        assert!(error(&[28, 28], &[3, 28, 28], None).contains("grey"));
        assert!(error(&[28, 28], &[1, 32, 32], None).contains("sizes differ"));
        assert!(error(&[2, 6], &[3, 4], None).contains("axes"));
        assert!(error(&[usize::MAX, 2], &[usize::MAX, 2], None).contains("sizes differ"));
    }

    #[test]
    fn images_are_found_in_either_order_and_behind_flat_inputs() {
        let image = |stored: &[usize], wanted: &[usize]| {
            let (_, channels) = ok(stored, wanted, Some(Layout::Flat));
            image_shape(stored, wanted, channels)
                .map(|i| (i.height, i.width, i.channels, i.channels_last))
        };
        assert_eq!(image(&[5, 7, 3], &[3, 5, 7]), Some((5, 7, 3, false)));
        assert_eq!(image(&[3, 5, 7], &[5, 7, 3]), Some((5, 7, 3, true)));
        assert_eq!(image(&[35], &[5, 7]), Some((5, 7, 1, false)));
        assert_eq!(image(&[5, 7], &[35]), Some((5, 7, 1, false)));
        assert_eq!(image(&[5, 7, 3], &[105]), Some((5, 7, 3, true)));
        assert_eq!(image(&[35], &[35]), None);
        assert_eq!(image(&[1, 35], &[1, 35]), None);
        let rgb = image_shape(&[], &[5, 7, 3], Channels::Last).unwrap();
        assert_eq!(rgb.position(1, 2, 1), 28);
        let planes = ImageShape {
            channels_last: false,
            ..rgb
        };
        assert_eq!(planes.position(1, 2, 1), 44);
    }

    #[test]
    fn layouts_are_read_from_their_names() {
        for layout in [Layout::Hw, Layout::Chw, Layout::Hwc, Layout::Flat] {
            assert_eq!(layout.to_string().parse(), Ok(layout));
        }
        assert_eq!("NCHW".parse(), Ok(Layout::Chw));
        assert!("cwh".parse::<Layout>().is_err());
    }
}
