//! The first words of a started server: what serves where, a line to try, and what to know before relying on it.
//!
//! A person at a terminal reads it once and can type the next command from it. Where log lines are JSON the same facts
//! are one log event, so that whoever reads standard error line by line is not given text in between.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use crate::affinity;
use crate::config::{Config, LogFormat};
use crate::logging::LineStyle;

/// The version of this server.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the banner says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Banner {
    /// Where clients are served: `host:port` for each address, and the path of the Unix socket.
    pub addresses: Vec<String>,
    /// Number of core threads.
    pub cores: usize,
    /// Each core thread is bound to a CPU of its own.
    pub pinned: bool,
    /// The URL of the admin port, if it is on.
    pub admin: Option<String>,
    /// A command line that makes the first decision.
    pub try_line: String,
    /// What is kept over a restart.
    pub kept: String,
    /// Time stands still.
    pub test_clock: bool,
}

impl Banner {
    /// The banner of a server that `config` describes, with the `port` and the `admin` address that it has got.
    pub fn new(config: &Config, port: u16, admin: Option<SocketAddr>) -> Banner {
        let mut addresses: Vec<String> = config.bind.iter().map(|&ip| SocketAddr::new(ip, port).to_string()).collect();
        addresses.extend(config.unix_socket.iter().map(|path| path.display().to_string()));
        let kept = match &config.dir {
            None => "nothing is kept without --dir".to_owned(),
            Some(path) => match config.save_interval {
                Some(interval) => {
                    format!("a snapshot in {} every {} s and at the end", path.display(), interval.as_secs())
                }
                None => format!("a snapshot in {} at the end", path.display()),
            },
        };
        Banner {
            addresses,
            cores: config.cores,
            pinned: affinity::placement(config.cores, &config.cpus).iter().all(Option::is_some),
            admin: admin.map(|address| format!("http://{address}/")),
            try_line: try_line(config, port),
            kept,
            test_clock: config.test_clock,
        }
    }

    /// Says it on standard error: as text, or as one log event where log lines are JSON.
    pub fn show(&self, format: LogFormat) {
        match LineStyle::on_standard_error(format) {
            LineStyle::Text { .. } => {
                // Where standard error is closed nobody reads it.
                let _ = std::io::stderr().write_all(self.text().as_bytes());
            }
            LineStyle::Json => self.log(),
        }
    }

    /// The banner as text, with a line end after each line.
    pub fn text(&self) -> String {
        let cores = if self.cores == 1 { "1 core".to_owned() } else { format!("{} cores", self.cores) };
        let pinned = if self.pinned { ", each on a CPU of its own" } else { "" };
        let admin = self.admin.as_deref().unwrap_or("off");
        let mut text = format!("Tollgate {VERSION} serves on {} with {cores}{pinned}\n", self.addresses.join(" and "));
        text.push_str(&format!("  try     {}\n  admin   {admin}\n  kept    {}\n", self.try_line, self.kept));
        if self.test_clock {
            text.push_str("  clock   time stands still and moves by RL.CLOCK only: for tests, never for serving\n");
        }
        text
    }

    fn log(&self) {
        tracing::info!(
            version = VERSION,
            addresses = self.addresses.join(" "),
            cores = self.cores,
            pinned = self.pinned,
            admin = self.admin.as_deref().unwrap_or("off"),
            kept = self.kept,
            test_clock = self.test_clock,
            r#try = self.try_line,
            "tollgate serves"
        );
    }
}

/// A command that a person on this host can paste. It names what `redis-cli` would not take by itself.
fn try_line(config: &Config, port: u16) -> String {
    let mut words = vec!["redis-cli".to_owned()];
    let reaches_localhost = |ip: &IpAddr| *ip == IpAddr::from([127, 0, 0, 1]) || (ip.is_ipv4() && ip.is_unspecified());
    match (config.bind.first(), &config.unix_socket) {
        (None, Some(path)) => words.extend(["-s".to_owned(), path.display().to_string()]),
        (Some(first), _) if !config.bind.iter().any(reaches_localhost) => {
            let host = if first.is_unspecified() { "::1".to_owned() } else { first.to_string() };
            words.extend(["-h".to_owned(), host, "-p".to_owned(), port.to_string()]);
        }
        _ => words.extend(["-p".to_owned(), port.to_string()]),
    }
    if config.password.is_some() {
        words.push("--askpass".to_owned());
    }
    words.push("RL.SLIDE 'rl:{ak_42}:orders' 100 1".to_owned());
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;
    use crate::config::ServeArguments;

    fn banner(flags: &[&str]) -> String {
        let command = ServeArguments::augment_args(clap::Command::new("serve").no_binary_name(true));
        let arguments = ServeArguments::from_arg_matches(&command.get_matches_from(flags)).unwrap();
        let config = arguments.load([], &[0, 1]).unwrap().config;
        Banner::new(&config, 7_000, config.admin).text()
    }

    #[test]
    fn the_default_banner_reads_as_a_whole() {
        let expected = format!(
            "Tollgate {VERSION} serves on 127.0.0.1:7000 with 2 cores, each on a CPU of its own\n  \
             try     redis-cli -p 7000 RL.SLIDE 'rl:{{ak_42}}:orders' 100 1\n  \
             admin   http://127.0.0.1:9121/\n  \
             kept    nothing is kept without --dir\n"
        );
        assert_eq!(banner(&[]), expected);
    }

    #[test]
    fn each_setting_that_matters_is_said() {
        for (flags, part) in [
            (&["--cores", "1"][..], "with 1 core, each on a CPU of its own\n"),
            (&["--cores", "3"], "with 3 cores\n"),
            (&["--admin-port", "0"], "admin   off\n"),
            (&["--test-clock"], "clock   time stands still"),
            (&["--dir", "/data"], "kept    a snapshot in /data every 60 s and at the end"),
            (&["--dir", "/data", "--save-interval", "0"], "kept    a snapshot in /data at the end"),
            (&["--bind", "127.0.0.1 ::1"], "serves on 127.0.0.1:7000 and [::1]:7000 with"),
            (&["--unixsocket", "/run/t"], "serves on 127.0.0.1:7000 and /run/t with"),
            (&["--bind", "", "--unixsocket", "/run/t"], "redis-cli -s /run/t RL.SLIDE"),
            (&["--bind", "::1"], "redis-cli -h ::1 -p 7000 RL.SLIDE"),
            (&["--bind", "::"], "redis-cli -h ::1 -p 7000 RL.SLIDE"),
            (&["--bind", "*"], "redis-cli -p 7000 RL.SLIDE"),
            (&["--bind", "10.0.0.1"], "redis-cli -h 10.0.0.1 -p 7000 RL.SLIDE"),
            (&["--requirepass", "s3cret"], "redis-cli -p 7000 --askpass RL.SLIDE"),
        ] {
            let text = banner(flags);
            assert!(text.contains(part) && !text.contains("s3cret"), "{flags:?}: {text}");
        }
    }
}
