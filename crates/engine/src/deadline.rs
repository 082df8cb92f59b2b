//! Times that callers write: seconds or milliseconds, from now or since 1970, made into times of the core.
//!
//! The problem: callers give wall times and lengths of time, and the core's timeline is neither: it never steps, and a
//! restart or a source may have moved it. The idea: a length counts from the call's own time, a wall time is converted
//! once, with the offset of the wall clock at that moment, and from then on only the core's timeline counts.

use crate::call::Call;
use crate::core::Core;
use crate::failure::Failure;
use crate::numbers::parse_integer;
use tollgate_limits::Micros;

const MS_MICROS: i128 = 1_000;
const SECOND_MS: i64 = 1_000;

/// How a time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Seconds from now.
    Ex,
    /// Milliseconds from now.
    Px,
    /// Unix time in seconds.
    Exat,
    /// Unix time in milliseconds.
    Pxat,
}

impl Written {
    /// The way that an option names, in any case.
    pub fn from_word(word: &[u8]) -> Option<Written> {
        let words = [("EX", Written::Ex), ("PX", Written::Px), ("EXAT", Written::Exat), ("PXAT", Written::Pxat)];
        words.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes())).map(|(_, written)| written)
    }

    fn is_absolute(self) -> bool {
        matches!(self, Written::Exat | Written::Pxat)
    }

    fn ms_in_one(self) -> i64 {
        if matches!(self, Written::Ex | Written::Exat) { SECOND_MS } else { 1 }
    }
}

/// When a value is to expire, in microseconds of the core's timeline. It may lie before the timeline's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(i128);

impl Deadline {
    /// The time that `argument` stands for in `command`. Any whole number, also one that has passed.
    ///
    /// # Errors
    /// What is no integer, or in milliseconds of the wall clock no integer of 64 bits.
    pub fn read(
        core: &Core,
        call: &Call<'_>,
        written: Written,
        argument: &[u8],
        command: &str,
    ) -> Result<Deadline, Failure> {
        let invalid = || Failure::Syntax(format!("invalid expire time in '{command}' command"));
        let milliseconds = parse_integer(argument)?.checked_mul(written.ms_in_one()).ok_or_else(invalid)?;
        let offset_micros = core.settings.process.wall_offset_micros();
        if written.is_absolute() {
            return Ok(Deadline(i128::from(milliseconds) * MS_MICROS - i128::from(offset_micros)));
        }
        let wall_ms = wall_ms_floor(call.now, offset_micros);
        milliseconds.checked_add(wall_ms).ok_or_else(invalid)?;
        Ok(Deadline(i128::from(call.now) + i128::from(milliseconds) * MS_MICROS))
    }

    /// As [`Deadline::read`], for commands that take only numbers above zero.
    ///
    /// # Errors
    /// As [`Deadline::read`], and zero and negative numbers.
    pub fn read_positive(
        core: &Core,
        call: &Call<'_>,
        written: Written,
        argument: &[u8],
        command: &str,
    ) -> Result<Deadline, Failure> {
        if parse_integer(argument)? <= 0 {
            return Err(Failure::Syntax(format!("invalid expire time in '{command}' command")));
        }
        Deadline::read(core, call, written, argument, command)
    }

    /// Whether what expires then is gone at `now`.
    pub fn has_passed(self, now: Micros) -> bool {
        self.0 <= i128::from(now)
    }

    /// The time that a record keeps: the nearest that it can hold. A time beyond is kept as the largest.
    pub fn kept(self) -> Micros {
        Micros::try_from(self.0.max(0)).unwrap_or(Micros::MAX)
    }
}

/// The Unix time in milliseconds at which a record of this core expires: the nearest, so that a time that was given in
/// milliseconds comes back as it was, though the wall clock's offset has moved by some microseconds since.
pub fn expiry_wall_ms(expires_at: Micros, core: &Core) -> i128 {
    let wall_micros = i128::from(expires_at) + i128::from(core.settings.process.wall_offset_micros());
    (wall_micros + MS_MICROS / 2).div_euclid(MS_MICROS)
}

fn wall_ms_floor(now: Micros, offset_micros: i64) -> i64 {
    let wall_ms = (i128::from(now) + i128::from(offset_micros)).div_euclid(MS_MICROS);
    i64::try_from(wall_ms).unwrap_or(i64::MAX)
}
