//! Requests to end the program: Ctrl-C, a closed terminal, a service manager.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

use crate::console::errln;
use crate::system;

/// Whether the run is to end. It then finishes the cases with enough samples.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Returns whether the end of the program was requested.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Installs the signal handlers. The first Ctrl-C ends the run with the cases that have enough samples; the second ends
/// the program. Senders of SIGTERM or SIGHUP (service managers, closed terminals) kill slow programs. After those
/// signals the program therefore ends within two seconds, in any state. The files are complete at any time.
pub fn listen_for_interrupts() -> anyhow::Result<()> {
    static LISTENING: AtomicBool = AtomicBool::new(false);
    if LISTENING.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    listen().context("cannot listen for signals")
}

/// Records the first request. A second one ends the program with this code.
fn asked(code: i32) {
    if INTERRUPTED.swap(true, Ordering::SeqCst) {
        system::end_at_once(code);
    }
}

/// Work that goes on after the first Ctrl-C, for a person.
static AFTER: OnceLock<&str> = OnceLock::new();

/// Installs the signal handlers with another message after the first Ctrl-C.
pub fn listen_and_say(after: &'static str) -> anyhow::Result<()> {
    AFTER.get_or_init(|| after);
    listen_for_interrupts()
}

/// Prints the message for a user after Ctrl-C.
fn tell() {
    let after = AFTER.get().unwrap_or(&"finishing the cases with enough samples");
    errln!("\n{after}; press Ctrl-C again to end at once");
}

#[cfg(unix)]
fn listen() -> anyhow::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use std::time::Duration;

    /// Time limit after a signal, well above the time of the remaining writes.
    const PATIENCE: Duration = Duration::from_millis(1500);

    // With `nohup` the program outlives its terminal. Shells ignore SIGINT for background jobs, where it still ends a
    // run.
    let heard = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| *signal != SIGHUP || !system::is_ignored(SIGHUP));
    let mut signals = signal_hook::iterator::Signals::new(heard)?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            // Exit code of shells for a program that a signal ended.
            let code = 128 + signal;
            asked(code);
            if signal == SIGINT {
                tell();
                continue;
            }
            std::thread::spawn(move || {
                std::thread::sleep(PATIENCE);
                system::end_at_once(code);
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
