//! What INCREX is asked, from its words: each option at most once, in any order and any case.

use crate::call::Call;
use crate::core::Core;
use crate::deadline::{Deadline, Written};
use crate::extended::Extended;
use crate::failure::Failure;
use crate::numbers::parse_integer;

/// One INCREX.
#[derive(Debug)]
pub struct Asked {
    /// How much is added, and what the sum must not pass.
    pub by: By,
    /// SATURATE: what would pass a bound goes as far as the bound.
    pub saturates: bool,
    /// What becomes of the time at which the key expires.
    pub lifetime: Lifetime,
}

/// An increment with its bounds.
#[derive(Debug)]
pub enum By {
    /// BYINT, and without either.
    Integer(i64, Bounds<i64>),
    /// BYFLOAT. Finite.
    Float(Extended, Bounds<Extended>),
}

/// The least and the largest value; the lower is not above the upper.
#[derive(Debug)]
pub struct Bounds<T> {
    /// LBOUND.
    pub lower: T,
    /// UBOUND.
    pub upper: T,
}

/// What becomes of the time at which the key expires.
#[derive(Clone, Copy, Debug)]
pub enum Lifetime {
    /// It stays.
    Kept,
    /// PERSIST: there is none from now on.
    Forever,
    /// This one.
    Until {
        /// When.
        deadline: Deadline,
        /// ENX: only for a key that does not expire yet.
        only_if_none: bool,
    },
}

/// The options as they stand in the call.
#[derive(Default)]
struct Words<'a> {
    integer: Option<&'a [u8]>,
    float: Option<&'a [u8]>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    until: Option<(Written, &'a [u8])>,
    saturates: bool,
    persists: bool,
    only_if_none: bool,
}

fn syntax_error() -> Failure {
    Failure::Syntax("syntax error".to_owned())
}

/// Reads a whole call.
///
/// # Errors
/// Redis's text for options that are unknown, given twice or exclude each other, for what is no number, for bounds the
/// wrong way round, and for times out of range.
pub fn read(core: &Core, call: &Call<'_>) -> Result<Asked, Failure> {
    let words = Words::read(call)?;
    let by = words.by()?;
    let lifetime = match words.until {
        Some((written, argument)) => Lifetime::Until {
            deadline: Deadline::read_positive(core, call, written, argument, "increx")?,
            only_if_none: words.only_if_none,
        },
        None if words.persists => Lifetime::Forever,
        None => Lifetime::Kept,
    };
    Ok(Asked { by, saturates: words.saturates, lifetime })
}

impl<'a> Words<'a> {
    fn read(call: &Call<'a>) -> Result<Words<'a>, Failure> {
        let mut words = Words::default();
        let mut position = 2;
        while let Some(word) = call.args.get(position) {
            let argument = call.args.get(position + 1);
            position += if words.take(word, argument)? { 2 } else { 1 };
        }
        let has_both = words.integer.is_some() && words.float.is_some();
        let is_contrary = words.persists && (words.until.is_some() || words.only_if_none);
        if has_both || is_contrary {
            return Err(syntax_error());
        }
        if words.only_if_none && words.until.is_none() {
            return Err(Failure::Syntax("ENX flag requires an expiration".to_owned()));
        }
        Ok(words)
    }

    /// Takes one option; whether its argument belongs to it.
    fn take(&mut self, word: &[u8], argument: Option<&'a [u8]>) -> Result<bool, Failure> {
        if let Some(written) = Written::from_word(word) {
            put(&mut self.until, argument.map(|argument| (written, argument)))?;
            return Ok(true);
        }
        match word.to_ascii_uppercase().as_slice() {
            b"BYINT" => put(&mut self.integer, argument)?,
            b"BYFLOAT" => put(&mut self.float, argument)?,
            b"LBOUND" => put(&mut self.lower, argument)?,
            b"UBOUND" => put(&mut self.upper, argument)?,
            b"SATURATE" => return raise(&mut self.saturates),
            b"PERSIST" => return raise(&mut self.persists),
            b"ENX" => return raise(&mut self.only_if_none),
            _ => return Err(syntax_error()),
        }
        Ok(true)
    }

    fn by(&self) -> Result<By, Failure> {
        if let Some(argument) = self.float {
            let change = float("Increment", argument)?;
            if change.is_infinite() {
                return Err(Failure::Syntax("BYFLOAT increment cannot be Infinity".to_owned()));
            }
            let (least, largest) = (Extended::MAX.negated(), Extended::MAX);
            return Ok(By::Float(change, self.bounds(float, least, largest)?));
        }
        let change = self.integer.map_or(Ok(1), |argument| integer("Increment", argument))?;
        Ok(By::Integer(change, self.bounds(integer, i64::MIN, i64::MAX)?))
    }

    fn bounds<T: Ord>(
        &self,
        read: fn(&str, &[u8]) -> Result<T, Failure>,
        least: T,
        largest: T,
    ) -> Result<Bounds<T>, Failure> {
        let lower = self.lower.map_or(Ok(least), |argument| read("LBOUND", argument))?;
        let upper = self.upper.map_or(Ok(largest), |argument| read("UBOUND", argument))?;
        if lower > upper {
            return Err(Failure::Syntax("LBOUND can't be greater than UBOUND".to_owned()));
        }
        Ok(Bounds { lower, upper })
    }
}

/// Keeps an option's argument, which must be there and the first.
fn put<T>(place: &mut Option<T>, argument: Option<T>) -> Result<(), Failure> {
    let argument = argument.ok_or_else(syntax_error)?;
    match place.replace(argument) {
        None => Ok(()),
        Some(_) => Err(syntax_error()),
    }
}

/// Notes an option without an argument, which must be the first. It takes none.
fn raise(flag: &mut bool) -> Result<bool, Failure> {
    if std::mem::replace(flag, true) { Err(syntax_error()) } else { Ok(false) }
}

fn integer(name: &str, argument: &[u8]) -> Result<i64, Failure> {
    parse_integer(argument).map_err(|_| Failure::Syntax(format!("{name} is not an integer or out of range")))
}

fn float(name: &str, argument: &[u8]) -> Result<Extended, Failure> {
    Extended::parse(argument).ok_or_else(|| Failure::Syntax(format!("{name} is not a valid float")))
}
