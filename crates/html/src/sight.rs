//! What inputs are, and how they look: images, series, rows of a table, tokens.

use npcov::data::{Element, ImageShape, Loader};

use crate::raster::{self, Raster, Size};

/// Points of a series that are drawn, at most.
const MOST_POINTS: usize = 240;

/// Features without names that are a row of a table; more are a series.
const MOST_FEATURES: usize = 40;

/// Channels of a series, at most; more of them are the rows of an image.
const MOST_CHANNELS: usize = 16;

/// Words for the numbers of inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// What the features of a table are called, in their order.
    pub features: Vec<String>,
    /// What tokens mean, by their numbers.
    pub words: Vec<String>,
}

/// What the inputs of a dataset are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Pixels.
    Image(ImageShape),
    /// Numbers over time: so many channels, in so many steps.
    Series {
        /// Channels.
        channels: usize,
        /// Steps.
        steps: usize,
        /// Whether the channels of a step stand together.
        channels_last: bool,
    },
    /// A number for each feature.
    Row,
    /// Numbers of words.
    Tokens,
}

impl Kind {
    /// Of data for a model that takes inputs of a shape, and whole numbers where `whole` says so.
    pub(crate) fn of(data: &Loader<'_>, shape: &[usize], whole: bool, names: &Names) -> Kind {
        let axes: Vec<usize> = shape
            .iter()
            .copied()
            .filter(|&extent| extent != 1)
            .collect();
        let stored_image = data
            .image()
            .filter(|_| data.input().shape().len() > 2 || data.are_images());
        Kind::of_shape(
            &axes,
            data.image(),
            stored_image.is_some(),
            whole,
            data.input().element(),
            names,
        )
    }

    fn of_shape(
        axes: &[usize],
        image: Option<ImageShape>,
        surely_image: bool,
        whole: bool,
        element: Element,
        names: &Names,
    ) -> Kind {
        let integers = matches!(
            element,
            Element::I32 | Element::I64 | Element::U32 | Element::U64
        );
        let numbers: usize = axes.iter().product();
        if axes.len() <= 1 && integers && (whole || !names.words.is_empty()) {
            return Kind::Tokens;
        }
        if let &[a, b] = axes
            && !surely_image
            && a.min(b) <= MOST_CHANNELS
            && a.max(b) >= 4 * a.min(b)
        {
            return Kind::Series {
                channels: a.min(b),
                steps: a.max(b),
                channels_last: b < a,
            };
        }
        if let Some(shape) = image {
            return Kind::Image(shape);
        }
        match names.features.len() == numbers || numbers <= MOST_FEATURES {
            true => Kind::Row,
            false => Kind::Series {
                channels: 1,
                steps: numbers,
                channels_last: false,
            },
        }
    }
}

/// How an input looks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Sight {
    /// Pixels, small and where it is looked at alone large, and the same of its relevance.
    Image {
        small: Raster,
        large: Option<Raster>,
        heat: Option<Raster>,
        large_heat: Option<Raster>,
    },
    /// Lines, and the relevance of each step.
    Series {
        channels: Vec<Vec<f32>>,
        relevance: Option<Vec<f32>>,
    },
    /// Values of features, and their relevance.
    Row {
        values: Vec<f32>,
        relevance: Option<Vec<f32>>,
    },
    /// Words, and their relevance.
    Tokens {
        tokens: Vec<u64>,
        relevance: Option<Vec<f32>>,
    },
}

impl Sight {
    /// Of an input's numbers as they are stored and, where they are known, their relevances.
    pub(crate) fn new(
        kind: Kind,
        numbers: &[f32],
        bytes: bool,
        relevance: Option<&[f32]>,
        alone: bool,
    ) -> Sight {
        let relevance = relevance.filter(|relevance| relevance.len() == numbers.len());
        match kind {
            Kind::Image(shape) => {
                let is_large = shape.height.max(shape.width) > 64;
                let large = |alone: bool| alone && is_large;
                Sight::Image {
                    small: raster::image(shape, numbers, bytes, Size::Small),
                    large: large(alone).then(|| raster::image(shape, numbers, bytes, Size::Large)),
                    heat: relevance.map(|r| raster::relevance(shape, r, Size::Small)),
                    large_heat: relevance
                        .filter(|_| large(alone))
                        .map(|r| raster::relevance(shape, r, Size::Large)),
                }
            }
            Kind::Series {
                channels,
                steps,
                channels_last,
            } => {
                let at = |channel: usize, step: usize| match channels_last {
                    true => step * channels + channel,
                    false => channel * steps + step,
                };
                let points = steps.min(MOST_POINTS);
                let span = |i: usize| i * steps / points..(i + 1) * steps / points;
                let line = |channel: usize| {
                    let mean = |i: usize| {
                        let sum: f32 = span(i).map(|step| numbers[at(channel, step)]).sum();
                        sum / span(i).len() as f32
                    };
                    (0..points).map(mean).collect()
                };
                let of_step =
                    |r: &[f32], step: usize| (0..channels).map(|c| r[at(c, step)]).sum::<f32>();
                let sum = |r: &[f32], i: usize| span(i).map(|step| of_step(r, step)).sum();
                Sight::Series {
                    channels: (0..channels).map(line).collect(),
                    relevance: relevance.map(|r| (0..points).map(|i| sum(r, i)).collect()),
                }
            }
            Kind::Row => Sight::Row {
                values: numbers.to_vec(),
                relevance: relevance.map(<[f32]>::to_vec),
            },
            Kind::Tokens => Sight::Tokens {
                tokens: numbers.iter().map(|&number| number as u64).collect(),
                relevance: relevance.map(<[f32]>::to_vec),
            },
        }
    }

