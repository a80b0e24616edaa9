//! Preparation of an exchange: communicators, buffers on every rank, inputs.

use std::rc::Rc;
use std::time::Instant;

use parallax_ir::device::{BackendError, Ledger, POISON, Rotation};
use parallax_ir::{BufferSpec, Case, Inputs, Role, Stage, StageOp};
use parallax_schema::case::DType;
use parallax_schema::device::{Compiled, Step};

use super::Group;
use super::prepared::{Bound, PreparedGroup, Set};
use super::rank::{Marks, Rank};
use super::split::Split;
use crate::errors::Context;
use crate::events::since;
use crate::memory::Buffer;
use crate::nccl::{Exchange, NVLS, Side};

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
        let time = since(began);
        let compiled = Compiled {
            time,
            options: vec![communicators.version(), multicast()],
            steps: vec![Step { name: "NCCL communicators".to_owned(), time }],
            ..Compiled::default()
        };
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
            let bound = |stage: &Stage| bound(stage, (&specs, &splits, dtype), &ranks, set);
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

fn unsupported(why: String) -> BackendError {
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
fn bound(
    stage: &Stage,
    (specs, splits, dtype): (&[BufferSpec], &[Split], DType),
    ranks: &[Rank],
    set: &Set,
) -> Result<Bound, BackendError> {
    let label = &stage.label;
    let StageOp::Collective(collective) = stage.work else {
        return Err(unsupported(format!("{label} is no exchange: a group of GPUs runs exchanges only")));
    };
    let at = |name| specs.iter().position(|spec| spec.name == name);
    let ends = match &stage.args[..] {
        [from, to] => at(from.buffer).zip(at(to.buffer)),
        _ => None,
    };
    let (sent, received) =
        ends.ok_or_else(|| unsupported(format!("{label} needs a buffer to send and one to receive")))?;
    let lengths = [sent, received].map(|index| splits[index].elements);
    let exchange = Exchange::new(collective, dtype, ranks.len() as u64, lengths).ok_or_else(|| {
        unsupported(format!("{label} cannot send {} and receive {} elements", lengths[0], lengths[1]))
    })?;
    let side = |(rank, buffers): (&Rank, &Vec<Buffer>)| Side {
        sent: buffers[sent].pointer(),
        received: buffers[received].pointer(),
        stream: rank.stream.cu_stream(),
    };
    let sides = ranks.iter().zip(set).map(side).collect();
    Ok(Bound { label: label.clone(), entry: stage.entry(), exchange, sides })
}
