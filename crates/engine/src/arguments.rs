//! The arguments of the rows, as COMMAND DOCS and the documentation name them.

mod values;

use crate::command::{Argument, ArgumentKind};
pub use values::*;

const fn plain(name: &'static str, kind: ArgumentKind) -> Argument {
    Argument { name, kind, token: "", optional: false, multiple: false }
}

const fn worded(token: &'static str, name: &'static str, kind: ArgumentKind) -> Argument {
    Argument { name, kind, token, optional: true, multiple: false }
}

const fn word(token: &'static str, name: &'static str) -> Argument {
    Argument { name, kind: ArgumentKind::Token, token, optional: false, multiple: false }
}

const fn optional(argument: Argument) -> Argument {
    Argument { optional: true, ..argument }
}

const fn many(argument: Argument) -> Argument {
    Argument { multiple: true, ..argument }
}

const KEY_ARGUMENT: Argument = plain("key", ArgumentKind::Key);
const COST: Argument = worded("COST", "units", ArgumentKind::Integer);
const MODE: Argument = optional(plain(
    "mode",
    ArgumentKind::OneOf(&[word("PEEK", "peek"), word("PARTIAL", "partial"), word("REFUND", "refund")]),
));

/// A key.
pub const KEY: &[Argument] = &[KEY_ARGUMENT];
/// One key or more.
pub const KEYS: &[Argument] = &[many(KEY_ARGUMENT)];
/// CLUSTER KEYSLOT: a key by its name only, since nothing is done to it.
pub const KEY_NAME: &[Argument] = &[plain("key", ArgumentKind::Text)];
/// RL.SLIDE, RL.FIXED, RL.LOG.
pub const WINDOWED: &[Argument] =
    &[KEY_ARGUMENT, plain("limit", ArgumentKind::Integer), plain("window", ArgumentKind::Text), COST, MODE];
/// RL.TOKEN.
pub const BUCKET: &[Argument] =
    &[KEY_ARGUMENT, plain("capacity", ArgumentKind::Integer), plain("rate", ArgumentKind::Text), COST, MODE];
/// RL.LEAK.
pub const QUEUE: &[Argument] = &[
    KEY_ARGUMENT,
    plain("capacity", ArgumentKind::Integer),
    plain("rate", ArgumentKind::Text),
    COST,
    optional(word("PEEK", "peek")),
];
/// RL.ALL.
pub const GROUPS: &[Argument] = &[many(plain(
    "group",
    ArgumentKind::Block(&[
        KEY_ARGUMENT,
        plain(
            "algorithm",
            ArgumentKind::OneOf(&[
                word("SLIDE", "slide"),
                word("TOKEN", "token"),
                word("FIXED", "fixed"),
                word("LOG", "log"),
                word("LEAK", "leak"),
            ]),
        ),
        plain("limit-or-capacity", ArgumentKind::Integer),
        plain("window-or-rate", ArgumentKind::Text),
        plain("cost", ArgumentKind::Integer),
    ]),
))];
/// RL.CLOCK.
pub const CLOCK: &[Argument] = &[optional(plain(
    "move",
    ArgumentKind::OneOf(&[
        Argument { name: "unix-time", kind: ArgumentKind::Text, token: "SET", optional: false, multiple: false },
        Argument { name: "duration", kind: ArgumentKind::Text, token: "ADVANCE", optional: false, multiple: false },
    ]),
))];
/// RL.TOP.
pub const TOP: &[Argument] = &[
    plain("which", ArgumentKind::OneOf(&[word("DENIED", "denied"), word("CHECKED", "checked"), word("NEAR", "near")])),
    optional(plain("n", ArgumentKind::Integer)),
];
/// CL.THROTTLE.
pub const THROTTLE: &[Argument] = &[
    KEY_ARGUMENT,
    plain("max_burst", ArgumentKind::Integer),
    plain("count", ArgumentKind::Integer),
    plain("period", ArgumentKind::Integer),
    optional(plain("quantity", ArgumentKind::Integer)),
];
/// SCAN.
pub const SCAN: &[Argument] = &[
    plain("cursor", ArgumentKind::Integer),
    worded("MATCH", "pattern", ArgumentKind::Pattern),
    worded("COUNT", "count", ArgumentKind::Integer),
    worded("TYPE", "type", ArgumentKind::Text),
];
/// KEYS.
pub const PATTERN: &[Argument] = &[plain("pattern", ArgumentKind::Pattern)];
/// CONFIG SET.
pub const SETTINGS: &[Argument] = &[many(plain(
    "data",
    ArgumentKind::Block(&[plain("parameter", ArgumentKind::Text), plain("value", ArgumentKind::Text)]),
))];
/// SLOWLOG GET.
pub const COUNT: &[Argument] = &[optional(plain("count", ArgumentKind::Integer))];
/// LATENCY HISTORY and GRAPH.
pub const EVENT: &[Argument] = &[plain("event", ArgumentKind::Text)];
/// LATENCY RESET.
pub const EVENTS: &[Argument] = &[optional(many(plain("event", ArgumentKind::Text)))];
/// ACL GETUSER and the like.
pub const USER: &[Argument] = &[plain("username", ArgumentKind::Text)];
/// ACL DELUSER.
pub const USERS: &[Argument] = &[many(plain("username", ArgumentKind::Text))];
/// ACL SETUSER.
pub const USER_RULES: &[Argument] =
    &[plain("username", ArgumentKind::Text), optional(many(plain("rule", ArgumentKind::Text)))];
