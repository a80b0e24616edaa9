//! Networks for readers: quality beside speed and memory, a row for each evaluation.

use parallax_schema::record::{Better, Measured, NamedRun, Record, Score, of_networks};
use parallax_schema::units::{four_digits, scaled};

use super::{Cell, Column, Rank, Table, models_table};

/// Names of rates of networks.
const RATES: [&str; 2] = [of_networks::SAMPLES, of_networks::TOKENS];

/// Columns besides the quality and the rate: their titles, and the names of their scores.
const MORE: [(&str, &str, Rank); 4] = [
    ("p50, ms", of_networks::LATENCY_P50, Rank::Useful),
    ("p95, ms", of_networks::LATENCY_P95, Rank::Useful),
    (of_networks::EQUAL, of_networks::EQUAL, Rank::Useful),
    (of_networks::LOGIT_DIFFERENCE, of_networks::LOGIT_DIFFERENCE, Rank::Extra),
];

/// Evaluation of a network: a record with a quality and a rate.
pub(crate) struct Evaluated<'a> {
    /// Name of its run.
    pub run: &'a str,
    /// Its record.
    pub record: &'a Record,
    /// The measured part of the record.
    measured: &'a Measured,
    /// First score of the answers, as accuracy or F1.
    pub quality: &'a Score,
    /// Items per second, from inputs in memory to answers in memory.
    pub rate: &'a Score,
}

impl<'a> Evaluated<'a> {
    fn of(run: &'a str, record: &'a Record) -> Option<Evaluated<'a>> {
        let measured = record.measured()?;
        let scores = &measured.scores;
        let rate = scores.iter().find(|score| RATES.contains(&&*score.name))?;
        let quality = scores.first().filter(|score| score.better == Better::Higher && score.name != rate.name)?;
        let drawable = [quality.value, quality.low, quality.high, rate.value].iter().all(|value| value.is_finite());
        (drawable && rate.value > 0.0).then_some(Evaluated { run, record, measured, quality, rate })
    }

    /// Whether two evaluations are of one network on the same items, perhaps in other element types.
    fn alike(&self, other: &Evaluated) -> bool {
        self.record.parts.is_alike(&other.record.parts)
            && (&self.quality.name, &self.rate.name) == (&other.quality.name, &other.rate.name)
    }

    /// Returns the name of the network and of its data.
    pub fn network(&self) -> String {
        let parts = &self.record.parts;
        [&[parts.workload.clone()][..], &parts.options].concat().join(", ")
    }

    /// Returns the name of the run with the element type, and the quality and the rate.
    pub fn in_words(&self) -> [String; 2] {
        let Score { name, value, low, high, .. } = self.quality;
        let [value, low, high] = [value, low, high].map(|value| four_digits(*value));
        let rate = scaled(self.rate.value, &self.rate.name);
        [format!("{}, {}", self.run, self.record.parts.dtype.name()), format!("{name} {value} [{low}, {high}], {rate}")]
    }
}

/// Returns the evaluations in runs, in groups of one network with several each. The fastest of a group is first.
pub(crate) fn evaluations(runs: &[NamedRun]) -> Vec<Vec<Evaluated<'_>>> {
    let mut groups: Vec<Vec<Evaluated<'_>>> = Vec::new();
    for NamedRun { name, run } in runs {
        for evaluated in run.records.iter().filter_map(|record| Evaluated::of(name, record)) {
            match groups.iter_mut().find(|group| group[0].alike(&evaluated)) {
                Some(group) => group.push(evaluated),
                None => groups.push(vec![evaluated]),
            }
        }
    }
    groups.retain(|group| group.len() > 1);
    groups.iter_mut().for_each(|group| group.sort_by(|a, b| b.rate.value.total_cmp(&a.rate.value)));
    groups
}

/// Returns a table for each network that several evaluations answer (quality, speed, agreement with the processor, memory), and
/// that of a model whose times several runs have.
pub fn tables_of_models(runs: &[NamedRun], base: usize) -> Vec<Table> {
    let networks = evaluations(runs);
    networks.iter().map(|group| networks_table(group)).chain(models_table(runs, base)).collect()
}

