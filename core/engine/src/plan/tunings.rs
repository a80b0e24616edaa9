//! Tuning files: values of tunables for a class of devices ([`DeviceInfo::class`]), in TOML.
//!
//! ```toml
//! [cuda.hash_embedding.auto]
//! OWNER_ROWS = 32768
//!
//! [wgsl.matmul.tiled]
//! DEPTH = 16
//! ```
//!
//! The first word is the dialect, because a variant's kernel sources in two dialects have different best values on one device.
//! The parts of the tunable's full name follow. The values of the files in `core/engine/tuning/` are part of the program, in pages too.

use std::fmt::Write;

use parallax_schema::case::{Tuning, TuningError};
use parallax_schema::device::{DeviceInfo, Dialect};
use parallax_workloads::tunables;

/// Value of a file that is part of the program: its dialect, the tunable's full name, the value.
type Shipped = (&'static str, &'static str, i64);

include!(concat!(env!("OUT_DIR"), "/tunings.rs"));

/// Error of a tuning file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TuningFileError {
    /// The file is not TOML. Only the first line of the message is kept, which has the place.
    #[error("is not TOML: {0}")]
    Toml(String),
    /// The first word of a table is not a dialect.
    #[error("unknown dialect `{0}`: choose one of wgsl, cuda")]
    Dialect(String),
    /// The value of a name is not a whole number.
    #[error("{0} is not a whole number from 0 to 4294967295")]
    Number(String),
    /// No tunable can have the value.
    #[error(transparent)]
    Value(#[from] TuningError),
}

/// Values of a tuning file, by dialect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TuningFile {
    wgsl: Tuning,
    cuda: Tuning,
}

impl TuningFile {
    /// Parses a file.
    ///
    /// # Errors
    /// Invalid TOML, or an unknown name.
    pub fn parse(text: &str) -> Result<TuningFile, TuningFileError> {
        let line = |e: toml::de::Error| e.message().lines().next().unwrap_or_default().to_owned();
        let table: toml::Table = toml::from_str(text).map_err(|e| TuningFileError::Toml(line(e)))?;
        let mut file = TuningFile::default();
        for (dialect, value) in &table {
            gather(value, &mut Vec::new(), file.values_of(dialect)?)?;
        }
        Ok(file)
    }

    /// Returns the file of a class that is part of the program, if any.
    pub fn shipped(class: &str) -> Option<TuningFile> {
        let (_, values) = TUNINGS.iter().find(|(name, _)| *name == class)?;
        let mut file = TuningFile::default();
        for (dialect, name, value) in *values {
            let known = file.values_of(dialect).and_then(|values| take(values, name, *value));
            known.expect("tests check the shipped files against the tunables");
        }
        Some(file)
    }

    fn values_of(&mut self, dialect: &str) -> Result<&mut Tuning, TuningFileError> {
        match dialect {
            "wgsl" => Ok(&mut self.wgsl),
            "cuda" => Ok(&mut self.cuda),
            _ => Err(TuningFileError::Dialect(dialect.to_owned())),
        }
    }

    /// Returns the values for kernels of a dialect.
    pub fn for_dialect(&self, dialect: Dialect) -> Tuning {
        match dialect {
            Dialect::Wgsl => self.wgsl.clone(),
            Dialect::Cuda => self.cuda.clone(),
            Dialect::Vendor | Dialect::Cpu => Tuning::default(),
        }
    }

    /// Replaces values for kernels of a dialect. Values of other dialects and of other tunables stay.
    pub fn put(&mut self, dialect: Dialect, values: &Tuning) {
        match dialect {
            Dialect::Wgsl => self.wgsl.extend(values),
            Dialect::Cuda => self.cuda.extend(values),
            Dialect::Vendor | Dialect::Cpu => {}
        }
    }

