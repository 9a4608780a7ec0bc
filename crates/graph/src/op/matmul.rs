//! Matrix products.

/// `alpha * a' b' + beta * c` of two matrices, where `'` transposes when asked to.
#[derive(Clone, Debug, PartialEq)]
pub struct Gemm {
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of `c`.
    pub beta: f32,
    /// Whether `a` is stored transposed.
    pub trans_a: bool,
    /// Whether `b` is stored transposed.
    pub trans_b: bool,
}
