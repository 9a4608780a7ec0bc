//! Which nodes the outputs need, in an order in which they can be computed.
//!
//! ONNX asks for sorted nodes and for names that are given once. Files are edited by hand and by
//! tools: what is only out of order is sorted, what is ambiguous is refused, and what no output
//! needs (a branch that makes labels out of probabilities) is not looked at.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use crate::error::GraphError;
use crate::onnx::proto::{GraphProto, NodeProto};

/// The nodes that `outputs` need, each after those whose results it uses; in the order of the file
/// where that is one. `given` are names that have a value before any node has run.
pub(crate) fn ordered<'n>(
    nodes: &'n [NodeProto],
    outputs: &[&str],
    given: &[&str],
) -> Result<Vec<&'n NodeProto>, GraphError> {
    let producers = producers(nodes, given)?;
    let sources: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| {
            let names = names_read(node);
            let mut sources: Vec<usize> = names
                .iter()
                .filter_map(|&name| producers.get(name).copied())
                .collect();
            sources.sort_unstable();
            sources.dedup();
            sources
        })
        .collect();

    let mut needed = vec![false; nodes.len()];
    let mut pending: Vec<usize> = outputs
        .iter()
        .filter_map(|&name| producers.get(name).copied())
        .collect();
    while let Some(i) = pending.pop() {
        if !std::mem::replace(&mut needed[i], true) {
            pending.extend(&sources[i]);
        }
    }

    // Of the nodes that could be next, always the first of the file.
    let mut waiting: Vec<usize> = sources.iter().map(Vec::len).collect();
    let mut users = vec![Vec::new(); nodes.len()];
    let mut ready = BinaryHeap::new();
    for i in (0..nodes.len()).filter(|&i| needed[i]) {
        for &source in &sources[i] {
            users[source].push(i);
        }
        if waiting[i] == 0 {
            ready.push(Reverse(i));
        }
    }
    let mut sorted = Vec::with_capacity(nodes.len());
    while let Some(Reverse(i)) = ready.pop() {
        sorted.push(&nodes[i]);
        for &user in &users[i] {
            waiting[user] -= 1;
            if waiting[user] == 0 {
                ready.push(Reverse(user));
            }
        }
    }
    match (0..nodes.len()).find(|&i| needed[i] && waiting[i] > 0) {
        None => Ok(sorted),
        Some(i) => Err(GraphError::Invalid(format!(
            "node `{}` ({}) needs a result that needs its own",
            nodes[i].label(),
            nodes[i].qualified_op()
        ))),
    }
}

/// The node that computes each name; a name that is given twice is an error.
fn producers<'n>(
    nodes: &'n [NodeProto],
    given: &[&str],
) -> Result<HashMap<&'n str, usize>, GraphError> {
    let given: HashSet<&str> = given.iter().copied().collect();
    let mut producers = HashMap::new();
    for (i, node) in nodes.iter().enumerate() {
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            let before = producers.insert(name.as_str(), i);
            let other = match before {
                Some(before) => format!("a result of node `{}`", nodes[before].label()),
                None if given.contains(name.as_str()) => "an input or a constant".to_owned(),
                None => continue,
            };
            return Err(GraphError::Invalid(format!(
                "the name `{name}` is given twice: to {other} and to a result of node `{}` ({})",
                node.label(),
                node.qualified_op()
            )));
        }
    }
    Ok(producers)
}

/// The names that a node reads: its inputs, and what its subgraphs read from outside.
fn names_read(node: &NodeProto) -> Vec<&str> {
    let mut names: Vec<&str> = node.input.iter().map(String::as_str).collect();
    for graph in node.attribute.iter().filter_map(|a| a.g.as_deref()) {
        names.extend(read_from_outside(graph));
    }
    names.retain(|name| !name.is_empty());
    names
}

