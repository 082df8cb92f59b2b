//! The three places that settings come from, read into one raw form.
//!
//! Nothing is judged here but the shape: a value is text with a note of its source. A layer that is laid over another
//! replaces what both set.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::check::check;
use super::error::{ConfigError, ConfigErrors, Source};
use super::setting::{BIND, PORT, REQUIRE_PASS, SETTINGS, Setting, TEST_CLOCK};
use super::{Config, setting};

/// The longest configuration file that is read. Twenty settings need two kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

const CONFIG_ID: &str = "config";
const CONFIG_VARIABLE: &str = "TOLLGATE_CONFIG";
const CHECK_CONFIG_ID: &str = "check-config";

/// The flags of `tollgate serve`, made from the table of settings, as they were typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServeArguments {
    /// The configuration file that `--config` names.
    pub config_file: Option<PathBuf>,
    /// Only check the configuration and print it.
    pub check_config: bool,
    flags: RawSettings,
}

/// A checked configuration and what an operator should know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Sentences for the log: nothing that stops the start, but likely not what was meant.
    pub notices: Vec<String>,
}

impl ServeArguments {
    /// Lays the flags over `environment` over the configuration file, and checks the result. `cpus` are those of the
    /// inherited affinity mask.
    ///
    /// # Errors
    ///
    /// Every mistake in any of the three, each with its place and what is allowed there.
    pub fn load(
        &self,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        cpus: &[usize],
    ) -> Result<Loaded, ConfigErrors> {
        let mut layers = Layers::default();
        let variables = layers.read_environment(environment);
        let path = self.config_file.clone().or(variables.config_file);
        if let Some(path) = &path {
            layers.read_file(path);
        }
        layers.settings.lay_over(variables.settings);
        layers.settings.lay_over(self.flags.clone());
        let mut loaded = check(&layers.settings, cpus, layers.errors, layers.notices)?;
        // The whole path, so that it stays the same file whatever the process's working directory becomes.
        loaded.config.file = path.map(|path| path.canonicalize().unwrap_or(path));
        Ok(loaded)
    }
}

/// What each setting is set to, as text. A setting that is absent keeps its default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RawSettings(BTreeMap<&'static str, RawValue>);

impl RawSettings {
    /// Sets one.
    pub(super) fn set(&mut self, setting: &'static Setting, text: impl Into<String>, source: Source) {
        self.0.insert(setting.key, RawValue { text: text.into(), source });
    }

    /// What a setting is set to.
    pub(super) fn get(&self, setting: &Setting) -> Option<&RawValue> {
        self.0.get(setting.key)
    }

    fn lay_over(&mut self, upper: RawSettings) {
        self.0.extend(upper.0);
    }
}

/// The text that somebody gave, and where.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct RawValue {
    pub(super) text: String,
    pub(super) source: Source,
}

impl fmt::Debug for RawValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text may be a password, so only its place is shown.
        write!(formatter, "RawValue({:?})", self.source)
    }
}

/// What the layers below the flags have brought so far.
#[derive(Default)]
struct Layers {
    settings: RawSettings,
    errors: Vec<ConfigError>,
    notices: Vec<String>,
}

#[derive(Default)]
struct Variables {
    settings: RawSettings,
    config_file: Option<PathBuf>,
}

impl Layers {
    /// Reads the variables that begin with `TOLLGATE_`. An empty one counts as not set, as compose files write it. One
    /// of no setting is only noticed: other programs may use the same beginning.
    fn read_environment(&mut self, environment: impl IntoIterator<Item = (OsString, OsString)>) -> Variables {
        let mut found = Variables::default();
        let mut pairs: Vec<(OsString, OsString)> = environment.into_iter().collect();
        pairs.sort();
        for (name, value) in pairs {
            let Some(name) = name.to_str().filter(|name| name.starts_with("TOLLGATE_")) else { continue };
            if value.is_empty() || is_service_link(name, &value) {
                continue;
            }
            if name == CONFIG_VARIABLE {
                found.config_file = Some(PathBuf::from(value));
                continue;
            }
            match (SETTINGS.into_iter().find(|setting| setting.is_variable(name)), value.into_string()) {
                (Some(setting), Ok(text)) => found.settings.set(setting, text, Source::Environment),
                (Some(_), Err(_)) => self.errors.push(ConfigError::new(name, "is not valid UTF-8")),
                (None, _) => {
                    self.notices.push(format!("the environment variable {name} is no setting, and is ignored"))
                }
            }
        }
        found
    }

    fn read_file(&mut self, path: &Path) {
        let place = path.display().to_string();
        let text = match read_text(path) {
            Ok(text) => text,
            Err(problem) => return self.errors.push(ConfigError::new(place, problem)),
        };
        // The parser's own report quotes the line, and that may hold a password: only its words and the number of the
        // line are shown.
        let table = match text.parse::<toml::Table>() {
            Ok(table) => table,
            Err(error) => {
                let line = error.span().map_or(1, |span| 1 + text.bytes().take(span.start).filter(is_line_end).count());
                return self.errors.push(ConfigError::new(format!("{place}, line {line}"), message_of(&error)));
            }
        };
        for (key, value) in table {
            let Some(setting) = SETTINGS.into_iter().find(|setting| setting.is_named(&key)) else {
                self.errors.push(ConfigError::new(&place, unknown_key(&key)));
                continue;
            };
            match text_of(setting, value) {
                Some(text) => self.settings.set(setting, text, Source::File(path.to_path_buf())),
                None => self.errors.push(ConfigError::new(
                    format!("{place}, key {key}"),
                    format!("a value of this type is not accepted; allowed: {}", setting.allowed),
                )),
            }
        }
    }
}

