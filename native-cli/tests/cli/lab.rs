//! `lab`: kernel sources of the user, compared and timed, or refused.

use parallax_testing::hostile::{End, Hostile};

use crate::{folder, mistake, parallax, save};

/// Kernel source with `x` (read), `y` (read_write) and a body that sees the global index `i`.
fn text(body: &str) -> String {
    format!(
        "@group(0) @binding(0) var<storage, read> x: array<f32>;\n\
         @group(0) @binding(1) var<storage, read_write> y: array<f32>;\n\
         @compute @workgroup_size(64)\n\
         fn main(@builtin(global_invocation_id) at: vec3<u32>) {{\n\
         let i = at.x;\n\
         {body}\n\
         }}\n"
    )
}

const SMALL: [&str; 4] = ["--elements", "256", "--budget", "0.1"];

/// Runs `lab` on two kernel sources.
fn lab(a: &str, b: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let dir = folder();
    std::fs::write(dir.path().join("a.wgsl"), a).expect("writable");
    std::fs::write(dir.path().join("b.wgsl"), b).expect("writable");
    save(&dir.path().join("x.npy"), &[2, 64], &[3.0; 128]);
    let output = parallax(dir.path(), &[&["lab", "a.wgsl", "b.wgsl"], &SMALL[..], args].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn two_kernels_are_compared_and_end_in_an_exit_code() {
    let double = text("y[i] = 2.0 * x[i];");
    let sum = text("y[i] = x[i] + x[i];");
    let wrong = text("y[i] = 2.0 * x[i]; if i == 70u { y[i] = 0.0; }");
    let outside = text("y[i + 4000000000u] = x[i * 77777777u];");
    let endless = text("loop { y[0] += sin(y[1]); if x[i & 1u] > 1e30 { break; } }");
    let long = text("for (var k = 0u; k < 60000u; k++) { y[0] += sin(y[1]); }");
    let twice = format!("{double}@compute @workgroup_size(1) fn other() {{ y[0] = x[0]; }}");
    for (b, args, code, parts) in [
        (&sum, &[][..], 0, &["0.0 x", "array<f32>", "agrees", "95 % interval", "B over A: ", "The outputs agree."][..]),
        (&sum, &["--json"], 0, &["{\"sentence\":\"The outputs agree.", "\"verdict\":", "\"differing\":0"]),
        (&sum, &["--input", "0=x.npy", "--input", "1=zeros", "--elements", "1=130"], 0, &["file", "128", "130"]),
        (&sum, &["--workgroups", "4", "--workgroups", "8,1"], 0, &["4×1×1 workgroups of 64×1×1", "8×1×1"]),
        (&twice, &["--entry", "main", "--tolerance", "0"], 0, &["The outputs agree."]),
        (&wrong, &[], 1, &["differs", "1 of 256", "[70]: ", "No time is shown, because the outputs differ: `y`."]),
        (&outside, &[], 1, &["differs"]),
        (&endless, &["--iterations", "5000"], 1, &["B: a loop has 5000 iterations in one invocation and does not end"]),
        (
            &long,
            &["--workgroups", "4", "--workgroups", "65535,1024", "--limit", "1"],
            1,
            &["B: device lost: its work did not end within 1 s"],
        ),
    ] {
        let (found, out, err) = lab(&double, b, args);
        assert_eq!(found, Some(code), "{args:?}: {out}\n{err}");
        for part in parts {
            assert!(out.contains(part) || code == 1 && err.contains(part), "{args:?} lacks {part}: {out}\n{err}");
        }
        assert!(code == 0 || !out.contains("95 % interval"), "no times of outputs that differ: {out}");
    }
}

#[test]
fn a_kernel_source_that_cannot_run_names_its_line_or_its_binding() {
    let double = text("y[i] = 2.0 * x[i];");
    let sized = |size: &str| double.replace("workgroup_size(64)", &format!("workgroup_size({size})"));
    for (b, args, parts) in [
        (text("y[i] = 2.0 * x[i]"), &[][..], &["b.wgsl:7: ", "expected"][..]),
        (text("y[i] = z;"), &[], &["b.wgsl:6: ", "z"]),
        (double.replace("binding(1)", "binding(2)"), &[], &["binding 0.1 does not match", "unused in B"]),
        (
            double.replace("array<f32>", "array<i32>").replace("2.0", "2"),
            &[],
            &["binding 0.0 does not match", "array<i32> in B"],
        ),
        (sized("16384"), &[], &["B: 16384 threads in a workgroup, the limit of this device is"]),
        (sized("1000000"), &[], &["b.wgsl"]),
        (double.clone(), &["--workgroups", "70000"], &["A: 70000 workgroups in one dimension"]),
        (double.clone(), &["--workgroups", "a"], &["--workgroups a: write one to three numbers"]),
        (double.clone(), &["--elements", "x"], &["--elements x: write a number"]),
        (double.clone(), &["--elements", "7=4"], &["there is no binding 0.7; the kernels use 0.0, 0.1"]),
        (double.clone(), &["--entry", "mian"], &["A has no compute entry point `mian`; it has main"]),
        (double.clone(), &["--input", "0=absent.npy"], &["cannot read absent.npy"]),
        (double.clone(), &["--input", "0=a.wgsl"], &["binding 0.0: it is not a NumPy array file"]),
        (double.clone(), &["--input", "0"], &["--input 0: write BINDING=FILE.npy"]),
        (double.clone(), &["--limit", "0"], &["the limit is 0"]),
    ] {
        let (code, out, err) = lab(&double, &b, args);
        assert_eq!((code, &*out), (Some(2), ""), "{args:?}: {err}");
        for part in parts {
            assert!(err.contains(part), "{args:?} lacks {part}: {err}");
        }
    }
    mistake(folder().path(), &["lab", "absent.wgsl", "b.wgsl"], &["cannot open absent.wgsl"]);
}

/// Each is a program of its own: none may end by a signal, or say more than one message.
#[test]
fn hostile_kernel_sources_end_in_a_message_and_an_exit_code() {
    let good = text("y[i] = x[i];");
    for case in Hostile::all() {
        let (code, out, err) = lab(&good, &case.text(), &["--iterations", "2000"]);
        let name = &case.name;
        let expected: &[i32] = match case.ends {
            End::Refused => &[2],
            End::Failed => &[1],
            End::Compared => &[0, 1],
            End::Either => &[0, 1, 2],
        };
        assert!(code.is_some_and(|code| expected.contains(&code)), "{name} ends with {code:?}: {out}\n{err}");
        let acting = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!format!("{out}{err}").contains(acting), "{name}: {out}\n{err:?}");
        if !out.is_empty() {
            continue;
        }
        assert!(err.contains(&case.says), "{name}: {err} lacks {}", case.says);
        let named = err.contains("b.wgsl") || err.contains("parallax: B") || case.both && err.contains("in B");
        assert!(named && !err.contains("panicked"), "{name}: {err}");
    }
}
