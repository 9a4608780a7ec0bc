//! Checked access to the attributes of an ONNX node.
//!
//! Reading marks an attribute as known. What is left unread at the end is an attribute npcov does
//! not understand, and ignoring it could change the result, so it is an error.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::proto::{AttributeProto, GraphProto, TensorProto, attribute_type as kind};
use crate::error::OpError;

/// The attributes of one node.
pub(crate) struct Attributes<'a> {
    /// Owned where a function's caller supplied the attribute.
    list: Vec<Cow<'a, AttributeProto>>,
    read: Rc<RefCell<BTreeSet<String>>>,
}

impl<'a> Attributes<'a> {
    pub(crate) fn new(list: Vec<Cow<'a, AttributeProto>>) -> Self {
        Attributes {
            list,
            read: Rc::default(),
        }
    }

    /// The same attributes for somebody else to read; what is read there is read here.
    pub(crate) fn shared(&self) -> Attributes<'_> {
        Attributes {
            list: self.list.iter().map(|a| Cow::Borrowed(&**a)).collect(),
            read: Rc::clone(&self.read),
        }
    }

    /// All attributes, for a function's body to refer to.
    pub(crate) fn list(&self) -> &[Cow<'a, AttributeProto>] {
        &self.list
    }

    /// An integer, or `default` when it is absent.
    pub(crate) fn int(&self, name: &str, default: i64) -> Result<i64, OpError> {
        Ok(self.optional_int(name)?.unwrap_or(default))
    }

    /// An integer, when it is present.
    pub(crate) fn optional_int(&self, name: &str) -> Result<Option<i64>, OpError> {
        self.get(name, kind::INT, |a| a.i)
    }

    /// An integer that means yes or no.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, OpError> {
        Ok(self.int(name, i64::from(default))? != 0)
    }

    /// Integers, when they are present.
    pub(crate) fn ints(&self, name: &str) -> Result<Option<Vec<i64>>, OpError> {
        self.get(name, kind::INTS, |a| Some(a.ints.clone()))
    }

    /// A number, or `default` when it is absent.
    pub(crate) fn float(&self, name: &str, default: f32) -> Result<f32, OpError> {
        Ok(self.optional_float(name)?.unwrap_or(default))
    }

    /// A number, when it is present.
    pub(crate) fn optional_float(&self, name: &str) -> Result<Option<f32>, OpError> {
        self.get(name, kind::FLOAT, |a| a.f)
    }

    /// Numbers, when they are present.
    pub(crate) fn floats(&self, name: &str) -> Result<Option<Vec<f32>>, OpError> {
        self.get(name, kind::FLOATS, |a| Some(a.floats.clone()))
    }

    /// A text, or `default` when it is absent.
    pub(crate) fn string(&self, name: &str, default: &str) -> Result<String, OpError> {
        let bytes = self.get(name, kind::STRING, |a| a.s.clone())?;
        match bytes {
            None => Ok(default.to_owned()),
            Some(bytes) => String::from_utf8(bytes.to_vec())
                .map_err(|_| OpError::invalid(format!("attribute `{name}` is not UTF-8"))),
        }
    }

    /// Texts, when they are present.
    pub(crate) fn strings(&self, name: &str) -> Result<Option<Vec<String>>, OpError> {
        let list = self.get(name, kind::STRINGS, |a| Some(a.strings.clone()))?;
        let text = |bytes: &bytes::Bytes| String::from_utf8(bytes.to_vec());
        list.map(|list| list.iter().map(text).collect::<Result<_, _>>())
            .transpose()
            .map_err(|_| OpError::invalid(format!("attribute `{name}` is not UTF-8")))
    }

    /// A tensor as stored, when it is present.
    pub(crate) fn tensor(&self, name: &str) -> Result<Option<TensorProto>, OpError> {
        self.get(name, kind::TENSOR, |a| a.t.clone())
    }

    /// A subgraph, when it is present.
    pub(crate) fn graph(&self, name: &str) -> Result<Option<&GraphProto>, OpError> {
        let Some(attribute) = self.find(name) else {
            return Ok(None);
        };
        match &attribute.g {
            Some(graph) => Ok(Some(graph)),
            None => Err(wrong_type(name)),
        }
    }

    /// Marks attributes as known that have no effect on the result of inference.
    pub(crate) fn ignore(&self, names: &[&str]) {
        for name in names {
            self.mark(name);
        }
    }

    /// An error when an attribute was never asked for.
    pub(crate) fn check_all_read(&self) -> Result<(), OpError> {
        let read = self.read.borrow();
        let unread = self
            .list
            .iter()
            .map(|a| a.name.as_deref().unwrap_or_default())
            .find(|name| !read.contains(*name));
        match unread {
            Some(name) => Err(OpError::unsupported(format!("attribute `{name}`"))),
            None => Ok(()),
        }
    }

    fn mark(&self, name: &str) {
        self.read.borrow_mut().insert(name.to_owned());
    }

    fn find(&self, name: &str) -> Option<&AttributeProto> {
        self.mark(name);
        self.list
            .iter()
            .find(|a| a.name.as_deref() == Some(name))
            .map(Cow::as_ref)
    }

    fn get<T>(
        &self,
        name: &str,
        kind: i32,
        value: impl FnOnce(&AttributeProto) -> Option<T>,
    ) -> Result<Option<T>, OpError> {
        let Some(attribute) = self.find(name) else {
            return Ok(None);
        };
        // Some old exporters leave the type out; then the field that is set decides.
        match attribute.r#type {
            Some(t) if t != kind && t != 0 => Err(wrong_type(name)),
            _ => value(attribute).map(Some).ok_or_else(|| wrong_type(name)),
        }
    }
}

fn wrong_type(name: &str) -> OpError {
    OpError::invalid(format!("attribute `{name}` has another type"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(name: &str, value: i64) -> Cow<'static, AttributeProto> {
        Cow::Owned(AttributeProto {
            name: Some(name.into()),
            r#type: Some(kind::INT),
            i: Some(value),
            ..Default::default()
        })
    }

    #[test]
    fn reading_gives_the_value_or_the_default() {
        let attributes = Attributes::new(vec![int("axis", 3)]);
        assert_eq!(attributes.int("axis", 1), Ok(3));
        assert_eq!(attributes.int("group", 1), Ok(1));
        assert!(attributes.float("axis", 0.0).is_err());
        assert!(attributes.ints("axis").is_err());
    }

    #[test]
    fn an_attribute_nobody_reads_is_an_error() {
        let attributes = Attributes::new(vec![int("axis", 3), int("mystery", 1)]);
        attributes.int("axis", 0).unwrap();
        assert_eq!(
            attributes.check_all_read(),
            Err(OpError::unsupported("attribute `mystery`"))
        );
        attributes.ignore(&["mystery"]);
        assert_eq!(attributes.check_all_read(), Ok(()));
    }
}
