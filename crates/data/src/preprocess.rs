//! How stored numbers become the model's input: `(x / divide - mean) / std`, per channel.

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::layout::{Channels, Layout};
use crate::resize::{Geometry, ImageSize, Interpolation};

/// What to do with stored numbers before they enter the model. The default changes nothing.
///
/// Artefacts record it as JSON with these fields, in this order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Preprocessing {
    /// Divides every number, first of all: 255 brings pixels to 0..1.
    pub divide: Option<f32>,
    /// Subtracted next: nothing, one number for all, or one per channel.
    pub mean: Vec<f32>,
    /// Divides last: nothing, one number for all, or one per channel.
    pub std: Vec<f32>,
    /// The size to bring 8-bit images to, as they are stored (before `divide`).
    pub resize: Option<ImageSize>,
    /// How the data lies, where the shapes do not tell.
    pub layout: Option<Layout>,
    /// Height and width of the middle that is cut out of 8-bit images, after they are resized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crop: Option<(usize, usize)>,
    /// How images are resized.
    #[serde(default, skip_serializing_if = "Interpolation::is_default")]
    pub interpolation: Interpolation,
    /// What a program does with data before it hands it over, where it does something: a name. Nothing here repeats it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_caller: Option<String>,
}

impl Preprocessing {
    /// What is done to the height and width of images, if anything.
    pub(crate) fn geometry(&self) -> Option<Geometry> {
        let geometry = Geometry {
            resize: self.resize,
            crop: self.crop,
            interpolation: self.interpolation,
        };
        (self.resize.is_some() || self.crop.is_some()).then_some(geometry)
    }
}

/// The arithmetic part, checked and laid out for samples of one shape.
#[derive(Clone, Debug)]
pub(crate) struct Normalise {
    divide: f32,
    /// One pair, or one per channel.
    channels: Vec<(f32, f32)>,
    order: Order,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Same,
    Planes(usize),
    Interleaved,
}

impl Normalise {
    pub(crate) fn new(
        options: &Preprocessing,
        wanted: &[usize],
        channels: Channels,
    ) -> Result<Normalise, DataError> {
        let count = match (channels, wanted) {
            (Channels::First, [count, ..]) | (Channels::Last, [.., count]) => *count,
            _ => 1,
        };
        let divide = options.divide.unwrap_or(1.0);
        divisor("divide", divide)?;
        for &std in &options.std {
            divisor("std", std)?;
        }
        if let Some(mean) = options.mean.iter().find(|mean| !mean.is_finite()) {
            return Err(DataError::Preprocessing(format!(
                "`--mean` cannot be `{mean}`"
            )));
        }
        let means = per_channel("mean", &options.mean, count, 0.0, wanted)?;
        let stds = per_channel("std", &options.std, count, 1.0, wanted)?;
        let pairs = means.into_iter().zip(stds);
        let mut channels_pairs: Vec<(f32, f32)> = pairs.collect();
        let order = if channels_pairs.windows(2).all(|pair| pair[0] == pair[1]) {
            channels_pairs.truncate(1);
            Order::Same
        } else if channels == Channels::First {
            Order::Planes(wanted.iter().skip(1).product())
        } else {
            Order::Interleaved
        };
        Ok(Normalise {
            divide,
            channels: channels_pairs,
            order,
        })
    }

    /// What leaves all numbers as they are.
    pub(crate) fn nothing() -> Normalise {
        Normalise {
            divide: 1.0,
            channels: vec![(0.0, 1.0)],
            order: Order::Same,
        }
    }

    /// What every number is divided by first.
    pub(crate) fn divisor(&self) -> f32 {
        self.divide
    }

    /// Normalises whole samples in place.
    pub(crate) fn apply(&self, values: &mut [f32]) {
        let divide = self.divide;
        if divide == 1.0 && self.channels == [(0.0, 1.0)] {
            return;
        }
        self.by_channel(values, |values, (mean, std)| {
            for value in values {
                *value = (*value / divide - mean) / std;
            }
        });
    }

    /// Turns derivatives with respect to what [`apply`](Normalise::apply) gives into those with
    /// respect to the divided numbers, `x / divide`.
    pub(crate) fn pull_back(&self, gradient: &mut [f32]) {
        if self.channels.iter().all(|&(_, std)| std == 1.0) {
            return;
        }
        self.by_channel(gradient, |values, (_, std)| {
            for value in values {
                *value /= std;
            }
        });
    }

    /// Calls a function with numbers of whole samples, and with mean and std of their channel.
    fn by_channel(&self, values: &mut [f32], each: impl Fn(&mut [f32], (f32, f32))) {
        match self.order {
            Order::Same => self.channels.iter().for_each(|&pair| each(values, pair)),
            Order::Planes(pixels) => {
                let planes = values.chunks_exact_mut(pixels);
                for (plane, &pair) in planes.zip(self.channels.iter().cycle()) {
                    each(plane, pair);
                }
            }
            Order::Interleaved => {
                for pixel in values.chunks_exact_mut(self.channels.len()) {
                    for (value, &pair) in pixel.iter_mut().zip(&self.channels) {
                        each(std::slice::from_mut(value), pair);
                    }
                }
            }
        }
    }
}

fn divisor(name: &str, value: f32) -> Result<(), DataError> {
    if value.is_finite() && value != 0.0 {
        Ok(())
    } else {
        Err(DataError::Preprocessing(format!(
            "`--{name}` cannot be `{value}`: numbers are divided by it"
        )))
    }
}