/// Kubernetes gives every pod variables for each service of its namespace; those of a service named `tollgate` look
/// like ours, and `TOLLGATE_PORT` is `tcp://10.0.0.1:6379`. They are passed over: they say nothing about this server.
fn is_service_link(name: &str, value: &OsStr) -> bool {
    let is_url = value.to_str().is_some_and(|text| text.starts_with("tcp://") || text.starts_with("udp://"));
    (name == PORT.variable() && is_url) || name.starts_with("TOLLGATE_PORT_") || name.starts_with("TOLLGATE_SERVICE_")
}

pub(super) fn read_text(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| format!("cannot be read: {error}"))?;
    let mut text = String::new();
    // One byte more than is allowed is asked for, so that a longer file is told from one of just this length.
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| format!("cannot be read: {error}"))?;
    if u64::try_from(text.len()).is_ok_and(|bytes| bytes > FILE_BYTES_MAX) {
        return Err(format!("is longer than {FILE_BYTES_MAX} bytes"));
    }
    Ok(text)
}

fn is_line_end(byte: &u8) -> bool {
    *byte == b'\n'
}

/// The first line of the parser's message: the following ones may repeat what stands in the file.
fn message_of(error: &toml::de::Error) -> String {
    let first_line = error.message().lines().next().unwrap_or_default();
    format!("is not TOML: {first_line}")
}

fn unknown_key(key: &str) -> String {
    let known: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
    format!("unknown key {}; allowed: {}", super::error::quoted(key), known.join(", "))
}

/// The value as the text that a flag would have. Nothing if no flag could say it.
fn text_of(setting: &Setting, value: toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text),
        toml::Value::Boolean(true) => Some("yes".to_owned()),
        toml::Value::Boolean(false) => Some("no".to_owned()),
        // TOML's 0o700 arrives as 448, which is another mode if its digits are read as octal. Only text is clear.
        toml::Value::Integer(_) if setting.key == setting::UNIX_SOCKET_PERM.key => None,
        toml::Value::Integer(whole) => Some(whole.to_string()),
        toml::Value::Array(items) if setting.key == BIND.key => {
            let words: Option<Vec<String>> = items.into_iter().map(|item| item.as_str().map(str::to_owned)).collect();
            words.map(|words| words.join(" "))
        }
        _ => None,
    }
}

impl clap::Args for ServeArguments {
    fn augment_args(command: Command) -> Command {
        let fixed = command
            .arg(
                Arg::new(CONFIG_ID)
                    .long(CONFIG_ID)
                    .value_name("FILE")
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("TOML file of settings (variable: TOLLGATE_CONFIG)"),
            )
            .arg(
                Arg::new(CHECK_CONFIG_ID)
                    .long(CHECK_CONFIG_ID)
                    .action(ArgAction::SetTrue)
                    .help("Check the configuration, print it without secrets, and exit"),
            );
        SETTINGS.into_iter().fold(fixed, |command, setting| command.arg(flag_of(setting)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn flag_of(setting: &'static Setting) -> Arg {
    let default = if setting.default.is_empty() { String::new() } else { format!(" [default: {}]", setting.default) };
    let flag = Arg::new(setting.key)
        .long(setting.key)
        .visible_aliases(setting.alias())
        .value_name(setting.value_name)
        .help(format!("{}{default}", setting.help))
        .action(ArgAction::Append);
    if setting.key == BIND.key {
        return flag.num_args(1..);
    }
    if setting.key == TEST_CLOCK.key {
        // A bare `--test-clock` says yes; a value needs `=`, so that what follows is not taken for it.
        return flag.num_args(0..=1).require_equals(true).default_missing_value("yes");
    }
    // A password may begin with a dash, and one number may be negative.
    flag.allow_hyphen_values(
        [REQUIRE_PASS.key, setting::MASTER_AUTH.key, setting::SLOWLOG_LOG_SLOWER_THAN.key].contains(&setting.key),
    )
}

impl clap::FromArgMatches for ServeArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ServeArguments, clap::Error> {
        let mut arguments = ServeArguments {
            config_file: matches.get_one::<PathBuf>(CONFIG_ID).cloned(),
            check_config: matches.get_flag(CHECK_CONFIG_ID),
            flags: RawSettings::default(),
        };
        for setting in SETTINGS {
            let Some(words) = matches.get_many::<String>(setting.key) else { continue };
            let words: Vec<&str> = words.map(String::as_str).collect();
            // Addresses add up; of anything else given twice the last one holds, as scripts that append flags expect.
            let text =
                if setting.key == BIND.key { words.join(" ") } else { words.last().copied().unwrap_or("").to_owned() };
            arguments.flags.set(setting, text, Source::Flag);
        }
        Ok(arguments)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
