//! What a call does, as one row a workload: its native commands, the script that stands in for them, and what holds.
//!
//! The problem: servers that are compared do not speak the same words. The idea: a workload is what a caller wants
//! (a sliding window of 100 in 60 s), and a row says how each kind of server is asked for it. Which kind a server is,
//! it says itself in its answer to COMMAND INFO; one that does not know COMMAND is tried with THROTTLE.

use crate::dialog::{Dialog, Reply};
use crate::error::BenchError;
use crate::scan::Denial;
use tollgate_limits::{Policy, Rate, Window};

/// A workload by name.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Sliding window counter
    Slide,
    /// Token bucket
    Token,
    /// Fixed window counter
    Fixed,
    /// Sliding log
    Log,
    /// Leaky bucket as a queue
    Leak,
    /// A sliding window and a token bucket at once
    All,
    /// The cell rate algorithm, as throttlecrab and redis-cell answer it
    Throttle,
    /// A plain counter
    Incr,
    /// A counter with a bound and an expiry
    Increx,
    /// PING
    Ping,
    /// GET of keys that need not be there
    Get,
}

/// How a server is asked.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// As the server's answer to COMMAND INFO tells
    Auto,
    /// Native commands for every workload
    Tollgate,
    /// Plain commands, and Lua scripts for limits
    Redis,
    /// THROTTLE and PING only
    Throttlecrab,
}

impl Form {
    /// How such a reply says that the call was denied.
    pub(crate) fn denial(self) -> Denial {
        match self {
            Form::Other => Denial::Never,
            Form::Counter => Denial::SecondIsZero,
            Form::Five | Form::All | Form::Throttle => Denial::FirstIsZero,
            Form::Cell => Denial::FirstIsOne,
        }
    }
}

impl Dialect {
    /// As it is typed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Dialect::Auto => "auto",
            Dialect::Tollgate => "tollgate",
            Dialect::Redis => "redis",
            Dialect::Throttlecrab => "throttlecrab",
        }
    }
}

/// What a reply says besides whether the call was admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Nothing that is looked at.
    Other,
    /// The value, then what was added: INCREX.
    Counter,
    /// allowed, limit, remaining, retry and reset in milliseconds: RL.* and the scripts.
    Five,
    /// allowed, binding, then five integers for each limit: RL.ALL.
    All,
    /// allowed, limit, remaining, reset and retry in seconds: THROTTLE.
    Throttle,
    /// limited, limit, remaining, retry and reset in seconds: CL.THROTTLE.
    Cell,
}

/// Which limit a workload sets on a key, for `--verify`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    Slide,
    Token,
    Fixed,
    Log,
    Leak,
}

/// A command line: `{key}` and `{sha}` are filled in by the template; `{limit}`, `{burst}` (one less), `{window}`
/// (seconds, with decimals), `{seconds}` (whole ones) and `{milliseconds}` by the terms of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) text: &'static str,
    pub(crate) form: Form,
}

/// One workload.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Native commands, the first that a server has is taken.
    natives: &'static [Line],
    /// Whether the native command is one of Redis's own.
    is_plain: bool,
    /// What stands in for it where scripts run: the text, and how it is called.
    script: Option<(&'static str, Line)>,
    /// The limits that each call is held against, in the order of the reply; none if nothing limits.
    pub(crate) rules: &'static [Rule],
    /// Whether calls can be denied at all.
    pub(crate) limits: bool,
}

const fn five(text: &'static str) -> Line {
    Line { text, form: Form::Five }
}

const fn other(text: &'static str) -> Line {
    Line { text, form: Form::Other }
}

const fn counter(text: &'static str) -> Line {
    Line { text, form: Form::Counter }
}

const SCRIPT_OF_WINDOW: Line = five("EVALSHA {sha} 1 {key} {limit} {window}");
const SCRIPT_OF_BUCKET: Line = five("EVALSHA {sha} 1 {key} {limit} {limit} {window}");

const SLIDE: Row = Row {
    name: "slide",
    natives: &[five("RL.SLIDE {key} {limit} {window}")],
    is_plain: false,
    script: Some((include_str!("../scripts/slide.lua"), SCRIPT_OF_WINDOW)),
    rules: &[Rule::Slide],
    limits: true,
};

