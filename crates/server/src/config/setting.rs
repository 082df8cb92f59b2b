//! The table of settings: one row for each thing that can be set.
//!
//! The flag is `--<key>`, the variable is `TOLLGATE_<KEY>` with underscores, the file has `<key> = value`. Names that
//! people know from Redis are spelled as Redis spells them. Help, errors, `--check-config` and `CONFIG GET` all read
//! the row, and a test walks the table.

/// One thing that can be set.
#[derive(Debug)]
pub struct Setting {
    /// Its name in the file, as a flag and in `CONFIG GET`.
    pub key: &'static str,
    /// What stands for its value in the help.
    pub value_name: &'static str,
    /// Its value, as text, if nobody sets it. Empty is "not set" (or, for `cores`, "found out at start").
    pub default: &'static str,
    /// What is allowed, in words that complete "allowed: …".
    pub allowed: &'static str,
    /// What it does, for `--help`.
    pub help: &'static str,
}

impl Setting {
    /// Whether its value is nobody's business, and never shown.
    pub fn is_secret(&self) -> bool {
        [REQUIRE_PASS.key, MASTER_AUTH.key, CLUSTER_SECRET.key].contains(&self.key)
    }

    /// The newer name that other servers have for it, as a flag, a variable and in the file.
    pub fn alias(&self) -> Option<&'static str> {
        match self.key {
            key if key == MASTER_AUTH.key => Some("primaryauth"),
            key if key == MASTER_USER.key => Some("primaryuser"),
            key if key == ANNOUNCE_HOST.key => Some("cluster-announce-ip"),
            key if key == ANNOUNCE_PORT.key => Some("cluster-announce-port"),
            key if key == ANNOUNCE_CLUSTER_PORT.key => Some("cluster-announce-bus-port"),
            _ => None,
        }
    }

    /// Whether it goes by this name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.key == name || self.alias() == Some(name)
    }

    /// Whether this environment variable sets it.
    pub(super) fn is_variable(&self, name: &str) -> bool {
        let alias = || self.alias().map(|alias| format!("TOLLGATE_{}", alias.to_ascii_uppercase()));
        self.variable() == name || alias().is_some_and(|alias| alias == name)
    }

    /// The name of the environment variable: `maxmemory-policy` is `TOLLGATE_MAXMEMORY_POLICY`.
    pub fn variable(&self) -> String {
        format!("TOLLGATE_{}", self.key.to_ascii_uppercase().replace('-', "_"))
    }
}

/// Every setting, in the order in which help and `--check-config` show them.
pub const SETTINGS: [&Setting; 39] = [
    &BIND,
    &PORT,
    &UNIX_SOCKET,
    &UNIX_SOCKET_PERM,
    &REQUIRE_PASS,
    &PROTECTED_MODE,
    &MAX_CLIENTS,
    &TIMEOUT,
    &TCP_KEEPALIVE,
    &PROTO_MAX_BULK_LEN,
    &MAX_MEMORY,
    &MAX_MEMORY_POLICY,
    &LOG_LIMIT_MAX,
    &SLOWLOG_LOG_SLOWER_THAN,
    &SLOWLOG_MAX_LEN,
    &LATENCY_MONITOR_THRESHOLD,
    &TOP_KEYS,
    &DIR,
    &SAVE_INTERVAL,
    &REPLICA_OF,
    &MASTER_USER,
    &MASTER_AUTH,
    &OVERSHOOT_MAX,
    &REPLICA_TIMEOUT,
    &REPLICAS_REQUIRED,
    &REPLICA_LOST,
    &CLUSTER_ENABLED,
    &CLUSTER_PORT,
    &ANNOUNCE_HOST,
    &ANNOUNCE_PORT,
    &ANNOUNCE_CLUSTER_PORT,
    &CLUSTER_SECRET,
    &CLUSTER_NODE_TIMEOUT,
    &CORES,
    &ADMIN_PORT,
    &ADMIN_BIND,
    &TEST_CLOCK,
    &LOG_LEVEL,
    &LOG_FORMAT,
];