/// ACL CAT.
pub const CATEGORY: &[Argument] = &[optional(plain("category", ArgumentKind::Text))];
/// ACL GENPASS.
pub const BITS: &[Argument] = &[optional(plain("bits", ArgumentKind::Integer))];
/// ACL LOG.
pub const ACL_LOG: &[Argument] = &[optional(plain(
    "operation",
    ArgumentKind::OneOf(&[plain("count", ArgumentKind::Integer), word("RESET", "reset")]),
))];
/// ACL DRYRUN.
pub const USER_CALL: &[Argument] = &[
    plain("username", ArgumentKind::Text),
    plain("command", ArgumentKind::Text),
    optional(many(plain("arg", ArgumentKind::Text))),
];
const SLOT_ARGUMENT: Argument = plain("slot", ArgumentKind::Integer);
/// CLUSTER COUNTKEYSINSLOT.
pub const SLOT: &[Argument] = &[SLOT_ARGUMENT];
/// CLUSTER GETKEYSINSLOT.
pub const SLOT_AND_COUNT: &[Argument] = &[SLOT_ARGUMENT, plain("count", ArgumentKind::Integer)];
/// CLUSTER ADDSLOTS and DELSLOTS.
pub const SLOTS: &[Argument] = &[many(SLOT_ARGUMENT)];
/// CLUSTER ADDSLOTSRANGE and DELSLOTSRANGE.
pub const SLOT_RANGES: &[Argument] = &[many(plain(
    "range",
    ArgumentKind::Block(&[plain("start-slot", ArgumentKind::Integer), plain("end-slot", ArgumentKind::Integer)]),
))];
/// CLUSTER REPLICATE, REPLICAS, COUNT-FAILURE-REPORTS.
pub const NODE: &[Argument] = &[plain("node-id", ArgumentKind::Text)];
/// CLUSTER MEET.
pub const MEET: &[Argument] = &[
    plain("ip", ArgumentKind::Text),
    plain("port", ArgumentKind::Integer),
    optional(plain("cluster-bus-port", ArgumentKind::Integer)),
];
/// CLUSTER FAILOVER.
pub const FAILOVER: &[Argument] =
    &[optional(plain("options", ArgumentKind::OneOf(&[word("FORCE", "force"), word("TAKEOVER", "takeover")])))];
