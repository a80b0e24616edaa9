//! How much the program tells beside its results: nothing, the usual, or a log.

use crate::{TINY, folder, mistake, parallax, parallax_with};

const RUN: [&str; 8] = ["run", "--target", "cpu", "--case", TINY, "--budget=0.1", "--ceilings=off", "--out=out"];

#[test]
fn quiet_leaves_results_and_a_log_adds_what_is_done() {
    let dir = folder();
    let said = |before: &[&str], after: &[&str], variables: &[(&str, &str)]| {
        let output = parallax_with(dir.path(), &[before, &RUN, after].concat(), variables);
        assert_eq!(output.status.code(), Some(0), "{before:?} {after:?}");
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("UTF-8"));
        assert!(out.contains("pass") || after.contains(&"--json"), "{before:?}: {out}");
        err
    };
    assert!(said(&[], &[], &[]).starts_with("cpu: 1 case, up to 1 s of samples"));
    // Options of the whole program stand before a command or behind it.
    for (before, after) in [(&["-q"][..], &[][..]), (&[], &["--quiet"]), (&["--color=never", "-q"], &["--json"])] {
        assert_eq!(said(before, after, &[]), "", "{before:?} {after:?}");
    }
    let record = format!(" INFO  parallax::session: {TINY}: pass");
    for (before, variables) in [
        (&["-v"][..], &[][..]),
        (&["--log", "parallax=info"], &[]),
        (&[], &[("PARALLAX_LOG", "info")]),
        (&["-v"], &[("PARALLAX_LOG", "error")]),
    ] {
        let log = said(before, &[], variables);
        assert!(log.contains(&record), "{before:?} {variables:?}: {log}");
    }
    assert!(!said(&["--log=parallax::browser=debug"], &[], &[]).contains(&record));
}

#[test]
fn what_is_misplaced_or_means_nothing_is_refused() {
    let dir = folder();
    mistake(dir.path(), &["--log", "parallax=loud", "config"], &["--log parallax=loud: ", "such as `parallax=debug"]);
    for (args, said) in [
        (&["--target", "cpu", "run"][..], "--target belongs after `run`"),
        (&["--preset=full", "list"], "--preset belongs after `list`"),
        (&["-q", "-v", "config"], "cannot be used with"),
    ] {
        let output = parallax(dir.path(), args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && text.contains(said), "{args:?}: {text}");
    }
}

/// A terminal whose cursor cannot be moved shows no bar: it gets lines, as a file does.
#[cfg(unix)]
#[test]
fn a_dumb_terminal_gets_plain_lines() {
    use std::io::Read;
    use std::os::fd::{FromRawFd, OwnedFd};
    use std::ptr::null_mut;
    let dir = folder();
    let (mut ours, mut theirs) = (0, 0);
    // SAFETY: both numbers may be written to, and the other three pointers may be null.
    let opened = unsafe { libc::openpty(&mut ours, &mut theirs, null_mut(), null_mut(), null_mut()) };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: both descriptors were just opened, and nothing else has them.
    let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    let args = ["--budget=8", "--precision=0.0001", "--ceilings=off", "--out=out"];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_parallax"));
    command.args(["run", "--target", "cpu", "--case", "copy/fwd/n65536/f32/host"]).args(args).env("TERM", "dumb");
    command.env_remove("PARALLAX_LOG").current_dir(dir.path()).stdout(std::process::Stdio::null()).stderr(theirs);
    let mut child = command.spawn().expect("the program starts");
    // It has the other end now, and no one else: reading fails once it is gone.
    drop(command);
    let mut said = Vec::new();
    let _ = std::fs::File::from(ours).read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(child.wait().expect("it ends").success(), "{said}");
    assert!(said.contains(" left: copy/fwd/n65536/f32/host") && said.contains("cpu "), "{said}");
    assert!(!said.contains(['\u{1b}', '█']), "{said}");
}