    /// Returns the file as a string, with comment lines at its head.
    pub fn text(&self, comment: &str) -> String {
        let mut text: String = comment.lines().map(|line| format!("# {line}\n")).collect();
        for (dialect, tuning) in [("cuda", &self.cuda), ("wgsl", &self.wgsl)] {
            let mut open = "";
            for (key, value) in tuning.values() {
                let (table, name) = key.rsplit_once('.').expect("a full name has dots");
                if table != open {
                    let quoted = |part: &str| if part.contains('+') { format!("{part:?}") } else { part.to_owned() };
                    let table: Vec<String> = table.split('.').map(quoted).collect();
                    write!(text, "\n[{dialect}.{}]\n", table.join(".")).expect("text grows");
                    open = key.rsplit_once('.').expect("as before").0;
                }
                writeln!(text, "{name} = {value}").expect("text grows");
            }
        }
        text
    }
}

/// Collects the numbers below a value, under the names on the path to them.
fn gather(value: &toml::Value, path: &mut Vec<String>, into: &mut Tuning) -> Result<(), TuningFileError> {
    match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                path.push(name.clone());
                gather(value, path, into)?;
                path.pop();
            }
            Ok(())
        }
        toml::Value::Integer(number) => take(into, &path.join("."), *number),
        _ => Err(TuningFileError::Number(path.join("."))),
    }
}

fn take(into: &mut Tuning, name: &str, number: i64) -> Result<(), TuningFileError> {
    let number = u32::try_from(number).map_err(|_| TuningFileError::Number(name.to_owned()))?;
    Ok(tunables::set(into, name, number)?)
}

