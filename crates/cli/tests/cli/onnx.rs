//! ONNX files with what no exporter would write, byte by byte.

/// A length-delimited protobuf field.
fn field(number: u64, content: &[u8]) -> Vec<u8> {
    let mut bytes = varint(number << 3 | 2);
    bytes.extend(varint(content.len() as u64));
    bytes.extend(content);
    bytes
}

/// A protobuf field that holds a number.
fn integer(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A `NodeProto` with one output, which also gives it its name. A dot in `op` separates a domain.
pub(crate) fn node(op: &str, inputs: &[&str], output: &str) -> Vec<u8> {
    let (domain, op) = op.rsplit_once('.').unwrap_or(("", op));
    let mut bytes: Vec<u8> = inputs.iter().flat_map(|i| field(1, i.as_bytes())).collect();
    bytes.extend(field(2, output.as_bytes()));
    bytes.extend(field(4, op.as_bytes()));
    bytes.extend(field(7, domain.as_bytes()));
    bytes
}

/// A node with an attribute that is a list of integers.
pub(crate) fn with_ints(mut node: Vec<u8>, name: &str, values: &[u64]) -> Vec<u8> {
    let mut attribute = field(1, name.as_bytes());
    for &value in values {
        attribute.extend(integer(8, value));
    }
    attribute.extend(integer(20, 7)); // AttributeProto.INTS
    node.extend(field(5, &attribute));
    node
}

/// A node with an attribute that is a list of floats.
pub(crate) fn with_floats(mut node: Vec<u8>, name: &str, values: &[f32]) -> Vec<u8> {
    let packed: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    let attribute = [
        field(1, name.as_bytes()),
        field(7, &packed),
        integer(20, 6), // AttributeProto.FLOATS
    ];
    node.extend(field(5, &attribute.concat()));
    node
}

/// A node with an attribute that is an integer.
pub(crate) fn with_int(mut node: Vec<u8>, name: &str, value: u64) -> Vec<u8> {
    let attribute = [field(1, name.as_bytes()), integer(3, value), integer(20, 2)].concat();
    node.extend(field(5, &attribute));
    node
}

/// A node with an attribute that is a text.
pub(crate) fn with_text(mut node: Vec<u8>, name: &str, value: &str) -> Vec<u8> {
    let value = field(4, value.as_bytes());
    let attribute = [field(1, name.as_bytes()), value, integer(20, 3)].concat();
    node.extend(field(5, &attribute));
    node
}

/// A `ValueInfoProto` of floats; axes that are no numbers are open. `Nx3x8x8`.
fn value(name: &str, shape: &str) -> Vec<u8> {
    let axis = |axis: &str| match axis.parse() {
        Ok(n) => field(1, &integer(1, n)),
        Err(_) => field(1, &field(2, axis.as_bytes())),
    };
    let shape: Vec<u8> = shape.split('x').flat_map(axis).collect();
    let tensor = [integer(1, 1), field(2, &shape)].concat();
    [field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat()
}

/// A model of operator set 13.
pub(crate) fn model(
    inputs: &[(&str, &str)],
    nodes: &[Vec<u8>],
    outputs: &[(&str, &str)],
) -> Vec<u8> {
    let mut graph: Vec<u8> = nodes.iter().flat_map(|n| field(1, n)).collect();
    graph.extend(inputs.iter().flat_map(|(n, s)| field(11, &value(n, s))));
    graph.extend(outputs.iter().flat_map(|(n, s)| field(12, &value(n, s))));
    let opset = integer(2, 13);
    [integer(1, 8), field(7, &graph), field(8, &opset)].concat()
}

/// ReLU, then average over height and width: three classes, height and width open.
pub(crate) fn open_axes() -> Vec<u8> {
    model(
        &[("image", "Nx3xHxW")],
        &[
            node("Relu", &["image"], "relu"),
            node("GlobalAveragePool", &["relu"], "pool"),
            node("Flatten", &["pool"], "scores"),
        ],
        &[("scores", "Nx3")],
    )
}
