//! The trace's schedule.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parallax_schema::spec::schedule::Schedule;

fuzz_target!(|text: &str| {
    if let Ok(schedule) = text.parse::<Schedule>() {
        assert_eq!(schedule.to_string().parse(), Ok(schedule));
        assert_eq!(schedule.phases().count() as u64, schedule.iterations());
    }
});
