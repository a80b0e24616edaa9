//! Executions that replace some inputs: by bytes of the host, and by buffers of other cases.

use parallax_ir::device::{BackendError, Batch, Contents, Prepared, Profiler};
use parallax_ir::{BufferSpec, Role};
use parallax_shaders::{Wgpu, WgpuOptions, open};
use parallax_workloads::parse_case;
use pollster::block_on;

/// Positions in the buffer list of `copy`.
const X: usize = 0;
const OUT: usize = 1;

async fn opened() -> Wgpu {
    open(WgpuOptions::default()).await.expect("an adapter (llvmpipe will do)")
}

async fn prepared(wgpu: &mut Wgpu, case: &str, seed: u64, sets: u32) -> Box<dyn Prepared> {
    let case = parse_case(case).expect("valid");
    wgpu.prepare(&case, &case.problem.inputs(seed), sets).await.expect("a small case")
}

/// Bytes of the output of each of the next three executions.
async fn outputs(case: &mut dyn Prepared, bytes: u64) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for _ in 0..3 {
        case.enqueue(&[]).await.expect("it runs");
        all.push(case.read_back(OUT, 0..bytes).await.expect("an output"));
    }
    all
}

#[test]
fn inputs_of_every_set_become_bytes_or_copies_of_other_buffers() {
    // Of the last, the bytes are no multiple of four.
    for (case, bytes) in [("copy/fwd/n1009/f32/scalar", 4036), ("copy/fwd/n1009/f16/scalar", 2018)] {
        block_on(async {
            let mut wgpu = opened().await;
            for sets in [1, 3] {
                let mut first = prepared(&mut wgpu, case, 1, 1).await;
                let mut second = prepared(&mut wgpu, case, 2, sets).await;
                first.measure(Batch::new(1)).await.expect("it runs");
                let of_first = first.read_back(OUT, 0..bytes).await.expect("an output");
                assert!(outputs(&mut *second, bytes).await.iter().all(|out| *out != of_first), "{case}");
                second.enqueue(&[(X, Contents::Buffer(&*first, OUT))]).await.expect("it runs");
                assert!(outputs(&mut *second, bytes).await.iter().all(|out| *out == of_first), "{case}");
                let given: Vec<u8> = (0..bytes).map(|at| (at % 113) as u8).collect();
                second.enqueue(&[(X, Contents::Bytes(&given))]).await.expect("it runs");
                assert!(outputs(&mut *second, bytes).await.iter().all(|out| *out == given), "{case}");
            }
        });
    }
}

#[test]
fn contents_that_do_not_fit_are_errors() {
    block_on(async {
        let (mut wgpu, mut other) = (opened().await, opened().await);
        let case = "copy/fwd/n1009/f32/scalar";
        let mut filled = prepared(&mut wgpu, case, 1, 1).await;
        let short = prepared(&mut wgpu, "copy/fwd/n1008/f32/scalar", 1, 1).await;
        let elsewhere = prepared(&mut other, case, 1, 1).await;
        // Sizes of buffers are multiples of 16 bytes.
        for (contents, part) in [
            (Contents::Bytes(&[0; 4032]), "an input of 4048 bytes got 4032 bytes"),
            (Contents::Buffer(&*short, OUT), "an input of 4048 bytes got 4032 bytes"),
            (Contents::Buffer(&*elsewhere, OUT), "a buffer of another device cannot be copied"),
            (Contents::Buffer(&*short, 7), "buffer 7 is not used by this case"),
        ] {
            let refused = filled.enqueue(&[(X, contents)]).await;
            assert!(matches!(&refused, Err(BackendError::Device(why)) if why.contains(part)), "{part}: {refused:?}");
        }
        // Executions of an optimiser change their inputs.
        let mut whole = prepared(&mut wgpu, "adamw/fwd/n7/f32/scalar", 1, 1).await;
        assert!(!whole.enqueues());
        assert!(matches!(whole.enqueue(&[]).await, Err(BackendError::Unsupported(_))));
    });
}

#[test]
fn the_set_up_follows_its_inputs() {
    // The set-up is the softmax of `x` that the gradient uses; the gradient of the result is no part of it.
    let case = parse_case("softmax/bwd/r3,c5/f32/naive").expect("valid");
    let specs = case.problem.buffers();
    let computed = specs.iter().position(|spec| matches!(spec.role, Role::Output { .. })).expect("a gradient");
    let given = |seed| {
        let inputs = case.problem.inputs(seed);
        let of = |(index, spec): (usize, &BufferSpec)| {
            let mut bytes = vec![0; spec.bytes(case.problem.dtype).0 as usize];
            spec.role.fill().map(|_| inputs.write(index, 0, &mut bytes)).map(|()| (index, bytes))
        };
        specs.iter().enumerate().filter_map(of).collect::<Vec<_>>()
    };
    block_on(async {
        let mut wgpu = opened().await;
        for sets in [1, 3] {
            let name = case.to_string();
            let (mut fresh, mut filled) =
                (prepared(&mut wgpu, &name, 2, 1).await, prepared(&mut wgpu, &name, 1, sets).await);
            fresh.measure(Batch::new(1)).await.expect("it runs");
            let bytes = specs[computed].bytes(case.problem.dtype).0;
            let want = fresh.read_back(computed, 0..bytes).await.expect("an output");
            let all = given(2);
            assert_eq!(all.len(), 2, "two inputs");
            for (last, (index, contents)) in all.iter().enumerate() {
                filled.enqueue(&[(*index, Contents::Bytes(contents))]).await.expect("it runs");
                let got = filled.read_back(computed, 0..bytes).await.expect("an output");
                assert_eq!(got == want, last == 1, "after input {index} of {sets} sets");
            }
            for _ in 0..sets {
                filled.enqueue(&[]).await.expect("it runs");
                assert_eq!(filled.read_back(computed, 0..bytes).await.expect("an output"), want, "{sets} sets");
            }
        }
    });
}
