//! Numbers that Python sees where they lie, and the other way round.
//!
//! Both ways go by numpy's array interface: an address, a shape and a type. It needs neither numpy when this
//! is built nor a newer Python than the oldest that is supported.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::slice;

use npcov::TraceArray;
use npcov::data::Scalar;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// An array of npcov. `numpy.asarray` shows it without a copy, and keeps it as long as it is looked at.
#[pyclass(frozen, module = "npcov._npcov")]
pub(crate) struct Array {
    shape: Vec<usize>,
    numbers: Numbers,
}

enum Numbers {
    F32(Vec<f32>),
    I64(Vec<i64>),
    Bool(Vec<bool>),
}

impl Array {
    pub(crate) fn whole(numbers: impl IntoIterator<Item = usize>) -> Array {
        let numbers: Vec<i64> = numbers.into_iter().map(|n| n as i64).collect();
        Array {
            shape: vec![numbers.len()],
            numbers: Numbers::I64(numbers),
        }
    }

    pub(crate) fn truths(numbers: Vec<bool>) -> Array {
        Array {
            shape: vec![numbers.len()],
            numbers: Numbers::Bool(numbers),
        }
    }

    /// Rows of a shape.
    pub(crate) fn rows(row: &[usize], numbers: Vec<f32>) -> Array {
        let len = row.iter().product::<usize>().max(1);
        Array {
            shape: [&[numbers.len() / len], row].concat(),
            numbers: Numbers::F32(numbers),
        }
    }
}

impl From<TraceArray> for Array {
    fn from(array: TraceArray) -> Array {
        match array {
            TraceArray::Numbers(row, numbers) => Array::rows(&row, numbers),
            TraceArray::Classes(classes) => Array {
                shape: vec![classes.len()],
                numbers: Numbers::I64(classes),
            },
            TraceArray::Truths(neurons, truths) => Array {
                shape: vec![truths.len() / neurons.max(1), neurons],
                numbers: Numbers::Bool(truths),
            },
        }
    }
}

#[pymethods]
impl Array {
    /// Where it lies, as numpy reads it. Read-only: nobody else changes it either.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (kind, address) = match &self.numbers {
            Numbers::F32(numbers) => ("<f4", numbers.as_ptr() as usize),
            Numbers::I64(numbers) => ("<i8", numbers.as_ptr() as usize),
            Numbers::Bool(numbers) => ("|b1", numbers.as_ptr() as usize),
        };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", kind)?;
        interface.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        interface.set_item("data", (address, true))?;
        Ok(interface)
    }
}

/// An array of Python, in C order, with numbers of this machine's byte order.
pub(crate) struct Foreign {
    owner: Py<PyAny>,
    address: usize,
    pub(crate) shape: Vec<usize>,
    /// As numpy writes it: `<f4`.
    pub(crate) kind: String,
}

impl Foreign {
    /// What an array says of itself. Only `numpy.ndarray` is believed.
    pub(crate) fn new(array: &Bound<'_, PyAny>) -> PyResult<Foreign> {
        let ndarray = array.py().import("numpy")?.getattr("ndarray")?;
        if !array.is_instance(&ndarray)? {
            return Err(PyTypeError::new_err("expected a numpy array"));
        }
        let interface = array.getattr("__array_interface__")?;
        let strides = interface.get_item("strides")?;
        if !strides.is_none() {
            return Err(PyValueError::new_err("expected an array in C order"));
        }
        let (address, _): (usize, bool) = interface.get_item("data")?.extract()?;
        Ok(Foreign {
            owner: array.clone().unbind(),
            address,
            shape: interface.get_item("shape")?.extract()?,
            kind: interface.get_item("typestr")?.extract()?,
        })
    }

    /// Its numbers, where they lie. `T` must be the type that `kind` says.
    pub(crate) fn numbers<T: Scalar>(self) -> PyResult<Borrowed<T>> {
        let len = self.shape.iter().product();
        if !self.address.is_multiple_of(align_of::<T>()) || self.kind != kind_of::<T>() {
            return Err(PyValueError::new_err("an array that cannot be read"));
        }
        Ok(Borrowed {
            address: self.address,
            len,
            _owner: self.owner,
            element: PhantomData,
        })
    }

    /// A copy of its bytes.
    pub(crate) fn bytes(&self, size: usize) -> Vec<u8> {
        let len = self.shape.iter().product::<usize>() * size;
        if len == 0 {
            return Vec::new();
        }
        // SAFETY: the array has that many numbers of that size, one behind the other, and lives as long as
        // its owner, which is held.
        unsafe { slice::from_raw_parts(self.address as *const u8, len) }.to_vec()
    }
}

/// The type as numpy writes it.
fn kind_of<T: Scalar>() -> String {
    use npcov::data::Element;
    let size = size_of::<T>();
    let order = if size == 1 { '|' } else { '<' };
    let letter = match T::ELEMENT {
        Element::Bool => 'b',
        Element::U8 | Element::U16 | Element::U32 | Element::U64 => 'u',
        Element::I8 | Element::I16 | Element::I32 | Element::I64 => 'i',
        Element::F16 | Element::F32 | Element::F64 => 'f',
    };
    format!("{order}{letter}{size}")
}

/// Numbers of an array of Python, where they lie.
///
/// Whoever changes the array while it is worked on is told so: what is read is held against the digest that the
/// data had at the beginning.
pub(crate) struct Borrowed<T> {
    address: usize,
    len: usize,
    /// Keeps them alive.
    _owner: Py<PyAny>,
    element: PhantomData<T>,
}

impl<T: Scalar> AsRef<[T]> for Borrowed<T> {
    fn as_ref(&self) -> &[T] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: numpy says that so many numbers of this type lie there, one behind the other; their place is
        // aligned, which was checked, and any bits are a number (truth values are 0 or 1 in numpy). The
        // owner, which is held, frees and moves them no earlier than it is dropped.
        unsafe { slice::from_raw_parts(self.address as *const T, self.len) }
    }
}
