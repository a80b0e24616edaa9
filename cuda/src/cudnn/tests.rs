//! Tests of the library against the suite: without a device, where only the library is installed, and with one.

use std::rc::Rc;

use parallax_ir::{Attention, AttentionPass, Conv, ConvPass, Convolution};
use parallax_workloads::parse_case;

use super::*;
use crate::device::Device;
use crate::memory::Buffer;

/// Properties of an H100, in the library's format.
const H100: &str = include_str!("h100.json");

fn case(shape: &str) -> Conv {
    let case = parse_case(&format!("conv2d/fwd/{shape}/f32/direct")).expect("valid");
    Conv::new(&case.problem.shape)
}

/// Returns the names of the engines that the library offers on a described H100.
fn offered(api: &'static Api, call: Library, dtype: DType) -> Result<Vec<String>, BackendError> {
    let (graphs, _) = graphs_of(call, dtype)?;
    let device = engines::described_device(api, H100)?;
    let mut names = Vec::new();
    for graph in graphs {
        let described = graph.describe(api, None)?;
        let offered = engines::offered(api, &described.graph, Some(&device))?;
        names.extend(offered.into_iter().filter(|engine| engine.fits(dtype)).map(|engine| engine.name));
    }
    Ok(names)
}

/// Graphs need no device: an installed library has engines for them.
#[test]
fn the_library_has_engines_for_every_convolution() {
    let Ok(api) = api() else { return };
    let shapes = [
        "n2,c8,m16,h9,w8,k3,kw2,s2,p1,l2,g2,nchw",
        "n1,c8,h9,k3,p1,g8,nhwc",
        "n2,c64,h16,k3,p1,nhwc",
        "n1,c4,m8,h9,k2,nchw",
        "n2,c3,m5,h7,w5,k3,p1,nhwc",
    ];
    for shape in shapes {
        let passes = [
            ConvPass::Forward { bias: true, relu: true },
            ConvPass::Forward { bias: false, relu: true },
            ConvPass::Forward { bias: false, relu: false },
            ConvPass::Image,
            ConvPass::Kernels,
        ];
        for (pass, dtype) in passes.into_iter().flat_map(|pass| DType::ALL.map(|(_, dtype)| (pass, dtype))) {
            let call = Library::Conv(Convolution { conv: case(shape), pass, choice: Choice::Heuristic });
            let names = offered(api, call, dtype).unwrap_or_else(|error| panic!("{shape} {pass:?} {dtype:?}: {error}"));
            assert!(!names.is_empty(), "{shape} {pass:?} {dtype:?}");
        }
    }
}

#[test]
fn the_library_has_engines_for_attention() {
    let Ok(api) = api() else { return };
    let plain = Attention {
        batch: 2,
        heads: 8,
        kv_heads: 8,
        queries: 512,
        keys: 512,
        dim: 64,
        causal: false,
        window: 0,
        padded: false,
        biased: false,
        pass: AttentionPass::Backward,
        choice: Choice::Heuristic,
    };
    let wanted = [
        plain,
        Attention { causal: true, ..plain },
        Attention { kv_heads: 2, causal: true, dim: 128, ..plain },
        Attention { causal: true, window: 128, ..plain },
        Attention { kv_heads: 2, causal: true, window: 100, dim: 128, ..plain },
        Attention { queries: 256, causal: true, window: 128, ..plain },
        Attention { padded: true, ..plain },
        Attention { biased: true, dim: 72, ..plain },
        Attention { padded: true, causal: true, ..plain },
        Attention { queries: 256, causal: true, ..plain },
        Attention { queries: 250, keys: 301, ..plain },
    ];
    for wanted in wanted {
        for pass in
            [AttentionPass::Forward { lse: false }, AttentionPass::Forward { lse: true }, AttentionPass::Backward]
        {
            let call = Library::Attention(Attention { pass, ..wanted });
            let names = offered(api, call, DType::BF16).unwrap_or_else(|error| panic!("{call:?}: {error}"));
            assert!(!names.is_empty(), "{call:?}");
        }
    }
}

/// With a device and a library, the result is the convolution. Without them, the error is a sentence.
#[test]
fn the_librarys_convolution_is_the_convolution() {
    let conv = case("n2,c3,m5,h7,w6,k3,s2,p1,nchw");
    let device = match Device::open(0) {
        Ok(device) => device,
        Err(error) => return assert!(error.to_string().len() > 40, "not a sentence: {error}"),
    };
    let stream = device.context.new_stream().expect("a stream");
    // Small integers, whose products are exact in f32.
    let numbers = |dims: Vec<u64>, most: u64| (0..dims.iter().product()).map(|i: u64| (i % most) as f32).collect();
    let (x, w): (Vec<f32>, Vec<f32>) = (numbers(conv.x_dims(), 7), numbers(conv.w_dims(), 5));
    let bytes = |data: &[f32]| data.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>();
    let ledger = Rc::default();
    let elements = [conv.x_dims(), conv.w_dims(), conv.out_dims()].map(|dims| dims.iter().product::<u64>());
    let buffers = elements.map(|len| Buffer::new(&device.context, &ledger, "test", 4 * len).expect("memory"));
    buffers[0].write(0, &bytes(&x)).expect("written");
    buffers[1].write(0, &bytes(&w)).expect("written");
    device.context.synchronize().expect("written");
    let arguments = buffers.each_ref().map(Buffer::pointer);
    let mut want = vec![0.0f32; elements[2] as usize];
    for (want, place) in want.iter_mut().zip(0..) {
        let ([image, m], at) = conv.out_index(place);
        for (tap, c) in conv.every_tap().flat_map(|tap| (0..3).map(move |c| (tap, c))) {
            let Some(under) = conv.input_position(at, tap) else { continue };
            *want += x[conv.x_at([image, c], under) as usize] * w[conv.w_at([m, c], tap) as usize];
        }
    }
    let library = Cudnn::default();
    for choice in [Choice::Heuristic, Choice::Timed] {
        let call = Library::Conv(Convolution { conv, pass: ConvPass::Forward { bias: false, relu: false }, choice });
        let place = PlanContext { context: &device.context, stream: &stream, ledger: &ledger };
        // SAFETY: the buffers have the sizes of the convolution.
        let planned = match unsafe { library.plan(DType::F32, call, &arguments, &place) } {
            Ok(planned) => planned,
            Err(error) => return assert!(matches!(error, BackendError::Refused(_)), "{error}"),
        };
        // SAFETY: as above, and the stream is synchronised.
        unsafe { planned.launch(&arguments, stream.cu_stream()) }.expect("launched");
        stream.synchronize().expect("done");
        let got = buffers[2].read(0..4 * elements[2]).expect("read");
        let got = got.chunks_exact(4).map(|four| f32::from_ne_bytes(four.try_into().expect("four bytes")));
        // Winograd engines are not exact.
        for (got, want) in got.zip(&want) {
            assert!((got - want).abs() <= 1e-3 * want.abs().max(1.0), "{got} for {want} by {:?}", planned.sentences());
        }
    }
}