fn per_channel(
    name: &str,
    values: &[f32],
    channels: usize,
    default: f32,
    wanted: &[usize],
) -> Result<Vec<f32>, DataError> {
    match *values {
        [] => Ok(vec![default; channels]),
        [single] => Ok(vec![single; channels]),
        _ if values.len() == channels => Ok(values.to_vec()),
        _ => Err(DataError::Preprocessing(format!(
            "`--{name}` has {} values, but a model input of shape {wanted:?} has {}",
            values.len(),
            match channels {
                1 => "no channels to tell apart: give one value".to_owned(),
                _ => format!("{channels} channels: give one value, or {channels}"),
            }
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(divide: Option<f32>, mean: &[f32], std: &[f32]) -> Preprocessing {
        Preprocessing {
            divide,
            mean: mean.to_vec(),
            std: std.to_vec(),
            ..Preprocessing::default()
        }
    }

    fn apply(
        options: &Preprocessing,
        wanted: &[usize],
        channels: Channels,
        values: &[f32],
    ) -> Vec<f32> {
        let mut values = values.to_vec();
        Normalise::new(options, wanted, channels)
            .unwrap()
            .apply(&mut values);
        values
    }

    #[test]
    fn formula_per_channel() {
        let values = [10.0, 20.0, 30.0, 40.0];
        let one = options(Some(10.0), &[1.0], &[0.5]);
        assert_eq!(
            apply(&one, &[4], Channels::One, &values),
            [0.0, 2.0, 4.0, 6.0]
        );
        let two = options(Some(10.0), &[1.0, 2.0], &[1.0, 0.5]);
        assert_eq!(
            apply(&two, &[2, 1, 2], Channels::First, &values),
            [0.0, 1.0, 2.0, 4.0]
        );
        assert_eq!(
            apply(&two, &[1, 2, 2], Channels::Last, &values),
            [0.0, 0.0, 2.0, 4.0]
        );
        let mean_only = options(None, &[1.0, 2.0], &[]);
        assert_eq!(
            apply(&mean_only, &[1, 2, 2], Channels::Last, &values),
            [9.0, 18.0, 29.0, 38.0]
        );
        assert_eq!(
            apply(&Preprocessing::default(), &[4], Channels::One, &values),
            values
        );
        // Two samples in one call.
        assert_eq!(
            apply(&two, &[2, 1, 1], Channels::First, &values),
            [0.0, 0.0, 2.0, 4.0]
        );
    }

    /// What artefacts hold. The digest of a decision graph covers these bytes.
    #[test]
    fn records_are_json_of_the_fields() {
        let all = Preprocessing {
            resize: Some(ImageSize::Exactly(32, 48)),
            layout: Some(Layout::Chw),
            ..options(Some(255.0), &[0.1], &[0.5, 0.25])
        };
        let cropped = Preprocessing {
            resize: Some(ImageSize::ShortSide(256)),
            crop: Some((224, 192)),
            interpolation: Interpolation::Bicubic,
            ..all.clone()
        };
        let (none, some, middle) = (
            r#"{"divide":null,"mean":[],"std":[],"resize":null,"layout":null}"#,
            r#"{"divide":255.0,"mean":[0.1],"std":[0.5,0.25],"resize":[32,48],"layout":"chw"}"#,
            r#"{"divide":255.0,"mean":[0.1],"std":[0.5,0.25],"resize":256,"layout":"chw","crop":[224,192],"interpolation":"bicubic"}"#,
        );
        for (value, json) in [
            (Preprocessing::default(), none),
            (all, some),
            (cropped, middle),
        ] {
            assert_eq!(serde_json::to_string(&value).unwrap(), json);
            let again: Preprocessing = serde_json::from_str(json).unwrap();
            assert_eq!(again, value);
        }
        let wrong = some.replace("chw", "whc");
        let error = serde_json::from_str::<Preprocessing>(&wrong).unwrap_err();
        assert!(
            error.to_string().starts_with("`whc` is no layout"),
            "{error}"
        );
    }

    #[test]
    fn derivatives_are_divided_by_the_std_of_their_channel() {
        let pull_back = |options: &Preprocessing, wanted: &[usize], channels: Channels| {
            let mut gradient = [1.0, 2.0, 3.0, 4.0];
            let normalise = Normalise::new(options, wanted, channels).unwrap();
            normalise.pull_back(&mut gradient);
            gradient
        };
        let two = options(Some(10.0), &[1.0, 2.0], &[-1.0, 0.5]);
        let planes = pull_back(&two, &[2, 1, 2], Channels::First);
        assert_eq!(planes, [-1.0, -2.0, 6.0, 8.0]);
        let interleaved = pull_back(&two, &[1, 2, 2], Channels::Last);
        assert_eq!(interleaved, [-1.0, 4.0, -3.0, 8.0]);
        let mean_only = options(Some(10.0), &[1.0], &[]);
        let unchanged = pull_back(&mean_only, &[4], Channels::One);
        assert_eq!(unchanged, [1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn impossible_options_are_errors() {
        let error = |options: &Preprocessing| {
            Normalise::new(options, &[3, 32, 32], Channels::First)
                .unwrap_err()
                .to_string()
        };
        assert!(error(&options(Some(0.0), &[], &[])).contains("--divide"));
        assert!(error(&options(Some(f32::NAN), &[], &[])).contains("--divide"));
        assert!(error(&options(None, &[], &[1.0, 0.0, 1.0])).contains("--std"));
        assert!(error(&options(None, &[f32::INFINITY], &[])).contains("--mean"));
        assert!(error(&options(None, &[1.0, 2.0], &[])).contains("2 values"));
        let flat = Normalise::new(&options(None, &[1.0; 3], &[]), &[3072], Channels::One);
        assert!(flat.unwrap_err().to_string().contains("give one value"));
    }
}
