//! INFO: Redis's sections and field order, so that tools which take the first line with a name find the right one.

use crate::call::Call;
use crate::core::Core;
use crate::counters::{ALGORITHMS, Counter, Counters, ERROR_CODES, Merged};
use crate::session::Session;
use crate::settings::{FollowingState, REDIS_VERSION, TOLLGATE_VERSION};
use std::fmt::Write;
use tollgate_resp::Reply;

type Section = (&'static str, fn(&mut String, &Core, &Call<'_>));

/// In the order of INFO without arguments.
const SECTIONS: [Section; 12] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("CPU", cpu),
    ("Modules", modules),
    ("Errorstats", error_stats),
    ("Cluster", cluster),
    ("Keyspace", keyspace),
    ("Ratelimit", ratelimit),
];
/// Shown only when asked for by name, or with `all` and `everything`.
const COMMAND_STATS: Section = ("Commandstats", command_stats);

/// INFO [section ...].
pub fn info(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    core.publish();
    let asked: Vec<String> =
        call.args.iter().skip(1).map(|word| String::from_utf8_lossy(word).to_lowercase()).collect();
    let has = |word: &str| asked.iter().any(|asked| asked == word);
    let everything = has("all") || has("everything");
    let default = asked.is_empty() || has("default") || everything;
    let mut text = String::new();
    for (name, write) in SECTIONS {
        if default || has(&name.to_lowercase()) {
            section(&mut text, name, write, core, call);
        }
    }
    if everything || has("commandstats") {
        section(&mut text, COMMAND_STATS.0, COMMAND_STATS.1, core, call);
    }
    reply.verbatim_txt(&text);
}

