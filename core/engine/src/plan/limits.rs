//! Limits of a device, compared with a program before compilation.

use parallax_ir::{Arg, BufferSpec, CudaLaunch, Kernel, Place, Problem, Program, Queues, Stage, StageOp};
use parallax_schema::device::{Caps, CudaCaps, Dialect};
use parallax_schema::units::Bytes;

/// Compares a program with the limits of a device.
///
/// # Errors
/// The first limit that the program exceeds, as `needs X, the limit is Y`.
pub fn within_limits(problem: &Problem, program: &Program, caps: &Caps) -> Result<(), String> {
    for buffer in problem.buffers() {
        if !program.uses(buffer.name) {
            continue;
        }
        if buffer.place.is_host() {
            // Buffers in host memory that are copied are not bound, and take no memory of the device.
            continue;
        }
        let bytes = buffer.bytes_of_rank(problem.dtype);
        if bytes > caps.max_binding {
            let name = buffer.name;
            return Err(format!("not run: buffer `{name}` needs {bytes}, the largest binding is {}", caps.max_binding));
        }
        if buffer.len > u64::from(u32::MAX) && caps.dialect == Dialect::Wgsl {
            return Err(format!(
                "not run: buffer `{}` has {} elements, WGSL indices end at 2^32",
                buffer.name, buffer.len
            ));
        }
    }
    Queues::from_stages(&program.stages).map_err(|why| format!("not run: {why}"))?;
    program.stages.iter().try_for_each(|stage| carried_out(problem, stage, caps))
}

/// Whether the device holds one set of the buffers of the whole program, and the workspace of a vendor's library. The
/// results of a set-up count because they stay.
pub fn within_memory(problem: &Problem, whole: &Program, caps: &Caps) -> Result<(), String> {
    let needed = Bytes(whole.memory(problem, caps.dialect).0.saturating_add(whole.workspace().0));
    match caps.memory.filter(|memory| needed.0 > memory.0 / 10 * 9) {
        Some(memory) => Err(format!("not run: buffers need {needed}, the device has {memory}")),
        None => Ok(()),
    }
}

/// Whether the device can execute a stage.
fn carried_out(problem: &Problem, stage: &Stage, caps: &Caps) -> Result<(), String> {
    let label = &stage.label;
    tensors(problem, stage, caps)?;
    match &stage.work {
        StageOp::Kernel(kernel) => launchable(label, kernel, stage.args.len() as u32, caps),
        StageOp::Library(_) if caps.dialect == Dialect::Cuda => Ok(()),
        StageOp::Library(_) => Err(format!("not run: {label} calls the vendor's library, which this target cannot")),
        StageOp::CopyThrough if caps.dialect != Dialect::Cuda => {
            Err(format!("not run: {label} allocates memory in the order of a queue, which this target cannot"))
        }
        StageOp::Copy | StageOp::CopyThrough => {
            let buffers = problem.buffers();
            let bytes =
                |arg: &Arg| buffers.iter().find(|b| b.name == arg.buffer).map(|b| b.bytes_of_rank(problem.dtype));
            match &stage.args[..] {
                [from, to] if bytes(from).is_some() && bytes(from) == bytes(to) => Ok(()),
                _ => Err(format!("not run: {label} needs two buffers of the same size to copy from and to")),
            }
        }
        StageOp::CopyRange(part) => {
            let buffers = problem.buffers();
            let spec = |arg: &Arg| buffers.iter().find(|b| b.name == arg.buffer);
            let ends: Vec<_> = stage.args.iter().filter_map(spec).collect();
            let holds = |buffer: &BufferSpec, from| holds(buffer.bytes_of_rank(problem.dtype), from, part.bytes);
            match ends[..] {
                [from, to] if from.place.is_host() == to.place.is_host() => {
                    Err(format!("not run: {label} copies a part, which is done between host and device alone"))
                }
                [from, to] if !holds(from, part.from) || !holds(to, part.to) => {
                    Err(format!("not run: {label} copies a part that lies beyond the end of a buffer"))
                }
                [_, _] if [part.from, part.to, part.bytes].iter().all(|bytes| bytes.0.is_multiple_of(4)) => Ok(()),
                [_, _] => Err(format!("not run: {label} copies a part that is not of whole words of four bytes")),
                _ => Err(format!("not run: {label} needs two buffers to copy from and to")),
            }
        }
        StageOp::Fill(_) if stage.args.len() == 1 => Ok(()),
        StageOp::FillRange(part) if stage.args.len() == 1 => {
            let buffers = problem.buffers();
            let length =
                buffers.iter().find(|b| b.name == stage.args[0].buffer).map(|b| b.bytes_of_rank(problem.dtype));
            let Some(length) = length.filter(|length| holds(*length, part.from, part.bytes)) else {
                return Err(format!("not run: {label} fills a part that lies beyond the end of a buffer"));
            };
            let end = part.from.0 + part.bytes.0;
            match part.from.0.is_multiple_of(16) && (end == length.0 || end.is_multiple_of(16)) {
                true => Ok(()),
                false => Err(format!("not run: {label} fills a part that is not of whole vectors of 16 bytes")),
            }
        }
        StageOp::Fill(_) | StageOp::FillRange(_) => {
            Err(format!("not run: {label} needs one buffer to fill, it has {}", stage.args.len()))
        }
        StageOp::Collective(_) if u64::from(caps.ranks) < problem.gpus().max(2) => {
            let (needed, limit) = (problem.gpus().max(2), caps.ranks);
            Err(format!("not run: {label} needs {needed} devices or more, the limit is {limit}"))
        }
        StageOp::Collective(_) if !stage.args.is_empty() && stage.args.len().is_multiple_of(2) => Ok(()),
        StageOp::Collective(_) => Err(format!("not run: {label} needs a buffer to send and one to receive")),
    }
}

