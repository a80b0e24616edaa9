//! Exchanges between the GPUs of a group: their kinds, the axis with the number of GPUs, and the bytes of a message.

use parallax_schema::units::Bytes;

use super::{Axis, BufferSpec, Place, Problem, Workload};

/// Exchange between the GPUs of a group. Each GPU is a rank; ranks are numbered from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collective {
    /// Each rank gets the sum over all ranks.
    AllReduce,
    /// Each rank gets the parts of all ranks, concatenated.
    AllGather,
    /// Each rank gets its own part of the sum over all ranks.
    ReduceScatter,
    /// Each rank gets the data of rank zero.
    Broadcast,
    /// Each rank gets its own part of the data of every rank, concatenated.
    AllToAll,
    /// Each rank gets the data of the rank before it. The first rank gets the data of the last.
    SendRecv,
}

impl Collective {
    /// All kinds.
    pub const ALL: [Collective; 6] = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
        Collective::AllToAll,
        Collective::SendRecv,
    ];

    /// Returns the name of the operation, which is the name of its workload.
    pub fn name(self) -> &'static str {
        match self {
            Collective::AllReduce => "all_reduce",
            Collective::AllGather => "all_gather",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::Broadcast => "broadcast",
            Collective::AllToAll => "all_to_all",
            Collective::SendRecv => "send_recv",
        }
    }

    /// Returns the bus bandwidth over the algorithm bandwidth on `gpus` ranks, as nccl-tests defines it.
    ///
    /// The factor is the share of a message that crosses the link of the busiest rank, one way, with the best algorithm for a ring
    /// or a switch. The bus bandwidth is therefore comparable with the rate of the link, for any number of ranks.
    pub fn bus_factor(self, gpus: u64) -> f64 {
        let others = gpus.saturating_sub(1) as f64 / gpus.max(1) as f64;
        match self {
            Collective::AllReduce => 2.0 * others,
            Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll => others,
            Collective::Broadcast | Collective::SendRecv => 1.0,
        }
    }
}

/// Axis with the number of ranks of a collective.
pub const GPUS: Axis = Axis::optional("gpus", "GPUs", 2, 2);

impl Workload {
    /// Returns whether its executions are exchanges between the GPUs of a group.
    pub fn spans_gpus(&self) -> bool {
        self.forms.iter().any(|form| form.exchange.is_some())
    }

    /// Returns whether it has shapes for the GPUs of a group, by an axis with their number.
    pub fn has_gpus_axis(&self) -> bool {
        self.axes.iter().any(|axis| axis.key == GPUS.key)
    }
}

impl Problem {
    /// Number of GPUs that compute it together: one without an axis for it.
    pub fn gpus(&self) -> u64 {
        self.shape.extents().iter().find(|(key, _)| *key == GPUS.key).map_or(1, |(_, gpus)| *gpus)
    }

    /// Size of a message as nccl-tests counts it: the largest buffer of a rank. Zero for a problem that spans no GPUs.
    pub fn message(&self) -> Bytes {
        let of_ranks = self.buffers().into_iter().filter(|buffer| buffer.place == Place::EachRank);
        of_ranks.map(|buffer| buffer.bytes_of_rank(self.dtype)).max_by_key(|bytes| bytes.0).unwrap_or(Bytes(0))
    }
}

impl BufferSpec {
    /// Number of devices that have a part of the buffer: its slowest extent on [`Place::EachRank`], one elsewhere.
    pub fn ranks(&self) -> u64 {
        if self.place == Place::EachRank { self.dims[0].max(1) } else { 1 }
    }

    /// Returns a buffer with a row like this one for each of `gpus` devices.
    pub fn on_each_rank(mut self, gpus: u64) -> BufferSpec {
        self.dims.insert(0, gpus);
        BufferSpec { len: self.len.saturating_mul(gpus), place: Place::EachRank, ..self }
    }

    /// Returns the part of a rank, as a buffer of one device. A buffer elsewhere than on [`Place::EachRank`] is its own part.
    pub fn of_rank(&self) -> BufferSpec {
        if self.place != Place::EachRank {
            return self.clone();
        }
        let dims = if self.dims.len() > 1 { self.dims[1..].to_vec() } else { vec![1] };
        BufferSpec { dims, len: self.len / self.ranks(), place: Place::Device, ..self.clone() }
    }

    /// Size on one device in a case of element type `dtype`.
    pub fn bytes_of_rank(&self, dtype: parallax_schema::case::DType) -> Bytes {
        Bytes(self.bytes(dtype).0 / self.ranks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Elem, normal};
    use parallax_schema::case::DType;

    #[test]
    fn bus_factors_are_those_of_nccl_tests() {
        use Collective::{AllGather, AllReduce, AllToAll, Broadcast, ReduceScatter, SendRecv};
        for (gpus, reduce, part) in [(1, 0.0, 0.0), (2, 1.0, 0.5), (4, 1.5, 0.75), (8, 1.75, 0.875)] {
            assert_eq!(AllReduce.bus_factor(gpus), reduce, "{gpus}");
            assert_eq!([AllGather, ReduceScatter, AllToAll].map(|one| one.bus_factor(gpus)), [part; 3], "{gpus}");
            assert_eq!([Broadcast, SendRecv].map(|one| one.bus_factor(gpus)), [1.0; 2], "{gpus}");
        }
    }

    #[test]
    fn a_buffer_of_each_rank_has_its_rows_apart() {
        let spec = BufferSpec::input("x", Elem::Real, &[4, 10], normal);
        assert_eq!((spec.ranks(), spec.bytes_of_rank(DType::F32)), (1, Bytes(160)));
        let spec = spec.at(Place::EachRank);
        assert_eq!((spec.ranks(), spec.bytes_of_rank(DType::F16)), (4, Bytes(20)));
        let row = spec.of_rank();
        assert_eq!((&row.dims[..], row.len, row.place), (&[10][..], 10, Place::Device));
        let again = row.on_each_rank(4);
        assert_eq!((&again.dims, again.len, again.place), (&spec.dims, spec.len, spec.place));
        let alone = BufferSpec::input("x", Elem::Real, &[4, 10], normal).of_rank();
        assert_eq!((alone.len, alone.place), (40, Place::Device));
    }
}
