//! Where the figures go: what a person can type about the report, the progress and the comparison.

use crate::error::BenchError;
use crate::progress::When;
use std::fs::OpenOptions;
use std::path::PathBuf;

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
