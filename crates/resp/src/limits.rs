//! Every bound on a request, in one place.
//!
//! A bound is checked against what a client *declares*, before the bytes come, so that refusing is as cheap for a
//! terabyte as for a byte.

use crate::error::ProtocolError;
use crate::short::{SHORT_ARGUMENT_BYTES_MAX, SHORT_ARGUMENTS_MAX, SHORT_COMMAND_BYTES_MAX};

/// What the parser accepts from one client. Anything above a bound is refused as soon as it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// The most arguments of one command, its name included.
    pub arguments_max: usize,
    /// The most bytes of one argument.
    pub bulk_bytes_max: usize,
    /// The most bytes of one command as it stands on the wire, headers and line ends included.
    pub command_bytes_max: usize,
    /// The most bytes of an inline command, its line feed not counted.
    pub inline_bytes_max: usize,
    /// Whether the client has shown who it is. It only chooses the wording of a refusal, as Redis words it.
    pub authenticated: bool,
}

impl RequestLimits {
    /// For a client that has not authenticated yet: enough for `HELLO 3 AUTH user password SETNAME name`, and little
    /// enough that a thousand such sockets cannot hold more than 16 MiB.
    pub const UNAUTHENTICATED: RequestLimits = RequestLimits {
        arguments_max: 10,
        bulk_bytes_max: 4 * 1024,
        command_bytes_max: 16 * 1024,
        inline_bytes_max: 4 * 1024,
        authenticated: false,
    };

    /// For a client that may run commands. 16,386 arguments is `CLUSTER ADDSLOTS` with every slot, which is what
    /// `redis-cli --cluster create` sends to the first of its nodes.
    pub const AUTHENTICATED: RequestLimits = RequestLimits {
        arguments_max: 16_386,
        bulk_bytes_max: 64 * 1024,
        command_bytes_max: 1024 * 1024,
        inline_bytes_max: 64 * 1024,
        authenticated: true,
    };

    /// Whether every short command is within every bound.
    #[inline]
    pub(crate) fn allow_short_commands(&self) -> bool {
        self.arguments_max >= SHORT_ARGUMENTS_MAX
            && self.bulk_bytes_max >= SHORT_ARGUMENT_BYTES_MAX
            && self.command_bytes_max >= SHORT_COMMAND_BYTES_MAX
    }

    /// The refusal of a command with more than `arguments_max` arguments.
    pub(crate) fn too_many_arguments(&self) -> ProtocolError {
        match self.authenticated {
            true => ProtocolError::InvalidMultibulkLength,
            false => ProtocolError::UnauthenticatedMultibulkLength,
        }
    }

    /// The refusal of an argument longer than `bulk_bytes_max`.
    pub(crate) fn too_long_argument(&self) -> ProtocolError {
        match self.authenticated {
            true => ProtocolError::TooLongBulk { bytes_max: self.bulk_bytes_max },
            false => ProtocolError::UnauthenticatedBulkLength,
        }
    }
}

const _: () = {
    let (before, after) = (RequestLimits::UNAUTHENTICATED, RequestLimits::AUTHENTICATED);
    assert!(before.arguments_max <= after.arguments_max && before.bulk_bytes_max <= after.bulk_bytes_max);
    assert!(before.inline_bytes_max <= before.command_bytes_max && after.inline_bytes_max <= after.command_bytes_max);
    assert!(after.bulk_bytes_max < after.command_bytes_max && after.command_bytes_max < u32::MAX as usize);
};
