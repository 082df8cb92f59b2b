//! The command table: one row a command. Everything that asks what commands there are reads it.

use crate::arguments as args;
use crate::command::{Command, Flags, Handler, Keys, Route};
use crate::transaction::Control;
use crate::{
    connection, explain, info, introspect, keys, limit_commands as limits, moving, server_commands as server, several,
    throttle,
};

const SINCE: &str = "0.1.0";
const CONSTANT: &str = "O(1)";

/// What most rows share; each row says what is its own.
const ROW: Command = Command {
    name: "",
    arity: 0,
    flags: Flags::NONE,
    keys: Keys::NONE,
    route: Route::Any,
    categories: &[],
    group: "",
    summary: "",
    since: SINCE,
    complexity: CONSTANT,
    arguments: &[],
    handler: Handler::Container,
    subcommands: &[],
};

const CHARGE: Flags = Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST);
const READ: Flags = Flags::READONLY.with(Flags::FAST);
const ALWAYS: Flags = Flags::LOADING.with(Flags::STALE);
const ADMIN: Flags = Flags::ADMIN.with(ALWAYS);

/// A limit: charged on its key's core.
const LIMIT: Command = Command {
    arity: -4,
    flags: CHARGE,
    keys: Keys::ONE,
    route: Route::Key,
    categories: &["@write", "@fast", "@ratelimit"],
    group: "limits",
    ..ROW
};

/// A command on one key that only looks.
const LOOK: Command = Command {
    arity: 2,
    flags: READ,
    keys: Keys::ONE,
    route: Route::Key,
    categories: &["@keyspace", "@read", "@fast"],
    group: "generic",
    arguments: args::KEY,
    ..ROW
};

/// A command about the connection.
const CONNECTION: Command =
    Command { flags: Flags::FAST.with(ALWAYS), categories: &["@fast", "@connection"], group: "connection", ..ROW };

/// A command about a transaction.
const TRANSACTION: Command = Command {
    flags: Flags::FAST.with(ALWAYS).with(Flags::ENDS_BATCH),
    route: Route::Transaction,
    categories: &["@fast", "@transaction"],
    group: "transactions",
    ..ROW
};

/// A command about the server.
const SERVER: Command = Command { flags: ALWAYS, categories: &["@slow"], group: "server", ..ROW };

