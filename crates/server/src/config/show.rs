//! A checked configuration as people read it: the pairs of `CONFIG GET`, and the TOML of `--check-config`.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::setting::{self, Setting};
use super::{ClusterConfig, Config, Eviction, LogFormat, LogLevel};

/// What Redis has a setting for and this server always does in one way. Tools ask for these.
const FIXED_PARAMETERS: [(&str, &str); 7] = [
    ("databases", "1"),
    ("appendonly", "no"),
    ("save", ""),
    ("replica-read-only", "yes"),
    ("slave-read-only", "yes"),
    ("notify-keyspace-events", ""),
    ("tls-port", "0"),
];

impl Config {
    /// Every setting under its name with its value, as `CONFIG GET` answers them: Redis's names for what Redis has,
    /// sizes in bytes, times in seconds. The password is always shown empty, and what is not set is empty too.
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut parameters: Vec<(&'static str, String)> = Vec::new();
        for (setting, value) in self.shown() {
            let absent = if setting.key == setting::UNIX_SOCKET_PERM.key { "0" } else { "" };
            parameters.push((setting.key, value.unwrap_or_else(|| absent.to_owned())));
        }
        parameters.extend(FIXED_PARAMETERS.iter().map(|&(name, value)| (name, value.to_owned())));
        parameters
    }

    /// The configuration as a TOML file that gives the same one again, but for the password, which is left out.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for (setting, value) in self.shown() {
            // Writing to a String cannot fail.
            let _ = match value {
                _ if setting.is_secret() => {
                    let is_set = match setting.key {
                        key if key == setting::REQUIRE_PASS.key => self.password.is_some(),
                        key if key == setting::CLUSTER_SECRET.key => {
                            self.cluster.as_ref().is_some_and(|cluster| cluster.secret.is_some())
                        }
                        _ => self.primary_password.is_some(),
                    };
                    let state = if is_set { "is set, and not shown" } else { "is not set" };
                    writeln!(text, "# {} {state}", setting.key)
                }
                None => writeln!(text, "# {} is not set", setting.key),
                Some(value) => writeln!(text, "{} = {}", setting.key, literal(setting, &value)),
            };
        }
        text
    }

    /// Every setting in the order of the table, as the text that would set it; none where it is not set, and for the
    /// password.
    fn shown(&self) -> Vec<(&'static Setting, Option<String>)> {
        let bind: Vec<String> = self.bind.iter().map(IpAddr::to_string).collect();
        let cluster_port = |of: fn(&ClusterConfig) -> u16| Some(self.cluster.as_ref().map_or(0, of).to_string());
        let admin = self.admin.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
        vec![
            (&setting::BIND, Some(bind.join(" "))),
            (&setting::PORT, Some(self.port.to_string())),
            (&setting::UNIX_SOCKET, self.unix_socket.as_ref().map(|path| path.display().to_string())),
            (&setting::UNIX_SOCKET_PERM, self.unix_socket_mode.map(|mode| format!("{mode:o}"))),
            (&setting::REQUIRE_PASS, None),
            (&setting::PROTECTED_MODE, Some(yes_or_no(self.protected_mode))),
            (&setting::MAX_CLIENTS, Some(self.clients_max.to_string())),
            (&setting::TIMEOUT, Some(seconds(self.idle_timeout))),
            (&setting::TCP_KEEPALIVE, Some(seconds(self.keepalive))),
            (&setting::PROTO_MAX_BULK_LEN, Some(self.bulk_bytes_max.to_string())),
            (&setting::MAX_MEMORY, Some(self.memory_max_bytes.to_string())),
            (&setting::MAX_MEMORY_POLICY, Some(self.eviction.name().to_owned())),
            (&setting::LOG_LIMIT_MAX, Some(self.log_limit_max.to_string())),
            (&setting::SLOWLOG_LOG_SLOWER_THAN, Some(self.slowlog_log_slower_than.to_string())),
            (&setting::SLOWLOG_MAX_LEN, Some(self.slowlog_max_len.to_string())),
            (&setting::LATENCY_MONITOR_THRESHOLD, Some(self.latency_monitor_threshold.to_string())),
            (&setting::TOP_KEYS, Some(yes_or_no(self.top_keys))),
            (&setting::DIR, self.dir.as_ref().map(|path| path.display().to_string())),
            (&setting::SAVE_INTERVAL, Some(seconds(self.save_interval))),
            (&setting::REPLICA_OF, self.primary.as_ref().map(|primary| format!("{}:{}", primary.host, primary.port))),
            (&setting::MASTER_USER, self.primary_user.clone()),
            (&setting::MASTER_AUTH, None),
            (&setting::OVERSHOOT_MAX, self.overshoot_max.map(|units| units.to_string())),
            (&setting::REPLICA_TIMEOUT, Some(format!("{}ms", self.replica_timeout.as_millis()))),
            (&setting::REPLICAS_REQUIRED, Some(self.replicas_required.to_string())),
            (&setting::REPLICA_LOST, Some(if self.denies_without_replicas { "deny" } else { "open" }.to_owned())),
            (&setting::CLUSTER_ENABLED, Some(yes_or_no(self.cluster.is_some()))),
            (&setting::CLUSTER_PORT, cluster_port(|cluster| cluster.port)),
            (&setting::ANNOUNCE_HOST, self.cluster.as_ref().map(|cluster| cluster.announced_host.clone())),
            (&setting::ANNOUNCE_PORT, cluster_port(|cluster| cluster.announced_port)),
            (&setting::ANNOUNCE_CLUSTER_PORT, cluster_port(|cluster| cluster.announced_cluster_port)),
            (&setting::CLUSTER_SECRET, None),
            (&setting::CLUSTER_NODE_TIMEOUT, Some(self.cluster_node_timeout_ms.to_string())),
            (&setting::CORES, Some(self.cores.to_string())),
            (&setting::ADMIN_PORT, Some(admin.port().to_string())),
            (&setting::ADMIN_BIND, Some(admin.ip().to_string())),
            (&setting::TEST_CLOCK, Some(yes_or_no(self.test_clock))),
            (&setting::LOG_LEVEL, Some(self.log_level.name().to_owned())),
            (&setting::LOG_FORMAT, Some(self.log_format.name().to_owned())),
        ]
    }
}

trait Named {
    /// The word that sets this value.
    fn name(&self) -> &'static str;
}

impl Named for Eviction {
    fn name(&self) -> &'static str {
        match self {
            Eviction::NoEviction => "noeviction",
            Eviction::EvictLeast => "evict-least",
        }
    }
}

impl Named for LogLevel {
    fn name(&self) -> &'static str {
        match self {
            LogLevel::Off => "off",
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }
}

impl Named for LogFormat {
    fn name(&self) -> &'static str {
        match self {
            LogFormat::Auto => "auto",
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

fn yes_or_no(flag: bool) -> String {
    if flag { "yes" } else { "no" }.to_owned()
}

fn seconds(time: Option<Duration>) -> String {
    time.map_or(0, |time| time.as_secs()).to_string()
}

/// The value as TOML. Digits are a number, but for permission bits, which the file takes as text only, and for what a
/// TOML integer cannot hold.
fn literal(setting: &Setting, value: &str) -> String {
    let is_number = setting.key != setting::UNIX_SOCKET_PERM.key && value.parse::<i64>().is_ok();
    if is_number { value.to_owned() } else { toml::Value::String(value.to_owned()).to_string() }
}