const TOKEN: Row = Row {
    name: "token",
    natives: &[five("RL.TOKEN {key} {limit} {limit}/{window}")],
    is_plain: false,
    script: Some((include_str!("../scripts/token.lua"), SCRIPT_OF_BUCKET)),
    rules: &[Rule::Token],
    limits: true,
};

const FIXED: Row = Row {
    name: "fixed",
    natives: &[five("RL.FIXED {key} {limit} {window}")],
    is_plain: false,
    script: Some((include_str!("../scripts/fixed.lua"), SCRIPT_OF_WINDOW)),
    rules: &[Rule::Fixed],
    limits: true,
};

const LOG: Row = Row {
    name: "log",
    natives: &[five("RL.LOG {key} {limit} {window}")],
    is_plain: false,
    script: Some((include_str!("../scripts/log.lua"), SCRIPT_OF_WINDOW)),
    rules: &[Rule::Log],
    limits: true,
};

const LEAK: Row = Row {
    name: "leak",
    natives: &[five("RL.LEAK {key} {limit} {limit}/{window}")],
    is_plain: false,
    script: Some((include_str!("../scripts/leak.lua"), SCRIPT_OF_BUCKET)),
    rules: &[Rule::Leak],
    limits: true,
};

const ALL: Row = Row {
    name: "all",
    natives: &[Line {
        text: "RL.ALL {{key}}:s SLIDE {limit} {window} 1 {{key}}:t TOKEN {limit} {limit}/{window} 1",
        form: Form::All,
    }],
    is_plain: false,
    script: Some((
        include_str!("../scripts/all.lua"),
        Line { text: "EVALSHA {sha} 2 {{key}}:s {{key}}:t {limit} {window}", form: Form::All },
    )),
    rules: &[Rule::Slide, Rule::Token],
    limits: true,
};

const THROTTLE: Row = Row {
    name: "throttle",
    natives: &[
        Line { text: "THROTTLE {key} {limit} {limit} {seconds}", form: Form::Throttle },
        Line { text: "CL.THROTTLE {key} {burst} {limit} {seconds}", form: Form::Cell },
    ],
    is_plain: false,
    script: Some((include_str!("../scripts/throttle.lua"), SCRIPT_OF_BUCKET)),
    rules: &[Rule::Token],
    limits: true,
};

const INCREX: Row = Row {
    name: "increx",
    natives: &[counter("INCREX {key} UBOUND {limit} PX {milliseconds} ENX")],
    is_plain: false,
    script: Some((include_str!("../scripts/increx.lua"), counter("EVALSHA {sha} 1 {key} {limit} {milliseconds}"))),
    rules: &[],
    limits: true,
};

const fn plain(name: &'static str, natives: &'static [Line]) -> Row {
    Row { name, natives, is_plain: true, script: None, rules: &[], limits: false }
}

const INCR: Row = plain("incr", &[other("INCR {key}")]);
const PING: Row = plain("ping", &[other("PING")]);
const GET: Row = plain("get", &[other("GET {key}")]);

impl Workload {
    /// The row of this workload.
    pub(crate) fn row(self) -> &'static Row {
        match self {
            Workload::Slide => &SLIDE,
            Workload::Token => &TOKEN,
            Workload::Fixed => &FIXED,
            Workload::Log => &LOG,
            Workload::Leak => &LEAK,
            Workload::All => &ALL,
            Workload::Throttle => &THROTTLE,
            Workload::Incr => &INCR,
            Workload::Increx => &INCREX,
            Workload::Ping => &PING,
            Workload::Get => &GET,
        }
    }
}

/// The limit of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Calls in a window, and a bucket's capacity: 1 to 10^12.
    pub(crate) limit: u64,
    /// The window; a bucket refills in it.
    pub(crate) window: Window,
}

/// Window of a limit that stays spent for any run; aligned windows of this length next begin in 2029.
const SPENT_WINDOW: Window = checked(tollgate_limits::WINDOW_MICROS_MAX);
/// A bucket of one that is empty for a year: the slowest refill that there is.
const SPENT_BUCKET_WINDOW: Window = checked(365 * 86_400 * 1_000_000);

/// Looked at by the compiler only.
const fn checked(micros: u64) -> Window {
    match Window::new(micros) {
        Some(window) => window,
        None => panic!("no window is that long"),
    }
}

