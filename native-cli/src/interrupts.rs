//! What asks the program to end: Ctrl-C, a terminal that closes, a service that stops it.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

use crate::console::errln;
#[cfg(unix)]
use crate::system;

/// Set when the run is to end: finish the cases that have samples enough.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether the program was asked to end.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// The first Ctrl-C ends the run with the cases that have samples enough; the second ends the program. Who sends SIGTERM or
/// SIGHUP (a service manager, a terminal that closes) kills what lingers, so after those the program is gone within two
/// seconds, wherever it is. The files are whole at any time.
pub fn listen_for_interrupts() -> anyhow::Result<()> {
    static LISTENING: AtomicBool = AtomicBool::new(false);
    if LISTENING.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    listen().context("cannot listen for signals")
}

/// The first of any kind; a second one ends the program with this code.
fn asked(code: i32) {
    if INTERRUPTED.swap(true, Ordering::SeqCst) {
        std::process::exit(code);
    }
}

/// What a person is told who pressed Ctrl-C.
fn tell() {
    errln!("\nfinishing what has samples enough; press Ctrl-C again to end at once");
}

#[cfg(unix)]
fn listen() -> anyhow::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use std::time::Duration;

    /// What is left to write takes far less.
    const PATIENCE: Duration = Duration::from_millis(1500);

    // With `nohup` the program outlives its terminal. Shells have SIGINT ignored in the background, where it still ends a run.
    let heard = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| *signal != SIGHUP || !system::is_ignored(SIGHUP));
    let mut signals = signal_hook::iterator::Signals::new(heard)?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            // As shells report a program that a signal ended.
            let code = 128 + signal;
            asked(code);
            if signal == SIGINT {
                tell();
                continue;
            }
            std::thread::spawn(move || {
                std::thread::sleep(PATIENCE);
                std::process::exit(code);
            });
        }
    })?;
    Ok(())
}

#[cfg(not(unix))]
fn listen() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        asked(130);
        tell();
    })?;
    Ok(())
}
