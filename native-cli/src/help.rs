//! Help beside the descriptions of commands and options: examples, environment variables, exit codes.

use parallax_cuda::{compile, nvrtc};

use crate::{browser, cpu, logging, texts};

/// Examples of the whole program.
pub const EXAMPLES: &str = "\
Examples:
  parallax                                   Device and plan; starts nothing
  parallax run                               The quick preset, best device
  parallax run --filter 'attention*flash' --dtype f16
  parallax list --target wgpu                What would run
  parallax compare old.json new.json         Which cases changed?
  parallax report run.json --format html --output run.html";

/// Examples of `run`.
pub const RUN: &str = "\
Examples:
  parallax run --filter 'attention*flash' --dtype f16 --preset standard
  parallax run --case attention/fwd/b2,h4,s777,d96,causal/f32/flash
  parallax run --filter depthwise_conv2d --shape c8xh128,c32xh256
  parallax run --cache cold --budget 120 --target cuda
  parallax run --a-a 20       Which change could this machine detect?";

/// Examples of `profile`.
pub const PROFILE: &str = "\
Examples:
  parallax profile encoder_layer --direction fwd+bwd
  parallax profile attention --format flamegraph --output attention.svg
  parallax profile hash_embedding       Also: host against device, by rows
  parallax profile safety               What bounds checks and their like cost";

/// Examples of `compare`.
pub const COMPARE: &str = "\
Examples:
  parallax compare old.json new.json
  parallax compare old.json new.json --fail-if-slower 5%
  parallax compare cuda.json wgpu.json browser.json --tax";

/// Examples of `report`.
pub const REPORT: &str = "\
Examples:
  parallax report run.json --format html --output run.html
  parallax report run.json --format flamegraph --output run.svg
  parallax run --json | parallax report - --format csv";

/// Examples of `eval`.
pub const EVAL: &str = "\
Example:
  parallax eval attention/fwd/b1,h8,s512,d64/f32/flash --output-dir out \\
    --input q=q.npy --input k=k.npy --input v=v.npy";

/// Examples of `dev`.
pub const DEV: &str = "\
Example:
  parallax dev matmul/fwd/m1024,n1024,k1024/f32/tiled";

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
pub const EXIT_CODES: [(&str, &str); 5] = [
    ("0", "all well; a reader that closes the pipe early changes nothing"),
    (
        "1",
        "a case was wrong, failed, was faster than can be, or was not reached; one named with --case ran nowhere; a gate did not hold",
    ),
    ("2", "a mistake in the call or in a file, or something that could not be written"),
    ("130", "ended by a second Ctrl-C; the first one ends the run early, with code 1"),
    ("129, 143", "ended by a hang-up or a request to terminate before the run could be closed"),
];

/// Environment variables and their meanings.
pub const ENVIRONMENT: [(&str, &str); 9] = [
    (logging::VARIABLE, "what to log, where neither --log nor -v says it"),
    (browser::BROWSER, "the browser's executable, where --browser names none"),
    (browser::PAGE, "folder of the built page, where --page names none"),
    (texts::VARIABLE, "folder of kernel texts, where --kernels names none"),
    (compile::CACHE_VARIABLE, "folder for compiled CUDA kernels; empty for none"),
    (nvrtc::DIR_VARIABLE, "folder of NVRTC, the CUDA compiler library; it is looked for nowhere else then"),
    ("CUDA_HOME, CUDA_PATH", "a CUDA toolkit, whose libraries are looked for there"),
    ("CUDA_VISIBLE_DEVICES", "the driver's: which CUDA devices there are"),
    (cpu::THREADS, "threads that the processor computes with, natively and in a page; all of them when left out"),
];

/// Returns the end of the long help.
pub fn everything() -> String {
    let rows = |rows: &[(&str, &str)]| -> String { rows.iter().map(|(name, what)| row(name, what)).collect() };
    format!(
        "{EXAMPLES}\n\nExit codes:\n{}\nEnvironment:\n{}\nCommands show their own options: `parallax compare --help`.",
        rows(&EXIT_CODES),
        rows(&ENVIRONMENT)
    )
}

/// Returns a name with its meaning below. Help wraps long lines, which would break columns.
fn row(name: &str, what: &str) -> String {
    format!("  {name}\n      {what}\n")
}
