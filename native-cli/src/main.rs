//! Program `parallax`. Its exit codes are in [`parallax::help::EXIT_CODES`].

use std::process::ExitCode;

use parallax::args::Cli;
use parallax::commands::execute;
use parallax::{console, cpu, system};

/// Checks standard output before the standard library, which opens a replacement for a closed descriptor.
#[cfg(target_os = "linux")]
mod before {
    use std::sync::atomic::{AtomicBool, Ordering};

    static CLOSED: AtomicBool = AtomicBool::new(false);

    extern "C" fn look() {
        // SAFETY: the call only queries whether the descriptor is open.
        let open = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } != -1;
        CLOSED.store(!open, Ordering::Relaxed);
    }

    // SAFETY: the section contains functions that the loader calls; this one needs nothing that is initialised later.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;

    /// Returns whether standard output was closed at the start of the program.
    pub fn closed() -> bool {
        CLOSED.load(Ordering::Relaxed)
    }
}

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if before::closed() {
        console::closed();
    }
    system::ignore_file_limits();
    // Mesa's layer that sorts adapters tries to reach a display and complains on servers. The program selects adapters
    // itself.
    // SAFETY: no other thread exists yet.
    unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    // Multicast over NVLink needs a fabric manager that machines for rent often lack; connections of NCCL then fail.
    if std::env::var_os(parallax_cuda::NVLS).is_none() {
        // SAFETY: as above.
        unsafe { std::env::set_var(parallax_cuda::NVLS, "0") };
    }
    if let Some(threads) = fewer_threads() {
        // SAFETY: as above.
        unsafe { std::env::set_var(cpu::THREADS, threads.to_string()) };
    }
    let done = match Cli::read() {
        Ok(cli) => execute(cli),
        Err(help) if !help.use_stderr() => {
            console::attempt(|| help.print());
            Ok(ExitCode::SUCCESS)
        }
        Err(mistake) => mistake.exit(),
    };
    let told = console::end();
    for error in [done.as_ref().err(), told.as_ref().err()].into_iter().flatten() {
        console::tell(format_args!("parallax: {}", console::mistake(error)));
    }
    match (done, told) {
        (Ok(code), Ok(())) => code,
        _ => ExitCode::from(2),
    }
}

/// Returns the maximum useful number of threads, if the variable requests more. Thousands of threads would only take
/// memory.
fn fewer_threads() -> Option<usize> {
    let asked = cpu::threads()?;
    let most = 4 * std::thread::available_parallelism().map_or(1, usize::from);
    (asked > most).then_some(most)
}