/// All rows.
pub const COMMANDS: &[Command] = &[
    // Limits.
    Command {
        name: "rl.slide",
        summary: "Sliding window: at most `limit` units in any `window`, estimated from two aligned windows.",
        arguments: args::WINDOWED,
        handler: Handler::Key(limits::slide),
        ..LIMIT
    },
    Command {
        name: "rl.token",
        summary: "Token bucket: bursts of up to `capacity`, refilled at `rate`.",
        arguments: args::BUCKET,
        handler: Handler::Key(limits::token),
        ..LIMIT
    },
    Command {
        name: "rl.fixed",
        summary: "Fixed window: at most `limit` units in each aligned `window`.",
        arguments: args::WINDOWED,
        handler: Handler::Key(limits::fixed),
        ..LIMIT
    },
    Command {
        name: "rl.log",
        summary: "Sliding log: at most `limit` units in any `window`, exactly; memory grows with the limit.",
        complexity: "O(log N) with N the calls in the window",
        arguments: args::WINDOWED,
        handler: Handler::Key(limits::log),
        ..LIMIT
    },
    Command {
        name: "rl.leak",
        summary: "Leaky bucket as a queue: up to `capacity` units leave at `rate`; says how long to hold a request.",
        arguments: args::QUEUE,
        handler: Handler::Key(limits::leak),
        ..LIMIT
    },
    Command {
        name: "rl.all",
        arity: -6,
        keys: Keys::FIFTHS,
        route: Route::All,
        summary: "Several limits at once, all or nothing.",
        complexity: "O(N) with N the groups",
        arguments: args::GROUPS,
        handler: Handler::All,
        ..LIMIT
    },
    Command {
        name: "rl.get",
        arity: 2,
        flags: READ,
        categories: &["@read", "@fast", "@ratelimit"],
        summary: "What a limit's key holds and how the next call will be decided, in words.",
        arguments: args::KEY,
        handler: Handler::Key(explain::rl_get),
        ..LIMIT
    },
    Command {
        name: "rl.help",
        arity: 1,
        flags: Flags::FAST.with(ALWAYS),
        keys: Keys::NONE,
        route: Route::Any,
        categories: &["@fast", "@ratelimit"],
        summary: "The limits and their arguments.",
        handler: Handler::Session(introspect::rl_help),
        ..LIMIT
    },
    Command {
        name: "rl.clock",
        arity: -1,
        flags: Flags::FAST.with(ALWAYS),
        keys: Keys::NONE,
        route: Route::Process,
        categories: &["@fast", "@ratelimit"],
        summary: "The server's time in microseconds; with --test-clock also moves it.",
        arguments: args::CLOCK,
        handler: Handler::Session(server::rl_clock),
        ..LIMIT
    },
    // Dialects of other limiters.
    Command {
        name: "cl.throttle",
        arity: -5,
        summary: "redis-cell's token bucket: capacity `max_burst` + 1, rate `count` per `period` seconds.",
        arguments: args::THROTTLE,
        handler: Handler::Key(throttle::cl_throttle),
        ..LIMIT
    },
    // Keys of any kind.
    Command {
        name: "del",
        arity: -2,
        flags: Flags::WRITE,
        keys: Keys::ALL,
        route: Route::Keys,
        categories: &["@keyspace", "@write", "@slow"],
        summary: "Deletes keys.",
        complexity: "O(N) with N the keys",
        arguments: args::KEYS,
        handler: Handler::Spread(keys::delete_part, keys::sum),
        ..LOOK
    },
    Command {
        name: "unlink",
        arity: -2,
        flags: Flags::WRITE.with(Flags::FAST),
        keys: Keys::ALL,
        route: Route::Keys,
        categories: &["@keyspace", "@write", "@fast"],
        summary: "Deletes keys.",
        complexity: "O(N) with N the keys",
        arguments: args::KEYS,
        handler: Handler::Spread(keys::delete_part, keys::sum),
        ..LOOK
    },
    Command {
        name: "exists",
        arity: -2,
        keys: Keys::ALL,
        route: Route::Keys,
        summary: "How many of the keys exist.",
        complexity: "O(N) with N the keys",
        arguments: args::KEYS,
        handler: Handler::Spread(keys::exists_part, keys::sum),
        ..LOOK
    },
    Command {
        name: "type",
        summary: "The kind of a key: a limit's algorithm, such as rl.slide, or none.",
        handler: Handler::Key(keys::type_of),
        ..LOOK
    },
    Command {
        name: "ttl",
        summary: "Seconds until a key expires; -2 if there is none.",
        handler: Handler::Key(keys::ttl),
        ..LOOK
    },
    Command {
        name: "pttl",
        summary: "Milliseconds until a key expires, rounded up; -2 if there is none.",
        handler: Handler::Key(keys::pttl),
        ..LOOK
    },
    Command {
        name: "scan",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::NONE,
        route: Route::Cursor,
        categories: &["@keyspace", "@read", "@slow"],
        summary: "Walks all keys, some at a time. A key that is there throughout is returned.",
        complexity: "O(N) with N the keys of a step",
        arguments: args::SCAN,
        handler: Handler::Spread(keys::scan_part, keys::scan_merge),
        ..LOOK
    },
    Command {
        name: "keys",
        arity: 2,
        flags: Flags::READONLY,
        keys: Keys::NONE,
        route: Route::Every,
        categories: &["@keyspace", "@read", "@slow", "@dangerous"],
        summary: "All keys that match a pattern. Use SCAN where there are many.",
        complexity: "O(N) with N the keys",
        arguments: args::PATTERN,
        handler: Handler::Spread(keys::keys_part, keys::keys_merge),
        ..LOOK
    },
    Command {
        name: "dbsize",
        arity: 1,
        keys: Keys::NONE,
        route: Route::Every,
        summary: "How many keys there are; those that have expired count for up to 10 seconds more.",
        arguments: &[],
        handler: Handler::Spread(keys::dbsize_part, keys::sum),
        group: "server",
        ..LOOK
    },
    Command {
        name: "flushdb",
        arity: -1,
        flags: Flags::WRITE,
        keys: Keys::NONE,
        route: Route::Every,
        categories: &["@keyspace", "@write", "@slow", "@dangerous"],
        group: "server",
        summary: "Deletes all keys.",
        arguments: args::FLUSH,
        handler: Handler::Spread(keys::flush_part, keys::flush_merge),
        ..LOOK
    },
    Command {
        name: "flushall",
        arity: -1,
        flags: Flags::WRITE,
        keys: Keys::NONE,
        route: Route::Every,
        categories: &["@keyspace", "@write", "@slow", "@dangerous"],
        group: "server",
        summary: "Deletes all keys.",
        arguments: args::FLUSH,
        handler: Handler::Spread(keys::flush_part, keys::flush_merge),
        ..LOOK
    },
    Command {
        name: "rename",
        arity: 3,
        flags: Flags::WRITE,
        keys: Keys::TWO,
        route: Route::Steps,
        categories: &["@keyspace", "@write", "@slow"],
        summary: "Moves what a key holds to another name, over what is there; between cores it is at neither for a moment.",
        arguments: args::RENAME,
        handler: Handler::Steps(moving::rename),
        ..LOOK
    },
    Command {
        name: "copy",
        arity: -3,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: Keys::TWO,
        route: Route::Steps,
        categories: &["@keyspace", "@write", "@slow"],
        summary: "Copies what a key holds, a limit with its use, to another name.",
        arguments: args::COPY,
        handler: Handler::Steps(moving::copy),
        ..LOOK
    },
    // Values.
    Command {
        name: "mget",
        arity: -2,
        keys: Keys::ALL,
        route: Route::Keys,
        categories: &["@read", "@string", "@fast"],
        group: "string",
        summary: "The values of several keys; nil where there is none, or a limit.",
        complexity: "O(N) with N the keys",
        arguments: args::KEYS,
        handler: Handler::Spread(several::mget_part, several::mget_merge),
        ..LOOK
    },
    Command {
        name: "mset",
        arity: -3,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: Keys::HALVES,
        route: Route::Steps,
        categories: &["@write", "@string", "@slow"],
        group: "string",
        summary: "Sets several keys: each core's part is one step. Writes nothing if one of them is a limit.",
        complexity: "O(N) with N the keys",
        arguments: args::PAIRS,
        handler: Handler::Steps(several::mset),
        ..LOOK
    },
    // Transactions.
    Command {
        name: "multi",
        arity: 1,
        summary: "Begins a transaction: what follows is kept until EXEC.",
        handler: Handler::Transaction(Control::Multi),
        ..TRANSACTION
    },
    Command {
        name: "exec",
        arity: 1,
        categories: &["@slow", "@transaction"],
        flags: ALWAYS.with(Flags::ENDS_BATCH),
        summary: "Runs what came since MULTI: each core's part is one step, cores are not isolated from each other.",
        complexity: "O(N) with N the commands, and what each of them costs",
        handler: Handler::Transaction(Control::Exec),
        ..TRANSACTION
    },
    Command {
        name: "discard",
        arity: 1,
        summary: "Forgets what came since MULTI.",
        complexity: "O(N) with N the commands",
        handler: Handler::Transaction(Control::Discard),
        ..TRANSACTION
    },
    Command {
        name: "watch",
        arity: -2,
        keys: Keys::ALL,
        summary: "EXEC runs nothing if one of these keys is written before it. They must share a slot.",
        complexity: "O(N) with N the keys",
        arguments: args::KEYS,
        handler: Handler::Transaction(Control::Watch),
        ..TRANSACTION
    },
    Command {
        name: "unwatch",
        arity: 1,
        summary: "Watches no keys any more.",
        handler: Handler::Transaction(Control::Unwatch),
        ..TRANSACTION
    },
    // The connection.
    Command {
        name: "ping",
        arity: -1,
        summary: "Answers PONG, or the message.",
        arguments: args::MESSAGE_OPTIONAL,
        handler: Handler::Session(connection::ping),
        ..CONNECTION
    },
    Command {
        name: "echo",
        arity: 2,
        summary: "Answers the message.",
        arguments: args::MESSAGE,
        handler: Handler::Session(connection::echo),
        ..CONNECTION
    },
    Command {
        name: "quit",
        arity: -1,
        flags: Flags::FAST.with(ALWAYS).with(Flags::NO_AUTH),
        summary: "Ends the connection.",
        handler: Handler::Session(connection::quit),
        ..CONNECTION
    },
    Command {
        name: "reset",
        arity: 1,
        flags: Flags::FAST.with(ALWAYS).with(Flags::NO_AUTH),
        summary: "Makes the connection as if it had just come.",
        handler: Handler::Session(connection::reset),
        ..CONNECTION
    },
    Command {
        name: "hello",
        arity: -1,
        flags: Flags::FAST.with(ALWAYS).with(Flags::NO_AUTH),
        summary: "Greets the server and chooses RESP2 or RESP3.",
        arguments: args::HELLO,
        handler: Handler::Session(connection::hello),
        ..CONNECTION
    },
    Command {
        name: "auth",
        arity: -2,
        flags: Flags::FAST.with(ALWAYS).with(Flags::NO_AUTH),
        summary: "Gives the password.",
        arguments: args::AUTH,
        handler: Handler::Session(connection::auth),
        ..CONNECTION
    },
    Command {
        name: "select",
        arity: 2,
        summary: "Chooses the database. There is only 0.",
        arguments: args::INDEX,
        handler: Handler::Session(connection::select),
        ..CONNECTION
    },
    Command {
        name: "client",
        arity: -2,
        flags: ALWAYS,
        categories: &["@slow", "@connection"],
        summary: "About client connections.",
        subcommands: CLIENT,
        ..CONNECTION
    },
    // The server.
    Command {
        name: "command",
        arity: -1,
        categories: &["@slow", "@connection"],
        summary: "All commands, as clients read them.",
        complexity: "O(N) with N the commands",
        handler: Handler::Session(introspect::command),
        subcommands: COMMAND,
        ..SERVER
    },
    Command {
        name: "info",
        arity: -1,
        categories: &["@slow", "@dangerous"],
        summary: "The server's state and figures.",
        arguments: args::SECTIONS,
        handler: Handler::Session(info::info),
        ..SERVER
    },
    Command {
        name: "config",
        arity: -2,
        flags: ADMIN,
        categories: &["@admin", "@slow", "@dangerous"],
        summary: "About the configuration.",
        subcommands: CONFIG,
        ..SERVER
    },
    Command {
        name: "time",
        arity: 1,
        flags: Flags::FAST.with(ALWAYS),
        categories: &["@fast"],
        summary: "The server's time: unix seconds, and microseconds of the second.",
        handler: Handler::Session(server::time),
        ..SERVER
    },
    Command {
        name: "shutdown",
        arity: -1,
        flags: ADMIN,
        route: Route::Process,
        categories: &["@admin", "@slow", "@dangerous"],
        summary: "Ends the server.",
        arguments: args::SHUTDOWN,
        handler: Handler::Session(server::shutdown),
        ..SERVER
    },
    Command { name: "memory", arity: -2, summary: "About memory.", subcommands: MEMORY, ..SERVER },
    Command {
        name: "cluster",
        arity: -2,
        group: "cluster",
        summary: "About the cluster.",
        subcommands: CLUSTER,
        ..SERVER
    },
];