/// CLUSTER SET-CONFIG-EPOCH.
pub const EPOCH: &[Argument] = &[plain("config-epoch", ArgumentKind::Integer)];
/// REPLICAOF and SLAVEOF.
pub const PRIMARY: &[Argument] = &[plain("host", ArgumentKind::Text), plain("port", ArgumentKind::Integer)];
/// RL.FLOW.
pub const FLOW: &[Argument] = &[
    plain("version", ArgumentKind::Integer),
    plain("core", ArgumentKind::Integer),
    plain("port", ArgumentKind::Integer),
    optional(plain("run-id", ArgumentKind::Text)),
    optional(plain("telling", ArgumentKind::Integer)),
    optional(plain("number", ArgumentKind::Integer)),
];
/// BGSAVE.
pub const SCHEDULE: &[Argument] = &[optional(word("SCHEDULE", "schedule"))];
/// WAIT.
pub const WAIT: &[Argument] = &[plain("numreplicas", ArgumentKind::Integer), plain("timeout", ArgumentKind::Integer)];
/// CONFIG GET.
pub const PATTERNS: &[Argument] = &[many(plain("parameter", ArgumentKind::Text))];
/// FLUSHDB and FLUSHALL.
pub const FLUSH: &[Argument] =
    &[optional(plain("flush-type", ArgumentKind::OneOf(&[word("ASYNC", "async"), word("SYNC", "sync")])))];
/// PING.
pub const MESSAGE_OPTIONAL: &[Argument] = &[optional(plain("message", ArgumentKind::Text))];
/// ECHO.
pub const MESSAGE: &[Argument] = &[plain("message", ArgumentKind::Text)];
/// AUTH.
pub const AUTH: &[Argument] = &[optional(plain("username", ArgumentKind::Text)), plain("password", ArgumentKind::Text)];
/// HELLO.
pub const HELLO: &[Argument] = &[
    optional(plain("protover", ArgumentKind::Integer)),
    Argument {
        name: "auth",
        kind: ArgumentKind::Block(&[plain("username", ArgumentKind::Text), plain("password", ArgumentKind::Text)]),
        token: "AUTH",
        optional: true,
        multiple: false,
    },
    worded("SETNAME", "clientname", ArgumentKind::Text),
];
/// SELECT.
pub const INDEX: &[Argument] = &[plain("index", ArgumentKind::Integer)];
/// CLIENT SETNAME.
pub const CONNECTION_NAME: &[Argument] = &[plain("connection-name", ArgumentKind::Text)];
/// CLIENT SETINFO.
pub const CLIENT_INFO: &[Argument] = &[plain(
    "attr",
    ArgumentKind::OneOf(&[
        Argument { name: "libname", kind: ArgumentKind::Text, token: "LIB-NAME", optional: false, multiple: false },
        Argument { name: "libver", kind: ArgumentKind::Text, token: "LIB-VER", optional: false, multiple: false },
    ]),
)];
/// CLIENT LIST.
pub const CLIENT_LIST: &[Argument] = &[
    worded("TYPE", "client-type", ArgumentKind::Text),
    Argument { name: "client-id", kind: ArgumentKind::Integer, token: "ID", optional: true, multiple: true },
];
/// CLIENT KILL.
pub const CLIENT_KILL: &[Argument] = &[plain(
    "filter",
    ArgumentKind::OneOf(&[
        plain("ip:port", ArgumentKind::Text),
        many(plain(
            "new-format",
            ArgumentKind::OneOf(&[
                worded("ID", "client-id", ArgumentKind::Integer),
                worded("TYPE", "client-type", ArgumentKind::Text),
                worded("USER", "username", ArgumentKind::Text),
                worded("ADDR", "addr", ArgumentKind::Text),
                worded("LADDR", "laddr", ArgumentKind::Text),
                worded("SKIPME", "yes/no", ArgumentKind::Text),
                worded("MAXAGE", "seconds", ArgumentKind::Integer),
            ]),
        )),
    ]),
)];
/// CLIENT PAUSE.
pub const CLIENT_PAUSE: &[Argument] = &[
    plain("timeout", ArgumentKind::Integer),
    optional(plain("mode", ArgumentKind::OneOf(&[word("WRITE", "write"), word("ALL", "all")]))),
];
/// CLIENT REPLY.
pub const ON_OFF_SKIP: &[Argument] =
    &[plain("action", ArgumentKind::OneOf(&[word("ON", "on"), word("OFF", "off"), word("SKIP", "skip")]))];