    /// Whether its relevance is known.
    pub(crate) fn has_heat(&self) -> bool {
        match self {
            Sight::Image { heat, .. } => heat.is_some(),
            Sight::Series { relevance, .. }
            | Sight::Row { relevance, .. }
            | Sight::Tokens { relevance, .. } => relevance.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(axes: &[usize], whole: bool, element: Element, names: &Names) -> Kind {
        Kind::of_shape(axes, None, false, whole, element, names)
    }

    #[test]
    fn shapes_say_what_inputs_are() {
        let none = Names::default();
        let series = |channels, steps, channels_last| Kind::Series {
            channels,
            steps,
            channels_last,
        };
        assert_eq!(kind(&[4], false, Element::F32, &none), Kind::Row);
        assert_eq!(
            kind(&[128], false, Element::F64, &none),
            series(1, 128, false)
        );
        assert_eq!(
            kind(&[3, 128], false, Element::F32, &none),
            series(3, 128, false)
        );
        assert_eq!(
            kind(&[128, 3], false, Element::F32, &none),
            series(3, 128, true)
        );
        assert_eq!(kind(&[32], true, Element::I64, &none), Kind::Tokens);
        assert_eq!(kind(&[32], false, Element::I64, &none), Kind::Row);
        let named = Names {
            features: vec![String::new(); 128],
            words: Vec::new(),
        };
        assert_eq!(kind(&[128], false, Element::F32, &named), Kind::Row);
        let words = Names {
            features: Vec::new(),
            words: vec!["the".to_owned()],
        };
        assert_eq!(kind(&[9], false, Element::I32, &words), Kind::Tokens);
        let image = ImageShape {
            height: 8,
            width: 8,
            channels: 1,
            channels_last: false,
        };
        let digits = Kind::of_shape(&[8, 8], Some(image), false, false, Element::F32, &none);
        assert_eq!(digits, Kind::Image(image));
    }

    #[test]
    fn channels_of_series_are_found_in_either_order() {
        let numbers = [1.0, 2.0, 3.0, 10.0, 20.0, 30.0];
        let relevance = [0.0, 1.0, 0.0, 0.5, 0.0, -1.0];
        let first = Kind::Series {
            channels: 2,
            steps: 3,
            channels_last: false,
        };
        let seen = Sight::new(first, &numbers, false, Some(&relevance), false);
        let expected = Sight::Series {
            channels: vec![vec![1.0, 2.0, 3.0], vec![10.0, 20.0, 30.0]],
            relevance: Some(vec![0.5, 1.0, -1.0]),
        };
        assert_eq!(seen, expected);
        let last = Kind::Series {
            channels: 2,
            steps: 3,
            channels_last: true,
        };
        let turned = [1.0, 10.0, 2.0, 20.0, 3.0, 30.0];
        let weights = [0.0, 0.5, 1.0, 0.0, 0.0, -1.0];
        assert_eq!(
            Sight::new(last, &turned, false, Some(&weights), false),
            expected
        );
    }

    #[test]
    fn long_series_are_means_and_their_relevance_sums() {
        let kind = Kind::Series {
            channels: 1,
            steps: 480,
            channels_last: false,
        };
        let numbers: Vec<f32> = (0..480).map(|i| (i % 2) as f32).collect();
        let seen = Sight::new(kind, &numbers, false, Some(&numbers), false);
        let Sight::Series {
            channels,
            relevance,
        } = seen
        else {
            panic!("{seen:?}");
        };
        assert_eq!((channels[0].len(), channels[0][7]), (MOST_POINTS, 0.5));
        assert_eq!(relevance.unwrap()[7], 1.0);
    }
}
