//! Allocation of scratch buffers: those with disjoint lifetimes share memory.
//!
//! The lifetime of a scratch buffer is from the first stage that names it to the last. It is known before a run. A plan can
//! therefore state the memory of a program, and a backend allocates it once for each set of buffers. Set-up and timed stages are
//! one program here: data that the set-up leaves for timed stages is no scratch.

use parallax_schema::case::DType;
use parallax_schema::device::Dialect;
use parallax_schema::units::Bytes;

use super::{BufferSpec, Place, Problem, Program, Role};

/// Alignment of offsets: enough for every vector access, and for the binding offsets of every interface.
pub const ALIGNMENT: u64 = 256;

/// Allocation of a program's scratch buffers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scratch {
    /// Regions by position in the workload's list of buffers; `None` for buffers that are no scratch of this program.
    pub regions: Vec<Option<Region>>,
    /// Bytes of one arena that holds all of them.
    pub arena: u64,
    /// Bytes of each slot, which holds one buffer at a time. Slots serve interfaces like WebGPU. Those cannot bind two ranges of
    /// one buffer in one launch, one to read and one to write.
    pub slots: Vec<u64>,
}

/// Region of one scratch buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Size in bytes, before rounding up.
    pub bytes: u64,
    /// Offset in the arena.
    pub offset: u64,
    /// Index of the slot.
    pub slot: usize,
}

/// Scratch buffer with its lifetime in stages.
struct Needed {
    index: usize,
    bytes: u64,
    room: u64,
    from: usize,
    to: usize,
}

