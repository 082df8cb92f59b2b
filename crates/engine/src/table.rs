//! The command table: one row a command. Everything that asks what commands there are reads it.

use crate::arguments as args;
use crate::command::{Command, Flags, Handler, Keys, Route};
use crate::transaction::Control;
use crate::{
    acl, client_commands as clients, cluster, config_commands as config, connection, expiry, explain, increx, info,
    introspect, keys, latency, limit_commands as limits, memory_commands as memory, moving, numbers, object,
    persistence, random_key, replication, server_commands as server, set, several, slowlog, throttle, top_command,
    values,
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

/// A command that changes when one key expires, and needs no memory for it.
const EXPIRY: Command =
    Command { arity: -3, flags: Flags::WRITE.with(Flags::FAST), categories: &["@keyspace", "@write", "@fast"], ..LOOK };

/// A command that reads one value.
const READ_VALUE: Command = Command { categories: &["@read", "@string", "@fast"], group: "string", ..LOOK };

/// A command that writes one value in constant time.
const WRITE_VALUE: Command = Command {
    arity: 3,
    flags: CHARGE,
    categories: &["@write", "@string", "@fast"],
    arguments: args::VALUE,
    ..READ_VALUE
};

/// As Redis has it, SET and its kin are not among the fast commands.
const SET_VALUE: Command =
    Command { flags: Flags::WRITE.with(Flags::DENYOOM), categories: &["@write", "@string", "@slow"], ..WRITE_VALUE };

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

/// A command for administrators.
const ADMINISTRATION: Command = Command { flags: ADMIN, categories: &["@admin", "@slow", "@dangerous"], ..SERVER };

/// HELP of a container.
const HELP: Command =
    Command { arity: 2, summary: "The subcommands.", handler: Handler::Session(introspect::container_help), ..SERVER };

/// A command about the connection in a cluster.
const CLUSTER_MODE: Command = Command {
    arity: 1,
    categories: &["@fast", "@connection"],
    flags: Flags::FAST.with(ALWAYS),
    group: "cluster",
    ..SERVER
};

/// A command that tells of the cluster.
const CLUSTER_TOLD: Command = Command { arity: 2, group: "cluster", complexity: "O(N) with N the nodes", ..SERVER };

/// A command that changes the cluster, off the data path.
const CLUSTER_CHANGED: Command = Command {
    arity: -3,
    group: "cluster",
    route: Route::Process,
    complexity: "O(N) with N the slots that are named",
    ..ADMINISTRATION
};

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
    Command {
        name: "rl.top",
        arity: -2,
        flags: ADMIN,
        keys: Keys::NONE,
        route: Route::Every,
        categories: &["@admin", "@slow", "@dangerous", "@ratelimit"],
        summary: "The busiest keys of the last minute or two: most denied, most checked, or nearest to their limit.",
        complexity: "O(N) with N the counters of the sketch, which are bounded",
        arguments: args::TOP,
        handler: Handler::Spread(top_command::top_part, top_command::top_merge),
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
    Command {
        name: "rl.throttle",
        arity: -5,
        summary: "CL.THROTTLE by another name.",
        arguments: args::THROTTLE,
        handler: Handler::Key(throttle::rl_throttle),
        ..LIMIT
    },
    Command {
        name: "throttle",
        arity: -5,
        summary: "throttlecrab's token bucket: capacity `max_burst`, rate `count` per `period` seconds.",
        arguments: args::THROTTLE,
        handler: Handler::Key(throttle::throttle),
        ..LIMIT
    },
    Command {
        name: "increx",
        arity: -2,
        summary: "Adds to a number within bounds, and says when it expires; answers the value and what was added.",
        arguments: args::INCREX,
        handler: Handler::Key(increx::increx),
        ..WRITE_VALUE
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
        summary: "The kind of a key: a limit's algorithm, such as rl.slide, string for a value, or none.",
        handler: Handler::Key(keys::type_of),
        ..LOOK
    },
    Command {
        name: "ttl",
        summary: "Seconds until a key expires; -2 if there is no key, -1 if it does not expire.",
        handler: Handler::Key(expiry::ttl),
        ..LOOK
    },
    Command {
        name: "pttl",
        summary: "Milliseconds until a key expires, rounded up; -2 if there is no key, -1 if it does not expire.",
        handler: Handler::Key(expiry::pttl),
        ..LOOK
    },
    Command {
        name: "expiretime",
        summary: "The Unix time in seconds at which a key expires; -2 if there is no key, -1 if it does not expire.",
        handler: Handler::Key(expiry::expiretime),
        ..LOOK
    },
    Command {
        name: "pexpiretime",
        summary: "The Unix time in milliseconds at which a key expires; -2 without a key, -1 if it does not expire.",
        handler: Handler::Key(expiry::pexpiretime),
        ..LOOK
    },
    Command {
        name: "expire",
        summary: "Says in how many seconds a value expires. A limit's key expires by itself.",
        arguments: args::EXPIRE,
        handler: Handler::Key(expiry::expire),
        ..EXPIRY
    },
    Command {
        name: "pexpire",
        summary: "Says in how many milliseconds a value expires. A limit's key expires by itself.",
        arguments: args::PEXPIRE,
        handler: Handler::Key(expiry::pexpire),
        ..EXPIRY
    },
    Command {
        name: "expireat",
        summary: "Says at which Unix time in seconds a value expires. A limit's key expires by itself.",
        arguments: args::EXPIREAT,
        handler: Handler::Key(expiry::expireat),
        ..EXPIRY
    },
    Command {
        name: "pexpireat",
        summary: "Says at which Unix time in milliseconds a value expires. A limit's key expires by itself.",
        arguments: args::PEXPIREAT,
        handler: Handler::Key(expiry::pexpireat),
        ..EXPIRY
    },
    Command {
        name: "persist",
        arity: 2,
        summary: "Makes a value last.",
        handler: Handler::Key(expiry::persist),
        ..EXPIRY
    },
    Command {
        name: "touch",
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
        name: "randomkey",
        arity: 1,
        flags: Flags::READONLY,
        keys: Keys::NONE,
        route: Route::Every,
        categories: &["@keyspace", "@read", "@slow"],
        summary: "One of the keys, at random.",
        arguments: &[],
        handler: Handler::Spread(random_key::random_key_part, random_key::random_key_merge),
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
        summary: "Moves what a key holds to another name, over what is there; between cores in two steps.",
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
        handler: Handler::StepsOrParts(several::mset, several::mset_part, several::mset_merge),
        ..LOOK
    },
    Command { name: "get", summary: "The value of a key.", handler: Handler::Key(values::get), ..READ_VALUE },
    Command {
        name: "strlen",
        summary: "The length of a value in bytes; 0 if there is none.",
        handler: Handler::Key(values::strlen),
        ..READ_VALUE
    },
    Command {
        name: "set",
        arity: -3,
        summary: "Gives a key a value; options say when, for how long, and that the old value is answered.",
        arguments: args::SET,
        handler: Handler::Key(set::set),
        ..SET_VALUE
    },
    Command {
        name: "setnx",
        summary: "Gives a key a value if it has none; 1 if so.",
        handler: Handler::Key(set::setnx),
        ..WRITE_VALUE
    },
    Command {
        name: "setex",
        arity: 4,
        summary: "Gives a key a value for some seconds.",
        arguments: args::SETEX,
        handler: Handler::Key(set::setex),
        ..SET_VALUE
    },
    Command {
        name: "psetex",
        arity: 4,
        summary: "Gives a key a value for some milliseconds.",
        arguments: args::PSETEX,
        handler: Handler::Key(set::psetex),
        ..SET_VALUE
    },
    Command {
        name: "getset",
        summary: "Gives a key a value and answers the old one.",
        handler: Handler::Key(set::getset),
        ..WRITE_VALUE
    },
    Command {
        name: "getdel",
        arity: 2,
        flags: Flags::WRITE.with(Flags::FAST),
        summary: "Answers a value and deletes its key.",
        arguments: args::KEY,
        handler: Handler::Key(values::getdel),
        ..WRITE_VALUE
    },
    Command {
        name: "getex",
        arity: -2,
        flags: Flags::WRITE.with(Flags::FAST),
        summary: "Answers a value and says when it expires.",
        arguments: args::GETEX,
        handler: Handler::Key(values::getex),
        ..WRITE_VALUE
    },
    Command {
        name: "append",
        complexity: "O(N) with N the bytes of the value",
        summary: "Adds bytes at the end of a value; answers its length.",
        handler: Handler::Key(values::append),
        ..WRITE_VALUE
    },
    Command {
        name: "incr",
        arity: 2,
        summary: "Adds 1 to an integer; a key without a value counts as 0.",
        arguments: args::KEY,
        handler: Handler::Key(numbers::incr),
        ..WRITE_VALUE
    },
    Command {
        name: "decr",
        arity: 2,
        summary: "Takes 1 from an integer; a key without a value counts as 0.",
        arguments: args::KEY,
        handler: Handler::Key(numbers::decr),
        ..WRITE_VALUE
    },
    Command {
        name: "incrby",
        summary: "Adds to an integer; a key without a value counts as 0.",
        arguments: args::INCREMENT,
        handler: Handler::Key(numbers::incrby),
        ..WRITE_VALUE
    },
    Command {
        name: "decrby",
        summary: "Takes from an integer; a key without a value counts as 0.",
        arguments: args::DECREMENT,
        handler: Handler::Key(numbers::decrby),
        ..WRITE_VALUE
    },
    Command {
        name: "incrbyfloat",
        summary: "Adds to a number that may have a fraction; a key without a value counts as 0.",
        arguments: args::INCREMENT_FLOAT,
        handler: Handler::Key(numbers::incrbyfloat),
        ..WRITE_VALUE
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
        name: "monitor",
        arity: 1,
        flags: ADMIN.with(Flags::ENDS_BATCH).with(Flags::NO_MULTI),
        categories: &["@admin", "@slow", "@dangerous"],
        summary: "Shows this connection the commands of all clients, as they come.",
        handler: Handler::Session(clients::monitor),
        ..SERVER
    },
    Command {
        name: "debug",
        arity: -2,
        flags: ADMIN,
        categories: &["@admin", "@slow", "@dangerous"],
        summary: "For tests of clients.",
        subcommands: DEBUG,
        ..SERVER
    },
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
        flags: ADMIN.with(Flags::NO_MULTI),
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
    Command { name: "slowlog", arity: -2, summary: "The commands that took longest.", subcommands: SLOWLOG, ..SERVER },
    Command { name: "latency", arity: -2, summary: "When commands took long.", subcommands: LATENCY, ..SERVER },
    Command {
        name: "object",
        arity: -2,
        group: "generic",
        summary: "How values are kept.",
        subcommands: OBJECT,
        ..SERVER
    },
    Command { name: "acl", arity: -2, summary: "About users.", subcommands: ACL, ..SERVER },
    Command {
        name: "role",
        arity: 1,
        flags: Flags::FAST.with(ADMIN),
        categories: &["@admin", "@fast", "@dangerous"],
        summary: "Primary or replica, and whose.",
        handler: Handler::Session(replication::role),
        ..SERVER
    },
    Command {
        name: "readonly",
        summary: "In a cluster: this client reads what a replica holds, too.",
        handler: Handler::Session(cluster::nodes::readonly),
        ..CLUSTER_MODE
    },
    Command {
        name: "readwrite",
        summary: "In a cluster: this client reads what primaries hold only.",
        handler: Handler::Session(cluster::nodes::readwrite),
        ..CLUSTER_MODE
    },
    Command {
        name: "asking",
        summary: "In a cluster: nothing to do, as slots move whole.",
        handler: Handler::Session(cluster::nodes::asking),
        ..CLUSTER_MODE
    },
    Command {
        name: "replicaof",
        arity: 3,
        flags: ADMIN.with(Flags::NO_MULTI),
        route: Route::Process,
        summary: "Follows a primary, whose keys replace those here; NO ONE: goes on as a primary.",
        arguments: args::PRIMARY,
        handler: Handler::Session(replication::replicaof),
        ..ADMINISTRATION
    },
    Command {
        name: "slaveof",
        arity: 3,
        flags: ADMIN.with(Flags::NO_MULTI),
        route: Route::Process,
        summary: "The same as REPLICAOF.",
        arguments: args::PRIMARY,
        handler: Handler::Session(replication::replicaof),
        ..ADMINISTRATION
    },
    Command {
        name: "rl.flow",
        arity: -4,
        flags: ADMIN.with(Flags::NO_MULTI),
        route: Route::Process,
        summary: "What a replica says to be told what a core holds and every change of it. Not for clients.",
        arguments: args::FLOW,
        handler: Handler::Session(replication::flow),
        ..ADMINISTRATION
    },
    Command {
        name: "wait",
        arity: 3,
        flags: Flags::NONE,
        categories: &["@slow", "@connection"],
        group: "generic",
        route: Route::Process,
        summary: "Waits until so many replicas have all that was changed before, or for the timeout; how many have it.",
        arguments: args::WAIT,
        handler: Handler::Session(replication::wait),
        ..SERVER
    },
    Command {
        name: "save",
        arity: 1,
        flags: Flags::ADMIN.with(Flags::NO_MULTI),
        route: Route::Process,
        summary: "Writes a snapshot and answers when it is written. Others are served meanwhile.",
        handler: Handler::Session(persistence::save),
        ..ADMINISTRATION
    },
    Command {
        name: "bgsave",
        arity: -1,
        flags: Flags::ADMIN,
        summary: "Has a snapshot written.",
        arguments: args::SCHEDULE,
        handler: Handler::Session(persistence::bgsave),
        ..ADMINISTRATION
    },
    Command {
        name: "lastsave",
        arity: 1,
        flags: Flags::FAST.with(ADMIN),
        categories: &["@admin", "@fast", "@dangerous"],
        summary: "When the last snapshot was written, in unix seconds; before the first, when the server started.",
        handler: Handler::Session(persistence::lastsave),
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
        name: "client|kill",
        arity: -3,
        flags: ADMIN.with(Flags::TOLD_WHO),
        route: Route::Every,
        categories: &["@admin", "@slow", "@dangerous", "@connection"],
        summary: "Ends connections: the one from an address, or those that fit all filters.",
        complexity: "O(N) with N the connections",
        arguments: args::CLIENT_KILL,
        handler: Handler::Spread(clients::client_kill_part, clients::client_kill_merge),
        ..CONNECTION
    },
    Command {
        name: "client|pause",
        arity: -3,
        flags: ADMIN.with(Flags::ENDS_BATCH),
        categories: &["@admin", "@slow", "@dangerous", "@connection"],
        summary: "Holds commands, or those that write, for so many milliseconds; AUTH, HELLO, RESET and QUIT go on.",
        arguments: args::CLIENT_PAUSE,
        handler: Handler::Session(clients::client_pause),
        ..CONNECTION
    },
    Command {
        name: "client|unpause",
        arity: 2,
        flags: ADMIN.with(Flags::ENDS_BATCH).with(Flags::NEVER_HELD),
        categories: &["@admin", "@slow", "@dangerous", "@connection"],
        summary: "Ends CLIENT PAUSE.",
        handler: Handler::Session(clients::client_unpause),
        ..CONNECTION
    },
    Command {
        name: "client|reply",
        arity: 3,
        flags: ALWAYS.with(Flags::ENDS_BATCH),
        categories: &["@slow", "@connection"],
        summary: "Switches replies on or off, or skips that of the next command.",
        arguments: args::ON_OFF_SKIP,
        handler: Handler::Session(clients::client_reply),
        ..CONNECTION
    },
    Command {
        name: "client|no-evict",
        arity: 3,
        flags: ADMIN,
        categories: &["@admin", "@slow", "@dangerous", "@connection"],
        summary: "Noted and shown; no client is ended for memory.",
        arguments: args::ON_OFF,
        handler: Handler::Session(clients::client_no_evict),
        ..CONNECTION
    },
    Command {
        name: "client|no-touch",
        arity: 3,
        flags: ALWAYS,
        categories: &["@slow", "@connection"],
        summary: "Noted and shown; nothing depends on when a key was last read.",
        arguments: args::ON_OFF,
        handler: Handler::Session(clients::client_no_touch),
        ..CONNECTION
    },
    Command {
        name: "client|tracking",
        arity: -3,
        flags: ALWAYS,
        categories: &["@slow", "@connection"],
        summary: "Client side caching: not offered, so only OFF is accepted.",
        arguments: args::CLIENT_TRACKING,
        handler: Handler::Session(clients::client_tracking),
        ..CONNECTION
    },
    Command {
        name: "client|caching",
        arity: 3,
        flags: ALWAYS,
        categories: &["@slow", "@connection"],
        summary: "Always an error: nothing is tracked.",
        arguments: args::YES_NO,
        handler: Handler::Session(clients::client_caching),
        ..CONNECTION
    },
    Command {
        name: "client|trackinginfo",
        arity: 2,
        flags: ALWAYS,
        categories: &["@slow", "@connection"],
        summary: "Says that nothing is tracked.",
        handler: Handler::Session(clients::client_trackinginfo),
        ..CONNECTION
    },
    Command {
        name: "client|getredir",
        arity: 2,
        flags: ALWAYS,
        categories: &["@slow", "@connection"],
        summary: "Always -1: nothing is tracked.",
        handler: Handler::Session(clients::client_getredir),
        ..CONNECTION
    },
    Command {
        name: "client|unblock",
        arity: -3,
        flags: ADMIN,
        categories: &["@admin", "@slow", "@dangerous", "@connection"],
        summary: "Always 0: no command blocks.",
        arguments: args::CLIENT_UNBLOCK,
        handler: Handler::Session(clients::client_unblock),
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

const DEBUG: &[Command] = &[
    Command {
        name: "debug|sleep",
        arity: 3,
        flags: ADMIN.with(Flags::NO_MULTI),
        route: Route::Every,
        categories: &["@admin", "@slow", "@dangerous"],
        summary: "Lets every core stand still for so many seconds.",
        arguments: args::SECONDS,
        handler: Handler::Spread(clients::debug_sleep_part, clients::debug_sleep_merge),
        ..SERVER
    },
    Command {
        name: "debug|help",
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
        handler: Handler::Session(config::get),
        ..SERVER
    },
    Command {
        name: "config|set",
        arity: -4,
        route: Route::Every,
        summary: "Changes parameters while the server runs, all that are named or none.",
        complexity: "O(N) with N the parameters",
        arguments: args::SETTINGS,
        handler: Handler::Spread(config::set_part, config::set_merge),
        ..ADMINISTRATION
    },
    Command {
        name: "config|resetstat",
        arity: 2,
        route: Route::Every,
        summary: "Sets the counters of INFO to zero.",
        handler: Handler::Spread(config::reset_part, slowlog::ok_merge),
        ..ADMINISTRATION
    },
    Command {
        name: "config|rewrite",
        arity: 2,
        route: Route::Process,
        summary: "Brings the parameters that CONFIG SET can change into the configuration file, where they differ.",
        handler: Handler::Session(config::rewrite),
        ..ADMINISTRATION
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
        name: "cluster|slots",
        summary: "Which nodes serve which slots, as clients want to know it.",
        handler: Handler::Session(cluster::nodes::slots),
        ..CLUSTER_TOLD
    },
    Command {
        name: "cluster|shards",
        summary: "The primaries with their slots and replicas.",
        handler: Handler::Session(cluster::nodes::shards),
        ..CLUSTER_TOLD
    },
    Command {
        name: "cluster|nodes",
        summary: "All nodes, a line each.",
        handler: Handler::Session(cluster::nodes::nodes),
        ..CLUSTER_TOLD
    },
    Command {
        name: "cluster|info",
        summary: "How the cluster is.",
        handler: Handler::Session(cluster::nodes::info),
        ..CLUSTER_TOLD
    },
    Command {
        name: "cluster|myid",
        complexity: CONSTANT,
        summary: "The id of this node.",
        handler: Handler::Session(cluster::nodes::my_id),
        ..CLUSTER_TOLD
    },
    Command {
        name: "cluster|myshardid",
        complexity: CONSTANT,
        summary: "What this node and those with the same slots are called together.",
        handler: Handler::Session(cluster::nodes::my_shard_id),
        ..CLUSTER_TOLD
    },
    Command {
        name: "cluster|countkeysinslot",
        arity: 3,
        route: Route::Slot,
        complexity: "O(N) with N the keys of the slot",
        summary: "How many keys of a slot this node holds.",
        arguments: args::SLOT,
        handler: Handler::Key(cluster::slot_keys::count),
        ..CLUSTER_TOLD
    },
    Command {
        name: "cluster|getkeysinslot",
        arity: 4,
        route: Route::Slot,
        complexity: "O(N) with N the keys that are asked for",
        summary: "Keys of a slot that this node holds, `count` at most.",
        arguments: args::SLOT_AND_COUNT,
        handler: Handler::Key(cluster::slot_keys::get),
        ..CLUSTER_TOLD
    },
    Command {
        name: "cluster|replicas",
        arity: 3,
        summary: "The replicas of a primary, a line each.",
        arguments: args::NODE,
        handler: Handler::Session(cluster::nodes::replicas),
        ..CLUSTER_TOLD
    },
    Command {
        name: "cluster|slaves",
        arity: 3,
        summary: "The older name of CLUSTER REPLICAS.",
        arguments: args::NODE,
        handler: Handler::Session(cluster::nodes::replicas),
        ..CLUSTER_TOLD
    },
    Command {
        name: "cluster|links",
        summary: "The links to and from the nodes that are heard.",
        handler: Handler::Session(cluster::nodes::links),
        ..CLUSTER_TOLD
    },
    Command {
        name: "cluster|count-failure-reports",
        arity: 3,
        summary: "1 if the leader does not hear a node, else 0.",
        arguments: args::NODE,
        handler: Handler::Session(cluster::nodes::failure_reports),
        ..CLUSTER_TOLD
    },
    Command {
        name: "cluster|saveconfig",
        flags: ADMIN,
        complexity: CONSTANT,
        categories: &["@admin", "@slow", "@dangerous"],
        summary: "Nothing to do: what is decided is on disk.",
        handler: Handler::Session(cluster::nodes::save_config),
        ..CLUSTER_TOLD
    },
    Command {
        name: "cluster|meet",
        arity: -4,
        complexity: CONSTANT,
        summary: "This node and the one there become one cluster.",
        arguments: args::MEET,
        handler: Handler::Session(cluster::wish::meet),
        ..CLUSTER_CHANGED
    },
    Command {
        name: "cluster|addslots",
        summary: "This node serves slots that nobody serves.",
        arguments: args::SLOTS,
        handler: Handler::Session(cluster::wish::add_slots),
        ..CLUSTER_CHANGED
    },
    Command {
        name: "cluster|addslotsrange",
        arity: -4,
        summary: "This node serves ranges of slots that nobody serves.",
        arguments: args::SLOT_RANGES,
        handler: Handler::Session(cluster::wish::add_slots_range),
        ..CLUSTER_CHANGED
    },
    Command {
        name: "cluster|delslots",
        summary: "Nobody serves slots of this node any more.",
        arguments: args::SLOTS,
        handler: Handler::Session(cluster::wish::del_slots),
        ..CLUSTER_CHANGED
    },
    Command {
        name: "cluster|delslotsrange",
        arity: -4,
        summary: "Nobody serves ranges of slots of this node any more.",
        arguments: args::SLOT_RANGES,
        handler: Handler::Session(cluster::wish::del_slots_range),
        ..CLUSTER_CHANGED
    },
    Command {
        name: "cluster|replicate",
        arity: 3,
        complexity: CONSTANT,
        summary: "This node follows a primary.",
        arguments: args::NODE,
        handler: Handler::Session(cluster::wish::replicate),
        ..CLUSTER_CHANGED
    },
    Command {
        name: "cluster|failover",
        arity: -2,
        complexity: CONSTANT,
        summary: "This replica takes over from its primary.",
        arguments: args::FAILOVER,
        handler: Handler::Session(cluster::wish::fail_over),
        ..CLUSTER_CHANGED
    },
    Command {
        name: "cluster|set-config-epoch",
        arity: 3,
        complexity: CONSTANT,
        summary: "Gives a node that knows no other a configuration epoch.",
        arguments: args::EPOCH,
        handler: Handler::Session(cluster::wish::set_config_epoch),
        ..CLUSTER_CHANGED
    },
    Command {
        name: "cluster|bumpepoch",
        arity: 2,
        complexity: CONSTANT,
        summary: "This node has the highest configuration epoch.",
        handler: Handler::Session(cluster::wish::bump_epoch),
        ..CLUSTER_CHANGED
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
        name: "memory|stats",
        arity: 2,
        route: Route::Every,
        summary: "What memory is used for.",
        handler: Handler::Spread(memory::held_part, memory::stats_merge),
        ..SERVER
    },
    Command {
        name: "memory|doctor",
        arity: 2,
        route: Route::Every,
        summary: "What to look at about memory, in words.",
        handler: Handler::Spread(memory::held_part, memory::doctor_merge),
        ..SERVER
    },
    Command {
        name: "memory|purge",
        arity: 2,
        summary: "Does nothing: freed memory is kept for new keys and goes back as the allocator sees fit.",
        handler: Handler::Session(memory::purge),
        ..SERVER
    },
    Command {
        name: "memory|malloc-stats",
        arity: 2,
        summary: "Says that the allocator has no report of its own.",
        handler: Handler::Session(memory::malloc_stats),
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

const SLOWLOG: &[Command] = &[
    Command {
        name: "slowlog|get",
        arity: -2,
        route: Route::Every,
        summary: "Commands that took long, newest first: number, time, microseconds, arguments, client, name.",
        complexity: "O(N) with N the entries",
        arguments: args::COUNT,
        handler: Handler::Spread(slowlog::get_part, slowlog::get_merge),
        ..ADMINISTRATION
    },
    Command {
        name: "slowlog|len",
        arity: 2,
        route: Route::Every,
        summary: "How many commands the log holds.",
        handler: Handler::Spread(slowlog::len_part, slowlog::len_merge),
        ..ADMINISTRATION
    },
    Command {
        name: "slowlog|reset",
        arity: 2,
        route: Route::Every,
        summary: "Empties the log.",
        complexity: "O(N) with N the entries",
        handler: Handler::Spread(slowlog::reset_part, slowlog::ok_merge),
        ..ADMINISTRATION
    },
    Command { name: "slowlog|help", ..HELP },
];

const LATENCY: &[Command] = &[
    Command {
        name: "latency|latest",
        arity: 2,
        route: Route::Every,
        summary: "The last sample of each event, and the longest ever.",
        handler: Handler::Spread(latency::look_part, latency::latest_merge),
        ..ADMINISTRATION
    },
    Command {
        name: "latency|history",
        arity: 3,
        route: Route::Every,
        summary: "The samples of an event.",
        arguments: args::EVENT,
        handler: Handler::Spread(latency::look_part, latency::history_merge),
        ..ADMINISTRATION
    },
    Command {
        name: "latency|reset",
        arity: -2,
        route: Route::Every,
        summary: "Forgets the samples of some events, or of all.",
        arguments: args::EVENTS,
        handler: Handler::Spread(latency::reset_part, latency::reset_merge),
        ..ADMINISTRATION
    },
    Command {
        name: "latency|graph",
        arity: 3,
        route: Route::Every,
        summary: "The samples of an event as bars.",
        arguments: args::EVENT,
        handler: Handler::Spread(latency::look_part, latency::graph_merge),
        ..ADMINISTRATION
    },
    Command {
        name: "latency|doctor",
        arity: 2,
        route: Route::Every,
        summary: "What the samples say, in words.",
        handler: Handler::Spread(latency::look_part, latency::doctor_merge),
        ..ADMINISTRATION
    },
    Command { name: "latency|help", ..HELP },
];

const OBJECT: &[Command] = &[
    Command {
        name: "object|encoding",
        arity: 3,
        flags: Flags::READONLY,
        keys: Keys::SECOND,
        route: Route::Keys,
        categories: &["@keyspace", "@read", "@slow"],
        group: "generic",
        summary: "How a key's value is kept.",
        arguments: args::KEY,
        handler: Handler::Key(object::encoding),
        ..SERVER
    },
    Command {
        name: "object|refcount",
        arity: 3,
        flags: Flags::READONLY,
        keys: Keys::SECOND,
        route: Route::Keys,
        categories: &["@keyspace", "@read", "@slow"],
        group: "generic",
        summary: "References to a key's value: always one.",
        arguments: args::KEY,
        handler: Handler::Key(object::refcount),
        ..SERVER
    },
    Command {
        name: "object|idletime",
        arity: 3,
        flags: Flags::READONLY,
        keys: Keys::SECOND,
        route: Route::Keys,
        categories: &["@keyspace", "@read", "@slow"],
        group: "generic",
        summary: "Not tracked: an error that says so.",
        arguments: args::KEY,
        handler: Handler::Key(object::idletime),
        ..SERVER
    },
    Command {
        name: "object|freq",
        arity: 3,
        flags: Flags::READONLY,
        keys: Keys::SECOND,
        route: Route::Keys,
        categories: &["@keyspace", "@read", "@slow"],
        group: "generic",
        summary: "Not tracked: an error that says so. RL.TOP names the busiest keys.",
        arguments: args::KEY,
        handler: Handler::Key(object::freq),
        ..SERVER
    },
    Command { name: "object|help", group: "generic", ..HELP },
];

const ACL: &[Command] = &[
    Command {
        name: "acl|whoami",
        arity: 2,
        summary: "This connection's user.",
        handler: Handler::Session(acl::whoami),
        ..SERVER
    },
    Command {
        name: "acl|users",
        arity: 2,
        summary: "The names of all users.",
        handler: Handler::Session(acl::users),
        ..ADMINISTRATION
    },
    Command {
        name: "acl|list",
        arity: 2,
        summary: "All users with their rules.",
        handler: Handler::Session(acl::list),
        ..ADMINISTRATION
    },
    Command {
        name: "acl|getuser",
        arity: 3,
        summary: "What a user may do.",
        arguments: args::USER,
        handler: Handler::Session(acl::getuser),
        ..ADMINISTRATION
    },
    Command {
        name: "acl|cat",
        arity: -2,
        summary: "The categories of commands, or the commands of one.",
        arguments: args::CATEGORY,
        handler: Handler::Session(acl::cat),
        ..SERVER
    },
    Command {
        name: "acl|genpass",
        arity: -2,
        summary: "A random password.",
        arguments: args::BITS,
        handler: Handler::Session(acl::genpass),
        ..SERVER
    },
    Command {
        name: "acl|setuser",
        arity: -3,
        summary: "Comes with users beside `default`: until then an error that says so.",
        arguments: args::USER_RULES,
        handler: Handler::Session(acl::not_yet),
        ..ADMINISTRATION
    },
    Command {
        name: "acl|deluser",
        arity: -3,
        summary: "Comes with users beside `default`: until then an error that says so.",
        arguments: args::USERS,
        handler: Handler::Session(acl::not_yet),
        ..ADMINISTRATION
    },
    Command {
        name: "acl|load",
        arity: 2,
        summary: "Comes with users beside `default`: until then an error that says so.",
        handler: Handler::Session(acl::not_yet),
        ..ADMINISTRATION
    },
    Command {
        name: "acl|save",
        arity: 2,
        summary: "Comes with users beside `default`: until then an error that says so.",
        handler: Handler::Session(acl::not_yet),
        ..ADMINISTRATION
    },
    Command {
        name: "acl|log",
        arity: -2,
        summary: "Comes with users beside `default`: until then an error that says so.",
        arguments: args::ACL_LOG,
        handler: Handler::Session(acl::not_yet),
        ..ADMINISTRATION
    },
    Command {
        name: "acl|dryrun",
        arity: -4,
        summary: "Comes with users beside `default`: until then an error that says so.",
        arguments: args::USER_CALL,
        handler: Handler::Session(acl::not_yet),
        ..ADMINISTRATION
    },
    Command { name: "acl|help", ..HELP },
];