const YES_OR_NO: &str = "yes or no (also true, false, 1, 0, on, off)";

pub(super) const BIND: Setting = Setting {
    key: "bind",
    value_name: "ADDRESS",
    default: "127.0.0.1",
    allowed: "IPv4 and IPv6 addresses, separated by spaces or commas, or * for all; empty only with a Unix socket",
    help: "Addresses to serve clients on",
};

pub(super) const PORT: Setting = Setting {
    key: "port",
    value_name: "PORT",
    default: "6379",
    allowed: "a whole number from 0 to 65535 (0 takes any free port, which the banner names)",
    help: "TCP port for clients; 0 takes any free one",
};

pub(super) const UNIX_SOCKET: Setting = Setting {
    key: "unixsocket",
    value_name: "PATH",
    default: "",
    allowed: "a path of at most 107 bytes",
    help: "Also serve clients on a Unix socket at this path",
};

pub(super) const UNIX_SOCKET_PERM: Setting = Setting {
    key: "unixsocketperm",
    value_name: "MODE",
    default: "",
    allowed: "octal digits from 0 to 777, such as 700 (in the file in quotes: \"700\")",
    help: "Permissions of the Unix socket, in octal (default: by umask)",
};

pub(super) const REQUIRE_PASS: Setting = Setting {
    key: "requirepass",
    value_name: "PASSWORD",
    default: "",
    allowed: "1 to 512 bytes (empty: no password)",
    help: "Password that clients must give. A flag can be seen in the list of processes: prefer TOLLGATE_REQUIREPASS \
           or the file",
};

pub(super) const PROTECTED_MODE: Setting = Setting {
    key: "protected-mode",
    value_name: "yes|no",
    default: "yes",
    allowed: YES_OR_NO,
    help: "Without a password, serve only clients on this host",
};

pub(super) const MAX_CLIENTS: Setting = Setting {
    key: "maxclients",
    value_name: "N",
    default: "10000",
    allowed: "a whole number from 1 to 1000000",
    help: "Clients served at a time",
};

pub(super) const TIMEOUT: Setting = Setting {
    key: "timeout",
    value_name: "SECONDS",
    default: "0",
    allowed: "whole seconds from 0 to 31536000 (0: never)",
    help: "Cut off a client that sends nothing for so long; 0 never does",
};

pub(super) const TCP_KEEPALIVE: Setting = Setting {
    key: "tcp-keepalive",
    value_name: "SECONDS",
    default: "300",
    allowed: "whole seconds from 0 to 32767 (0: off)",
    help: "Let the kernel ask after so long without traffic whether a client is still there; 0 is off",
};

pub(super) const PROTO_MAX_BULK_LEN: Setting = Setting {
    key: "proto-max-bulk-len",
    value_name: "SIZE",
    default: "64kb",
    allowed: "a size from 1kb to 512kb",
    help: "Longest argument that a client may send, and so the longest value; 512kb at most",
};

pub(super) const MAX_MEMORY: Setting = Setting {
    key: "maxmemory",
    value_name: "SIZE",
    default: "0",
    allowed: "bytes, or a whole number with k, kb, m, mb, g or gb (1k is 1000, 1kb is 1024; 0: no limit)",
    help: "Memory that all keys together may take, such as 100mb or 1gb; 0 is no limit",
};

pub(super) const MAX_MEMORY_POLICY: Setting = Setting {
    key: "maxmemory-policy",
    value_name: "POLICY",
    default: "noeviction",
    allowed: "noeviction or evict-least",
    help: "Where memory is full: refuse new keys (noeviction), or drop what loses least (evict-least)",
};

pub(super) const LOG_LIMIT_MAX: Setting = Setting {
    key: "log-limit-max",
    value_name: "N",
    default: "100000",
    allowed: "a whole number from 1 to 10000000",
    help: "Largest limit that RL.LOG takes: its memory grows with the limit",
};

