//! Facts about the host of a run: system, processor, memory, name, container, and the job that started the run.

use std::collections::BTreeMap;
use std::path::Path;

use parallax_schema::record::host;

use crate::processes::LAUNCHERS;
use crate::{cpu, memory};

/// Returns the known facts by their keys in a run's environment.
pub fn facts() -> BTreeMap<String, String> {
    let processors = std::thread::available_parallelism().ok().map(|count| count.to_string());
    let facts = [
        ("os", Some(os())),
        ("architecture", Some(std::env::consts::ARCH.to_owned())),
        (host::PROCESSOR, cpu::name()),
        (host::PROCESSORS, processors),
        (host::MEMORY, memory::installed().map(|bytes| bytes.0.to_string())),
        (host::NAME, name(variable)),
        (host::CONTAINER, container(|path| Path::new(path).exists(), variable).map(str::to_owned)),
        (host::JOB, job(variable)),
        (host::RANK, rank(variable)),
    ];
    facts.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Returns the name of the operating system, with its release if a file has it.
fn os() -> String {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| std::env::consts::OS.to_owned(), |n| n.trim_matches('"').to_owned())
}

/// Returns an environment variable that is not empty.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Variable with the name of this machine, for containers, which have a name of their own.
pub const NAME_VARIABLE: &str = "PARALLAX_HOST";

/// Returns the name of this machine.
fn name(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let kernel = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned());
    let known = variable(NAME_VARIABLE).or_else(kernel).filter(|name| !name.is_empty());
    known.or_else(|| ["HOSTNAME", "COMPUTERNAME"].into_iter().find_map(variable))
}

/// Returns the kind of the container around this process.
fn container(exists: impl Fn(&str) -> bool, variable: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    let apptainer = ["APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"].into_iter().any(|name| variable(name).is_some());
    [
        (variable("KUBERNETES_SERVICE_HOST").is_some(), "kubernetes"),
        (apptainer, "apptainer"),
        (exists("/run/.containerenv"), "podman"),
        (exists("/.dockerenv"), "docker"),
    ]
    .into_iter()
    .find_map(|(is, name)| is.then_some(name))
}

/// Variables of schedulers and services with the identity of a job, the parts after the first being optional.
const JOBS: [(&str, &[&str]); 6] = [
    ("slurm", &["SLURM_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_STEP_ID"]),
    ("github", &["GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB"]),
    ("gitlab", &["CI_JOB_ID"]),
    ("buildkite", &["BUILDKITE_JOB_ID"]),
    ("jenkins", &["BUILD_TAG"]),
    ("skypilot", &["SKYPILOT_TASK_ID"]),
];

/// Returns the scheduler or service with the identity of the job, as `slurm 4711.3` with its task of an array, or the name of the pod.
fn job(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let known = |(service, names): (&str, &[&str])| {
        let first = variable(names[0])?;
        let rest = names[1..].iter().filter_map(|name| variable(name));
        Some(format!("{service} {}", std::iter::once(first).chain(rest).collect::<Vec<_>>().join(".")))
    };
    let pod = || variable("KUBERNETES_SERVICE_HOST").and_then(|_| Some(format!("pod {}", variable("HOSTNAME")?)));
    JOBS.into_iter().find_map(known).or_else(pod)
}

/// Variables with the number of a pod or node in a job without a launcher of ranks.
const NODES: [&str; 2] = ["JOB_COMPLETION_INDEX", "SKYPILOT_NODE_RANK"];

/// Returns the rank of this process among those of its job.
fn rank(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let number = |name| variable(name).filter(|rank| rank.bytes().all(|byte| byte.is_ascii_digit()));
    LAUNCHERS.map(|[rank, _]| rank).into_iter().chain(NODES).find_map(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a lookup of variables.
    fn with(known: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> + Copy {
        move |name: &str| known.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn a_job_is_known_by_the_variables_of_its_scheduler() {
        for (known, want, of_rank) in [
            (&[][..], None, None),
            (&[("SLURM_JOB_ID", "4711"), ("SLURM_PROCID", "3")], Some("slurm 4711"), Some("3")),
            (&[("SLURM_JOB_ID", "4711"), ("SLURM_ARRAY_TASK_ID", "2")], Some("slurm 4711.2"), None),
            (
                &[("GITHUB_RUN_ID", "9"), ("GITHUB_RUN_ATTEMPT", "1"), ("GITHUB_JOB", "gpu")],
                Some("github 9.1.gpu"),
                None,
            ),
            (&[("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("HOSTNAME", "bench-0")], Some("pod bench-0"), None),
            (&[("HOSTNAME", "bench-0"), ("RANK", "x")], None, None),
            (&[("OMPI_COMM_WORLD_RANK", "0")], None, Some("0")),
            (&[("SLURM_PROCID", "0"), ("OMPI_COMM_WORLD_RANK", "5")], None, Some("5")),
            (&[("SLURM_PROCID", "3"), ("RANK", "x")], None, Some("3")),
            (&[("SKYPILOT_TASK_ID", "sky-1"), ("SKYPILOT_NODE_RANK", "1")], Some("skypilot sky-1"), Some("1")),
            (
                &[("KUBERNETES_SERVICE_HOST", "x"), ("HOSTNAME", "bench-1"), ("JOB_COMPLETION_INDEX", "1")],
                Some("pod bench-1"),
                Some("1"),
            ),
        ] {
            assert_eq!(job(with(known)).as_deref(), want, "{known:?}");
            assert_eq!(rank(with(known)).as_deref(), of_rank, "{known:?}");
        }
    }

    #[test]
    fn a_container_is_known_by_its_files_or_variables() {
        let none = |_: &str| false;
        assert_eq!(container(none, with(&[])), None);
        assert_eq!(container(|path| path == "/.dockerenv", with(&[])), Some("docker"));
        assert_eq!(
            container(|path| path == "/.dockerenv", with(&[("KUBERNETES_SERVICE_HOST", "x")])),
            Some("kubernetes")
        );
        assert_eq!(container(none, with(&[("APPTAINER_CONTAINER", "a.sif")])), Some("apptainer"));
    }

    #[test]
    fn a_container_has_the_name_of_its_machine_by_a_variable() {
        assert_eq!(name(with(&[("PARALLAX_HOST", "node7"), ("HOSTNAME", "pod-3")])).as_deref(), Some("node7"));
        assert!(name(with(&[])).is_none_or(|name| !name.is_empty() && name.trim() == name));
    }

    #[test]
    fn this_machine_has_a_system_and_processors() {
        let facts = facts();
        assert!(facts.contains_key("os") && facts.contains_key("architecture"), "{facts:?}");
        assert!(facts[host::PROCESSORS].parse::<u32>().is_ok_and(|count| count > 0), "{facts:?}");
        assert!(facts.values().all(|value| !value.is_empty()), "{facts:?}");
    }
}
