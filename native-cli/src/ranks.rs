//! GPU of a process that a launcher started beside others on its host: torchrun, mpirun or srun number them from zero.

use std::sync::OnceLock;

use parallax_schema::units::counted;

use crate::cards::{Card, cards};
use crate::console::noteln;

/// Variables with the number of a process on its host. A launcher that another one started is the inner one and comes first: the batch
/// script of Slurm has a number, which every process below `mpirun` inherits.
pub const VARIABLES: [&str; 4] = ["LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"];

/// Number of a process among those of its job on its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LocalRank {
    number: usize,
    /// Variable that has the number.
    variable: &'static str,
}

impl LocalRank {
    /// Returns the rank by the first variable that has a number.
    fn find(variable: impl Fn(&str) -> Option<String>) -> Option<LocalRank> {
        let rank = |name: &'static str| Some(LocalRank { number: variable(name)?.parse().ok()?, variable: name });
        VARIABLES.into_iter().find_map(rank)
    }

    /// Returns the number of the rank's GPU in a list of cards; `None` if the choice is made already, or if there is none.
    ///
    /// CUDA's devices count where there are any: a scheduler may have left one of them by `CUDA_VISIBLE_DEVICES`, and Vulkan sees
    /// the others still.
    ///
    /// # Errors
    /// More ranks than GPUs.
    fn gpu(self, cards: &[Card]) -> Result<Option<usize>, String> {
        let cuda = cards.iter().any(|card| card.cuda.is_some());
        let counts = |card: &Card| if cuda { card.cuda.is_some() } else { !card.kind.is_emulated() };
        let visible: Vec<usize> = (0..cards.len()).filter(|number| counts(&cards[*number])).collect();
        match (visible.len(), visible.get(self.number)) {
            (0 | 1, _) => Ok(None),
            (_, Some(number)) => Ok(Some(*number)),
            (count, None) => Err(format!(
                "{}={}, and this process sees {}: start one rank for each, or name a device with --device",
                self.variable,
                self.number,
                counted(count, "device")
            )),
        }
    }
}

/// Returns the GPU of this process by its rank on its host; `None` without a rank, or where one GPU is visible. The first call notes
/// the choice on stderr.
///
/// # Errors
/// More ranks than GPUs.
pub fn gpu() -> Result<Option<Card>, String> {
    static GPU: OnceLock<Result<Option<Card>, String>> = OnceLock::new();
    let find = || {
        let Some(rank) = LocalRank::find(|name| std::env::var(name).ok()) else { return Ok(None) };
        let cards = cards();
        let number = rank.gpu(&cards)?;
        Ok(number.map(|number| {
            noteln!("device {number} by {}={}: {}", rank.variable, rank.number, cards[number].words());
            cards[number].clone()
        }))
    };
    GPU.get_or_init(find).clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::device::DeviceKind::{self, Discrete, Integrated, Software};

    #[test]
    fn the_rank_on_a_host_is_that_of_the_inner_launcher() {
        for (known, want) in [
            (&[][..], None),
            (&[("SLURM_LOCALID", "3")], Some((3, "SLURM_LOCALID"))),
            (&[("OMPI_COMM_WORLD_LOCAL_RANK", "1")], Some((1, "OMPI_COMM_WORLD_LOCAL_RANK"))),
            (&[("MPI_LOCALRANKID", "2")], Some((2, "MPI_LOCALRANKID"))),
            (&[("LOCAL_RANK", "7")], Some((7, "LOCAL_RANK"))),
            (&[("SLURM_LOCALID", "0"), ("OMPI_COMM_WORLD_LOCAL_RANK", "5")], Some((5, "OMPI_COMM_WORLD_LOCAL_RANK"))),
            (&[("SLURM_LOCALID", "1"), ("LOCAL_RANK", "4")], Some((4, "LOCAL_RANK"))),
            (&[("LOCAL_RANK", ""), ("SLURM_LOCALID", "1")], Some((1, "SLURM_LOCALID"))),
            (&[("LOCAL_RANK", "-1")], None),
            (&[("SLURM_PROCID", "1"), ("RANK", "1")], None),
        ] {
            let value = |name: &str| known.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            let found = LocalRank::find(value);
            assert_eq!(found.map(|rank| (rank.number, rank.variable)), want, "{known:?}");
        }
    }

    /// Cards by their number in CUDA and their kind.
    fn list(cards: &[(Option<usize>, DeviceKind)]) -> Vec<Card> {
        let card = |&(cuda, kind): &(Option<usize>, DeviceKind)| Card {
            name: "X".to_owned(),
            kind,
            identity: Default::default(),
            cuda,
            wgpu: None,
            doubt: false,
        };
        cards.iter().map(card).collect()
    }

    #[test]
    fn a_rank_has_a_gpu_among_several() {
        let cuda = |number| (Some(number), Discrete);
        for (cards, rank, want) in [
            (&[][..], 0, Ok(None)),
            (&[cuda(0)], 0, Ok(None)),
            (&[cuda(0), cuda(1), cuda(2)], 2, Ok(Some(2))),
            (&[cuda(0), cuda(1)], 0, Ok(Some(0))),
            // CUDA_VISIBLE_DEVICES leaves one device, and Vulkan sees eight.
            (&[cuda(0), (None, Discrete), (None, Discrete)], 1, Ok(None)),
            // Without CUDA the adapters count, without emulations.
            (&[(None, Discrete), (None, Software), (None, Integrated)], 1, Ok(Some(2))),
            (&[(None, Discrete), (None, Software)], 1, Ok(None)),
            (&[(None, Software), (None, Software)], 1, Ok(None)),
            (&[cuda(0), cuda(1)], 2, Err("SLURM_LOCALID=2, and this process sees 2 devices")),
        ] {
            let found = LocalRank { number: rank, variable: "SLURM_LOCALID" }.gpu(&list(cards));
            match (&found, want) {
                (Ok(found), Ok(want)) => assert_eq!(*found, want, "{cards:?}, rank {rank}"),
                (Err(why), Err(part)) => assert!(why.starts_with(part) && why.contains("--device"), "{why}"),
                _ => panic!("{cards:?}, rank {rank}: {found:?}"),
            }
        }
    }
}