pub(super) const SLOWLOG_LOG_SLOWER_THAN: Setting = Setting {
    key: "slowlog-log-slower-than",
    value_name: "MICROSECONDS",
    default: "10000",
    allowed: "whole microseconds (0: every command; -1: none)",
    help: "Keep commands that take as long or longer in SLOWLOG; below 1000 fast commands are timed too; -1 keeps none",
};

pub(super) const SLOWLOG_MAX_LEN: Setting = Setting {
    key: "slowlog-max-len",
    value_name: "N",
    default: "128",
    allowed: "a whole number from 0 to 10000",
    help: "Commands that SLOWLOG holds",
};

pub(super) const LATENCY_MONITOR_THRESHOLD: Setting = Setting {
    key: "latency-monitor-threshold",
    value_name: "MILLISECONDS",
    default: "0",
    allowed: "whole milliseconds (0: off)",
    help: "Keep the times of commands that take as long or longer for LATENCY; 0 is off",
};

pub(super) const TOP_KEYS: Setting = Setting {
    key: "top-keys",
    value_name: "yes|no",
    default: "yes",
    allowed: YES_OR_NO,
    help: "Count the busiest keys, which RL.TOP names; no: keep no names of keys beyond the keys themselves",
};

pub(super) const DIR: Setting = Setting {
    key: "dir",
    value_name: "PATH",
    default: "",
    allowed: "a path of a directory (made if it is missing)",
    help: "Directory for snapshots; locked for this process. Without it nothing is kept",
};

pub(super) const SAVE_INTERVAL: Setting = Setting {
    key: "save-interval",
    value_name: "SECONDS",
    default: "60",
    allowed: "whole seconds from 0 to 31536000 (0: only when asked for, and at the end)",
    help: "With --dir, write a snapshot so often while there are changes; 0 only when asked for, and at the end",
};

pub(super) const REPLICA_OF: Setting = Setting {
    key: "replicaof",
    value_name: "HOST:PORT",
    default: "",
    allowed: "a host and a port, as in 10.0.0.1:6379 or [::1]:6379 (empty: be a primary)",
    help: "Follow this primary: hold what it holds, and serve reads",
};

pub(super) const MASTER_USER: Setting = Setting {
    key: "masteruser",
    value_name: "NAME",
    default: "",
    allowed: "at most 512 bytes (empty: the default user)",
    help: "User to log in to the primary as",
};

pub(super) const MASTER_AUTH: Setting = Setting {
    key: "masterauth",
    value_name: "PASSWORD",
    default: "",
    allowed: "1 to 512 bytes (empty: no password)",
    help: "Password to give to the primary. A flag can be seen in the list of processes: prefer TOLLGATE_MASTERAUTH or \
           the file",
};

pub(super) const OVERSHOOT_MAX: Setting = Setting {
    key: "failover-overshoot-max",
    value_name: "UNITS",
    default: "",
    allowed: "a whole number from 0 to 1000000000000 (empty: no bound)",
    help: "Keep answers back rather than let a failover forget more than so many admitted units; 0: every answer waits",
};

pub(super) const REPLICA_TIMEOUT: Setting = Setting {
    key: "replica-timeout",
    value_name: "TIME",
    default: "1s",
    allowed: "a time from 100ms to 60s, as in 250ms or 2s",
    help: "A replica that does not acknowledge for so long is out of step, and waited for no longer",
};

pub(super) const REPLICAS_REQUIRED: Setting = Setting {
    key: "replicas-required",
    value_name: "N",
    default: "0",
    allowed: "a whole number from 0 to 16",
    help: "Replicas in step that a primary should have; see replica-lost",
};

pub(super) const REPLICA_LOST: Setting = Setting {
    key: "replica-lost",
    value_name: "deny|open",
    default: "open",
    allowed: "deny or open",
    help: "With fewer replicas in step than are required: deny refuses calls with NOREPLICAS, open goes on and counts",
};