const SWITCH: Argument = plain("enabled", ArgumentKind::OneOf(&[word("ON", "on"), word("OFF", "off")]));
/// CLIENT NO-EVICT and NO-TOUCH.
pub const ON_OFF: &[Argument] = &[SWITCH];
/// CLIENT TRACKING.
pub const CLIENT_TRACKING: &[Argument] = &[
    SWITCH,
    worded("REDIRECT", "client-id", ArgumentKind::Integer),
    many(worded("PREFIX", "prefix", ArgumentKind::Text)),
    optional(word("BCAST", "bcast")),
    optional(word("OPTIN", "optin")),
    optional(word("OPTOUT", "optout")),
    optional(word("NOLOOP", "noloop")),
];
/// CLIENT CACHING.
pub const YES_NO: &[Argument] = &[plain("mode", ArgumentKind::OneOf(&[word("YES", "yes"), word("NO", "no")]))];
/// CLIENT UNBLOCK.
pub const CLIENT_UNBLOCK: &[Argument] = &[
    plain("client-id", ArgumentKind::Integer),
    optional(plain("unblock-type", ArgumentKind::OneOf(&[word("TIMEOUT", "timeout"), word("ERROR", "error")]))),
];
/// DEBUG SLEEP.
pub const SECONDS: &[Argument] = &[plain("seconds", ArgumentKind::Text)];
/// COMMAND INFO and COMMAND DOCS.
pub const COMMAND_NAMES: &[Argument] = &[optional(many(plain("command-name", ArgumentKind::Text)))];
/// COMMAND LIST.
pub const COMMAND_FILTER: &[Argument] = &[Argument {
    name: "filterby",
    kind: ArgumentKind::OneOf(&[
        Argument { name: "module-name", kind: ArgumentKind::Text, token: "MODULE", optional: false, multiple: false },
        Argument { name: "category", kind: ArgumentKind::Text, token: "ACLCAT", optional: false, multiple: false },
        Argument { name: "pattern", kind: ArgumentKind::Pattern, token: "PATTERN", optional: false, multiple: false },
    ]),
    token: "FILTERBY",
    optional: true,
    multiple: false,
}];
/// COMMAND GETKEYS.
pub const COMMAND_CALL: &[Argument] =
    &[plain("command", ArgumentKind::Text), optional(many(plain("arg", ArgumentKind::Text)))];
/// INFO.
pub const SECTIONS: &[Argument] = &[optional(many(plain("section", ArgumentKind::Text)))];
/// SHUTDOWN.
pub const SHUTDOWN: &[Argument] = &[
    optional(plain("save-selector", ArgumentKind::OneOf(&[word("NOSAVE", "nosave"), word("SAVE", "save")]))),
    optional(word("NOW", "now")),
    optional(word("FORCE", "force")),
];
/// MEMORY USAGE.
pub const MEMORY_USAGE: &[Argument] = &[KEY_ARGUMENT, worded("SAMPLES", "count", ArgumentKind::Integer)];
/// RENAME.
pub const RENAME: &[Argument] = &[KEY_ARGUMENT, plain("newkey", ArgumentKind::Key)];
/// COPY.
pub const COPY: &[Argument] = &[
    plain("source", ArgumentKind::Key),
    plain("destination", ArgumentKind::Key),
    worded("DB", "destination-db", ArgumentKind::Integer),
    optional(word("REPLACE", "replace")),
];
/// MSET.
pub const PAIRS: &[Argument] =
    &[many(plain("data", ArgumentKind::Block(&[KEY_ARGUMENT, plain("value", ArgumentKind::Text)])))];
