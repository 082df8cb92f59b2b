//! From raw settings to a [`Config`]: each value by its parser and range, then how the values fit each other.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tollgate_engine::tunables::Tunable;
use tollgate_limits::{AMOUNT_MAX, parse_duration};

use super::error::{ConfigError, ConfigErrors, Source, quoted};
use super::raw::{Loaded, RawSettings};
use super::setting::{self, Setting};
use super::{
    BULK_BYTES_CEILING, CORES_MAX, ClusterConfig, Config, Eviction, LogFormat, LogLevel, PEER_PORT_ABOVE, PasswordHash,
    Secret, value,
};
use crate::flows::LINKS_MAX;
use crate::following::Primary;

/// The longest path of a Unix socket: the kernel has 108 bytes for it, with the zero byte at its end.
const UNIX_PATH_BYTES_MAX: usize = 107;

/// The longest password that Redis takes.
const PASSWORD_BYTES_MAX: usize = 512;

/// Judges `settings`, after `errors` that reading them has brought. `cpus` are those that the process may use.
pub(super) fn check(
    settings: &RawSettings,
    cpus: &[usize],
    errors: Vec<ConfigError>,
    notices: Vec<String>,
) -> Result<Loaded, ConfigErrors> {
    let mut checker = Checker { settings, errors, notices };
    let decided = checker.decide(cpus);
    let Checker { mut errors, mut notices, .. } = checker;
    match decided {
        Some(config) if errors.is_empty() => {
            errors.extend(conflicts(&config));
            notices.extend(cautions(&config, settings));
            if errors.is_empty() { Ok(Loaded { config, notices }) } else { Err(ConfigErrors(errors)) }
        }
        _ => Err(ConfigErrors(errors)),
    }
}

struct Checker<'a> {
    settings: &'a RawSettings,
    errors: Vec<ConfigError>,
    notices: Vec<String>,
}