const CLIENT: &[Command] = &[
    Command {
        name: "client|id",
        arity: 2,
        summary: "This connection's number.",
        handler: Handler::Session(connection::client_id),
        ..CONNECTION
    },
    Command {
        name: "client|getname",
        arity: 2,
        summary: "This connection's name.",
        handler: Handler::Session(connection::client_getname),
        ..CONNECTION
    },
    Command {
        name: "client|setname",
        arity: 3,
        summary: "Names this connection.",
        arguments: args::CONNECTION_NAME,
        handler: Handler::Session(connection::client_setname),
        ..CONNECTION
    },
    Command {
        name: "client|setinfo",
        arity: 4,
        summary: "Names the client library.",
        arguments: args::CLIENT_INFO,
        handler: Handler::Session(connection::client_setinfo),
        ..CONNECTION
    },
    Command {
        name: "client|info",
        arity: 2,
        summary: "This connection's line of CLIENT LIST.",
        handler: Handler::Session(connection::client_info),
        ..CONNECTION
    },
    Command {
        name: "client|list",
        arity: -2,
        flags: ADMIN,
        route: Route::Every,
        categories: &["@admin", "@slow", "@dangerous", "@connection"],
        summary: "All connections, a line each.",
        complexity: "O(N) with N the connections",
        arguments: args::CLIENT_LIST,
        handler: Handler::Spread(connection::client_list_part, connection::client_list_merge),
        ..CONNECTION
    },
    Command {
        name: "client|help",
        arity: 2,
        summary: "The subcommands.",
        handler: Handler::Session(introspect::container_help),
        ..CONNECTION
    },
];

