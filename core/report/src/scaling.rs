//! Times along the axis of a workload, for readers: a table, and a sentence on the extent from which it pays.

use parallax_analysis::compare::verdict::{Ratio, Verdict, digits};
use parallax_analysis::compare::{Point, ScalingTable, Side};
use parallax_schema::catalog::Sides;
use parallax_schema::units::percent;

use super::{Cell, Column, Rank, Table, Tone};

/// Returns the table, with its sentences below.
pub fn scaling_table(scaled: &ScalingTable) -> Table {
    let several = scaled.points.iter().any(|point| !point.data.is_empty());
    let of_host = matches!(scaled.sides, Sides::HostAndDevice { .. });
    let mut columns = vec![Column::figure(scaled.counts, Rank::Essential)];
    if several {
        columns.push(Column::text("data"));
    }
    columns.push(Column::figure(&scaled.base, Rank::Essential));
    columns.push(Column::figure(scaled.other.as_deref().unwrap_or("device"), Rank::Essential));
    columns.push(Column::figure("times as fast", Rank::Essential));
    if of_host {
        columns.push(Column::text("variant"));
    }
    let dash = || "–".to_owned();
    let row = |point: &Point| {
        let time = |side: &Option<Side>| Cell::from(side.as_ref().map_or_else(dash, time));
        let mut row = vec![Cell::from(point.extent.to_string())];
        row.extend(several.then(|| point.data.into()));
        row.extend([
            time(&point.base),
            time(&point.other),
            point.speedup.as_ref().map_or_else(|| dash().into(), factor),
        ]);
        row.extend(of_host.then(|| point.other.as_ref().map_or_else(dash, |side| side.variant.clone()).into()));
        row
    };
    Table {
        heading: vec![heading(scaled)],
        columns,
        rows: scaled.points.iter().map(row).collect(),
        notes: scaling_sentences(scaled).into_iter().chain(scaled.missing.iter().cloned()).collect(),
        ..Table::default()
    }
}

fn heading(scaled: &ScalingTable) -> String {
    match scaled.sides {
        Sides::HostAndDevice { .. } => {
            format!("{} by {}, the host's code against the fastest variant on a device:", scaled.name, scaled.counts)
        }
        Sides::Variants { base, other, .. } => {
            format!("{} by {}, `{base}` against `{other}`:", scaled.name, scaled.counts)
        }
    }
}

/// Returns a median with the half width of its interval.
fn time(side: &Side) -> String {
    let summary = &side.timing.summary;
    match summary.precision() {
        precision if precision.is_finite() => format!("{} ± {}", summary.median, percent(precision)),
        _ => summary.median.to_string(),
    }
}

/// Returns the speed-up of the second side, with its interval.
fn factor(speedup: &Ratio) -> Cell {
    let text = match (speedup.low, speedup.high) {
        (Some(low), Some(high)) => format!("{} [{}, {}]", digits(speedup.value), digits(low), digits(high)),
        _ => format!("{} [no interval]", digits(speedup.value)),
    };
    let tone = match speedup.verdict {
        // The first side takes longer.
        Verdict::Slower => Tone::Good,
        Verdict::Faster => Tone::Bad,
        Verdict::Same => Tone::Plain,
        Verdict::Undecided => Tone::Doubtful,
    };
    Cell { tone, ..text.into() }
}

/// Returns a sentence on the extent from which the second side pays, for each place of the data. None if no extent has both sides.
pub fn scaling_sentences(scaled: &ScalingTable) -> Vec<String> {
    let by_place = parallax_schema::grouped(scaled.points.iter().map(|point| (point.data, point)));
    by_place.into_iter().filter_map(|(data, points)| sentence(scaled, data, &points)).collect()
}

