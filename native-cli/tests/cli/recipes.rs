//! Recipes for clusters on this machine: their own scripts, with stand-ins for the schedulers' programs.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use parallax_schema::record::{Run, host};

use crate::{TINY, folder};

/// Submits at once: runs each task of an array, writes its output, and prints the number of the job.
const SBATCH: &str = r#"#!/usr/bin/env bash
tasks=("") output=/dev/null code=0 wait=""
while [ $# != 0 ]; do
  case $1 in
    --output=*) output=${1#*=} ;;
    --array=*) mapfile -t tasks < <(seq "$(echo "${1#*=}" | cut -d- -f1)" "$(echo "${1#*=}" | cut -d- -f2)") ;;
    --wait) wait=1 ;;
    --*) ;;
    *) break ;;
  esac
  shift
done
job=$(($(cat "$JOBS" 2>/dev/null || echo 0) + 1))
echo "$job" > "$JOBS"
for task in "${tasks[@]}"; do
  export SLURM_JOB_ID=$job
  [ -z "$task" ] || export SLURM_ARRAY_JOB_ID=$job SLURM_ARRAY_TASK_ID=$task SLURM_JOB_ID=$((100 * job + task))
  # A scheduler runs a copy of the script.
  copy=$(mktemp)
  cp "$1" "$copy"
  bash "$copy" "${@:2}" >> "${output//\%[xj]/_}" 2>&1 || code=$?
done
echo "$job"
[ -z "$wait" ] || exit "$code"
"#;

/// Runs two ranks of a step at once.
const SRUN: &str = r#"#!/usr/bin/env bash
while [ "${1:0:2}" = -- ]; do shift; done
for rank in 0 1; do
  SLURM_PROCID=$rank SLURM_LOCALID=$rank "$@" &
  ranks+=($!)
done
for rank in "${ranks[@]}"; do wait "$rank" || code=$?; done
exit "${code:-0}"
"#;

/// Lists its calls, and gives a Job the condition of the file `NAME.condition`, the second time that it is asked.
const KUBECTL: &str = r#"#!/usr/bin/env bash
echo "$*" >> "$CALLS"
case " $* " in
  *" get "*) [ "$(grep -c " get .*$(echo "$*" | grep -o '[a-z-]*\.yaml')" "$CALLS")" = 1 ] || cat "$CONDITIONS/$(echo "$*" | grep -o '[a-z-]*\.yaml')" ;;
esac
"#;

/// Makes a program of a script.
fn program(folder: &Path, name: &str, script: &str) {
    let path = folder.join(name);
    std::fs::write(&path, script).expect("writable");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("permitted");
}

/// Runs a script of the recipes with stand-ins in front of the path, and the program under its own name.
fn recipe(folder: &Path, script: &str, arguments: &[&str], variables: &[(&str, PathBuf)]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_parallax")).parent().expect("a folder");
    let path = std::env::var("PATH").expect("a path");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes").join(script);
    Command::new(script)
        .args(arguments)
        .env("PATH", format!("{}:{}:{path}", folder.display(), program.display()))
        .envs(variables.iter().map(|(name, value)| (*name, value)))
        .current_dir(folder)
        .output()
        .expect("the script starts")
}

