//! Conversion of stages without a WebGPU launch to kernels.
//!
//! WebGPU's own commands for fills and copies stand outside of compute passes. They cannot have timestamps there, and would split a
//! batch. As kernels they lie in the same pass as all other stages. Mappable buffers cannot be bound to a kernel, so copies from
//! and to them remain copies ([`crate::pass_copies`]).

use parallax_ir::device::BackendError;
use parallax_ir::{Arg, FillRange, Place, Problem, Program, Stage, StageOp, spread};
use parallax_schema::units::Bytes;

/// Threads in a workgroup of a fill or a copy. Each thread writes sixteen bytes.
const THREADS: u32 = 256;

/// Converts a program to kernels, and copies from and to mappable buffers.
///
/// # Errors
/// [`BackendError::Unsupported`] for a stage that this target does not support.
pub fn lower(program: Program, problem: &Problem) -> Result<Program, BackendError> {
    let one = |stage: Stage| {
        let kernel = match stage.work {
            StageOp::Kernel(_) => return Ok(stage),
            StageOp::Fill(word) => {
                filling(FillRange { word, from: Bytes(0), bytes: Bytes(bytes(problem, &stage.args)) })
            }
            StageOp::FillRange(part) => filling(part),
            StageOp::Copy => match places(problem, &stage.args)[..] {
                [Place::Device, Place::Device] => Stage::kernel("", "lib/copy", "copy"),
                [Place::HostPinned, Place::Device] | [Place::Device, Place::HostPinned] => return Ok(stage),
                _ => {
                    let why = format!("{} copies between memories that this target does not", stage.label);
                    return Err(BackendError::Unsupported(why));
                }
            },
            // Plans guarantee that one end is in host memory.
            StageOp::CopyRange(_) => match places(problem, &stage.args)[..] {
                [Place::HostPinned, Place::Device] | [Place::Device, Place::HostPinned] => return Ok(stage),
                _ => {
                    let why = format!("{} copies a part between memories that this target does not", stage.label);
                    return Err(BackendError::Unsupported(why));
                }
            },
            StageOp::Library(_) | StageOp::CopyThrough | StageOp::Collective(_) => {
                return Err(BackendError::Unsupported(format!("this target has no operation {}", stage.label)));
            }
        };
        let length = match stage.work {
            StageOp::FillRange(part) => part.bytes.0,
            _ => bytes(problem, &stage.args),
        };
        let kernel = kernel.threads([THREADS, 1, 1]).grid(spread(length.div_ceil(u64::from(THREADS) * 16)));
        Ok(Stage { work: kernel.work, ..stage })
    };
    Ok(Program { stages: program.stages.into_iter().map(one).collect::<Result<_, _>>()? })
}

/// Returns a fill of whole 16-byte vectors. A fill to the end of a buffer includes its padding.
fn filling(part: FillRange) -> Stage {
    let [from, upto] = [part.from.0 / 16, (part.from.0 + part.bytes.0).div_ceil(16)].map(|vectors| vectors as u32);
    Stage::kernel("", "lib/fill", "fill").consts(&[("WORD", part.word), ("FROM", from), ("UPTO", upto)])
}

/// Size of the last argument's buffer, in bytes.
fn bytes(problem: &Problem, args: &[Arg]) -> u64 {
    let of = |arg: &Arg| problem.buffers().iter().find(|b| b.name == arg.buffer).map(|b| b.bytes(problem.dtype).0);
    args.last().and_then(of).unwrap_or(0)
}

