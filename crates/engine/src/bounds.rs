//! Every bound of the command level, named once. (The wire's bounds lie in `tollgate_resp::RequestLimits`.)

/// The longest key, in bytes. Longer ones are refused with an error that says so.
pub const KEY_BYTES_MAX: usize = 1024;
/// The longest value of a plain key, in bytes, unless configured. APPEND refuses to make a longer one.
pub const VALUE_BYTES_MAX_DEFAULT: usize = 64 * 1024;
/// The most limits in one RL.ALL.
pub const ALL_GROUPS_MAX: usize = 64;
/// The top of RL.LOG's limit unless configured: a log keeps up to one entry for each unit.
pub const LOG_LIMIT_MAX_DEFAULT: u64 = 100_000;
/// A reply that would pass this many bytes is refused; a client whose unread output does is ended.
pub const OUTPUT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Above this much unread output, a connection is not read.
pub const OUTPUT_BYTES_PAUSE: usize = 1024 * 1024;
/// A client that has not authenticated gets at most this much output in one batch.
pub const OUTPUT_BYTES_MAX_UNAUTHENTICATED: usize = 4 * 1024;
/// The longest client name or library name.
pub const CLIENT_NAME_BYTES_MAX: usize = 128;
/// The most keys that one step of SCAN visits, whatever its COUNT.
pub const SCAN_COUNT_MAX: usize = 100_000;
/// A step of SCAN ends once the keys that it visits have this many bytes, whatever its COUNT.
pub const SCAN_BYTES_MAX: usize = 1024 * 1024;
/// The most keys that RL.TOP answers.
pub const TOP_KEYS_MAX: usize = 1000;
/// How far RL.CLOCK SET can move the test clock: the year 9999.
pub const CLOCK_MICROS_MAX: u64 = 253_402_300_800 * 1_000_000;
/// The longest DEBUG SLEEP.
pub const SLEEP_SECONDS_MAX: u64 = 60;

const _: () = assert!(OUTPUT_BYTES_PAUSE < OUTPUT_BYTES_MAX);
const _: () = assert!(KEY_BYTES_MAX < u16::MAX as usize);