impl Checker<'_> {
    /// Every value is parsed before the first `?`, so that every mistake is found in one go.
    fn decide(&mut self, cpus: &[usize]) -> Option<Config> {
        let bind = self.parsed(&setting::BIND, value::addresses);
        let port = self.parsed(&setting::PORT, |text| u16::try_from(value::number(text)?).ok());
        let unix_socket = self.parsed(&setting::UNIX_SOCKET, unix_path);
        let unix_socket_mode = self.parsed(&setting::UNIX_SOCKET_PERM, optional(value::permission_bits));
        let password = self.parsed(&setting::REQUIRE_PASS, optional(password_hash));
        let protected_mode = self.parsed(&setting::PROTECTED_MODE, value::yes_or_no);
        let clients_max = self.parsed(&setting::MAX_CLIENTS, count_between(1, 1_000_000));
        let idle_timeout = self.parsed(&setting::TIMEOUT, seconds_up_to(31_536_000));
        let keepalive = self.parsed(&setting::TCP_KEEPALIVE, seconds_up_to(32_767));
        let bulk_bytes_max = self.parsed(&setting::PROTO_MAX_BULK_LEN, bulk_bytes);
        let memory_max_bytes = self.parsed(&setting::MAX_MEMORY, value::size_bytes);
        let eviction = self.parsed(&setting::MAX_MEMORY_POLICY, eviction);
        let log_limit_max = self.parsed(&setting::LOG_LIMIT_MAX, log_limit);
        let slow = self.decide_slow();
        let top_keys = self.parsed(&setting::TOP_KEYS, value::yes_or_no);
        let dir = self.parsed(&setting::DIR, |text| Some((!text.is_empty()).then(|| PathBuf::from(text))));
        let save_interval = self.parsed(&setting::SAVE_INTERVAL, seconds_up_to(31_536_000));
        let following = self.decide_following();
        let bound = self.decide_bound();
        let cluster = self.decide_cluster(bind.as_deref().unwrap_or_default());
        let cores = self.parsed(&setting::CORES, |text| {
            if text.is_empty() { Some(cpus.len().clamp(1, CORES_MAX)) } else { count_between(1, CORES_MAX)(text) }
        });
        let admin = self.decide_admin();
        let test_clock = self.parsed(&setting::TEST_CLOCK, value::yes_or_no);
        let log_level = self.parsed(&setting::LOG_LEVEL, log_level);
        let log_format = self.parsed(&setting::LOG_FORMAT, log_format);
        let (slowlog_log_slower_than, slowlog_max_len, latency_monitor_threshold) = slow?;
        let (primary, primary_user, primary_password) = following?;
        let (overshoot_max, replica_timeout, replicas_required, denies_without_replicas) = bound?;
        let (cluster, cluster_node_timeout_ms) = cluster?;
        Some(Config {
            bind: bind?,
            port: port?,
            unix_socket: unix_socket?,
            unix_socket_mode: unix_socket_mode?,
            cores: cores?,
            cpus: cpus.to_vec(),
            dir: dir?,
            save_interval: save_interval?,
            primary,
            primary_user,
            primary_password,
            overshoot_max,
            replica_timeout,
            replicas_required,
            denies_without_replicas,
            cluster,
            cluster_node_timeout_ms,
            admin: admin?,
            test_clock: test_clock?,
            password: password?,
            protected_mode: protected_mode?,
            memory_max_bytes: memory_max_bytes?,
            eviction: eviction?,
            clients_max: clients_max?,
            idle_timeout: idle_timeout?,
            keepalive: keepalive?,
            bulk_bytes_max: bulk_bytes_max?,
            log_limit_max: log_limit_max?,
            slowlog_log_slower_than,
            slowlog_max_len,
            latency_monitor_threshold,
            top_keys: top_keys?,
            log_level: log_level?,
            log_format: log_format?,
            file: None,
        })
    }

    /// Where the admin port is; none if it is off.
    fn decide_admin(&mut self) -> Option<Option<SocketAddr>> {
        let port = self.parsed(&setting::ADMIN_PORT, |text| u16::try_from(value::number(text)?).ok());
        let bind = self.parsed(&setting::ADMIN_BIND, value::address);
        let address = SocketAddr::new(bind?, port?);
        Some((address.port() != 0).then_some(address))
    }

    /// From when on a command is slow, how many of those are kept, and from when on it is a latency sample.
    fn decide_slow(&mut self) -> Option<(i64, i64, i64)> {
        let slower_than = self.parsed(&setting::SLOWLOG_LOG_SLOWER_THAN, tunable(Tunable::SlowlogLogSlowerThan));
        let length = self.parsed(&setting::SLOWLOG_MAX_LEN, tunable(Tunable::SlowlogMaxLen));
        let latency = self.parsed(&setting::LATENCY_MONITOR_THRESHOLD, tunable(Tunable::LatencyMonitorThreshold));
        Some((slower_than?, length?, latency?))
    }

    /// The primary, and as whom to log in to it with what.
    fn decide_following(&mut self) -> Option<(Option<Primary>, Option<String>, Option<Secret>)> {
        let primary = self.parsed(&setting::REPLICA_OF, optional(value::host_and_port));
        let short = |text: &str| (text.len() <= PASSWORD_BYTES_MAX).then(|| text.to_owned());
        let user = self.parsed(&setting::MASTER_USER, optional(short));
        let password = self.parsed(&setting::MASTER_AUTH, optional(|text| short(text).map(Secret)));
        Some((primary?.map(|(host, port)| Primary { host, port }), user?, password?))
    }

    /// How it is a node of a cluster, and the lease there in milliseconds.
    fn decide_cluster(&mut self, bind: &[IpAddr]) -> Option<(Option<ClusterConfig>, i64)> {
        let node_timeout = self.parsed(&setting::CLUSTER_NODE_TIMEOUT, tunable(Tunable::ClusterNodeTimeout));
        let is_enabled = self.parsed(&setting::CLUSTER_ENABLED, value::yes_or_no);
        let port = |text: &str| u16::try_from(value::number(text)?).ok();
        let own_port = self.parsed(&setting::CLUSTER_PORT, port);
        let announced_port = self.parsed(&setting::ANNOUNCE_PORT, port);
        let announced_cluster_port = self.parsed(&setting::ANNOUNCE_CLUSTER_PORT, port);
        let host = self.parsed(&setting::ANNOUNCE_HOST, optional(host_name));
        let short = |text: &str| (text.len() <= PASSWORD_BYTES_MAX).then(|| Secret(text.to_owned()));
        let secret = self.parsed(&setting::CLUSTER_SECRET, optional(short));
        let bound = bind.iter().find(|address| !address.is_unspecified()).map(IpAddr::to_string);
        let cluster = ClusterConfig {
            port: own_port?,
            announced_host: host?.or(bound).unwrap_or_default(),
            announced_port: announced_port?,
            announced_cluster_port: announced_cluster_port?,
            secret: secret?,
        };
        Some((is_enabled?.then_some(cluster), node_timeout?))
    }

    /// What a failover may forget, how long a replica is waited for, how many there must be, and whether calls are
    /// refused with fewer.
    fn decide_bound(&mut self) -> Option<(Option<u64>, Duration, usize, bool)> {
        let units = |text: &str| value::number(text).filter(|units| *units <= AMOUNT_MAX);
        let overshoot_max = self.parsed(&setting::OVERSHOOT_MAX, optional(units));
        let timeout = self.parsed(&setting::REPLICA_TIMEOUT, replica_timeout);
        let required = self.parsed(&setting::REPLICAS_REQUIRED, count_between(0, LINKS_MAX));
        let denies = self.parsed(&setting::REPLICA_LOST, deny_or_open);
        Some((overshoot_max?, timeout?, required?, denies?))
    }

    /// The value of one setting, its default if nobody set it. Where the parser refuses, the mistake is noted.
    fn parsed<T>(&mut self, setting: &Setting, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let text = self.settings.get(setting).map_or(setting.default, |raw| raw.text.as_str());
        let value = parse(text);
        if value.is_none() {
            let shown = if setting.is_secret() { "the password".to_owned() } else { quoted(text) };
            let problem = format!("{shown} is not accepted; allowed: {}", setting.allowed);
            self.errors.push(ConfigError::new(place_of(setting, self.settings), problem));
        }
        value
    }
}