fn section(text: &mut String, name: &str, write: fn(&mut String, &Core, &Call<'_>), core: &Core, call: &Call<'_>) {
    if !text.is_empty() {
        text.push_str("\r\n");
    }
    let _ = write!(text, "# {name}\r\n");
    write(text, core, call);
}

fn line(text: &mut String, field: &str, value: impl std::fmt::Display) {
    let _ = write!(text, "{field}:{value}\r\n");
}

fn total(core: &Core, of: impl Fn(&crate::counters::Counters) -> &Counter) -> u64 {
    Merged(&core.all_counters).sum(of)
}

fn server(text: &mut String, core: &Core, call: &Call<'_>) {
    let settings = &core.settings;
    let uptime_seconds = settings.process.uptime_seconds();
    line(text, "redis_version", REDIS_VERSION);
    line(text, "redis_mode", if settings.cluster { "cluster" } else { "standalone" });
    line(text, "tollgate_version", TOLLGATE_VERSION);
    line(text, "tollgate_cores", core.cores);
    line(text, "os", settings.process.operating_system());
    line(text, "arch_bits", usize::BITS);
    line(text, "monotonic_clock", "POSIX clock_gettime");
    line(text, "multiplexing_api", "epoll");
    line(text, "process_id", settings.process_id);
    line(text, "process_supervised", "no");
    line(text, "run_id", &settings.run_id);
    line(text, "tcp_port", settings.port);
    line(text, "server_time_usec", call.now);
    line(text, "test_clock", u8::from(settings.test_clock));
    line(text, "clock_steps", settings.process.clock_steps());
    line(text, "uptime_in_seconds", uptime_seconds);
    line(text, "uptime_in_days", uptime_seconds / 86_400);
    line(text, "config_file", &settings.config_file);
}

fn clients(text: &mut String, core: &Core, _call: &Call<'_>) {
    line(text, "connected_clients", total(core, |counters| &counters.connections));
    line(text, "cluster_connections", 0);
    line(text, "maxclients", core.settings.clients_max);
    line(text, "blocked_clients", total(core, |counters| &counters.blocked_clients));
    line(text, "tracking_clients", 0);
    line(text, "clients_in_timeout_table", 0);
}

fn memory(text: &mut String, core: &Core, _call: &Call<'_>) {
    let used = total(core, |counters| &counters.memory_used_bytes);
    let resident = core.settings.process.resident_bytes();
    let peak = core.settings.shared.memory_peak_bytes(used);
    let machine = core.settings.process.machine_memory_bytes();
    let max = core.settings.tunables.memory_max_bytes();
    size(text, "used_memory", used);
    size(text, "used_memory_rss", resident);
    size(text, "used_memory_peak", peak);
    line(text, "used_memory_peak_perc", format_args!("{}%", hundredths(used.saturating_mul(100), peak)));
    line(text, "used_memory_dataset", used);
    if machine > 0 {
        size(text, "total_system_memory", machine);
    }
    size(text, "maxmemory", max);
    line(text, "maxmemory_policy", core.settings.tunables.policy_name());
    line(text, "mem_fragmentation_ratio", hundredths(resident, used));
    line(text, "mem_fragmentation_bytes", i128::from(resident) - i128::from(used));
    line(text, "mem_allocator", "libc");
    let longest = Merged(&core.all_counters).largest(|counters| &counters.store_longest_step_us);
    line(text, "store_longest_step_us", longest);
}

fn persistence(text: &mut String, core: &Core, _call: &Call<'_>) {
    let known = core.settings.process.persistence();
    let seconds = |seconds: Option<u64>| seconds.map_or("-1".to_owned(), |seconds| seconds.to_string());
    line(text, "loading", u8::from(core.settings.shared.is_loading()));
    line(text, "async_loading", 0);
    line(text, "rdb_changes_since_last_save", known.changes);
    line(text, "rdb_bgsave_in_progress", u8::from(known.running_seconds.is_some()));
    line(text, "rdb_last_save_time", known.last_save_seconds);
    line(text, "rdb_last_bgsave_status", if known.last_is_ok { "ok" } else { "err" });
    line(text, "rdb_last_bgsave_time_sec", seconds(known.last_took_seconds));
    line(text, "rdb_current_bgsave_time_sec", seconds(known.running_seconds));
    line(text, "rdb_saves", known.snapshots);
    line(text, "aof_enabled", 0);
    line(text, "aof_rewrite_in_progress", 0);
}

fn stats(text: &mut String, core: &Core, _call: &Call<'_>) {
    let shared = &core.settings.shared;
    let (input, output) = shared.bytes_per_second();
    line(text, "total_connections_received", total(core, |counters| &counters.connections_accepted));
    line(text, "total_commands_processed", Merged(&core.all_counters).commands_processed());
    line(text, "instantaneous_ops_per_sec", shared.commands_per_second());
    line(text, "total_net_input_bytes", total(core, |counters| &counters.net_input_bytes));
    line(text, "total_net_output_bytes", total(core, |counters| &counters.net_output_bytes));
    line(text, "instantaneous_input_kbps", hundredths(input, 1024));
    line(text, "instantaneous_output_kbps", hundredths(output, 1024));
    line(text, "rejected_connections", total(core, |counters| &counters.connections_rejected));
    line(text, "expired_keys", total(core, |counters| &counters.expired_keys));
    line(text, "evicted_keys", total(core, |counters| &counters.evicted_keys));
    line(text, "evicted_units", total(core, |counters| &counters.evicted_units));
    line(text, "keyspace_hits", total(core, |counters| &counters.keyspace_hits));
    line(text, "keyspace_misses", total(core, |counters| &counters.keyspace_misses));
    for field in ["pubsub_channels", "pubsub_patterns", "latest_fork_usec", "total_forks"] {
        line(text, field, 0);
    }
    line(text, "total_error_replies", total(core, |counters| &counters.error_replies));
    line(text, "acl_access_denied_auth", total(core, |counters| &counters.auth_failures));
    line(text, "client_output_buffer_limit_disconnections", total(core, |c| &c.output_limit_disconnections));
    line(text, "slow_disconnections", total(core, |counters| &counters.slow_disconnections));
    line(text, "protocol_errors", total(core, |counters| &counters.protocol_errors));
    line(text, "batches", total(core, |counters| &counters.batches));
    line(text, "hops", total(core, |counters| &counters.hops));
    line(text, "messages_sent", total(core, |counters| &counters.messages_sent));
    line(text, "wakes_sent", total(core, |counters| &counters.wakes_sent));
    line(text, "busy_replies", total(core, |counters| &counters.busy_replies));
    line(text, "monitor_lines_lost", total(core, |counters| &counters.monitor_lines_lost));
    line(text, "connections_handed_on", total(core, |counters| &counters.connections_handed_on));
}

fn replication(text: &mut String, core: &Core, _call: &Call<'_>) {
    let process = &core.settings.process;
    match process.following() {
        None => line(text, "role", "master"),
        Some(following) => {
            let is_up = following.is_up();
            line(text, "role", "slave");
            line(text, "master_host", &following.host);
            line(text, "master_port", following.port);
            line(text, "master_link_status", if is_up { "up" } else { "down" });
            let silent = following.silent_seconds.map_or("-1".to_owned(), |seconds| seconds.to_string());
            line(text, "master_last_io_seconds_ago", silent);
            line(text, "master_sync_in_progress", u8::from(following.state == FollowingState::Sync));
            line(text, "slave_read_only", 1);
            line(text, "master_link_down_reason", following.why_down);
        }
    }
    let all = Merged(&core.all_counters);
    line(text, "failover_overshoot", all.failover_overshoot());
    line(text, "failover_overshoot_peak", all.failover_overshoot_peak());
    line(text, "failover_overshoot_writes", total(core, |counters| &counters.failover_overshoot_writes));
    let replicas = process.replicas();
    line(text, "replication_records", total(core, |counters| &counters.replication_records));
    line(text, "replication_bytes", total(core, |counters| &counters.replication_bytes));
    line(text, "replicas_in_step", replicas.iter().filter(|replica| replica.is_in_step).count());
    line(text, "replicas_missing", u8::from(core.settings.shared.lacks_replicas()));
    line(text, "connected_slaves", replicas.len());
    for (number, replica) in replicas.iter().enumerate() {
        let state = if replica.is_online { "online" } else { "sync" };
        let (host, port, in_step) = (&replica.host, replica.port, u8::from(replica.is_in_step));
        let value = format_args!("ip={host},port={port},state={state},offset=0,lag=0,in_step={in_step}");
        line(text, &format!("slave{number}"), value);
    }
    line(text, "master_failover_state", "no-failover");
    line(text, "master_replid", &core.settings.run_id);
    line(text, "master_replid2", "0".repeat(40));
    line(text, "master_repl_offset", 0);
    line(text, "second_repl_offset", -1);
    for field in ["active", "size", "first_byte_offset", "histlen"] {
        line(text, &format!("repl_backlog_{field}"), 0);
    }
}

fn cpu(text: &mut String, core: &Core, _call: &Call<'_>) {
    let (user, system) = core.settings.process.cpu_micros();
    for (field, micros) in [("sys", system), ("user", user), ("sys_children", 0), ("user_children", 0)] {
        let seconds = format_args!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
        line(text, &format!("used_cpu_{field}"), seconds);
    }
}

fn modules(_text: &mut String, _core: &Core, _call: &Call<'_>) {}

fn error_stats(text: &mut String, core: &Core, _call: &Call<'_>) {
    for (index, code) in ERROR_CODES.iter().enumerate() {
        let count = sum_at(core, index, |counters| &counters.errors);
        if count > 0 {
            line(text, &format!("errorstat_{code}"), format_args!("count={count}"));
        }
    }
}

fn cluster(text: &mut String, core: &Core, _call: &Call<'_>) {
    line(text, "cluster_enabled", u8::from(core.settings.cluster));
    if let Some(left) = core.settings.process.lease_left_micros() {
        line(text, "cluster_lease_ms_left", left / 1_000);
    }
    if let Some(view) = &core.view {
        let leader = view.health.leader.map(|id| id.to_string()).unwrap_or_default();
        line(text, "cluster_leader", leader);
        line(text, "cluster_leader_is_heard", u8::from(view.health.has_leader));
        line(text, "cluster_voters", view.health.voters);
        line(text, "cluster_epoch", view.map.epoch);
    }
}

fn keyspace(text: &mut String, core: &Core, _call: &Call<'_>) {
    let keys = total(core, |counters| &counters.keys);
    if keys > 0 {
        // Every limit's key expires.
        let expires = keys.saturating_sub(total(core, |counters| &counters.keys_lasting));
        line(text, "db0", format_args!("keys={keys},expires={expires},avg_ttl=0"));
    }
}

fn ratelimit(text: &mut String, core: &Core, _call: &Call<'_>) {
    for (index, algorithm) in ALGORITHMS.iter().enumerate() {
        let word = algorithm.word().to_lowercase();
        line(text, &format!("{word}_allowed"), sum_at(core, index, |counters| &counters.allowed));
        line(text, &format!("{word}_denied"), sum_at(core, index, |counters| &counters.denied));
    }
    line(text, "undone_charges", total(core, |counters| &counters.undone_charges));
    line(text, "oom_replies", total(core, |counters| &counters.oom_replies));
}

/// Calls that were not timed (those of fast commands, mostly) add nothing to `usec`.
fn command_stats(text: &mut String, core: &Core, _call: &Call<'_>) {
    for (index, command) in crate::registry::rows().iter().enumerate() {
        let calls = sum_at(core, index, |counters| &counters.commands);
        let micros = sum_at(core, index, |counters| &counters.command_micros);
        let rejected = sum_at(core, index, |counters| &counters.commands_rejected);
        let failed = sum_at(core, index, |counters| &counters.commands_failed);
        if calls > 0 || rejected > 0 {
            let mean = hundredths(micros, calls);
            let stats = format!(
                "calls={calls},usec={micros},usec_per_call={mean},rejected_calls={rejected},failed_calls={failed}"
            );
            line(text, &format!("cmdstat_{}", command.name), stats);
        }
    }
}

/// The sum over all cores of one of a row of counters.
fn sum_at(core: &Core, index: usize, of: fn(&Counters) -> &[Counter]) -> u64 {
    let cells = core.all_counters.iter().filter_map(|counters| of(counters).get(index));
    cells.map(Counter::get).fold(0, u64::wrapping_add)
}

/// A size in bytes, and again for people.
fn size(text: &mut String, field: &str, bytes: u64) {
    line(text, field, bytes);
    line(text, &format!("{field}_human"), human(bytes));
}

/// A quotient with two decimals, rounded down; 0.00 of nothing.
fn hundredths(part: u64, whole: u64) -> String {
    let hundredths = (u128::from(part) * 100).checked_div(u128::from(whole)).unwrap_or(0);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// A size as Redis writes it: `1.50M`.
fn human(bytes: u64) -> String {
    let units = [(1u64 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    match units.into_iter().find(|(size, _)| bytes >= *size) {
        Some((size, unit)) => {
            let hundredths = u128::from(bytes) * 100 / u128::from(size);
            format!("{}.{:02}{unit}", hundredths / 100, hundredths % 100)
        }
        None => format!("{bytes}B"),
    }
}
