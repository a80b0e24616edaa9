//! Date and time of a run as text.

/// Last second of the year 9999: dates of runs have years of four digits.
const LAST: u64 = 253_402_300_799;

/// Formats a time in seconds since 1970, in UTC; `None` for an unknown time.
pub(super) fn date(seconds: u64) -> Option<String> {
    if !(1..=LAST).contains(&seconds) {
        return None;
    }
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    Some(format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z"))
}

/// Returns year, month and day in the Gregorian calendar. `day` counts from 1 January 1970.
fn civil(day: u64) -> (u64, u64, u64) {
    /// Days of 400, 100, 4 years and one year. The years begin in March, so that a leap day is their last.
    const DAYS: [u64; 4] = [146_097, 36_524, 1461, 365];
    /// Days from 1 March of the year 0.
    const TO_1970: u64 = 719_468;
    let day = day + TO_1970;
    let (eras, day) = (day / DAYS[0], day % DAYS[0]);
    let centuries = (day / DAYS[1]).min(3);
    let day = day - centuries * DAYS[1];
    let (fours, day) = (day / DAYS[2], day % DAYS[2]);
    let years = (day / DAYS[3]).min(3);
    let day = day - years * DAYS[3];
    // From March on, five months have 153 days, repeatedly.
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let year = 400 * eras + 100 * centuries + 4 * fours + years;
    if month < 10 { (year, month + 3, day_of_month) } else { (year + 1, month - 9, day_of_month) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_a_calendar() {
        // Every day of more than four centuries, each at another time of the day.
        for day in 0..160_000 {
            let seconds = day * 86_400 + day * 7919 % 86_400 + 1;
            let at = jiff::Timestamp::from_second(seconds as i64).expect("a time");
            assert_eq!(date(seconds), Some(at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()));
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        assert_eq!((date(0), date(LAST + 1), date(u64::MAX)), (None, None, None));
        assert_eq!(date(LAST).as_deref(), Some("9999-12-31 23:59:59Z"));
    }
}
