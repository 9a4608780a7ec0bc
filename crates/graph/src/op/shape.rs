//! Operators that exist only while shapes are being computed: Shape, Size, Range and the like.
