//! Place of this process in a group of processes, from the variables of its launcher.

use parallax_cuda::Place;

use crate::host::variable;
use crate::session::suite;

/// Variables with the rank of a process and the number of processes, by launcher. A launcher that another one started is the inner one
/// and comes first.
pub const LAUNCHERS: [[&str; 2]; 4] = [
    ["RANK", "WORLD_SIZE"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["PMI_RANK", "PMI_SIZE"],
    ["SLURM_PROCID", "SLURM_NTASKS"],
];

/// Variables with the number of processes on this host.
const HERE: [&str; 4] = ["LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"];

/// Variable with the host of the first rank.
const ADDRESS: &str = "MASTER_ADDR";
/// Variable with the port of the first rank.
pub const PORT: &str = "PARALLAX_PORT";
/// Variable with a port that the launcher itself may have open. The next one is taken.
const LAUNCHERS_PORT: &str = "MASTER_PORT";
/// Port without any variable.
const USUAL_PORT: u16 = 29_501;

/// Returns the place of this process in a group of `--processes`, of `gpus` GPUs if a number is requested.
///
/// # Errors
/// Missing or contradictory variables.
pub fn place(gpus: Option<u32>) -> Result<Place, String> {
    find(gpus, variable)
}

fn find(gpus: Option<u32>, variable: impl Fn(&str) -> Option<String>) -> Result<Place, String> {
    let number = |name: &str| variable(name)?.parse::<u64>().ok();
    let known = LAUNCHERS.iter().find_map(|[rank, ranks]| Some((number(rank)?, number(ranks)?, *ranks)));
    let Some((rank, ranks, variable_of_ranks)) = known else {
        let why = "--processes: no launcher numbered this process: start it by torchrun, mpirun or srun, or set RANK and WORLD_SIZE";
        return Err(why.to_owned());
    };
    if rank >= ranks {
        return Err(format!("--processes: rank {rank} is not below {variable_of_ranks}={ranks}"));
    }
    if let Some(gpus) = gpus.filter(|gpus| u64::from(*gpus) != ranks) {
        return Err(format!(
            "--gpus {gpus} with --processes: each process has one GPU, and {variable_of_ranks}={ranks}"
        ));
    }
    let one_host = || HERE.iter().find_map(|name| number(name)) == Some(ranks);
    let host = match variable(ADDRESS) {
        Some(host) => host,
        None if rank == 0 || one_host() => "127.0.0.1".to_owned(),
        None => return Err(format!("--processes: {ADDRESS} names the host of rank 0, and is not set")),
    };
    let port = match (variable(PORT), number(LAUNCHERS_PORT)) {
        (Some(port), _) => port.parse().map_err(|_| format!("{PORT}={port} is not a port"))?,
        (None, Some(port)) => {
            u16::try_from(port + 1).map_err(|_| format!("{LAUNCHERS_PORT}={port} has no next port"))?
        }
        (None, None) => USUAL_PORT,
    };
    let suite = suite();
    Ok(Place { rank, ranks, host, port, build: format!("Parallax {} ({})", suite.version, suite.commit) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(gpus: Option<u32>, known: &[(&str, &str)]) -> Result<Place, String> {
        find(gpus, |name| known.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn a_place_is_that_of_the_inner_launcher() {
        let slurm = [("SLURM_PROCID", "3"), ("SLURM_NTASKS", "16"), ("MASTER_ADDR", "node1")];
        for (known, want) in [
            (&slurm[..], (3, 16, "node1", 29_501)),
            (
                &[("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "a"), ("MASTER_PORT", "29500")],
                (1, 2, "a", 29_501),
            ),
            (
                &[("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "2"), ("PARALLAX_PORT", "7")],
                (1, 2, "127.0.0.1", 7),
            ),
            (
                &[
                    ("OMPI_COMM_WORLD_RANK", "0"),
                    ("OMPI_COMM_WORLD_SIZE", "4"),
                    ("SLURM_PROCID", "9"),
                    ("SLURM_NTASKS", "1"),
                ],
                (0, 4, "127.0.0.1", 29_501),
            ),
        ] {
            let place = found(None, known).expect("complete");
            assert_eq!((place.rank, place.ranks, place.host.as_str(), place.port), want, "{known:?}");
        }
        assert!(found(Some(16), &slurm).is_ok());
    }

    #[test]
    fn missing_and_contradictory_variables_are_errors() {
        for (gpus, known, part) in [
            (None, &[][..], "no launcher"),
            (None, &[("RANK", "1")], "no launcher"),
            (None, &[("RANK", "2"), ("WORLD_SIZE", "2")], "not below WORLD_SIZE=2"),
            (Some(4), &[("RANK", "0"), ("WORLD_SIZE", "2")], "--gpus 4"),
            (None, &[("RANK", "1"), ("WORLD_SIZE", "2")], "MASTER_ADDR"),
            (None, &[("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "1")], "MASTER_ADDR"),
            (None, &[("RANK", "0"), ("WORLD_SIZE", "2"), ("PARALLAX_PORT", "x")], "PARALLAX_PORT=x"),
            (None, &[("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_PORT", "65535")], "no next port"),
        ] {
            let why = found(gpus, known).expect_err(part);
            assert!(why.contains(part), "{why}");
        }
    }
}