impl Needed {
    fn meets(&self, other: &Needed) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

impl Scratch {
    /// Allocates every scratch buffer that a stage names. Large ones come first, each at the lowest offset that is free in its
    /// lifetime.
    ///
    /// With stages on several queues, the order of the list is not the order in time, and no memory is shared.
    pub fn new(program: &Program, buffers: &[BufferSpec], dtype: DType) -> Scratch {
        let all = program.stages.len().saturating_sub(1);
        let ordered = program.stages.iter().all(|stage| stage.queue == program.stages[0].queue);
        let live = |(index, spec): (usize, &BufferSpec)| {
            let used = |stage: &&super::Stage| stage.args.iter().any(|arg| arg.buffer == spec.name);
            let first = program.stages.iter().position(|stage| used(&stage))?;
            let last = program.stages.iter().rposition(|stage| used(&stage))?;
            let (from, to) = if ordered { (first, last) } else { (0, all) };
            let bytes = spec.bytes(dtype).0;
            let room = bytes.next_multiple_of(ALIGNMENT).max(ALIGNMENT);
            (matches!(spec.role, Role::Scratch) && spec.place == Place::Device).then_some(Needed {
                index,
                bytes,
                room,
                from,
                to,
            })
        };
        let mut lives: Vec<Needed> = buffers.iter().enumerate().filter_map(live).collect();
        lives.sort_by_key(|live| (std::cmp::Reverse(live.room), live.from, live.index));

        let mut scratch = Scratch { regions: vec![None; buffers.len()], ..Scratch::default() };
        let mut placed: Vec<(&Needed, Region)> = Vec::new();
        for live in &lives {
            let mut taken: Vec<(u64, u64)> = placed
                .iter()
                .filter(|(other, _)| other.meets(live))
                .map(|(other, place)| (place.offset, place.offset + other.room))
                .collect();
            taken.sort_unstable();
            let lowest = |offset: u64, (begin, end): &(u64, u64)| {
                if offset + live.room <= *begin { offset } else { offset.max(*end) }
            };
            let offset = taken.iter().fold(0, lowest);
            let full = |slot: &usize| placed.iter().any(|(other, place)| place.slot == *slot && other.meets(live));
            let slot = (0..scratch.slots.len()).find(|slot| !full(slot)).unwrap_or(scratch.slots.len());
            if slot == scratch.slots.len() {
                scratch.slots.push(live.room);
            }
            let region = Region { bytes: live.bytes, offset, slot };
            scratch.arena = scratch.arena.max(offset + live.room);
            scratch.regions[live.index] = Some(region);
            placed.push((live, region));
        }
        scratch
    }
}

impl Program {
    /// Device memory of one set of its buffers, on one device. Scratch buffers with disjoint lifetimes share memory.
    pub fn memory(&self, problem: &Problem, dialect: Dialect) -> Bytes {
        let kept =
            |spec: &&BufferSpec| !spec.place.is_host() && !matches!(spec.role, Role::Scratch) && self.uses(spec.name);
        let buffers: Vec<BufferSpec> = problem.buffers().iter().map(BufferSpec::of_rank).collect();
        let scratch = Scratch::new(self, &buffers, problem.dtype);
        let shared = if dialect == Dialect::Wgsl { scratch.slots.iter().sum() } else { scratch.arena };
        let kept: u64 = buffers.iter().filter(kept).map(|spec| spec.bytes(problem.dtype).0).sum();
        Bytes(kept.saturating_add(shared))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access::{Read, Write};
    use crate::{Elem, Stage};

    const NAMES: [&str; 31] = [
        "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13", "s14", "s15", "s16",
        "s17", "s18", "s19", "s20", "s21", "s22", "s23", "s24", "s25", "s26", "s27", "s28", "s29", "s30",
    ];

    fn scratch(sizes: &[u64]) -> Vec<BufferSpec> {
        sizes.iter().zip(NAMES).map(|(size, name)| BufferSpec::scratch(name, Elem::U32, &[size.div_ceil(4)])).collect()
    }

    /// Thirty stages, each of which reads the output of the preceding one.
    fn chain() -> Program {
        let stage = |i: usize| Stage::copy(format!("stage {i}"), NAMES[i], NAMES[i + 1]);
        Program { stages: (0..30).map(stage).collect() }
    }

    /// Asserts that buffers with overlapping lifetimes share no slot and no memory, and that no buffer exceeds the arena.
    fn sound(program: &Program, buffers: &[BufferSpec], found: &Scratch) {
        let during = |name: &str| {
            let uses: Vec<usize> = (0..program.stages.len())
                .filter(|i| program.stages[*i].args.iter().any(|arg| arg.buffer == name))
                .collect();
            uses.first().copied().zip(uses.last().copied())
        };
        for (i, one) in buffers.iter().enumerate() {
            let Some((place, (from, to))) = found.regions[i].zip(during(one.name)) else {
                assert!(found.regions[i].is_none() && during(one.name).is_none(), "{}", one.name);
                continue;
            };
            assert_eq!((place.offset % ALIGNMENT, place.bytes), (0, one.bytes(DType::F32).0));
            assert!(place.offset + place.bytes <= found.arena && place.bytes <= found.slots[place.slot]);
            for (j, other) in buffers.iter().enumerate().skip(i + 1) {
                let Some((theirs, (begin, end))) = found.regions[j].zip(during(other.name)) else { continue };
                if from <= end && begin <= to {
                    let apart =
                        place.offset + place.bytes <= theirs.offset || theirs.offset + theirs.bytes <= place.offset;
                    assert!(apart && place.slot != theirs.slot, "{} and {}", one.name, other.name);
                }
            }
        }
    }

    #[test]
    fn a_chain_of_thirty_stages_needs_the_memory_of_its_largest_pair() {
        let (program, buffers) = (chain(), scratch(&[1 << 20; 31]));
        let found = Scratch::new(&program, &buffers, DType::F32);
        sound(&program, &buffers, &found);
        assert_eq!((found.arena, &found.slots[..]), (2 << 20, &[1 << 20; 2][..]));
    }

    #[test]
    fn sizes_of_every_kind_are_placed_soundly() {
        // A linear congruence yields sizes from 4 bytes to 64 KiB.
        let sizes: Vec<u64> = (0..31u64).map(|i| (i * 7919 + 13) % 16_384 * 4 + 4).collect();
        let (mut program, buffers) = (chain(), scratch(&sizes));
        // One buffer lives throughout, and one is used only at both ends.
        program.stages[29].args.push(("s3", Read).into());
        program.stages[0].args.push(("s30", Write).into());
        let found = Scratch::new(&program, &buffers, DType::F32);
        sound(&program, &buffers, &found);
        let apart: u64 = sizes.iter().map(|size| size.next_multiple_of(ALIGNMENT)).sum();
        assert!(found.arena <= found.slots.iter().sum() && found.slots.iter().sum::<u64>() * 3 < apart, "{found:?}");
    }

    #[test]
    fn nothing_is_shared_between_queues_and_only_scratch_is_placed() {
        let (mut program, mut buffers) = (chain(), scratch(&[1024; 31]));
        program.stages[7].queue = 1;
        let found = Scratch::new(&program, &buffers, DType::F32);
        assert_eq!((found.arena, found.slots.len()), (31 * 1024, 31));
        buffers[0].role = Role::Output { row_len: 1 };
        program.stages.truncate(2);
        let found = Scratch::new(&program, &buffers, DType::F32);
        let placed = found.regions.iter().enumerate().filter(|(_, place)| place.is_some()).map(|(i, _)| i);
        assert_eq!(placed.collect::<Vec<_>>(), [1, 2], "no output, and nothing that no stage names");
        let nothing = Scratch::new(&Program { stages: Vec::new() }, &buffers, DType::F32);
        assert_eq!((nothing.arena, nothing.slots.len()), (0, 0));
    }
}