impl Terms {
    /// A limit of one call that stays spent for the whole run.
    pub(crate) fn spent(row: &Row) -> Terms {
        let is_bucket = row.rules.iter().any(|rule| matches!(rule, Rule::Token | Rule::Leak));
        Terms { limit: 1, window: if is_bucket { SPENT_BUCKET_WINDOW } else { SPENT_WINDOW } }
    }

    /// A line with these terms filled in; an error if the line needs whole seconds and the window has none.
    pub(crate) fn fill(&self, line: &Line) -> Result<String, BenchError> {
        let micros = self.window.micros();
        let whole = |unit_micros: u64, flag: &str| {
            if micros.is_multiple_of(unit_micros) {
                return Ok((micros / unit_micros).to_string());
            }
            let command = line.text.split(' ').next().unwrap_or_default();
            Err(BenchError::Arguments(format!("{command} needs a --window of whole {flag}")))
        };
        let mut text = line.text.to_owned();
        if text.contains("{seconds}") {
            text = text.replace("{seconds}", &whole(1_000_000, "seconds")?);
        }
        if text.contains("{milliseconds}") {
            text = text.replace("{milliseconds}", &whole(1_000, "milliseconds")?);
        }
        Ok(text
            .replace("{limit}", &self.limit.to_string())
            .replace("{burst}", &self.limit.saturating_sub(1).to_string())
            .replace("{window}", &seconds_text(micros)))
    }

    /// The limit that `rule` sets, as the server's arithmetic knows it; an error if it would refuse the numbers.
    pub(crate) fn policy(&self, rule: Rule) -> Result<Policy, BenchError> {
        let Terms { limit, window } = *self;
        let rate = || {
            Rate::new(limit, u128::from(window.micros())).ok_or_else(|| {
                let text = format!(
                    "--limit {limit} in --window {} is no rate: one a year to 10^9 a second",
                    seconds_text(window.micros())
                );
                BenchError::Arguments(text)
            })
        };
        Ok(match rule {
            Rule::Slide => Policy::Slide { limit, window },
            Rule::Fixed => Policy::Fixed { limit, window },
            Rule::Log => Policy::Log { limit, window },
            Rule::Token => Policy::Token { capacity: limit, rate: rate()? },
            Rule::Leak => Policy::Leak { capacity: limit, rate: rate()? },
        })
    }
}

/// Microseconds as seconds without needless zeros.
fn seconds_text(micros: u64) -> String {
    let (seconds, part) = (micros / 1_000_000, micros % 1_000_000);
    if part == 0 {
        return seconds.to_string();
    }
    format!("{seconds}.{part:06}").trim_end_matches('0').to_owned()
}

/// How a workload is asked for at one server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chosen {
    /// What the server speaks.
    pub(crate) dialect: Dialect,
    pub(crate) line: Line,
    /// The script that the line calls.
    pub(crate) script: Option<&'static str>,
}

/// A key that no run uses, for the question whether a server knows THROTTLE. Nothing is taken from it.
const PROBE: [&str; 6] = ["THROTTLE", "tollgate:bench:probe", "1", "1", "1", "0"];

impl Row {
    /// Finds out how `dialog`'s server is asked for this workload; an error says what the server has instead.
    pub(crate) fn choose(&self, dialect: Dialect, dialog: &mut Dialog) -> Result<Chosen, BenchError> {
        let found = match dialect {
            Dialect::Auto => return self.choose_by_asking(dialog),
            Dialect::Tollgate => self.natives.first().copied().map(native),
            Dialect::Redis if self.is_plain => self.natives.first().copied().map(native),
            Dialect::Redis => self.script.map(scripted),
            Dialect::Throttlecrab => self.native_among(&["THROTTLE", "PING"]).map(native),
        };
        let (line, script) = found.ok_or_else(|| self.not_offered(dialog, dialect.name(), THROTTLECRAB_HAS))?;
        Ok(Chosen { dialect, line, script })
    }

