//! Energy counters of processor packages: RAPL, through the powercap interface of Linux.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use parallax_schema::device::{EnergyReading, EnergySource};
use parallax_schema::units::Nanos;

/// Folder of the powercap interface.
pub const POWERCAP: &str = "/sys/class/powercap";
/// Beginning of the names of zones. A package has one number, its parts have further ones.
const ZONE: &str = "intel-rapl:";
/// Usual time between two updates of a counter.
const STEP: Nanos = Nanos(1e6);

/// Reason of the absence of counters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RaplError {
    /// No package.
    #[error(
        "no energy counter of a processor: {0} has no package of RAPL, as in virtual machines, containers and systems other than Linux"
    )]
    Absent(PathBuf),
    /// Unreadable counter.
    #[error("cannot read the processor's energy counter: {file}: {why}{advice}", advice = advice(.why, .file))]
    Unreadable {
        /// The counter's file.
        file: PathBuf,
        /// Error of the system.
        why: io::Error,
    },
    /// Counter without a number.
    #[error("the processor's energy counter is no number: {file} has `{text}`")]
    Malformed {
        /// The counter's file.
        file: PathBuf,
        /// Its contents.
        text: String,
    },
}

/// Returns the remedy for a counter that only root may read.
fn advice(why: &io::Error, file: &Path) -> String {
    match why.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("; `sudo chmod a+r {}` opens it until the next start of the machine", file.display())
        }
        _ => String::new(),
    }
}

/// Counter of one package.
struct Package {
    file: PathBuf,
    /// Microjoules after which the counter begins again at zero.
    range: u64,
    last: u64,
}

/// Counters of all packages, as one.
pub struct Packages {
    packages: Vec<Package>,
    /// Microjoules since the first reading.
    spent: u64,
    began: Instant,
}

impl Packages {
    /// Opens the counters of all packages below a folder such as [`POWERCAP`].
    pub fn open(folder: &Path) -> Result<Packages, RaplError> {
        let zones = std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        let is_package = |zone: &PathBuf| {
            let number = zone.file_name().and_then(|name| name.to_str()?.strip_prefix(ZONE));
            let top = number.is_some_and(|number| number.parse::<u32>().is_ok());
            // Another zone of this level is the whole platform, with the packages in it.
            top && std::fs::read_to_string(zone.join("name")).is_ok_and(|name| name.starts_with("package"))
        };
        let mut packages = Vec::new();
        for zone in zones.filter(is_package) {
            let file = zone.join("energy_uj");
            let (range, last) = (number(&zone.join("max_energy_range_uj"))?, number(&file)?);
            packages.push(Package { file, range, last });
        }
        match packages.is_empty() {
            true => Err(RaplError::Absent(folder.to_owned())),
            false => Ok(Packages { packages, spent: 0, began: Instant::now() }),
        }
    }

    /// Reads the counters. One of them may have begun again at zero since the last reading, but only once.
    pub fn read(&mut self) -> Result<EnergyReading, RaplError> {
        for package in &mut self.packages {
            let now = number(&package.file)?;
            let wrapped = if now < package.last { package.range } else { 0 };
            self.spent += (now + wrapped).saturating_sub(package.last);
            package.last = now;
        }
        Ok(EnergyReading {
            source: EnergySource::Rapl,
            joules: self.spent as f64 * 1e-6,
            at: Nanos::from_secs(self.began.elapsed().as_secs_f64()),
            step: STEP,
            integrated: None,
        })
    }
}

/// Returns the number in a file.
fn number(file: &Path) -> Result<u64, RaplError> {
    let text = std::fs::read_to_string(file).map_err(|why| RaplError::Unreadable { file: file.to_owned(), why })?;
    text.trim().parse().map_err(|_| RaplError::Malformed { file: file.to_owned(), text: text.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: u64 = 262_143_328_850;

    /// Writes a zone of a powercap folder.
    fn zone(folder: &Path, zone: &str, name: &str, microjoules: u64) -> PathBuf {
        let zone = folder.join(zone);
        std::fs::create_dir_all(&zone).expect("made");
        for (file, text) in [
            ("name", name.to_owned()),
            ("energy_uj", microjoules.to_string()),
            ("max_energy_range_uj", RANGE.to_string()),
        ] {
            std::fs::write(zone.join(file), text + "\n").expect("written");
        }
        zone.join("energy_uj")
    }

    #[test]
    fn packages_are_added_and_counters_may_begin_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = zone(folder.path(), "intel-rapl:0", "package-0", 1_000_000);
        let second = zone(folder.path(), "intel-rapl:1", "package-1", RANGE - 500_000);
        for (part, name) in [("intel-rapl:0:0", "core"), ("intel-rapl:2", "psys"), ("intel-rapl-mmio:0", "package-0")] {
            zone(folder.path(), part, name, 7);
        }
        std::fs::create_dir(folder.path().join("intel-rapl")).expect("made");
        let mut packages = Packages::open(folder.path()).expect("two packages");
        assert_eq!(packages.packages.len(), 2);
        let before = packages.read().expect("readable");
        assert_eq!((before.joules, before.source, before.integrated), (0.0, EnergySource::Rapl, None));
        std::fs::write(&first, "3500000\n").expect("written");
        std::fs::write(&second, "250000\n").expect("written");
        let after = packages.read().expect("readable");
        assert!((after.joules - 3.25).abs() < 1e-9, "2.5 J and, across the end of the range, 0.75 J: {}", after.joules);
        assert!(after.at > before.at);
        assert!((packages.read().expect("readable").joules - 3.25).abs() < 1e-9);
    }

    #[test]
    fn the_reason_of_an_absence_says_what_mends_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let reason = |folder: &Path| Packages::open(folder).err().map(|why| why.to_string()).unwrap_or_default();
        assert!(reason(&folder.path().join("absent")).contains("no package of RAPL"));
        assert!(reason(folder.path()).contains("no package of RAPL"));
        let file = zone(folder.path(), "intel-rapl:0", "package-0", 5);
        std::fs::write(&file, "five").expect("written");
        assert!(reason(folder.path()).contains("energy_uj has `five`"), "{}", reason(folder.path()));
        std::fs::remove_file(&file).expect("removed");
        assert!(reason(folder.path()).contains("cannot read the processor's energy counter"));
        // Root may read every file, so the error is made here.
        let denied = RaplError::Unreadable { file, why: io::ErrorKind::PermissionDenied.into() }.to_string();
        assert!(denied.contains("`sudo chmod a+r ") && denied.contains("intel-rapl:0/energy_uj`"), "{denied}");
    }

    #[test]
    fn a_counter_that_goes_away_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = zone(folder.path(), "intel-rapl:0", "package-0", 5);
        let mut packages = Packages::open(folder.path()).expect("a package");
        std::fs::remove_file(file).expect("removed");
        assert!(matches!(packages.read(), Err(RaplError::Unreadable { .. })));
    }
}