/// Returns the memory of the arguments' buffers.
fn places(problem: &Problem, args: &[Arg]) -> Vec<Place> {
    let buffers = problem.buffers();
    args.iter().filter_map(|arg| buffers.iter().find(|b| b.name == arg.buffer).map(|b| b.place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{WgpuOptions, open};
    use parallax_ir::device::{Batch, Prepared};
    use parallax_ir::{Gemm, Library, LibraryEpilogue};
    use parallax_workloads::parse_case;
    use pollster::block_on;

    #[test]
    fn fills_and_copies_are_stages_like_any_other() {
        let wgpu = block_on(open(WgpuOptions::default())).expect("an adapter (llvmpipe will do)");
        // An odd number of 16-bit elements: the last vector is partly padding.
        for text in ["copy/fwd/n5003/f16/scalar", "copy/fwd/n1048577/f32/scalar"] {
            let case = parse_case(text).expect("valid");
            let inputs = case.problem.inputs(3);
            let bytes = case.problem.buffers()[1].bytes(case.problem.dtype).0;
            let run = |stages: &[Stage], sets| {
                let program = Program { stages: stages.to_vec() };
                let mut prepared = block_on(wgpu.program(&case, (program, 0), &inputs, sets)).expect("a small case");
                let sample = block_on(prepared.measure(Batch { lead: 2, repeats: 3 })).expect("runs");
                assert!(sample.time.0 > 0.0, "the clock covers it: {sample:?}");
                let told: Vec<String> = prepared.launches().iter().map(|l| l.label().to_owned()).collect();
                assert_eq!(told, stages.iter().map(|stage| stage.label.to_string()).collect::<Vec<_>>());
                let trace = block_on(prepared.trace(false)).expect("a trace");
                assert!(told.iter().all(|label| trace.spans.iter().any(|span| span.name == *label)), "{trace:?}");
                block_on(prepared.read_back(1, 0..bytes)).expect("read back")
            };
            let (fill, copy) = (Stage::fill("ones", "out", 0x3C00_3C00), Stage::copy("keep", "x", "out"));
            let mut wanted = vec![0; bytes as usize];
            for sets in [1, 2] {
                inputs.write(0, 0, &mut wanted);
                assert_eq!(run(&[fill.clone(), copy.clone()], sets), wanted, "{text}");
                let words: Vec<u8> = [0, 0x3C].into_iter().cycle().take(bytes as usize).collect();
                assert_eq!(run(&[copy.clone(), fill.clone()], sets), words, "{text}");
                // From the second vector to the last but one, and to the end.
                for (from, end) in [(16, bytes / 16 * 16 - 16), (bytes / 16 * 16 - 32, bytes)] {
                    let part = FillRange { word: 0x3C00_3C00, from: Bytes(from), bytes: Bytes(end - from) };
                    let mut some = wanted.clone();
                    some[from as usize..end as usize].copy_from_slice(&words[from as usize..end as usize]);
                    assert_eq!(run(&[copy.clone(), Stage::fill_range("some", "out", part)], sets), some, "{text}");
                }
            }
        }
    }

    #[test]
    fn several_queues_are_one_here_and_the_record_says_so() {
        let wgpu = block_on(open(WgpuOptions::default())).expect("an adapter (llvmpipe will do)");
        let case = parse_case("copy/fwd/n5003/f32/scalar").expect("valid");
        let inputs = case.problem.inputs(3);
        let options = |queue: u32| {
            let stages = vec![Stage::fill("ones", "out", 1), Stage::copy("keep", "x", "out").queue(queue, &[0])];
            let mut prepared =
                block_on(wgpu.program(&case, (Program { stages }, 0), &inputs, 1)).expect("a small case");
            block_on(prepared.measure(Batch::new(1))).expect("runs");
            let mut wanted = vec![0; 4 * 5003];
            inputs.write(0, 0, &mut wanted);
            assert_eq!(block_on(prepared.read_back(1, 0..4 * 5003)).expect("read back"), wanted, "in order");
            prepared.compiled().options.join("; ")
        };
        assert!(options(1).contains("one queue for 2: stages run in the order of the list"), "{}", options(1));
        assert!(!options(0).contains("queue"), "{}", options(0));
    }

    #[test]
    fn what_cannot_be_a_kernel_is_refused() {
        let case = parse_case("matmul/fwd/m1,n1,k1/f32/naive").expect("valid");
        let call = Stage::library("product", Library::Gemm(Gemm::new(1, 1, 1), LibraryEpilogue::Plain));
        let refused = lower(call.into(), &case.problem).expect_err("no library here");
        assert!(refused.to_string().contains("product"), "{refused}");
    }
}
