//! Help beside the descriptions of commands and options: examples, environment variables, exit codes.

use parallax_cuda::{compile, nvrtc};

use crate::{browser, cpu, host, logging, processes, sensors, summary, texts};

/// Examples of the whole program.
pub const EXAMPLES: &str = "\
Examples:
  parallax                                   Show device and plan
  parallax run --filter 'attention*flash' --dtype f16
  parallax compare old.json new.json         Changed cases";

/// Examples of `run`.
pub const RUN: &str = "\
Examples:
  parallax run --filter 'attention*flash' --dtype f16 --preset standard
  parallax run --case attention/fwd/b2,h4,s777,d96,causal/f32/flash
  parallax run --filter depthwise_conv2d --shape c8xh128,c32xh256
  parallax run --cache cold --budget 120 --target cuda
  parallax run --a-a 20       Smallest change that this machine detects";

/// Examples of `profile`.
pub const PROFILE: &str = "\
Examples:
  parallax profile encoder_layer --direction fwd+bwd
  parallax profile attention --format flamegraph --output attention.svg
  parallax profile safety               Cost of bounds checks and others";

/// Examples of `compare`.
pub const COMPARE: &str = "\
Examples:
  parallax compare old.json new.json
  parallax compare old.json new.json --fail-if-slower 5%
  parallax compare cuda.json wgpu.json browser.json --tax";

/// Examples of `bisect`.
pub const BISECT: &str = "\
Examples:
  parallax bisect 'matmul*tiled' --good v0.1.0 --bad HEAD
  git bisect run ../parallax bisect 'matmul*tiled' --good ../parallax
Exit codes: 0 same or faster, 1 slower, 125 undecided or not measured.";

/// Examples of `report`.
pub const REPORT: &str = "\
Examples:
  parallax report run.json --format html --output run.html
  parallax report run.json --format flamegraph --output run.svg
  parallax run --json | parallax report - --format csv";

/// Examples of `trace`.
pub const TRACE: &str = "\
Example:
  parallax trace diff old.trace.json new.trace.json.gz";

/// Examples of `history`.
pub const HISTORY: &str = "\
Examples:
  parallax history                            Folder results
  parallax history nightly '2026-*/*.json' --filter 'attention*flash'
  parallax history nightly --format html --output history.html
  parallax history nightly --fail-if-changed  Gate of a nightly job";

/// Examples of `burn-in`.
pub const BURN_IN: &str = "\
Examples:
  parallax burn-in --for 30m                  Exit code 0: healthy, 1: faulty, 3: suspect
  parallax burn-in --for 12h --device 1 --json > card1.json
  parallax burn-in matmul/fwd/m8192,n8192,k8192/bf16 --for 10m";

/// Examples of `fleet`.
pub const FLEET: &str = "\
Examples:
  parallax fleet                              Folder results
  parallax fleet /shared/runs --format html --output fleet.html
  parallax fleet /shared/runs --filter 'copy*' --fail-if-faulty";

/// Examples of `eval`.
pub const EVAL: &str = "\
Example:
  parallax eval attention/fwd/b1,h8,s512,d64/f32/flash --output-dir out \\
    --input q=q.npy --input k=k.npy --input v=v.npy";

/// Examples of `model`.
pub const MODEL: &str = "\
Examples:
  parallax model classify --data digits --target wgpu
  parallax model classify --weights my.safetensors --data my.csv --label y
  parallax model ner --target cpu
  parallax model image --data volumes";

/// Examples of `train`.
pub const TRAIN: &str = "\
Examples:
  parallax train classify --data digits --weights digits.safetensors
  parallax train classify --data texts.jsonl --weights texts.safetensors
  parallax train ner --data notes.jsonl --weights notes.safetensors";

/// Examples of `dev`.
pub const DEV: &str = "\
Example:
  parallax dev matmul/fwd/m1024,n1024,k1024/f32/tiled";

/// Examples of `lab`.
pub const LAB: &str = "\
Examples:
  parallax lab a.wgsl b.wgsl
  parallax lab a.wgsl b.wgsl --elements 65536 --input 0=x.npy";

/// Examples of `tune`.
pub const TUNE: &str = "\
Example:
  parallax tune 'matmul*tiled' --budget 120";

/// Examples of `completions`.
pub const COMPLETIONS: &str = "\
Examples:
  parallax completions bash > ~/.local/share/bash-completion/completions/parallax
  parallax completions fish > ~/.config/fish/completions/parallax.fish";

/// Exit codes and their meanings.
pub const EXIT_CODES: [(&str, &str); 7] = [
    ("0", "success, also if the reader closes the pipe early"),
    (
        "1",
        "a case was wrong, failed, was impossibly fast or was not reached; a case named with --case did not run; a gate failed",
    ),
    ("2", "wrong arguments, an invalid file, or a failed write"),
    ("3", "of `burn-in`: a suspect device; 1 is a faulty one"),
    ("125", "of `bisect`: undecided, or a program does not build or run"),
    ("130", "second Ctrl-C; the first one ends the run early, with code 1"),
    ("129, 143", "hang-up or termination before the run could be closed"),
];

/// Environment variables and their meanings.
pub const ENVIRONMENT: [(&str, &str); 16] = [
    (logging::VARIABLE, "log filter, without --log and -v"),
    (browser::BROWSER, "executable of the browser, without --browser"),
    (browser::PAGE, "folder of the built page, without --page"),
    (texts::VARIABLE, "folder of kernel sources, without --kernels"),
    (compile::CACHE_VARIABLE, "cache folder of compiled CUDA kernels; empty for none"),
    (nvrtc::DIR_VARIABLE, "folder of NVRTC, the CUDA compiler library; disables the search"),
    ("CUDA_HOME, CUDA_PATH", "folder of a CUDA toolkit, searched for its libraries"),
    ("CUDA_VISIBLE_DEVICES", "visible CUDA devices, read by the driver"),
    (
        "LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, SLURM_LOCALID",
        "number of the process on its host, which chooses one of several GPUs, without --device",
    ),
    ("MASTER_ADDR", "host of rank 0, for --processes; on one host not needed"),
    (processes::PORT, "port of rank 0, for --processes [default: that after MASTER_PORT, else 29501]"),
    (host::NAME_VARIABLE, "name of the machine in run files, for containers"),
    (parallax_cuda::NVLS, "multicast over NVLink in collectives, read by NCCL [default: 0]"),
    (summary::VARIABLE, "file of a job's summary, for --summary"),
    (sensors::POWERCAP_FOLDER, "folder of the processor's energy counters [default: /sys/class/powercap]"),
    (cpu::THREADS, "threads of the processor, natively and in a page [default: all]"),
];

/// Returns the end of the long help.
pub fn everything() -> String {
    let rows = |rows: &[(&str, &str)]| -> String { rows.iter().map(|(name, what)| row(name, what)).collect() };
    format!(
        "{EXAMPLES}\n\nExit codes:\n{}\nEnvironment:\n{}\nOptions of a command: `parallax compare --help`.",
        rows(&EXIT_CODES),
        rows(&ENVIRONMENT)
    )
}

/// Returns a name with its meaning below. Help wraps long lines, which would break columns.
fn row(name: &str, what: &str) -> String {
    format!("  {name}\n      {what}\n")
}
