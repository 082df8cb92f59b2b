//! Why a call on a key was refused, and the one place that turns it into RESP text.

use std::fmt;
use tollgate_limits::NumberError;
use tollgate_store::{ChargeError, OutOfMemory};

/// Why a call changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The key holds something else.
    WrongType,
    /// The call needed more memory, and memory is full.
    OutOfMemory,
    /// An argument is no such number: its name, and what is wrong.
    Number(&'static str, NumberError),
    /// Anything else about the arguments, in words.
    Syntax(String),
}

impl From<ChargeError> for Failure {
    fn from(error: ChargeError) -> Failure {
        match error {
            ChargeError::WrongType => Failure::WrongType,
            ChargeError::OutOfMemory => Failure::OutOfMemory,
        }
    }
}

impl From<OutOfMemory> for Failure {
    fn from(OutOfMemory: OutOfMemory) -> Failure {
        Failure::OutOfMemory
    }
}

impl fmt::Display for Failure {
    /// The whole text of the error reply, with its code.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::WrongType => {
                formatter.write_str("WRONGTYPE Operation against a key holding the wrong kind of value")
            }
            Failure::OutOfMemory => formatter.write_str("OOM command not allowed when used memory > 'maxmemory'."),
            Failure::Number(argument, error) => write!(formatter, "ERR {argument} {error}"),
            Failure::Syntax(text) => write!(formatter, "ERR {text}"),
        }
    }
}