const COMMAND: &[Command] = &[
    Command {
        name: "command|count",
        arity: 2,
        summary: "How many commands there are.",
        handler: Handler::Session(introspect::command_count),
        ..SERVER
    },
    Command {
        name: "command|info",
        arity: -2,
        summary: "The rows of some commands.",
        arguments: args::COMMAND_NAMES,
        handler: Handler::Session(introspect::command_info),
        ..SERVER
    },
    Command {
        name: "command|docs",
        arity: -2,
        summary: "The documentation of some commands.",
        arguments: args::COMMAND_NAMES,
        handler: Handler::Session(introspect::command_docs),
        ..SERVER
    },
    Command {
        name: "command|list",
        arity: -2,
        summary: "The names of the commands.",
        arguments: args::COMMAND_FILTER,
        handler: Handler::Session(introspect::command_list),
        ..SERVER
    },
    Command {
        name: "command|getkeys",
        arity: -3,
        summary: "The keys of a call.",
        arguments: args::COMMAND_CALL,
        handler: Handler::Session(introspect::command_getkeys),
        ..SERVER
    },
    Command {
        name: "command|help",
        arity: 2,
        summary: "The subcommands.",
        handler: Handler::Session(introspect::container_help),
        ..SERVER
    },
];

const CONFIG: &[Command] = &[
    Command {
        name: "config|get",
        arity: -3,
        flags: ADMIN,
        categories: &["@admin", "@slow", "@dangerous"],
        summary: "Parameters whose names match the patterns.",
        arguments: args::PATTERNS,
        handler: Handler::Session(server::config_get),
        ..SERVER
    },
    Command {
        name: "config|help",
        arity: 2,
        summary: "The subcommands.",
        handler: Handler::Session(introspect::container_help),
        ..SERVER
    },
];

const CLUSTER: &[Command] = &[
    Command {
        name: "cluster|keyslot",
        arity: 3,
        group: "cluster",
        summary: "The hash slot of a key.",
        arguments: args::KEY_NAME,
        handler: Handler::Session(server::cluster_keyslot),
        ..SERVER
    },
    Command {
        name: "cluster|help",
        arity: 2,
        group: "cluster",
        summary: "The subcommands.",
        handler: Handler::Session(introspect::container_help),
        ..SERVER
    },
];

const MEMORY: &[Command] = &[
    Command {
        name: "memory|usage",
        arity: -3,
        flags: Flags::READONLY,
        keys: Keys::SECOND,
        route: Route::Keys,
        categories: &["@read", "@slow"],
        summary: "Bytes that a key takes, its share of the index included.",
        arguments: args::MEMORY_USAGE,
        handler: Handler::Key(keys::memory_usage),
        ..SERVER
    },
    Command {
        name: "memory|help",
        arity: 2,
        summary: "The subcommands.",
        handler: Handler::Session(introspect::container_help),
        ..SERVER
    },
];