/// Whether a part lies within a buffer of `length` bytes.
fn holds(length: Bytes, from: Bytes, bytes: Bytes) -> bool {
    from.0.checked_add(bytes.0).is_some_and(|end| end <= length.0)
}

/// Whether the device can access a stage's buffers through the tensor maps that it requires.
fn tensors(problem: &Problem, stage: &Stage, caps: &Caps) -> Result<(), String> {
    // Most stages have no tensor map, and a large model has thousands of stages.
    if stage.args.iter().all(|arg| arg.map.is_none()) {
        return Ok(());
    }
    let (label, buffers) = (&stage.label, problem.buffers());
    for arg in &stage.args {
        let Some(map) = &arg.map else { continue };
        let name = arg.buffer;
        if !caps.cuda.is_some_and(|cuda| cuda.tensor_maps) {
            return Err(format!("not run: {label} needs a tensor map of `{name}`, this device has none"));
        }
        if stage.kernel_launch().is_none() {
            return Err(format!("not run: {label} launches no kernel that could take a tensor map of `{name}`"));
        }
        let Some(spec) = buffers.iter().find(|spec| spec.name == name) else { continue };
        if spec.place != Place::Device {
            return Err(format!("not run: {label} needs a tensor map of `{name}`, which lies in host memory"));
        }
        let checked = map.check(spec.elem.storage(problem.dtype), spec.bytes_of_rank(problem.dtype));
        checked.map_err(|why| format!("not run: {label} has a tensor map of `{name}` that cannot be: {why}"))?;
    }
    Ok(())
}