/// Where a reader finds the value of a setting: the flag, the variable, or the file and key.
fn place_of(setting: &Setting, settings: &RawSettings) -> String {
    match settings.get(setting).map_or(&Source::Default, |raw| &raw.source) {
        Source::Default => format!("default of {}", setting.key),
        Source::File(path) => format!("{}, key {}", path.display(), setting.key),
        Source::Environment => setting.variable(),
        Source::Flag => format!("--{}", setting.key),
    }
}

/// Values that are right by themselves but not together.
fn conflicts(config: &Config) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    if config.bind.is_empty() && config.unix_socket.is_none() {
        errors.push(ConfigError::new("bind", "no address to serve clients on; name one, or a path with unixsocket"));
    }
    for everywhere in config.bind.iter().filter(|address| address.is_unspecified()) {
        let mut others = config.bind.iter().filter(|&address| address != everywhere);
        if let Some(other) = others.find(|address| address.is_ipv4() == everywhere.is_ipv4()) {
            let problem = format!("{everywhere} is every address of its family, so {other} beside it is one too many");
            errors.push(ConfigError::new("bind", problem));
        }
    }
    if let Some(cluster) = &config.cluster {
        errors.extend(cluster_conflicts(config, cluster));
    }
    if let Some(admin) = config.admin
        && admin.port() == config.port
        && config.bind.iter().any(|&address| overlaps(address, admin.ip()))
    {
        let problem = format!("port {} of {} already serves clients; take another port", admin.port(), admin.ip());
        errors.push(ConfigError::new("admin-port", problem));
    }
    errors
}

fn cluster_conflicts(config: &Config, cluster: &ClusterConfig) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    if cluster.announced_host.is_empty() {
        let problem = "in a cluster, clients and nodes must be told an address that reaches this node: name it, or \
                       bind to one that is not every address";
        errors.push(ConfigError::new("announce-host", problem));
    }
    if cluster.announced_host.parse().is_ok_and(|address: IpAddr| address.is_unspecified()) {
        let problem = format!("{} is every address, which leads nobody here", cluster.announced_host);
        errors.push(ConfigError::new("announce-host", problem));
    }
    if config.primary.is_some() {
        errors.push(ConfigError::new("replicaof", "in a cluster, CLUSTER REPLICATE says who follows whom"));
    }
    if cluster.port == 0 && config.port.checked_add(PEER_PORT_ABOVE).is_none() {
        let problem = format!("port {} + 10000 is no port: name one", config.port);
        errors.push(ConfigError::new("cluster-port", problem));
    }
    if cluster.port != 0 && cluster.port == config.port {
        errors.push(ConfigError::new("cluster-port", "clients are served at this port: take another"));
    }
    errors
}

fn overlaps(left: IpAddr, right: IpAddr) -> bool {
    left == right || (left.is_ipv4() == right.is_ipv4() && (left.is_unspecified() || right.is_unspecified()))
}

