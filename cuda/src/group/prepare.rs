//! Preparation of an exchange: communicators, buffers on every rank, inputs.

use std::rc::Rc;
use std::time::Instant;

use parallax_ir::device::{BackendError, Ledger, POISON, Rotation};
use parallax_ir::{Arg, BufferSpec, Case, Elem, Inputs, Role, Stage, StageOp};
use parallax_schema::case::DType;
use parallax_schema::device::{Compiled, Step};
use parallax_schema::units::Nanos;

use super::Group;
use super::prepared::{Bound, PreparedGroup, Set};
use super::rank::{Marks, Rank};
use super::split::Split;
use crate::errors::Context;
use crate::events::since;
use crate::memory::Buffer;
use crate::nccl::{Communicators, Exchange, NVLS, Part, Side};

impl Group {
    /// Places a case of exchanges on its ranks, with `sets` copies of its buffers on each.
    ///
    /// # Errors
    /// [`BackendError::Refused`] without NCCL. [`BackendError::Unsupported`] for a stage that is no exchange, or a buffer that is
    /// neither input nor output. Errors of the driver and of NCCL.
    pub(super) fn prepare_exchange(
        &mut self,
        case: &Case,
        inputs: &Inputs,
        sets: u32,
    ) -> Result<PreparedGroup, BackendError> {
        let began = Instant::now();
        let program = case.program(&self.info.caps).ok_or_else(|| unsupported(format!("{case} has no stages")))?;
        let (gpus, dtype) = (case.problem.gpus(), case.problem.dtype);
        let communicators = self.connected(usize::try_from(gpus).unwrap_or(usize::MAX))?;
        let mut compiled = Compiled::default();
        tell(&mut compiled, &communicators, since(began));
        let ranks = self.ranks[..gpus as usize].to_vec();
        let specs = case.problem.buffers();
        if let Some(spec) = specs.iter().find(|spec| !matches!(spec.role, Role::Input(_) | Role::Output { .. })) {
            return Err(unsupported(format!("`{}` is neither input nor output of an exchange", spec.name)));
        }
        let splits = specs.iter().map(|spec| Split::new(spec, dtype, gpus)).collect::<Result<Vec<_>, _>>()?;

        let ledger = Rc::<Ledger>::default();
        let sets = allocate(&ranks, (&specs, &splits), &ledger, sets)?;
        fill(&ranks, (&specs, &splits, &sets), (inputs, dtype))?;
        let bind = |set: &Set| {
            let bound = |stage: &Stage| bound(stage, &specs, dtype, &ranks, set);
            program.stages.iter().map(bound).collect::<Result<Vec<_>, _>>()
        };
        let executions = sets.iter().map(bind).collect::<Result<Vec<_>, _>>()?;
        let marks = ranks.iter().map(Marks::new).collect::<Result<_, _>>()?;
        let prepared = PreparedGroup {
            rotation: Rotation::new(sets.len()),
            ranks,
            marks,
            communicators,
            executions,
            specs,
            splits,
            sets,
            dtype,
            compiled,
            opened: self.first.opened,
            ledger,
        };
        // Fresh memory may hold the correct results of an earlier case.
        prepared.poison_all(POISON)?;
        Ok(prepared)
    }
}

/// Adds the connection of the ranks, which took this time, to the record of compilation.
pub(super) fn tell(compiled: &mut Compiled, communicators: &Communicators, time: Nanos) {
    compiled.time += time;
    compiled.options.extend([communicators.version(), multicast()]);
    compiled.steps.push(Step { name: "NCCL communicators".to_owned(), time });
}

pub(crate) fn unsupported(why: String) -> BackendError {
    BackendError::Unsupported(why)
}

/// Returns the state of NVLink's multicast in NCCL, as its environment variable has it.
fn multicast() -> String {
    match std::env::var(NVLS).ok().filter(|value| !value.is_empty()) {
        Some(value) => format!("{NVLS}={value}"),
        None => format!("{NVLS} is not set"),
    }
}

/// Allocates every set on every rank.
fn allocate(
    ranks: &[Rank],
    (specs, splits): (&[BufferSpec], &[Split]),
    ledger: &Rc<Ledger>,
    sets: u32,
) -> Result<Vec<Set>, BackendError> {
    let on_rank = |rank: &Rank| {
        let buffer = |(spec, split): (&BufferSpec, &Split)| Buffer::new(&rank.context, ledger, spec.name, split.bytes);
        specs.iter().zip(splits).map(buffer).collect::<Result<Vec<_>, _>>()
    };
    (0..sets.max(1)).map(|_| ranks.iter().map(on_rank).collect::<Result<Set, _>>()).collect()
}

/// Size of a piece of inputs, in bytes. Inputs are made and copied in pieces, so that a large message needs no second copy on the
/// host.
const PIECE: u64 = 16 << 20;

/// Copies the inputs of each rank into all of its sets, and waits.
pub(super) fn fill(
    ranks: &[Rank],
    (specs, splits, sets): (&[BufferSpec], &[Split], &[Set]),
    (inputs, dtype): (&Inputs, DType),
) -> Result<(), BackendError> {
    for (number, rank) in ranks.iter().enumerate() {
        rank.bind()?;
        let filled = specs.iter().zip(splits).enumerate().filter(|(_, (spec, _))| spec.role.fill().is_some());
        for (index, (spec, split)) in filled {
            let (size, first) = (spec.elem.storage(dtype).bytes(), number as u64 * split.elements);
            let mut piece = vec![0; PIECE.min(split.bytes) as usize];
            let mut offset = 0;
            while offset < split.bytes {
                let part = &mut piece[..PIECE.min(split.bytes - offset) as usize];
                inputs.write(index, first + offset / size, part);
                sets.iter().try_for_each(|set| set[number][index].write(offset, part))?;
                offset += part.len() as u64;
            }
        }
        // Copies from pageable host memory may be incomplete when the call returns, and the stream does not wait for them.
        rank.context.synchronize().doing(|| "uploading inputs".into())?;
    }
    Ok(())
}

