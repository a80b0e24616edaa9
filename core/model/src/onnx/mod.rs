//! ONNX graphs: extents of every value, and the problem that stands for each node.

mod fold;
mod fuse;
mod infer;
mod node;
mod operations;
mod proto;
mod value;
mod windows;

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use parallax_schema::record::{Model, ModelFormat};
use prost::Message;

use crate::names::layer_of_node;
use crate::tally::Tally;
use crate::{MOST_OPERATIONS, ModelError, Options};
use fuse::Fusions;
use node::Node;
use proto::{GraphProto, ModelProto, NodeProto, ValueInfoProto};
use value::Value;

/// Reads a graph.
///
/// # Errors
/// Damaged file, or an input dimension without a size.
pub fn read(contents: Bytes, name: &str, options: &Options) -> Result<Model, ModelError> {
    let model = ModelProto::decode(contents).map_err(|error| ModelError::Onnx(error.to_string()))?;
    // Any bytes can be a message without a known field.
    let graph =
        model.graph.ok_or_else(|| ModelError::Format("the bytes are neither JSON nor an ONNX graph".to_owned()))?;
    if graph.node.len() > MOST_OPERATIONS {
        return Err(ModelError::TooManyOperations(graph.node.len()));
    }
    let opset = model.opset_import.iter().filter(|set| set.domain.as_deref().unwrap_or_default().is_empty());
    let opset = opset.filter_map(|set| set.version).max().unwrap_or(1);
    let extents = Extents::of(&graph, options)?;
    let values = values(&graph, &extents);
    let fusions = Fusions::of(&graph, &values);
    let mut tally = Tally::default();
    for (i, proto) in graph.node.iter().enumerate() {
        let node = with_inputs(proto, &values);
        let outputs: Vec<Option<&Value>> = proto.output.iter().map(|output| values.get(output.as_str())).collect();
        let stand_in = operations::stand_in(&node, &outputs, &fusions, (i, opset, options.dtype));
        let layer = layer_of_node(proto.name.as_deref().unwrap_or_default());
        tally.add((node.operator, &layer), 1, stand_in, None)?;
    }
    let name = match graph.name.as_deref() {
        // Exporters name every graph alike.
        None | Some("" | "main_graph" | "torch_jit" | "main" | "torch-jit-export") => name.to_owned(),
        Some(own) => own.chars().take(120).collect(),
    };
    Ok(Model { name, format: ModelFormat::Onnx, extents: extents.chosen(), operations: tally.finish() })
}

/// Sizes of symbolic dimensions.
struct Extents<'a> {
    given: &'a std::collections::BTreeMap<String, u64>,
    names: BTreeSet<String>,
}

impl<'a> Extents<'a> {
    /// Collects the symbolic dimensions of a graph's inputs.
    fn of(graph: &GraphProto, options: &'a Options) -> Result<Extents<'a>, ModelError> {
        let weights: BTreeSet<&str> = graph.initializer.iter().filter_map(|tensor| tensor.name.as_deref()).collect();
        let inputs = graph.input.iter().filter(|input| !weights.contains(input.name.as_deref().unwrap_or_default()));
        let mut names = BTreeSet::new();
        for input in inputs {
            let dims = tensor_type(input).and_then(|t| t.shape.as_ref()).map_or(&[][..], |shape| &shape.dim);
            for (i, dim) in dims.iter().enumerate() {
                if dim.dim_value.is_none_or(|value| value <= 0) {
                    names.insert(dimension(input, i, dim));
                }
            }
        }
        let unknown: Vec<String> = names.iter().filter(|name| !options.extents.contains_key(*name)).cloned().collect();
        if !unknown.is_empty() {
            return Err(ModelError::Dimensions { names: unknown });
        }
        if let Some(name) = options.extents.keys().find(|name| !names.contains(*name)) {
            let known = match names.is_empty() {
                true => "only fixed ones".to_owned(),
                false => names.iter().cloned().collect::<Vec<_>>().join(", "),
            };
            return Err(ModelError::UnknownDimension { name: name.clone(), known });
        }
        if let Some((name, _)) = options.extents.iter().find(|(_, extent)| **extent == 0) {
            return Err(ModelError::Field { field: name.clone(), problem: "is 0; it can be 1 and more".to_owned() });
        }
        Ok(Extents { given: &options.extents, names })
    }

    /// Returns the chosen sizes by name.
    fn chosen(&self) -> std::collections::BTreeMap<String, u64> {
        self.names.iter().filter_map(|name| Some((name.clone(), *self.given.get(name)?))).collect()
    }

    /// Returns the declared value of an input, an output or an intermediate tensor.
    fn declared(&self, info: &ValueInfoProto) -> Value {
        let Some(tensor) = tensor_type(info) else { return Value::default() };
        let element = tensor.elem_type.unwrap_or_default();
        let shape = tensor.shape.as_ref().and_then(|shape| {
            let one = |(i, dim): (usize, &proto::DimensionProto)| match dim.dim_value {
                Some(value) if value > 0 => u64::try_from(value).ok(),
                _ => self.given.get(&dimension(info, i, dim)).copied(),
            };
            shape.dim.iter().enumerate().map(one).collect::<Option<Vec<u64>>>()
        });
        shape.map_or(Value { element, ..Value::default() }, |shape| Value::of(element, shape))
    }
}

fn tensor_type(info: &ValueInfoProto) -> Option<&proto::TensorTypeProto> {
    info.r#type.as_ref()?.tensor_type.as_ref()
}

/// Name of a symbolic dimension; of its tensor and place where the file has none.
fn dimension(info: &ValueInfoProto, at: usize, dim: &proto::DimensionProto) -> String {
    match dim.dim_param.as_deref() {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => format!("{}.{at}", info.name.as_deref().unwrap_or("input")),
    }
}

/// Returns the value of every name: weights, inputs, and the outputs of each node in order.
fn values<'g>(graph: &'g GraphProto, extents: &Extents) -> HashMap<&'g str, Value> {
    let mut values = HashMap::new();
    for input in &graph.input {
        values.insert(input.name.as_deref().unwrap_or_default(), extents.declared(input));
    }
    for tensor in &graph.initializer {
        values.insert(tensor.name.as_deref().unwrap_or_default(), Value::of_tensor(tensor));
    }
    let declared: HashMap<&str, &ValueInfoProto> = graph
        .value_info
        .iter()
        .chain(&graph.output)
        .map(|info| (info.name.as_deref().unwrap_or_default(), info))
        .collect();
    for proto in &graph.node {
        let outputs = infer::outputs(&with_inputs(proto, &values));
        for (name, mut value) in proto.output.iter().zip(outputs).filter(|(name, _)| !name.is_empty()) {
            if let Some(info) = declared.get(name.as_str()).filter(|_| value.shape.is_none() || value.element == 0) {
                let declared = extents.declared(info);
                value.shape = value.shape.or(declared.shape);
                value.element = if value.element == 0 { declared.element } else { value.element };
            }
            values.insert(name, value);
        }
    }
    values
}

fn with_inputs<'g>(proto: &'g NodeProto, values: &'g HashMap<&str, Value>) -> Node<'g> {
    let operator = proto.op_type.as_deref().unwrap_or_default();
    let inputs = proto.input.iter().map(|name| values.get(name.as_str())).collect();
    Node { operator, proto, inputs }
}