/// Returns the table of the evaluations of one network. Rows have the numbers of the points of its picture.
pub(crate) fn networks_table(group: &[Evaluated<'_>]) -> Table {
    let first = &group[0];
    let mut columns = vec![
        Column::text("run"),
        Column::label("type"),
        Column::figure(&first.quality.name, Rank::Essential),
        Column::figure(&first.rate.name, Rank::Essential),
    ];
    columns.extend(MORE.iter().map(|(title, _, rank)| Column::figure(title, *rank)));
    columns.push(Column::figure("device memory", Rank::Useful));
    columns.push(Column::figure("host memory", Rank::Extra));
    let dash = || Cell::from("–");
    let row = |(number, of): (usize, &Evaluated<'_>)| {
        let Score { value, low, high, .. } = of.quality;
        let interval = format!("[{}, {}]", four_digits(*low), four_digits(*high));
        let mut row: Vec<Cell> = vec![
            format!("{number}. {}", of.run).into(),
            of.record.parts.dtype.name().into(),
            Cell::from(four_digits(*value)).with(interval),
            four_digits(of.rate.value).into(),
        ];
        let Measured { scores, memory, .. } = of.measured;
        let score = |name: &str| scores.iter().find(|score| score.name == name);
        row.extend(MORE.iter().map(|(_, name, _)| score(name).map_or_else(dash, |s| four_digits(s.value).into())));
        row.push(memory.peak.to_string().into());
        row.push(memory.host_peak.map_or_else(dash, |peak| peak.to_string().into()));
        row
    };
    Table {
        heading: vec![format!("network {}:", first.network())],
        columns,
        rows: (1..).zip(group).map(row).collect(),
        notes: vec![
            "equal predictions, logit difference: against the processor in f32".to_owned(),
            "memory: largest sizes; the host's is that of the program, or of a page's program".to_owned(),
        ],
        ..Table::default()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use parallax_schema::case::DType;
    use parallax_schema::testing::{measured, run, score, spread};
    use parallax_schema::units::Bytes;

    /// Run of a network with a quality and a rate.
    pub(crate) fn evaluated(name: &str, dtype: DType, quality: f64, rate: f64) -> NamedRun {
        let case = format!("image/fwd/n359,r2,h8,m16,c10,digits/{}/convolutions", dtype.name());
        let mut run = run(name, "X", &[(&case, spread(100.0, 0.002, 40))]);
        let of = measured(&mut run, &case);
        of.scores = vec![
            score("accuracy", quality, Better::Higher),
            score("samples/s", rate, Better::Higher),
            score("latency p50, ms", 1.0, Better::Lower),
            score("equal predictions", 1.0, Better::Higher),
        ];
        of.memory.host_peak = Some(Bytes(12_000_000));
        run.records[0].parts.options = vec!["digits".to_owned()];
        run.records[0].parts.dtype = dtype;
        NamedRun::new(name, run)
    }

    #[test]
    fn evaluations_of_one_network_are_a_table_and_the_fastest_is_first() {
        let mut other = evaluated("other", DType::F32, 0.9, 1.0);
        other.run.records[0].parts.options = vec!["volumes".to_owned()];
        let runs = [
            evaluated("cpu", DType::F32, 0.975, 1000.0),
            evaluated("cuda", DType::F16, 0.972, 9000.0),
            other,
            evaluated("none", DType::F32, 0.9, 0.0),
        ];
        let tables = tables_of_models(&runs, 0);
        let [table] = &tables[..] else { panic!("{tables:?}") };
        let texts: Vec<Vec<&str>> = table.rows.iter().map(|row| row.iter().map(|cell| &*cell.text).collect()).collect();
        assert_eq!(texts[0][..4], ["1. cuda", "f16", "0.9720", "9000"]);
        assert_eq!(texts[1][..4], ["2. cpu", "f32", "0.9750", "1000"]);
        assert_eq!(texts[1][4..8], ["1.000", "–", "1.000", "–"]);
        assert_eq!(texts[1][9], "12.0 MB");
        assert!(table.heading[0].contains("image, digits"), "{:?}", table.heading);
        assert!(tables_of_models(&runs[..1], 0).is_empty(), "one evaluation has nothing beside it");
    }
}