fn read_from_outside(graph: &GraphProto) -> Vec<&str> {
    let inputs = graph.input.iter().filter_map(|i| i.name.as_deref());
    let constants = graph.initializer.iter().filter_map(|t| t.name.as_deref());
    let results = graph.node.iter().flat_map(|n| &n.output);
    let own: HashSet<&str> = inputs
        .chain(constants)
        .chain(results.map(String::as_str))
        .collect();
    let outputs = graph.output.iter().filter_map(|o| o.name.as_deref());
    let read = graph.node.iter().flat_map(names_read).chain(outputs);
    read.filter(|name| !own.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::{AttributeProto, ValueInfoProto};

    fn node(op_type: &str, input: &[&str], output: &[&str]) -> NodeProto {
        NodeProto {
            op_type: Some(op_type.to_owned()),
            input: input.iter().map(ToString::to_string).collect(),
            output: output.iter().map(ToString::to_string).collect(),
            ..Default::default()
        }
    }

    fn sorted(nodes: &[NodeProto], outputs: &[&str]) -> Result<Vec<String>, String> {
        let found = ordered(nodes, outputs, &["x"]).map_err(|e| e.to_string())?;
        Ok(found.iter().map(|n| n.label().to_owned()).collect())
    }

    #[test]
    fn nodes_are_sorted_and_cut() {
        let nodes = [
            node("Add", &["b", "c"], &["d"]),
            node("ZipMap", &["d"], &["unused"]),
            node("Relu", &["a"], &["c"]),
            node("Relu", &["a"], &["b"]),
            node("Conv", &["x", "w"], &["a"]),
        ];
        assert_eq!(sorted(&nodes, &["d"]).unwrap(), ["a", "c", "b", "d"]);
        assert_eq!(sorted(&nodes, &["b"]).unwrap(), ["a", "b"]);
        // A result that only other nodes of the file could have named.
        assert_eq!(sorted(&nodes, &["elsewhere"]).unwrap(), [""; 0]);
    }

    #[test]
    fn a_sorted_file_keeps_its_order() {
        let names = ["x", "a", "b", "c", "d"];
        let mut nodes: Vec<NodeProto> = (1..5)
            .map(|i| node("Relu", &[names[i - 1]], &[names[i]]))
            .collect();
        nodes.insert(2, node("Relu", &["x"], &["aside"]));
        nodes.push(node("Add", &["d", "aside"], &["y"]));
        let all = sorted(&nodes, &["y"]).unwrap();
        assert_eq!(all, ["a", "b", "aside", "c", "d", "y"]);
    }

    #[test]
    fn branches_wait_for_what_they_read_from_outside() {
        let branch = GraphProto {
            node: vec![
                node("Relu", &["late"], &["inner"]),
                node("Relu", &["inner"], &["own"]),
            ],
            output: vec![ValueInfoProto {
                name: Some("own".to_owned()),
                ..Default::default()
            }],
            ..Default::default()
        };
        let mut branching = node("If", &["x"], &["y"]);
        branching.attribute.push(AttributeProto {
            g: Some(Box::new(branch)),
            ..Default::default()
        });
        // `inner` outside is another value than `inner` in the branch.
        let nodes = [
            branching,
            node("Relu", &["y"], &["inner"]),
            node("Relu", &["x"], &["late"]),
        ];
        assert_eq!(sorted(&nodes, &["inner"]).unwrap(), ["late", "y", "inner"]);
    }

    #[test]
    fn circles_and_names_given_twice_are_refused() {
        let circle = [
            node("Add", &["x", "b"], &["a"]),
            node("Relu", &["a"], &["b"]),
        ];
        assert_eq!(
            sorted(&circle, &["b"]).unwrap_err(),
            "invalid model: node `a` (Add) needs a result that needs its own"
        );
        let twice = [node("Relu", &["x"], &["a"]), node("Tanh", &["x"], &["a"])];
        assert_eq!(
            sorted(&twice, &["a"]).unwrap_err(),
            "invalid model: the name `a` is given twice: to a result of node `a` and to a result of \
             node `a` (Tanh)"
        );
        assert_eq!(
            sorted(&[node("Relu", &["x"], &["x"])], &["x"]).unwrap_err(),
            "invalid model: the name `x` is given twice: to an input or a constant and to a result \
             of node `x` (Relu)"
        );
    }
}