/// What is allowed but likely not meant.
fn cautions(config: &Config, settings: &RawSettings) -> Vec<String> {
    let mut cautions = Vec::new();
    let open_to_others = config.bind.iter().any(|address| !address.is_loopback());
    if open_to_others && config.password.is_none() {
        let consequence = if config.protected_mode {
            "only clients on this host are served until requirepass is set (or protected-mode is no)"
        } else {
            "anybody who reaches this host may use and reset every limit"
        };
        cautions.push(format!("clients from other hosts can connect and there is no password: {consequence}"));
    }
    if open_to_others && config.cluster.as_ref().is_some_and(|cluster| cluster.secret.is_none()) {
        cautions.push("there is no cluster-secret: nodes on other hosts are not heard".to_owned());
    }
    let by_flag = |raw: &super::raw::RawValue| raw.source == Source::Flag && !raw.text.is_empty();
    if settings.get(&setting::REQUIRE_PASS).is_some_and(by_flag) {
        cautions.push(
            "the password was given as a flag, which the list of processes shows: \
             prefer TOLLGATE_REQUIREPASS or the file"
                .to_owned(),
        );
    }
    if settings.get(&setting::CLUSTER_SECRET).is_some_and(by_flag) {
        cautions.push(
            "the secret was given as a flag, which the list of processes shows: \
             prefer TOLLGATE_CLUSTER_SECRET or the file"
                .to_owned(),
        );
    }
    if config.cluster.is_some() && config.dir.is_none() {
        cautions.push("there is no dir: this node is another one for its cluster after each start".to_owned());
    }
    cautions
}

/// A setting that may be empty, which is "not set".
fn optional<T>(parse: impl FnOnce(&str) -> Option<T>) -> impl FnOnce(&str) -> Option<Option<T>> {
    |text| if text.is_empty() { Some(None) } else { parse(text).map(Some) }
}

fn host_name(text: &str) -> Option<String> {
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'-' | b'_');
    (text.len() <= 255 && text.bytes().all(is_host)).then(|| text.to_owned())
}

fn unix_path(text: &str) -> Option<Option<PathBuf>> {
    let fits = text.len() <= UNIX_PATH_BYTES_MAX && !text.contains('\0');
    fits.then(|| (!text.is_empty()).then(|| PathBuf::from(text)))
}

fn password_hash(text: &str) -> Option<PasswordHash> {
    (text.len() <= PASSWORD_BYTES_MAX).then(|| PasswordHash::of(text.as_bytes()))
}

fn count_between(least: usize, most: usize) -> impl Fn(&str) -> Option<usize> {
    move |text| usize::try_from(value::number(text)?).ok().filter(|count| (least..=most).contains(count))
}

/// Whole seconds; 0 is none.
fn seconds_up_to(most: u64) -> impl Fn(&str) -> Option<Option<Duration>> {
    move |text| {
        let seconds = value::number(text).filter(|&seconds| seconds <= most)?;
        Some((seconds > 0).then(|| Duration::from_secs(seconds)))
    }
}

fn log_limit(text: &str) -> Option<u64> {
    value::number(text).filter(|limit| (1..=10_000_000).contains(limit))
}

/// A time of which a tick of the flows is a small part, and that nobody takes for a failover's.
fn replica_timeout(text: &str) -> Option<Duration> {
    let micros = parse_duration(text.as_bytes()).ok()?;
    Some(Duration::from_micros(micros)).filter(|time| (100..=60_000).contains(&time.as_millis()))
}

fn deny_or_open(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "deny" => Some(true),
        "open" => Some(false),
        _ => None,
    }
}

/// What CONFIG SET takes too.
fn tunable(tunable: Tunable) -> impl Fn(&str) -> Option<i64> {
    move |text| tunable.parse(text.as_bytes()).ok()
}

fn bulk_bytes(text: &str) -> Option<usize> {
    let bytes = usize::try_from(value::size_bytes(text)?).ok()?;
    (1_024..=BULK_BYTES_CEILING).contains(&bytes).then_some(bytes)
}

fn eviction(text: &str) -> Option<Eviction> {
    match text.to_ascii_lowercase().as_str() {
        "noeviction" => Some(Eviction::NoEviction),
        "evict-least" => Some(Eviction::EvictLeast),
        _ => None,
    }
}

fn log_level(text: &str) -> Option<LogLevel> {
    match text.to_ascii_lowercase().as_str() {
        "off" => Some(LogLevel::Off),
        "error" => Some(LogLevel::Error),
        "warn" => Some(LogLevel::Warn),
        "info" => Some(LogLevel::Info),
        "debug" => Some(LogLevel::Debug),
        "trace" => Some(LogLevel::Trace),
        _ => None,
    }
}

fn log_format(text: &str) -> Option<LogFormat> {
    match text.to_ascii_lowercase().as_str() {
        "auto" => Some(LogFormat::Auto),
        "text" => Some(LogFormat::Text),
        "json" => Some(LogFormat::Json),
        _ => None,
    }
}
