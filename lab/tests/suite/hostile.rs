//! Hostile kernel sources end in one message that names the kernel, and the device computes afterwards.

use parallax_lab::{LabError, Plan, Report, Request, STACK, run};
use parallax_shaders::{Wgpu, WgpuOptions, open};
use parallax_testing::hostile::{End, Hostile};
use pollster::block_on;

use crate::{request, text};

fn compared(wgpu: &mut Wgpu, a: &str, b: &str) -> Result<Report, LabError> {
    let request = Request { iterations: 2000, budget: 0.1, ..request(a, b) };
    block_on(run(wgpu, &Plan::new(request)?, &mut |_| {}, || true))
}

/// Compares a good kernel to a hostile one, and the hostile one to the good one.
fn ends(wgpu: &mut Wgpu, case: &Hostile) {
    let (good, bad) = (text("y[i] = x[i];"), case.text());
    for (label, found) in [("B", compared(wgpu, &good, &bad)), ("A", compared(wgpu, &bad, &good))] {
        let name = &case.name;
        let error = match found {
            Ok(_) => {
                assert!(matches!(case.ends, End::Compared | End::Either), "{name} as {label} is compared");
                continue;
            }
            Err(error) => error,
        };
        let message = error.to_string();
        let failed = matches!(error, LabError::Endless { .. });
        assert!(!error.lost() && case.ends != End::Compared, "{name} as {label}: {message}");
        assert!(case.ends == End::Either || failed == (case.ends == End::Failed), "{name} as {label}: {message}");
        let says = case.says.replace("in B", &format!("in {label}"));
        assert!(message.contains(&says), "{name} as {label}: {message} lacks {says}");
        assert!(case.both || message.starts_with(label), "{name} as {label}: {message}");
    }
}

#[test]
fn hostile_kernel_sources_end_in_a_message_that_names_the_kernel() {
    let all = || {
        let mut wgpu = block_on(open(WgpuOptions::default())).expect("an adapter (llvmpipe will do)");
        let cases = Hostile::all();
        assert!(cases.len() > 90, "{} cases", cases.len());
        cases.iter().for_each(|case| ends(&mut wgpu, case));
        let good = text("y[i] = x[i];");
        assert!(compared(&mut wgpu, &good, &good).is_ok_and(|report| report.agrees()), "the device lives");
    };
    std::thread::Builder::new().stack_size(STACK).spawn(all).expect("a thread").join().expect("no panic");
}
