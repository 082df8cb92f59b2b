//! The arguments of the commands on values and their expiry, and of the dialects.

use super::{KEY_ARGUMENT, optional, plain, word};
use crate::command::{Argument, ArgumentKind};

const fn number(token: &'static str, name: &'static str) -> Argument {
    Argument { token, ..plain(name, ArgumentKind::Integer) }
}

const EX: Argument = number("EX", "seconds");
const PX: Argument = number("PX", "milliseconds");
const EXAT: Argument = number("EXAT", "unix-time-seconds");
const PXAT: Argument = number("PXAT", "unix-time-milliseconds");
const PERSIST: Argument = word("PERSIST", "persist");
const VALUE_ARGUMENT: Argument = plain("value", ArgumentKind::Text);
const CONDITION: Argument = optional(plain(
    "condition",
    ArgumentKind::OneOf(&[word("NX", "nx"), word("XX", "xx"), word("GT", "gt"), word("LT", "lt")]),
));

/// SETNX, GETSET, APPEND.
pub const VALUE: &[Argument] = &[KEY_ARGUMENT, VALUE_ARGUMENT];
/// SET.
pub const SET: &[Argument] = &[
    KEY_ARGUMENT,
    VALUE_ARGUMENT,
    optional(plain("condition", ArgumentKind::OneOf(&[word("NX", "nx"), word("XX", "xx")]))),
    optional(word("GET", "get")),
    optional(plain("expiration", ArgumentKind::OneOf(&[EX, PX, EXAT, PXAT, word("KEEPTTL", "keepttl")]))),
];
/// SETEX.
pub const SETEX: &[Argument] = &[KEY_ARGUMENT, plain("seconds", ArgumentKind::Integer), VALUE_ARGUMENT];
/// PSETEX.
pub const PSETEX: &[Argument] = &[KEY_ARGUMENT, plain("milliseconds", ArgumentKind::Integer), VALUE_ARGUMENT];
/// GETEX.
pub const GETEX: &[Argument] =
    &[KEY_ARGUMENT, optional(plain("expiration", ArgumentKind::OneOf(&[EX, PX, EXAT, PXAT, PERSIST])))];
/// INCRBY.
pub const INCREMENT: &[Argument] = &[KEY_ARGUMENT, plain("increment", ArgumentKind::Integer)];
/// INCRBYFLOAT.
pub const INCREMENT_FLOAT: &[Argument] = &[KEY_ARGUMENT, plain("increment", ArgumentKind::Text)];
/// DECRBY.
pub const DECREMENT: &[Argument] = &[KEY_ARGUMENT, plain("decrement", ArgumentKind::Integer)];
/// EXPIRE.
pub const EXPIRE: &[Argument] = &[KEY_ARGUMENT, plain("seconds", ArgumentKind::Integer), CONDITION];
/// PEXPIRE.
pub const PEXPIRE: &[Argument] = &[KEY_ARGUMENT, plain("milliseconds", ArgumentKind::Integer), CONDITION];
/// EXPIREAT.
pub const EXPIREAT: &[Argument] = &[KEY_ARGUMENT, plain("unix-time-seconds", ArgumentKind::Integer), CONDITION];
/// PEXPIREAT.
pub const PEXPIREAT: &[Argument] = &[KEY_ARGUMENT, plain("unix-time-milliseconds", ArgumentKind::Integer), CONDITION];
/// INCREX.
pub const INCREX: &[Argument] = &[
    KEY_ARGUMENT,
    optional(plain(
        "increment",
        ArgumentKind::OneOf(&[
            Argument { token: "BYFLOAT", ..plain("float", ArgumentKind::Text) },
            number("BYINT", "integer"),
        ]),
    )),
    optional(Argument { token: "LBOUND", ..plain("lowerbound", ArgumentKind::Text) }),
    optional(Argument { token: "UBOUND", ..plain("upperbound", ArgumentKind::Text) }),
    optional(word("SATURATE", "saturate")),
    optional(plain("expiration", ArgumentKind::OneOf(&[EX, PX, EXAT, PXAT, PERSIST]))),
    optional(word("ENX", "enx")),
];