/// Run files below a folder.
fn runs(folder: &Path) -> Vec<(PathBuf, Run)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(runs(&path));
        } else if name.starts_with("cpu-") && !name.contains(".trace.") {
            found.push((path.clone(), Run::parse(&std::fs::read_to_string(&path).expect("a file")).expect("a run")));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

#[test]
fn a_job_of_slurm_leaves_results_by_rank_and_a_gate() {
    let dir = folder();
    program(dir.path(), "sbatch", SBATCH);
    program(dir.path(), "srun", SRUN);
    let run = ["run", "--target", "cpu", "--case", TINY, "--budget", "0.1", "--ceilings", "off"];
    let burn_in = ["burn-in", TINY, "--target", "cpu", "--for", "1s"];
    for (name, script, options, arguments, code, folders, said) in [
        ("array", "array.sbatch", &["--array=3-4"][..], &run[..], 0, &["3-0", "3-1", "4-0", "4-1"][..], "none differs"),
        ("nodes", "nodes.sbatch", &["--partition=x"], &run, 0, &["0-0", "0-1"], "none differs"),
        ("healthy", "array.sbatch", &["--array=0-0"], &burn_in, 0, &["0-0", "0-1"], ""),
        ("mistaken", "array.sbatch", &["--array=0-0"], &["run", "--none"], 1, &["0-0", "0-1"], "0-1 has no result"),
        ("neither", "nodes.sbatch", &[], &["fleet"], 1, &[], "no result"),
    ] {
        let results = dir.path().join(name);
        std::fs::create_dir(&results).expect("writable");
        let target = results.join("r").display().to_string();
        let arguments = [&[&*target, script, "--wait"][..], options, &["--"], arguments].concat();
        let output = recipe(dir.path(), "slurm/launch", &arguments, &[("JOBS", results.join("jobs"))]);
        let shown = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let log = std::fs::read_to_string(results.join("r/logs/parallax-gate-1.txt")).unwrap_or_default();
        assert_eq!(output.status.code(), Some(code), "{name}: {shown}{log}");
        // Ranks begin in one second, and are no copies of each other.
        assert!(log.contains(said) && !log.contains("copies"), "{name}: {log}");
        for folder in folders {
            assert!(results.join("r/1").join(folder).is_dir(), "{name}: {folder}");
        }
        let found = runs(&results);
        let of_run = arguments.contains(&"--budget");
        assert_eq!(found.len(), if of_run { folders.len() } else { 0 }, "{name}");
        for ((path, run), folder) in found.iter().zip(folders) {
            let rank = folder.split_once('-').map(|(_, rank)| rank);
            assert!(path.parent().is_some_and(|parent| parent.ends_with(folder)), "{}", path.display());
            assert_eq!(run.environment.get(host::RANK).map(String::as_str), rank, "{name}");
            assert!(run.environment[host::JOB].starts_with("slurm "), "{name}");
        }
        assert_eq!(results.join("r/1/fleet.html").is_file(), of_run, "{name}");
    }
}

/// Ranks that share one folder, as those of mpirun do.
#[test]
fn ranks_of_one_host_share_a_folder_and_no_file() {
    let dir = folder();
    let start = |rank: u32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
        command.args(["run", "--target", "cpu", "--case", TINY, "--budget", "0.1", "--ceilings", "off", "--out", "r"]);
        let rank = rank.to_string();
        command.envs(["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"].map(|name| (name, &rank)));
        command.current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts")
    };
    let started: Vec<_> = (0..4).map(start).collect();
    for mut rank in started {
        assert!(rank.wait().expect("ends").success());
    }
    let found = runs(dir.path());
    let mut ranks: Vec<&str> = found.iter().map(|(_, run)| run.environment[host::RANK].as_str()).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, ["0", "1", "2", "3"]);
}

#[test]
fn a_job_of_kubernetes_is_awaited_and_compared() {
    for (conditions, file, code, collected) in [
        ([("run.yaml", "SuccessCriteriaMet\nComplete\n"), ("collect.yaml", "Complete\n")], "run.yaml", 0, true),
        ([("run.yaml", "FailureTarget\nFailed\n"), ("collect.yaml", "Complete\n")], "run.yaml", 1, true),
        ([("mpi.yaml", "Created\nSucceeded\n"), ("collect.yaml", "Failed\n")], "mpi.yaml", 1, true),
        ([("burn-in.yaml", "Complete\n"), ("collect.yaml", "")], "burn-in.yaml", 0, false),
        ([("burn-in.yaml", "Failed\n"), ("collect.yaml", "")], "burn-in.yaml", 1, false),
    ] {
        let dir = folder();
        program(dir.path(), "kubectl", KUBECTL);
        for (name, condition) in conditions {
            std::fs::write(dir.path().join(name), condition).expect("writable");
        }
        let calls = dir.path().join("calls");
        let variables =
            [("CALLS", calls.clone()), ("CONDITIONS", dir.path().to_owned()), ("PARALLAX_POLL", PathBuf::from("0.05"))];
        let output = recipe(dir.path(), "kubernetes/launch", &[file, "--namespace=bench"], &variables);
        let calls = std::fs::read_to_string(calls).expect("calls");
        assert_eq!(output.status.code(), Some(code), "{conditions:?}: {calls}");
        assert!(calls.lines().all(|call| call.starts_with("--namespace=bench ")), "{calls}");
        let applied: Vec<&str> =
            calls.lines().filter_map(|call| call.split_once("apply -f ")).map(|(_, of)| of).collect();
        let want = [&["results.yaml", file][..], if collected { &["collect.yaml"] } else { &[] }].concat();
        assert_eq!(applied, want, "{calls}");
        assert_eq!(calls.contains("logs job/parallax-collect"), collected, "{calls}");
    }
}