    fn choose_by_asking(&self, dialog: &mut Dialog) -> Result<Chosen, BenchError> {
        let mut names: Vec<&str> = self.natives.iter().map(Line::command).collect();
        names.extend(["EVALSHA", "RL.SLIDE"]);
        let question: Vec<&str> = ["COMMAND", "INFO"].iter().chain(&names).copied().collect();
        let rows = match dialog.ask(&question)? {
            Reply::Array(rows) if rows.len() == names.len() => rows,
            Reply::Error(reply) => return self.choose_without_command(dialog, &reply),
            other => {
                let reply = format!("{other}: give --dialect");
                return Err(BenchError::Preparation { command: "COMMAND INFO".into(), reply });
            }
        };
        let has = |name: &str| {
            let place = names.iter().position(|asked| *asked == name);
            place.and_then(|place| rows.get(place)).is_some_and(|row| matches!(row, Reply::Array(_)))
        };
        let dialect = if has("RL.SLIDE") { Dialect::Tollgate } else { Dialect::Redis };
        let known = self.natives.iter().copied().find(|line| has(line.command()));
        let scripted = self.script.filter(|_| has("EVALSHA")).map(scripted);
        let (line, script) = known.map(native).or(scripted).ok_or_else(|| {
            self.not_offered(
                dialog,
                dialect.name(),
                if has("EVALSHA") { "scripts" } else { "neither that nor EVALSHA" },
            )
        })?;
        Ok(Chosen { dialect, line, script })
    }

    /// For a server that does not know COMMAND.
    fn choose_without_command(&self, dialog: &mut Dialog, refusal: &str) -> Result<Chosen, BenchError> {
        match dialog.ask(&PROBE)? {
            Reply::Array(five) if five.len() == 5 => self.choose(Dialect::Throttlecrab, dialog),
            other => Err(BenchError::Preparation {
                command: "COMMAND INFO".into(),
                reply: format!("{refusal} (and THROTTLE by: {other}); give --dialect"),
            }),
        }
    }

    fn native_among(&self, commands: &[&str]) -> Option<Line> {
        self.natives.iter().copied().find(|line| commands.contains(&line.command()))
    }

    fn not_offered(&self, dialog: &Dialog, dialect: &'static str, has: &'static str) -> BenchError {
        BenchError::NotOffered { workload: self.name, target: dialog.target().to_owned(), dialect, has }
    }
}

const THROTTLECRAB_HAS: &str = "THROTTLE and PING (workloads throttle and ping)";

impl Line {
    /// The command's name in upper case.
    fn command(&self) -> &'static str {
        self.text.split(' ').next().unwrap_or_default()
    }
}

fn native(line: Line) -> (Line, Option<&'static str>) {
    (line, None)
}

fn scripted((text, line): (&'static str, Line)) -> (Line, Option<&'static str>) {
    (line, Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn lines_are_filled_in() {
        let terms = |limit, window: &[u8]| Terms { limit, window: tollgate_limits::parse_window(window).unwrap() };
        let cases = [
            (Workload::Slide, terms(100, b"60"), "RL.SLIDE {key} 100 60"),
            (Workload::Token, terms(5, b"500ms"), "RL.TOKEN {key} 5 5/0.5"),
            (Workload::Throttle, terms(7, b"1m"), "THROTTLE {key} 7 7 60"),
            (Workload::Increx, terms(7, b"0.25"), "INCREX {key} UBOUND 7 PX 250 ENX"),
            (Workload::All, terms(3, b"1"), "RL.ALL {{key}}:s SLIDE 3 1 1 {{key}}:t TOKEN 3 3/1 1"),
        ];
        for (workload, terms, expected) in cases {
            assert_eq!(terms.fill(&workload.row().natives[0]).unwrap(), expected);
        }
        let text = terms(7, b"0.5").fill(&THROTTLE.natives[0]).unwrap_err().to_string();
        assert_eq!(text, "THROTTLE needs a --window of whole seconds");
        assert!(terms(7, b"1.5ms").fill(&INCREX.natives[0]).is_err());
    }

    #[test]
    fn every_row_is_whole() {
        for workload in Workload::value_variants() {
            let row = workload.row();
            let name = workload.to_possible_value().unwrap();
            assert_eq!(row.name, name.get_name());
            assert_eq!(row.is_plain, row.script.is_none(), "{}", row.name);
            let spent = Terms::spent(row);
            for line in row.natives.iter().chain(row.script.iter().map(|(_, line)| line)) {
                assert!(!spent.fill(line).unwrap().contains("{l"), "{}", row.name);
                assert_eq!(line.form.denial() != Denial::Never, row.limits, "{}", row.name);
            }
            for rule in row.rules {
                assert!(spent.policy(*rule).is_ok(), "{} {rule:?}", row.name);
            }
        }
    }
}
