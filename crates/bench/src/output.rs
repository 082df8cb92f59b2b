//! Where the figures go: what a person can type about the report, the progress and the comparison.

use crate::error::BenchError;
use crate::progress::When;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

/// The flags about the report.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct OutputArguments {
    /// Show the live rate and latencies on standard error
    #[arg(long, value_enum, default_value_t = When::Auto, value_name = "WHEN")]
    pub(crate) progress: When,

    /// Write the report to a file as one JSON object, with the rate over time, the machine's facts and the command line
    #[arg(long, value_name = "FILE")]
    pub(crate) json_file: Option<PathBuf>,

    /// Write the report to a file as a page for a browser: charts and tables, in one file that needs no network
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Compare servers: the same calls to each in turn, round after round; give it once for each, the first is the
    /// measure of the others. Every key is called once before
    #[arg(long, value_name = "TARGET", conflicts_with_all = ["target", "pid"])]
    pub(crate) compare: Vec<String>,

    /// Rounds of a comparison, each with a warm-up and a measurement of every server (1 to 1000)
    #[arg(long, default_value_t = 7, requires = "compare", value_name = "N")]
    pub(crate) rounds: usize,
}

impl OutputArguments {
    /// Whether the report has to hold more than the figures: it goes into a file that will be read elsewhere.
    pub(crate) fn is_full(&self) -> bool {
        self.json_file.is_some() || self.html.is_some()
    }

    /// Refuses files that cannot be written, before a run is made for nothing. What they hold stays until then.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        if let (Some(json), Some(html)) = (&self.json_file, &self.html)
            && is_one_file(json, html)
        {
            let text = format!("--json-file and --html are both to be written to {}", json.display());
            return Err(BenchError::Arguments(text));
        }
        for path in [&self.json_file, &self.html].into_iter().flatten() {
            let unwritable = |source| BenchError::Unwritable { path: path.clone(), source };
            let was_there = path.exists();
            OpenOptions::new().create(true).append(true).open(path).map_err(unwritable)?;
            if !was_there {
                std::fs::remove_file(path).map_err(unwritable)?;
            }
        }
        Ok(())
    }
}

/// Whether two paths are one file, be it one that will be made. What is no file of the disk, such as /dev/null, takes
/// both.
fn is_one_file(one: &Path, other: &Path) -> bool {
    if one.exists() && !one.is_file() {
        return false;
    }
    let whole = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let made = || Some(folder.canonicalize().ok()?.join(path.file_name()?));
        path.canonicalize().ok().or_else(made)
    };
    one == other || whole(one).is_some_and(|path| whole(other).is_some_and(|second| path == second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_is_known_under_all_its_names() {
        let folder = std::env::temp_dir().join(format!("tollgate-bench-output-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let at = |name: &str| folder.join(name);
        std::fs::write(at("there"), "").unwrap();
        std::os::unix::fs::symlink(at("there"), at("link")).unwrap();
        let cases = [
            ("there", "there", true),
            ("there", "link", true),
            ("there", "./there", true),
            ("new", "new", true),
            ("new", "./new", true),
            ("new", "other", false),
            ("there", "new", false),
            ("/dev/null", "/dev/null", false),
        ];
        for (one, other, expected) in cases {
            assert_eq!(is_one_file(&at(one), &at(other)), expected, "{one} {other}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