pub(super) const CLUSTER_ENABLED: Setting = Setting {
    key: "cluster-enabled",
    value_name: "yes|no",
    default: "no",
    allowed: "yes or no",
    help: "Be a node of a cluster, at first alone",
};

pub(super) const CLUSTER_PORT: Setting = Setting {
    key: "cluster-port",
    value_name: "PORT",
    default: "0",
    allowed: "a whole number from 0 to 65535",
    help: "Where the other nodes are heard (default: port + 10000)",
};

pub(super) const ANNOUNCE_HOST: Setting = Setting {
    key: "announce-host",
    value_name: "HOST",
    default: "",
    allowed: "an address or a name of at most 255 letters, digits, dots, colons and dashes",
    help: "Where clients and nodes are told that this node is (default: the first address of bind)",
};

pub(super) const ANNOUNCE_PORT: Setting = Setting {
    key: "announce-port",
    value_name: "PORT",
    default: "0",
    allowed: "a whole number from 0 to 65535",
    help: "The same for its port (default: port)",
};

pub(super) const ANNOUNCE_CLUSTER_PORT: Setting = Setting {
    key: "announce-cluster-port",
    value_name: "PORT",
    default: "0",
    allowed: "a whole number from 0 to 65535",
    help: "The same for its cluster-port (default: cluster-port)",
};

pub(super) const CLUSTER_SECRET: Setting = Setting {
    key: "cluster-secret",
    value_name: "SECRET",
    default: "",
    allowed: "at most 512 bytes",
    help: "What nodes prove to each other to know (default: only nodes on this host are heard)",
};

pub(super) const CLUSTER_NODE_TIMEOUT: Setting = Setting {
    key: "cluster-node-timeout",
    value_name: "MS",
    default: "500",
    allowed: "a whole number of milliseconds from 100 to 60000",
    help: "The lease: a node that reaches no majority for so long serves no more, and is replaced",
};

pub(super) const CORES: Setting = Setting {
    key: "cores",
    value_name: "N",
    default: "",
    allowed: "a whole number from 1 to 256",
    help: "Core threads (default: the CPUs that this process may use)",
};

pub(super) const ADMIN_PORT: Setting = Setting {
    key: "admin-port",
    value_name: "PORT",
    default: "9121",
    allowed: "a whole number from 0 to 65535 (0: off)",
    help: "HTTP port for /livez, /readyz and /metrics; 0 is off",
};

pub(super) const ADMIN_BIND: Setting = Setting {
    key: "admin-bind",
    value_name: "ADDRESS",
    default: "127.0.0.1",
    allowed: "one IPv4 or IPv6 address",
    help: "Address of the admin port",
};

pub(super) const TEST_CLOCK: Setting = Setting {
    key: "test-clock",
    value_name: "yes|no",
    default: "no",
    allowed: YES_OR_NO,
    help: "Time stands still at 2020-01-01 and moves by RL.CLOCK only: for testing your limits, never for serving",
};

pub(super) const LOG_LEVEL: Setting = Setting {
    key: "log-level",
    value_name: "LEVEL",
    default: "info",
    allowed: "off, error, warn, info, debug or trace",
    help: "How much is logged: off, error, warn, info, debug or trace",
};

pub(super) const LOG_FORMAT: Setting = Setting {
    key: "log-format",
    value_name: "FORMAT",
    default: "auto",
    allowed: "auto, text or json",
    help: "Shape of log lines: text, json, or auto (text on a terminal, json otherwise)",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_complete_and_its_key_is_unique() {
        let mut keys: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), SETTINGS.len());
        for setting in SETTINGS {
            assert!(!setting.help.is_empty() && !setting.allowed.is_empty() && !setting.value_name.is_empty());
            assert!(setting.key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", setting.key);
        }
    }

    #[test]
    fn variables_are_spelled_from_the_key() {
        assert_eq!(MAX_MEMORY_POLICY.variable(), "TOLLGATE_MAXMEMORY_POLICY");
        assert_eq!(PORT.variable(), "TOLLGATE_PORT");
    }
}
