//! Values that flags and `npcov.toml` write in the same way.

use std::str::FromStr;

use npcov::data::Layout;
use npcov::program::Selector;
use serde::Deserialize;

/// A shape: `3x48x192`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Shape(pub(crate) Vec<usize>);

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let extent = |part: &str| part.trim().parse().ok().filter(|&n: &usize| n > 0);
        text.split(['x', ','])
            .map(extent)
            .collect::<Option<Vec<_>>>()
            .map(Shape)
            .ok_or_else(|| format!("`{text}` is no shape; write it like `3x48x192`"))
    }
}

impl TryFrom<String> for Shape {
    type Error = String;

    fn try_from(text: String) -> Result<Shape, String> {
        text.parse()
    }
}

/// Height and width: `224x224`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Size(pub(crate) usize, pub(crate) usize);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        match text.parse::<Shape>().as_ref().map(|shape| &shape.0[..]) {
            Ok(&[height, width]) => Ok(Size(height, width)),
            _ => Err(format!(
                "`{text}` is no height and width; write them like `224x224`"
            )),
        }
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Size, String> {
        text.parse()
    }
}

/// A number of threads. More than the largest machines have cores is a typing error, and would
/// take their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "usize")]
pub(crate) struct Threads(pub(crate) usize);

impl TryFrom<usize> for Threads {
    type Error = String;

    fn try_from(count: usize) -> Result<Threads, String> {
        match count {
            1..=1024 => Ok(Threads(count)),
            _ => Err(format!("`{count}` threads; use 1 to 1024")),
        }
    }
}

impl FromStr for Threads {
    type Err = String;

    fn from_str(text: &str) -> Result<Threads, String> {
        let count: usize = text.parse().map_err(|_| "no whole number".to_owned())?;
        count.try_into()
    }
}

/// A number for all channels, or one for each: `0.5`, `[0.48, 0.46, 0.41]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a number or a list of numbers")]
pub(crate) enum Numbers {
    One(f32),
    Many(Vec<f32>),
}

impl Numbers {
    pub(crate) fn list(&self) -> Vec<f32> {
        match self {
            Numbers::One(number) => vec![*number],
            Numbers::Many(numbers) => numbers.clone(),
        }
    }
}

/// A path layer in `npcov.toml`: an index, a name or a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected the index, name or pattern of a layer")]
pub(crate) enum LayerName {
    Index(i64),
    Name(String),
}

impl From<&LayerName> for Selector {
    fn from(layer: &LayerName) -> Selector {
        match layer {
            LayerName::Index(index) => Selector::Index(*index),
            // A node that is called `1` can be meant here, unlike on the command line.
            LayerName::Name(name) => Selector::Name(name.clone()),
        }
    }
}

/// How the data lies, as in `--layout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct LayoutName(pub(crate) Layout);

impl TryFrom<String> for LayoutName {
    type Error = String;

    fn try_from(text: String) -> Result<LayoutName, String> {
        text.parse().map(LayoutName)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_and_sizes() {
        assert_eq!("3x48x192".parse(), Ok(Shape(vec![3, 48, 192])));
        assert_eq!("784".parse(), Ok(Shape(vec![784])));
        for wrong in ["", "x", "3x", "0x2", "-1x2", "3*4", "99999999999999999999"] {
            assert!(wrong.parse::<Shape>().is_err(), "{wrong}");
        }
        assert_eq!("32x64".parse(), Ok(Size(32, 64)));
        assert!("32".parse::<Size>().is_err() && "1x2x3".parse::<Size>().is_err());
    }
}