/// Compares a kernel on `buffers` buffers with the limits of the device.
///
/// # Errors
/// The first limit that the kernel exceeds.
fn launchable(label: &str, kernel: &Kernel, buffers: u32, caps: &Caps) -> Result<(), String> {
    if let Some(elem) = kernel.elem.filter(|elem| !caps.dtypes.contains(elem)) {
        return Err(format!("not run: {label} computes with {}, this device does not", elem.name()));
    }
    let threads: u32 = kernel.workgroup.iter().product();
    let cuda = caps.cuda.unwrap_or(CudaCaps::NONE);
    let CudaLaunch { cluster, dynamic_shared_bytes: dynamic } = kernel.cuda;
    let both = if dynamic > 0 { kernel.shared_bytes.saturating_add(dynamic) } else { 0 };
    let limits = [
        ("threads per workgroup", threads, caps.max_invocations),
        ("bytes of workgroup memory", kernel.shared_bytes, caps.shared_bytes),
        ("bytes of shared memory, some of it dynamic", both, cuda.max_block_shared_bytes),
        ("storage buffers", buffers, caps.max_storage_buffers.unwrap_or(u32::MAX)),
        ("blocks in a cluster", cluster.iter().product(), cuda.max_cluster),
    ];
    let per_axis = (0..3).flat_map(|i| {
        [
            ("threads per dimension", kernel.workgroup[i], caps.max_workgroup[i]),
            ("workgroups per dimension", kernel.grid[i], caps.max_grid[i]),
        ]
    });
    if let Some((what, needed, limit)) = limits.into_iter().chain(per_axis).find(|(_, needed, limit)| needed > limit) {
        return Err(format!("not run: {label} needs {needed} {what}, the limit is {limit}"));
    }
    if (0..3).any(|i| kernel.grid[i].checked_rem(cluster[i]) != Some(0)) {
        let ([x, y, z], grid) = (cluster, kernel.grid);
        return Err(format!("not run: {label} needs a grid of whole clusters of {x}x{y}x{z} blocks, it has {grid:?}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_ir::{Access, Collective, CopyRange, FillRange, Gemm, Library, LibraryEpilogue, Swizzle, TensorMap};
    use parallax_schema::case::{DType, Storage};
    use parallax_schema::testing::{HOPPER, caps};
    use parallax_workloads::parse_case;

    #[test]
    fn work_that_a_target_cannot_carry_out_is_refused_with_the_reason() {
        let case = parse_case("attention/fwd/b1,h2,s3,d4/f32/manual").expect("valid");
        let refused = |stage: Stage| within_limits(&case.problem, &stage.into(), &caps()).expect_err("cannot be run");
        let sum = refused(Stage::collective("sum of gradients", Collective::AllReduce));
        assert_eq!(sum, "not run: sum of gradients needs 2 devices or more, the limit is 1");
        let library = refused(Stage::library("product", Library::Gemm(Gemm::new(1, 1, 1), LibraryEpilogue::Plain)));
        assert!(library.contains("product calls the vendor's library"), "{library}");
        assert!(refused(Stage::copy("keep", "scores", "out")).contains("same size"));
        let half = Stage::kernel("cast", "attention/flash", "attention_flash").elem(DType::BF16);
        assert_eq!(refused(half), "not run: cast computes with bf16, this device does not");
        let race =
            Program { stages: vec![Stage::copy("keep", "q", "out"), Stage::fill("zeros", "out", 0).queue(1, &[])] };
        let said = within_limits(&case.problem, &race, &caps()).expect_err("a race");
        assert!(said.contains("`keep` and `zeros` touch `out` on two queues"), "{said}");
        for fine in [Stage::copy("keep", "q", "out"), Stage::fill("zeros", "out", 0)] {
            assert_eq!(within_limits(&case.problem, &fine.into(), &caps()), Ok(()));
        }
        assert!(
            refused(Stage::fill("zeros", "out", 0).args([("q", Access::Read), ("out", Access::Write)]))
                .contains("has 2")
        );
    }

    #[test]
    fn ranges_are_filled_in_whole_vectors_within_their_buffer() {
        let case = parse_case("hash_embedding/fwd/r3,g3,d3/f32/basic").expect("valid");
        let said = |from: u64, bytes: u64| {
            let part = FillRange { word: 0, from: Bytes(from), bytes: Bytes(bytes) };
            within_limits(&case.problem, &Stage::fill_range("zeros", "out", part).into(), &caps())
        };
        // The buffer has 36 bytes.
        for (from, bytes) in [(0, 36), (0, 16), (16, 16), (16, 20), (32, 4)] {
            assert_eq!(said(from, bytes), Ok(()), "{bytes} from {from}");
        }
        for (from, bytes, want) in [
            (0, 40, "beyond the end"),
            (48, 16, "beyond the end"),
            (16, u64::MAX, "beyond the end"),
            (4, 32, "not of whole vectors"),
            (0, 20, "not of whole vectors"),
        ] {
            let refused = said(from, bytes).expect_err("cannot be run");
            assert!(refused.contains(want), "{refused}");
        }
    }

    #[test]
    fn ranges_are_copied_over_the_link_in_whole_words_within_their_buffers() {
        let case = parse_case("transfer/fwd/n4,k2,up,pinned/f32/collated").expect("valid");
        let said = |[from, to]: [&'static str; 2], [first, second, bytes]: [u64; 3]| {
            let range = CopyRange { from: Bytes(first), to: Bytes(second), bytes: Bytes(bytes) };
            within_limits(&case.problem, &Stage::copy_range("some", [from, to], range).into(), &caps())
        };
        let (up, whole) = (["x", "out"], Ok(()));
        assert_eq!([said(up, [0, 0, 32]), said(up, [16, 4, 16])], [whole.clone(), whole]);
        for (names, range, want) in [
            (up, [16, 0, 20], "lies beyond the end of a buffer"),
            (up, [0, 28, 8], "lies beyond the end of a buffer"),
            (up, [u64::MAX - 3, 0, 8], "lies beyond the end of a buffer"),
            (up, [2, 0, 4], "not of whole words"),
            (["out", "out"], [0, 16, 16], "between host and device alone"),
            (["x", "nothing"], [0, 0, 4], "needs two buffers"),
        ] {
            let refused = said(names, range).expect_err("cannot be run");
            assert!(refused.contains(want), "{refused}");
        }
    }

    #[test]
    fn what_only_some_devices_launch_is_refused_elsewhere_with_the_limit() {
        let case = parse_case("matmul/fwd/m100,n64,k64/f16/naive").expect("valid");
        let hopper = Caps { dialect: Dialect::Cuda, cuda: Some(HOPPER), ..caps() };
        let said = |stage: Stage, caps: &Caps| within_limits(&case.problem, &stage.into(), caps);
        let kernel = |cluster: [u32; 3], dynamic_shared_bytes: u32| {
            let stage = Stage::kernel("product", "matmul/naive", "matmul_naive").grid([6, 4, 1]).shared(1000);
            stage.cuda(CudaLaunch { cluster, dynamic_shared_bytes })
        };
        assert_eq!(said(kernel([2, 4, 1], 231_000), &hopper), Ok(()));
        let ampere = CudaCaps { max_cluster: 1, tensor_maps: false, wgmma: false, ..HOPPER };
        let ampere = Caps { cuda: Some(ampere), ..hopper.clone() };
        for (stage, caps, want) in [
            (kernel([3, 4, 1], 0), &hopper, "needs 12 blocks in a cluster, the limit is 8"),
            (kernel([2, 1, 1], 0), &ampere, "needs 2 blocks in a cluster, the limit is 1"),
            (kernel([2, 1, 1], 0), &caps(), "needs 2 blocks in a cluster, the limit is 1"),
            (kernel([4, 1, 1], 0), &hopper, "needs a grid of whole clusters of 4x1x1 blocks, it has [6, 4, 1]"),
            (kernel([0, 1, 1], 0), &hopper, "needs a grid of whole clusters of 0x1x1 blocks, it has [6, 4, 1]"),
            (
                kernel([1; 3], 232_000),
                &hopper,
                "needs 233000 bytes of shared memory, some of it dynamic, the limit is 232448",
            ),
            (kernel([1; 3], 8), &caps(), "needs 1008 bytes of shared memory, some of it dynamic, the limit is 0"),
        ] {
            assert_eq!(said(stage, caps), Err(format!("not run: product {want}")));
        }

        let map = |rows| TensorMap::dense(&[rows, 64], Storage::F16, &[128, 64], Swizzle::Bytes128);
        let tiles = |rows| kernel([1; 3], 0).args([Arg::from(("a", Access::Read)).mapped(map(rows))]);
        assert_eq!(said(tiles(100), &hopper), Ok(()));
        let beyond =
            "not run: product has a tensor map of `a` that cannot be: it reaches to 12.9 kB, the buffer has 12.8 kB";
        assert_eq!(said(tiles(101), &hopper), Err(beyond.to_owned()));
        for device in [&ampere, &caps()] {
            let none = "not run: product needs a tensor map of `a`, this device has none";
            assert_eq!(said(tiles(100), device), Err(none.to_owned()));
        }
        let fill = Stage::fill("zeros", "a", 0).args([Arg::from(("a", Access::Write)).mapped(map(100))]);
        assert!(said(fill, &hopper).is_err_and(|why| why.contains("zeros launches no kernel")));
    }
}
