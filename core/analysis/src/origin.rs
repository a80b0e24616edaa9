//! Origin of a run: copies of one run have the same.

use parallax_schema::record::{Route, Run, host};

/// Begin, program, device and process of a run. Ranks of one job may begin in the same second, on equal devices or on one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    started: u64,
    route: Route,
    commit: String,
    device: String,
    /// Identifiers of the device: address and number in the driver.
    identifiers: [Option<String>; 2],
    /// Host, job and rank.
    process: [Option<String>; 3],
}

impl Origin {
    /// Returns the origin of a run.
    pub fn of(run: &Run) -> Origin {
        let identity = &run.device().identity;
        Origin {
            started: run.started,
            route: run.route(),
            commit: run.suite.commit.clone(),
            device: run.called_in_full(),
            identifiers: [identity.pci.clone(), identity.uuid.clone()],
            process: [host::NAME, host::JOB, host::RANK].map(|key| run.environment.get(key).cloned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing;

    #[test]
    fn copies_have_one_origin_and_ranks_their_own() {
        let run = || testing::run("cpu", "X", &[("copy/fwd/n1000/f32/host", vec![1e5; 12])]);
        let origin = |change: &dyn Fn(&mut Run)| {
            let mut run = run();
            change(&mut run);
            Origin::of(&run)
        };
        let of = |key: &str| origin(&|run| drop(run.environment.insert(key.to_owned(), "1".to_owned())));
        assert_eq!(origin(&|_| {}), Origin::of(&run()));
        let all = [
            Origin::of(&run()),
            of(host::NAME),
            of(host::JOB),
            of(host::RANK),
            origin(&|run| run.started += 1),
            origin(&|run| run.devices[0].identity.pci = Some("0000:65:00.0".to_owned())),
            origin(&|run| run.devices[0].identity.uuid = Some("GPU-1".to_owned())),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|other| other != one), "{one:?}");
        }
    }
}
