//! What is wrong with a configuration: each mistake with its place, and all of them at once.

use std::fmt;
use std::path::PathBuf;

/// The most bytes of a wrong value that an error repeats.
const ECHO_BYTES_MAX: usize = 128;

/// Where a value came from. What stands later wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// The setting's own default.
    Default,
    /// The configuration file at this path.
    File(PathBuf),
    /// The environment variable of the setting.
    Environment,
    /// The flag of the setting.
    Flag,
}

/// One mistake in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ConfigError {
    place: String,
    problem: String,
}

impl ConfigError {
    /// A mistake at a place: a flag, a variable, a file and its key, or a file.
    pub(super) fn new(place: impl Into<String>, problem: impl Into<String>) -> ConfigError {
        ConfigError { place: place.into(), problem: problem.into() }
    }
}

/// All mistakes of a configuration, never none; shown one a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let line_break = if index == 0 { "" } else { "\n" };
            write!(formatter, "{line_break}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// A value in quotes, fit to be shown: without control characters, cut at [`ECHO_BYTES_MAX`] bytes.
pub(super) fn quoted(text: &str) -> String {
    let mut shown = String::from("\"");
    for character in text.chars() {
        if shown.len() + character.len_utf8() > ECHO_BYTES_MAX {
            shown.push('…');
            break;
        }
        shown.push(if character.is_control() { '?' } else { character });
    }
    shown.push('"');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoed_values_are_harmless_and_short() {
        assert_eq!(quoted("a\x1b[2J\nb"), "\"a?[2J?b\"");
        let long = quoted(&"é".repeat(1_000));
        assert!(long.len() <= ECHO_BYTES_MAX + 4, "{}", long.len());
        assert!(long.ends_with("…\""));
    }

    #[test]
    fn errors_are_shown_one_a_line() {
        let errors = ConfigErrors(vec![ConfigError::new("--port", "no"), ConfigError::new("--bind", "no")]);
        assert_eq!(errors.to_string(), "--port: no\n--bind: no");
    }
}