/// Returns the values for a device: those of its class's file, then the requested ones, given as `NAME=VALUE`.
///
/// `file` takes precedence over the file that is part of the program.
///
/// # Errors
/// An invalid assignment.
pub fn tuning_for(device: &DeviceInfo, file: Option<TuningFile>, asked: &[String]) -> Result<Tuning, TuningError> {
    let file = file.or_else(|| TuningFile::shipped(&device.class())).unwrap_or_default();
    let mut tuning = file.for_dialect(device.caps.dialect);
    for assignment in asked {
        tunables::assign(&mut tuning, assignment)?;
    }
    Ok(tuning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::runs_as_asked;
    use parallax_ir::device::Profiler;
    use parallax_schema::device::Caps;
    use parallax_schema::testing::caps;
    use parallax_workloads::{all, parse_case, tunables};

    #[test]
    fn shipped_files_are_whole_and_those_that_keep_the_defaults_say_them_all() {
        assert_eq!(TEXTS.len(), TUNINGS.len());
        for (class, text) in TEXTS {
            let file = TuningFile::parse(text).unwrap_or_else(|e| panic!("{class}: {e}"));
            assert_eq!(TuningFile::shipped(class).as_ref(), Some(&file), "{class} is in the program as it is on disk");
            assert_ne!(file, TuningFile::default(), "{class} says nothing");
            let comment = text.lines().take_while(|l| l.starts_with('#')).map(|l| l.trim_start_matches('#').trim());
            let again = file.text(&comment.collect::<Vec<_>>().join("\n"));
            assert_eq!(again, *text, "{class} is as the program writes it");
        }
        let h200 = TuningFile::shipped("nvidia-h200").expect("shipped");
        // A default applies to all dimensions and both dialects.
        let its_own = |dialect: Dialect, key: &str| match dialect {
            Dialect::Cuda => {
                matches!(key.split_once(".marching."), Some((conv, _)) if !conv.ends_with(".bwd"))
                    || key.starts_with("matmul_q8.mma.")
            }
            _ => matches!(key, "causal_conv1d.march.TOKENS" | "hash_embedding.shared.MOST_WORDS"),
        };
        for dialect in [Dialect::Cuda, Dialect::Wgsl] {
            let all = h200.for_dialect(dialect);
            let mut defaults: Vec<(String, u32)> = tunables().into_iter().map(|k| (k.key, k.tunable.default)).collect();
            defaults.sort();
            let keys = |of: &[(String, u32)]| of.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
            let mut values: Vec<(String, u32)> = all.values().map(|(k, v)| (k.to_owned(), v)).collect();
            assert_eq!(keys(&values), keys(&defaults), "all are said");
            values.retain(|(key, _)| !its_own(dialect, key));
            defaults.retain(|(key, _)| !its_own(dialect, key));
            assert_eq!(values, defaults, "the defaults were measured there");
        }
    }

    #[test]
    fn in_pages_every_variant_keeps_within_the_limits_that_every_browser_has() {
        let tuning = TuningFile::shipped("browser").expect("shipped").for_dialect(Dialect::Wgsl);
        // The mock's limits are the defaults of WebGPU.
        let (plain, tuned) = (caps(), Caps { tuning, ..caps() });
        let mut cases = 0;
        for workload in all() {
            for form in &workload.forms {
                for (shape, variant) in form.awkward.iter().flat_map(|s| form.variants.iter().map(move |v| (s, v.name)))
                {
                    let text = format!("{}/{}/{shape}/f32/{variant}", workload.name, form.direction.name());
                    let case = parse_case(&text).expect("valid");
                    assert_eq!(runs_as_asked(&case, &tuned), runs_as_asked(&case, &plain), "{case}");
                    cases += 1;
                }
            }
        }
        assert!(cases > 50, "{cases}");
    }

    #[test]
    fn files_survive_a_round_trip_and_keep_the_other_dialect() {
        let mut file =
            TuningFile::parse("[cuda.matmul.tiled]\nDEPTH = 8\n[wgsl]\nmatmul.tiled.DEPTH = 32\n").expect("valid");
        let mut found = Tuning::default();
        tunables::assign(&mut found, "hash_embedding.auto.OWNER_ROWS=7").expect("in range");
        file.put(Dialect::Cuda, &found);
        let text = file.text("found here\nby a user");
        let want = "# found here\n# by a user\n\n[cuda.hash_embedding.auto]\nOWNER_ROWS = 7\n\n\
                    [cuda.matmul.tiled]\nDEPTH = 8\n\n[wgsl.matmul.tiled]\nDEPTH = 32\n";
        assert_eq!(text, want);
        assert_eq!(TuningFile::parse(&text), Ok(file));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("[cuda", "is not TOML"),
            ("[hip.matmul.tiled]\nDEPTH = 8", "unknown dialect `hip`"),
            ("[cuda.matmul.tiled]\nDEPTH = \"8\"", "matmul.tiled.DEPTH is not a whole number"),
            ("[cuda.matmul.tiled]\nDEPTH = -8", "matmul.tiled.DEPTH is not a whole number"),
            ("[cuda.matmul.tiled]\nDEPTH = 7", "cannot be 7"),
            ("[cuda.matmul.tilde]\nDEPTH = 8", "unknown tunable `matmul.tilde.DEPTH`"),
        ] {
            let error = TuningFile::parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_asked_for_comes_after_the_file_of_the_class() {
        let mut device = parallax_testing::mock::Mock::in_world(Default::default()).device().clone();
        let asked = ["DEPTH=8".to_owned()];
        let depth = |tuning: Tuning| tuning.values().find(|(key, _)| *key == "matmul.tiled.DEPTH").map(|(_, v)| v);
        let own = || Some(TuningFile::parse("[wgsl.matmul.tiled]\nDEPTH = 32").expect("valid"));
        assert_eq!(tuning_for(&device, None, &[]), Ok(Tuning::default()), "no file is for this device");
        assert_eq!(depth(tuning_for(&device, own(), &[]).expect("valid")), Some(32));
        assert_eq!(depth(tuning_for(&device, own(), &asked).expect("valid")), Some(8));
        device.name = "NVIDIA H200".to_owned();
        assert_eq!(depth(tuning_for(&device, None, &[]).expect("valid")), Some(16));
        assert_eq!(depth(tuning_for(&device, own(), &[]).expect("valid")), Some(32), "another file stands before it");
        device.caps.dialect = Dialect::Cpu;
        assert_eq!(tuning_for(&device, own(), &[]), Ok(Tuning::default()));
    }
}