/// Returns a stage with the memory of every rank in a set.
fn bound(stage: &Stage, specs: &[BufferSpec], dtype: DType, ranks: &[Rank], set: &Set) -> Result<Bound, BackendError> {
    let side = |rank: usize, [sent, received]: [usize; 2]| {
        let buffers = &set[rank];
        let [sent, received] = [sent, received].map(|index| buffers[index].pointer());
        Some(Side { sent, received, stream: ranks[rank].stream.cu_stream() })
    };
    let parts = parts(stage, (specs, dtype), [ranks.len(); 2], side)?;
    Ok(Bound { label: stage.label.clone(), entry: stage.entry(), parts })
}

/// Returns the exchanges of a stage, one for each pair of its arguments. The numbers of ranks are those of the group and of this
/// process. `side` has the memory of a rank of this process at two positions in the list of buffers: sent and received.
///
/// # Errors
/// [`BackendError::Unsupported`] for a stage that is no exchange, and for buffers that it cannot have.
pub(super) fn parts(
    stage: &Stage,
    (specs, dtype): (&[BufferSpec], DType),
    [ranks, here]: [usize; 2],
    side: impl Fn(usize, [usize; 2]) -> Option<Side>,
) -> Result<Vec<Part>, BackendError> {
    let label = &stage.label;
    let StageOp::Collective(collective) = stage.work else {
        return Err(unsupported(format!("{label} is no exchange, and alone in a case of exchanges")));
    };
    let in_pairs = || unsupported(format!("{label} needs pairs of a buffer to send and one to receive"));
    let at = |arg: &Arg| specs.iter().position(|spec| spec.name == arg.buffer);
    let is_real = |index: &usize| specs[*index].elem.storage(dtype) == Elem::Real.storage(dtype);
    let part = |pair: &[Arg]| {
        let ends = match pair {
            [from, to] => at(from).zip(at(to)).map(|(from, to)| [from, to]),
            _ => None,
        };
        let ends = ends.filter(|ends| ends.iter().all(is_real)).ok_or_else(in_pairs)?;
        let lengths = ends.map(|index| specs[index].of_rank().len);
        let exchange = Exchange::new(collective, dtype, ranks as u64, lengths).ok_or_else(|| {
            unsupported(format!("{label} cannot send {} and receive {} elements", lengths[0], lengths[1]))
        })?;
        let sides = (0..here).map(|rank| side(rank, ends)).collect::<Option<_>>().ok_or_else(in_pairs)?;
        Ok(Part { exchange, sides })
    };
    if stage.args.is_empty() { Err(in_pairs()) } else { stage.args.chunks(2).map(part).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_ir::Access::{Read, Write};
    use parallax_ir::{Collective, normal};

    /// Exchanges of two ranks. The addresses state rank and position.
    fn found(stage: &Stage) -> Result<Vec<Part>, BackendError> {
        let spec = |name, elem, len| BufferSpec::scratch(name, elem, &[len]).on_each_rank(2);
        let specs = [
            spec("a", Elem::Real, 3),
            spec("b", Elem::Real, 5),
            spec("c", Elem::Real, 5),
            spec("id", Elem::U32, 5),
            BufferSpec::input("x", Elem::Real, &[6], normal).on_each_rank(2),
        ];
        let side = |rank: usize, ends: [usize; 2]| {
            let [sent, received] = ends.map(|index| (1000 * (rank + 1) + index) as u64);
            Some(Side { sent, received, stream: std::ptr::null_mut() })
        };
        parts(stage, (&specs, DType::F32), [2; 2], side)
    }

    #[test]
    fn a_stage_has_an_exchange_for_each_pair_of_its_buffers() {
        let sum = |args: &[(&'static str, parallax_ir::Access)]| {
            Stage::collective("sum", Collective::AllReduce).args(args.iter().copied())
        };
        let made = found(&sum(&[("a", Read), ("a", Write), ("b", Read), ("c", Write)])).expect("two pairs");
        let ends = |part: &Part| part.sides.iter().map(|side| [side.sent, side.received]).collect::<Vec<_>>();
        assert_eq!(made.iter().map(ends).collect::<Vec<_>>(), [[[1000; 2], [2000; 2]], [[1001, 1002], [2001, 2002]]]);
        for (index, len) in [(0, 3), (1, 5)] {
            let want = Exchange::new(Collective::AllReduce, DType::F32, 2, [len; 2]);
            assert_eq!(Some(made[index].exchange), want);
        }
        for (args, why) in [
            (&[][..], "needs pairs"),
            (&[("a", Read)], "needs pairs"),
            (&[("a", Read), ("a", Write), ("b", Read)], "needs pairs"),
            (&[("a", Read), ("missing", Write)], "needs pairs"),
            (&[("id", Read), ("id", Write)], "needs pairs"),
            (&[("a", Read), ("b", Write)], "cannot send 3 and receive 5"),
        ] {
            let refused = found(&sum(args)).map(|_| ()).expect_err(why).to_string();
            assert!(refused.contains(why), "{refused}");
        }
        assert!(found(&Stage::copy("copy", "b", "c")).is_err());
    }
}
