//! The examples of the repository, as lists of problems.

use std::path::Path;

use bytes::Bytes;
use parallax_model::{ModelError, Options, read};
use parallax_schema::record::{Coverage, Model, Operation};

fn example(file: &str) -> Bytes {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(file);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).into()
}

fn options(extents: &[(&str, u64)]) -> Options {
    let extents = extents.iter().map(|(name, extent)| ((*name).to_owned(), *extent)).collect();
    Options { extents, ..Options::default() }
}

fn model(file: &str, extents: &[(&str, u64)]) -> Model {
    let (name, _) = file.rsplit_once('.').expect("an ending");
    read(example(file), name, &options(extents)).expect("a model")
}

/// Executions of a problem.
fn count(model: &Model, problem: &str) -> u64 {
    model.operations.iter().filter(|op| op.problem() == Some(problem)).map(|op| op.count).sum()
}

/// Operations by kind that have no problem.
fn gaps(model: &Model) -> Vec<(&str, u64)> {
    let mut gaps: Vec<(&str, u64)> = Vec::new();
    for op in model.operations.iter().filter(|op| matches!(op.coverage, Coverage::Missing { .. })) {
        match gaps.iter_mut().find(|(kind, _)| *kind == op.kind) {
            Some((_, count)) => *count += op.count,
            None => gaps.push((&op.kind, op.count)),
        }
    }
    gaps
}

fn flops(model: &Model) -> u64 {
    model.operations.iter().map(|op| op.cost.flops.0 * op.count).sum()
}

#[test]
fn an_image_network_is_convolutions_with_their_activations() {
    let model = model("mobilenet_v2.onnx", &[("batch", 4)]);
    for (problem, want) in [
        ("conv2d/fwd/n4,c3,m32,h224,k3,s2,p1,nchw,bias,relu/f32", 1),
        ("depthwise_conv2d/fwd/n4,c384,h14,k3,p1,nchw/f32", 4),
        ("conv2d/fwd/n4,c64,m384,h14,k1,nchw,bias,relu/f32", 4),
        ("conv2d/fwd/n4,c384,m64,h14,k1,nchw,bias/f32", 3),
        ("pool/fwd/n4,c1280,h7,oh1,ow1,nchw,adaptive/f32", 1),
        ("linear/fwd/m4,n1000,k1280,nt/f32", 1),
    ] {
        assert_eq!(count(&model, problem), want, "{problem} in {:#?}", model.operations);
    }
    assert_eq!(count(&model, "elementwise/fwd/r64,c1568,add/f32"), 2);
    assert_eq!(gaps(&model), []);
    // The publication counts 300 million multiply-adds for one image.
    let each = flops(&model) as f64 / 4.0;
    assert!((0.58e9..0.64e9).contains(&each), "{each}");
}

#[test]
fn a_network_over_volumes_has_convolutions_of_three_dimensions() {
    let model = model("unet3d.onnx", &[("batch", 1)]);
    for (problem, want) in [
        ("conv3d/fwd/n1,c1,m16,d64,h64,k3,p1,ncdhw,bias,relu/f32", 1),
        ("conv3d/fwd/n1,c16,d64,h64,k3,p1,ncdhw,bias,relu/f32", 2),
        ("conv3d/fwd/n1,c128,d8,h8,k3,p1,ncdhw,bias,relu/f32", 1),
        ("matmul/fwd/m512,n512,k128/f32", 1),
        ("copy/fwd/n8388608/f32", 1),
        ("conv3d/fwd/n1,c16,m4,d64,h64,k1,ncdhw,bias/f32", 1),
    ] {
        assert_eq!(count(&model, problem), want, "{problem} in {:#?}", model.operations);
    }
    assert_eq!(gaps(&model), [("MaxPool", 3)]);
}

#[test]
fn a_transformer_in_parts_is_put_together() {
    let model = model("encoder.onnx", &[("batch", 2), ("seq", 96)]);
    for (problem, want) in [
        ("embedding/fwd/n192,v1000,d128/f32", 1),
        ("linear/fwd/m192,n128,k128/f32", 8),
        ("attention/fwd/b2,h4,s96,d32/f32", 2),
        ("gelu/fwd/n98304,erf/f32", 2),
        ("layernorm/fwd/r192,c128/f32", 4),
        ("linear/fwd/m192,n512,k128/f32", 2),
        // Heads of queries, values and the output change places with tokens.
        ("copy/fwd/n24576/f32", 6),
    ] {
        assert_eq!(count(&model, problem), want, "{problem} in {:#?}", model.operations);
    }
    assert_eq!(count(&model, "elementwise/fwd/r16,c1536,add/f32"), 4);
    assert_eq!(gaps(&model), []);
    assert!(
        model.operations.iter().any(|op: &Operation| op.layer == "layers.*.attention" && op.count == 8),
        "layers are equal"
    );
}

#[test]
fn sizes_of_symbolic_dimensions_are_asked_for() {
    let said = |extents: &[(&str, u64)]| {
        read(example("encoder.onnx"), "encoder", &options(extents)).expect_err("an error").to_string()
    };
    assert_eq!(said(&[]), "no size is known for batch, seq: give --dim batch=N --dim seq=N");
    assert_eq!(said(&[("batch", 1), ("seq", 4), ("x", 1)]), "no dimension is called `x`; this model has batch, seq");
    assert_eq!(said(&[("batch", 1), ("seq", 0)]), "field `seq` is 0; it can be 1 and more");
}

#[test]
fn damaged_files_are_errors() {
    let whole = example("encoder.onnx");
    let batch = options(&[("batch", 1), ("seq", 4)]);
    for length in (0..whole.len()).step_by(97) {
        // A shorter file may still be a message, of fewer nodes.
        let found = read(whole.slice(..length), "cut", &batch);
        assert!(found.is_err() || length > 1000, "{length}");
    }
    for (contents, part) in [
        (&b""[..], "the file is empty"),
        (b"   ", "no ONNX graph"),
        (b"\x89PNG\r\n\x1a\n", "no ONNX graph"),
        (b"\x08\x08", "neither JSON nor an ONNX graph"),
        (b"{}", "neither `model_type` nor"),
        (b"[]", "record_shapes"),
        (b"{\"model_type\": 3}", "no model configuration"),
        (b"{\"model_type\"", "EOF"),
    ] {
        let said = read(Bytes::from_static(contents), "x", &Options::default()).expect_err("an error");
        assert!(said.to_string().contains(part), "{contents:?}: {said}");
    }
}

#[test]
fn changed_bytes_never_end_the_program() {
    let whole = example("encoder.onnx");
    let batch = options(&[("batch", 1), ("seq", 4)]);
    let mut state = 7u64;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..2000 {
        let mut bytes = whole.to_vec();
        for _ in 0..4 {
            let at = draw(bytes.len());
            bytes[at] = draw(256) as u8;
        }
        if let Err(ModelError::TooLarge(_)) = read(bytes.into(), "changed", &batch) {
            panic!("the length did not change");
        }
    }
}