fn sentence(scaled: &ScalingTable, data: &str, points: &[&Point]) -> Option<String> {
    let measured: Vec<(u64, &Ratio)> =
        points.iter().filter_map(|point| Some((point.extent, point.speedup.as_ref()?))).collect();
    let pays = |(_, ratio): &(u64, &Ratio)| ratio.verdict == Verdict::Slower;
    let (first, last) = (measured.first()?.0, measured.last()?.0);
    let counts = scaled.counts;
    let range = format!("(measured from {first} to {last})");
    let what = match scaled.sides {
        Sides::Variants { doing, .. } => doing.to_owned(),
        Sides::HostAndDevice { .. } if data.is_empty() => scaled.other.clone()?,
        Sides::HostAndDevice { .. } => format!("{}, with the data {data},", scaled.other.as_ref()?),
    };
    let gain = |ratio: &Ratio| format!("{}× as fast there", digits(ratio.value));
    if let [(extent, ratio)] = measured[..] {
        let alone = format!("at {extent} {counts} (nothing else was measured)");
        return Some(match pays(&(extent, ratio)) {
            true => format!("{what} pays {alone}: {}", gain(ratio)),
            false => format!("{what} does not decidedly pay {alone}"),
        });
    }
    // From here to the end all of them pay.
    let from = measured.len() - measured.iter().rev().take_while(|at| pays(at)).count();
    let some: Vec<String> = measured.iter().filter(|at| pays(at)).map(|(extent, _)| extent.to_string()).collect();
    Some(match measured.get(from) {
        Some((extent, ratio)) => format!("{what} pays from {extent} {counts} on {range}: {}", gain(ratio)),
        None if some.is_empty() => format!("{what} pays decidedly at no number of {counts} {range}"),
        None => format!("{what} pays at {} {counts}, and not decidedly at the most {range}", some.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_analysis::compare::scaled;
    use parallax_schema::record::NamedRun;
    use parallax_schema::testing::{run, spread};
    use parallax_workloads::Registry;

    /// Returns a run of `prefetch`. Overlapping takes these shares of the serial time, from 512 rows of a batch on.
    fn prefetch(shares: &[f64]) -> NamedRun {
        let mut cases: Vec<(String, Vec<f64>)> = Vec::new();
        for (i, share) in shares.iter().enumerate() {
            let rows = 4096u64 << i;
            let case = |variant: &str| format!("prefetch/fwd/r{rows},g{},d64,f128/f32/{variant}", rows / 64);
            let serial = 100.0 * rows as f64;
            cases.push((case("serial"), spread(serial, 0.002, 40)));
            cases.push((case("overlapped"), spread(serial * share, 0.002, 40)));
        }
        let cases: Vec<(&str, Vec<f64>)> = cases.iter().map(|(case, times)| (case.as_str(), times.clone())).collect();
        NamedRun::new("cuda", run("cuda", "X", &cases))
    }

    #[test]
    fn one_sentence_says_from_where_on_it_pays() {
        for (shares, want) in [
            (
                &[1.1, 1.0, 0.8, 0.7][..],
                "prefetching pays from 2048 rows of a batch on (measured from 512 to 4096): 1.250× as fast there",
            ),
            (
                &[0.5, 0.5],
                "prefetching pays from 512 rows of a batch on (measured from 512 to 1024): 2.000× as fast there",
            ),
            (
                &[0.8, 1.0],
                "prefetching pays at 512 rows of a batch, and not decidedly at the most (measured from 512 to 1024)",
            ),
            (
                &[1.0, 1.2, 1.0],
                "prefetching pays decidedly at no number of rows of a batch (measured from 512 to 2048)",
            ),
            (&[0.5], "prefetching pays at 512 rows of a batch (nothing else was measured): 2.000× as fast there"),
            (&[1.0], "prefetching does not decidedly pay at 512 rows of a batch (nothing else was measured)"),
        ] {
            let tables = scaled(&Registry, &[prefetch(shares)], None);
            assert_eq!(scaling_sentences(&tables[0]), [want], "{shares:?}");
        }
    }

    #[test]
    fn a_table_has_both_times_their_ratio_and_the_sentence() {
        let tables = scaled(&Registry, &[prefetch(&[1.0, 0.5])], None);
        let table = scaling_table(&tables[0]);
        let titles: Vec<&str> = table.columns.iter().map(|column| column.title.as_str()).collect();
        assert_eq!(titles, ["rows of a batch", "serial", "overlapped", "times as fast"]);
        let texts: Vec<Vec<&str>> =
            table.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect();
        assert_eq!((texts[1][0], &texts[1][3][..5]), ("1024", "2.000"));
        assert_eq!((table.rows[0][3].tone, table.rows[1][3].tone), (Tone::Plain, Tone::Good));
        assert!(texts[1][1].contains("819 µs ±") && texts[1][2].contains("410 µs ±"), "{texts:?}");
        assert_eq!(table.notes.len(), 1);
    }

    #[test]
    fn where_the_data_lies_has_a_sentence_each() {
        let shape = "n100000,f64";
        let case = |shape: &str, variant: &str| format!("standard_scaler/fwd/{shape}/f32/{variant}");
        let crossing = format!("{shape},crossing");
        let cases = [(case(shape, "welford"), 1.0), (case(&crossing, "welford"), 30.0)];
        let cases: Vec<(&str, Vec<f64>)> =
            cases.iter().map(|(case, time)| (case.as_str(), spread(1e5 * time, 0.002, 40))).collect();
        let host = case(shape, "host");
        let runs = [
            NamedRun::new("cuda", run("cuda", "X", &cases)),
            NamedRun::new("cpu", run("cpu", "Y", &[(&host, spread(1e6, 0.002, 40))])),
        ];
        let tables = scaled(&Registry, &runs, None);
        let said = scaling_sentences(&tables[0]);
        assert_eq!(
            said,
            [
                "cuda, with the data on the device, pays at 100000 rows (nothing else was measured): 10.0× as fast there",
                "cuda, with the data from and to the host, does not decidedly pay at 100000 rows (nothing else was measured)",
            ]
        );
        let table = scaling_table(&tables[0]);
        assert_eq!((table.rows.len(), table.columns[1].title.as_str()), (2, "data"));
    }
}
