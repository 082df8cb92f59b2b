//! A comparison as text, as JSON, and as a page for a browser.

use super::spread::Spread;
use super::{Comparison, Rival};
use crate::format;
use crate::report::{self, Axis, Chart, Latency, Line, Page, Report, Tile, Warning};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// A figure that is compared.
struct Measure {
    /// Its name in JSON, which is that of the report's field.
    field: &'static str,
    name: &'static str,
    shown: fn(f64) -> String,
    value: fn(&Report) -> Option<f64>,
}

/// What is compared; what moves least on a noisy machine leads.
const MEASURES: [Measure; 8] = [
    Measure {
        field: "server_cpu_ns_per_call",
        name: "server CPU per call",
        shown: format::nanos,
        value: |report| report.server.as_ref().map(|server| server.server_cpu_ns_per_call),
    },
    Measure {
        field: "server_user_ns_per_call",
        name: "server user time",
        shown: format::nanos,
        value: |report| report.server.as_ref().map(|server| server.server_user_ns_per_call),
    },
    Measure {
        field: "server_system_ns_per_call",
        name: "server system time",
        shown: format::nanos,
        value: |report| report.server.as_ref().map(|server| server.server_system_ns_per_call),
    },
    Measure {
        field: "server_rss_bytes_per_key",
        name: "server memory per key",
        shown: |bytes| format!("{bytes:.1} B"),
        value: |report| report.server.as_ref().and_then(|server| server.server_rss_bytes_per_key),
    },
    Measure {
        field: "calls_per_second",
        name: "calls per second",
        shown: format::short,
        value: |report| Some(report.calls_per_second),
    },
    Measure { field: "p50_us", name: "latency p50", shown: format::micros, value: |report| report.p50_us },
    Measure { field: "p99_us", name: "latency p99", shown: format::micros, value: |report| report.p99_us },
    Measure { field: "p999_us", name: "latency p99.9", shown: format::micros, value: |report| report.p999_us },
];

const RATIOS: &str = "Ratios are of one round, to the first server: 0.5 is half as much.";

impl Comparison {
    /// Medians side by side, then the ratios with their spread.
    pub(crate) fn to_table(&self) -> String {
        let mut text = String::new();
        let mut rows = vec![("command", self.commands()), ("rounds", self.rounds.to_string())];
        rows.extend(self.rivals.iter().map(|rival| (rival.letter, rival.words())));
        rows.push(("settings", self.other_settings()));
        text.push_str(&report::rows_to_text(&rows));
        let letters = self.letters();
        let mut medians = vec![std::iter::once("median of the rounds".to_owned()).chain(letters).collect()];
        medians.extend(self.median_rows());
        medians.extend(self.outcome_rows());
        let _ = write!(text, "\n{}", report::align(&medians));
        let _ = writeln!(text, "\n{RATIOS}");
        for rival in self.rivals.iter().skip(1) {
            let header = ["median", "least", "quartile 1", "quartile 3", "most"].map(str::to_owned);
            let title = format!("{} to {}", rival.letter, self.first_letter());
            let mut ratios = vec![std::iter::once(title).chain(header).collect()];
            ratios.extend(self.ratio_rows(rival));
            let _ = write!(text, "\n{}", report::align(&ratios));
        }
        for warning in self.warnings() {
            let _ = writeln!(text, "\nWARNING: {warning}");
        }
        text
    }

    /// Medians, ratios, and every round's report as it would stand alone.
    pub(crate) fn to_json(&self) -> Value {
        let mut targets = Vec::new();
        for (place, rival) in self.rivals.iter().enumerate() {
            let mut medians = Map::new();
            let mut ratios = Map::new();
            for measure in &MEASURES {
                if let Some(spread) = rival.spread(measure) {
                    medians.insert(measure.field.to_owned(), json!(spread.median));
                }
                if let Some(spread) = self.ratio(rival, measure).filter(|_| place > 0) {
                    ratios.insert(measure.field.to_owned(), json!(spread));
                }
            }
            targets.push(json!({
                "name": rival.letter,
                "target": rival.plan.target.to_string(),
                "medians": medians,
                "ratios_to_first": ratios,
                "calls": rival.sum(|report| report.calls),
                "denied": rival.denied(),
                "denied_percent": rival.denied_percent().map(|percent| report::round(percent, 3)),
                "errors": rival.sum(|report| report.errors),
                "latency": rival.latency(),
            }));
        }
        let (rows, warnings) = (self.rows(), self.warnings());
        let mut whole = json!({"rounds": self.rounds, "targets": targets, "warnings": warnings, "rows": rows});
        if let (Some(why), Some(fields)) = (&self.stopped, whole.as_object_mut()) {
            fields.insert("stopped".to_owned(), json!(why));
        }
        if let (Some((command_line, machine)), Some(fields)) = (&self.full, whole.as_object_mut()) {
            fields.insert("command_line".to_owned(), json!(command_line));
            fields.insert("machine".to_owned(), json!(machine));
        }
        whole
    }

    /// The whole page.
    pub(crate) fn to_html(&self) -> String {
        let settings = self.settings();
        let title = self.commands();
        let mut page = Page::new(&format!("tollgate bench: {title}"));
        let started = self.full.as_ref().map(|(_, machine)| format!(" · {}", machine.started())).unwrap_or_default();
        page.heading(&title, &format!("{} servers, {}{started}", self.rivals.len(), self.rounds_in_words()));
        page.warnings(&self.warnings());
        page.tiles(&self.tiles());
        let named = self.rivals.iter().map(|rival| (rival.letter.to_owned(), rival.words())).collect::<Vec<_>>();
        page.facts("Servers", &named);
        let header = |first: &str| std::iter::once(first.to_owned()).chain(self.letters()).collect();
        let header_of_medians: Vec<String> = header("Median of the rounds");
        page.table("Medians", &header_of_medians, &[self.median_rows(), self.outcome_rows()].concat());
        page.paragraph(RATIOS);
        let columns = ["Ratio", "Median", "Least", "Quartile 1", "Quartile 3", "Most"].map(str::to_owned);
        for rival in self.rivals.iter().skip(1) {
            page.table(&format!("{} to {}", rival.letter, self.first_letter()), &columns, &self.ratio_rows(rival));
        }
        let of_rival = |rival: &Rival| rival.latency().map(|latency| (rival.name(), latency));
        let pooled: Vec<(String, Latency)> = self.rivals.iter().filter_map(of_rival).collect();
        let curves: Vec<(String, &Latency)> = pooled.iter().map(|(name, latency)| (name.clone(), latency)).collect();
        report::latency_chart(&mut page, "Latency of a batch, all rounds together", &curves);
        self.rounds_chart(&mut page);
        let header_of_settings: Vec<String> = header("Setting");
        let rows: Vec<Vec<String>> =
            settings.into_iter().map(|(name, values)| std::iter::once(name).chain(values).collect()).collect();
        page.words("Settings", &header_of_settings, &rows);
        page.paragraph(report::KEYS_MEASURED);
        if let Some((command_line, machine)) = &self.full {
            page.facts("Machine", &machine.fields());
            page.code("To run it again", command_line);
        }
        page.finish()
    }

    fn letters(&self) -> impl Iterator<Item = String> {
        self.rivals.iter().map(|rival| rival.letter.to_owned())
    }

    fn first_letter(&self) -> &'static str {
        self.rivals.first().map_or("", |rival| rival.letter)
    }

    /// Every round's reports, in the order in which they were made.
    fn rows(&self) -> Vec<Value> {
        let mut rows = Vec::new();
        for round in 0..self.rounds {
            let mut of_round: Vec<(usize, &str, &Report)> = Vec::new();
            for rival in &self.rivals {
                if let (Some(turn), Some(report)) = (rival.turns.get(round), rival.reports.get(round)) {
                    of_round.push((*turn, rival.letter, report));
                }
            }
            of_round.sort_by_key(|(turn, _, _)| *turn);
            rows.extend(of_round.into_iter().map(|(turn, letter, report)| {
                let mut row = json!({"round": round + 1, "turn": turn + 1, "name": letter});
                let figures = serde_json::to_value(report).unwrap_or_default();
                if let (Some(fields), Value::Object(figures)) = (row.as_object_mut(), figures) {
                    fields.extend(figures);
                }
                row
            }));
        }
        rows
    }

    fn median_rows(&self) -> Vec<Vec<String>> {
        let row = |measure: &Measure| {
            let cells = self.rivals.iter().map(|rival| {
                rival.spread(measure).map_or_else(|| "–".to_owned(), |spread| (measure.shown)(spread.median))
            });
            std::iter::once(measure.name.to_owned()).chain(cells).collect()
        };
        self.present().map(row).collect()
    }

    /// What became of the calls of all rounds.
    fn outcome_rows(&self) -> Vec<Vec<String>> {
        let row = |name: &str, cell: fn(&Rival) -> String| {
            std::iter::once(name.to_owned()).chain(self.rivals.iter().map(cell)).collect()
        };
        vec![
            row("denied, all rounds", |rival| {
                rival.denied_percent().map_or_else(|| "not known".to_owned(), |percent| format!("{percent:.1} %"))
            }),
            row("errors, all rounds", |rival| format::count(rival.sum(|report| report.errors))),
        ]
    }

    fn rounds_in_words(&self) -> String {
        format::counted(self.rounds, "round")
    }

    fn ratio_rows(&self, rival: &Rival) -> Vec<Vec<String>> {
        let row = |measure: &Measure| {
            let cells = match self.ratio(rival, measure) {
                Some(Spread { median, least, quartile_1, quartile_3, most }) => {
                    [median, least, quartile_1, quartile_3, most].map(ratio_text)
                }
                None => ["–"; 5].map(str::to_owned),
            };
            std::iter::once(measure.name.to_owned()).chain(cells).collect()
        };
        self.present().map(row).collect()
    }

    /// What was measured at any of the servers.
    fn present(&self) -> impl Iterator<Item = &'static Measure> {
        MEASURES.iter().filter(|measure| self.rivals.iter().any(|rival| rival.spread(measure).is_some()))
    }

    /// Ratios to the first server, round by round.
    fn ratio(&self, rival: &Rival, measure: &Measure) -> Option<Spread> {
        let first = self.rivals.first()?;
        let pairs = first.reports.iter().zip(&rival.reports);
        let ratios = pairs.filter_map(|(base, own)| {
            let (base, own) = ((measure.value)(base)?, (measure.value)(own)?);
            (base > 0.0 && own.is_finite()).then(|| own / base)
        });
        Spread::of(&ratios.collect::<Vec<f64>>())
    }

    /// Each setting and its value at each server.
    fn settings(&self) -> Vec<(String, Vec<String>)> {
        let all: Vec<Vec<(String, String)>> =
            self.rivals.iter().map(|rival| rival.reports.first().map(Report::settings).unwrap_or_default()).collect();
        let names: Vec<String> = all.first().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        let value = |fields: &Vec<(String, String)>, name: &str| {
            fields.iter().find(|(other, _)| other == name).map_or_else(|| "–".to_owned(), |(_, value)| value.clone())
        };
        names.into_iter().map(|name| (name.clone(), all.iter().map(|fields| value(fields, &name)).collect())).collect()
    }

    /// All other settings in a line; where servers differ, each one's value.
    fn other_settings(&self) -> String {
        let others = self.settings().into_iter().filter(|(name, _)| !["target", "command"].contains(&name.as_str()));
        let words = others.map(|(name, mut values)| {
            values.dedup();
            format!("{name} {}", values.join(" | "))
        });
        words.collect::<Vec<String>>().join(", ")
    }

    /// The command, or the different commands that do the same at different servers.
    fn commands(&self) -> String {
        let settings = self.settings();
        let mut commands =
            settings.into_iter().find(|(name, _)| name == "command").map(|(_, values)| values).unwrap_or_default();
        commands.dedup();
        commands.join(" | ")
    }

    /// The warnings of all rounds, each kind once for each server.
    fn warnings(&self) -> Vec<String> {
        let stopped = (self.stopped.iter())
            .map(|why| format!("Only {} of {} rounds were finished: {why}", self.rounds, self.rounds_asked));
        let mut warnings: Vec<String> = stopped.chain(self.warning_of_denials()).collect();
        for rival in &self.rivals {
            let errors: u64 = rival.reports.iter().map(|report| report.errors).sum();
            if errors > 0 {
                warnings.push(format!("{}: {} calls were answered by errors.", rival.letter, format::count(errors)));
            }
            let mut kinds: Vec<(Warning, String, usize)> = Vec::new();
            for (kind, text) in rival.reports.iter().flat_map(Report::kinds_of_warnings) {
                match kinds.iter_mut().find(|(known, _, _)| *known == kind) {
                    Some((_, _, rounds)) => *rounds = rounds.saturating_add(1),
                    None => kinds.push((kind, text, 1)),
                }
            }
            let all = rival.reports.len();
            let in_words = |rounds| format::counted(rounds, "round");
            warnings.extend(
                kinds
                    .into_iter()
                    .map(|(_, text, rounds)| format!("{}, {rounds} of {}: {text}", rival.letter, in_words(all))),
            );
        }
        warnings
    }

    /// A call that is denied is other work than one that is admitted.
    fn warning_of_denials(&self) -> Option<String> {
        let known = self.rivals.iter().filter_map(|rival| Some((rival.letter, rival.denied_percent()?)));
        let known: Vec<(&str, f64)> = known.collect();
        let least = known.iter().map(|(_, percent)| *percent).fold(f64::INFINITY, f64::min);
        let most = known.iter().map(|(_, percent)| *percent).fold(0.0, f64::max);
        if most - least <= DENIED_APART_MAX {
            return None;
        }
        let shares: Vec<String> = known.iter().map(|(letter, percent)| format!("{letter} {percent:.1} %")).collect();
        Some(format!(
            "The servers did not do the same work: of the calls they denied {}. A --limit that nobody reaches, or \
             --denied, makes them alike.",
            shares.join(", ")
        ))
    }

    fn tiles(&self) -> Vec<Tile> {
        let mut tiles = Vec::new();
        for rival in self.rivals.iter().skip(1) {
            for measure in self.present().filter(|measure| HEADLINES.contains(&measure.field)) {
                let Some(spread) = self.ratio(rival, measure) else { continue };
                tiles.push(Tile {
                    name: format!("{}, {} to {}", capital(measure.name), rival.letter, self.first_letter()),
                    figure: format!("{} ×", ratio_text(spread.median)),
                    note: format!("{} to {}", ratio_text(spread.least), ratio_text(spread.most)),
                });
            }
        }
        tiles
    }

    /// The leading figure of every round, so that drift and strays can be seen.
    fn rounds_chart(&self, page: &mut Page) {
        let Some(measure) = self.present().next() else { return };
        let mut most: f64 = 0.0;
        let mut lines = Vec::new();
        for rival in &self.rivals {
            let mut points = Vec::new();
            for (round, report) in rival.reports.iter().enumerate() {
                if let Some(value) = (measure.value)(report) {
                    let round = round.saturating_add(1);
                    most = most.max(value);
                    points.push((round as f64, value, format!("round {round}: {}", (measure.shown)(value))));
                }
            }
            lines.push(Line { name: rival.name(), points });
        }
        let chart = Chart {
            id: "rounds",
            title: format!("{}, round by round", capital(measure.name)),
            x: Axis::numbered("round", self.rounds),
            y: Axis::linear(measure.name, most, measure.shown),
            lines,
        };
        let header: Vec<String> = std::iter::once("Round".to_owned()).chain(self.letters()).collect();
        let row = |round: usize| {
            let value = |rival: &Rival| rival.reports.get(round).and_then(|report| (measure.value)(report));
            let cells = self.rivals.iter().map(|rival| value(rival).map_or_else(|| "–".to_owned(), measure.shown));
            std::iter::once((round + 1).to_string()).chain(cells).collect()
        };
        page.chart(&chart, &header, &(0..self.rounds).map(row).collect::<Vec<_>>());
    }
}

/// Shares of denied calls that lie further apart than so many percentage points are warned of.
const DENIED_APART_MAX: f64 = 1.0;

/// The ratios that stand out on the page.
const HEADLINES: [&str; 3] = ["server_cpu_ns_per_call", "calls_per_second", "p99_us"];

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

/// Three digits are what a ratio is worth.
fn ratio_text(ratio: f64) -> String {
    match ratio {
        large if large >= 100.0 => format!("{large:.0}"),
        large if large >= 10.0 => format!("{large:.1}"),
        medium if medium >= 1.0 => format!("{medium:.2}"),
        small => format!("{small:.3}"),
    }
}

impl Rival {
    fn spread(&self, measure: &Measure) -> Option<Spread> {
        let values = self.reports.iter().filter_map(measure.value).filter(|value| value.is_finite());
        Spread::of(&values.collect::<Vec<f64>>())
    }

    /// A count over all rounds.
    fn sum(&self, count: fn(&Report) -> u64) -> u64 {
        self.reports.iter().map(count).fold(0, u64::saturating_add)
    }

    /// Denied calls of all rounds; none if the replies of a round do not tell.
    fn denied(&self) -> Option<u64> {
        self.reports.iter().map(|report| report.denied).try_fold(0_u64, |sum, denied| Some(sum.saturating_add(denied?)))
    }

    /// Their share in percent.
    fn denied_percent(&self) -> Option<f64> {
        let calls = self.sum(|report| report.calls);
        self.denied().filter(|_| calls > 0).map(|denied| report::float(denied) * 100.0 / report::float(calls))
    }

    /// The latencies of all rounds together.
    fn latency(&self) -> Option<Latency> {
        Latency::together(self.reports.iter().map(|report| &report.latency))
    }

    fn name(&self) -> String {
        format!("{}: {}", self.letter, self.plan.target)
    }

    fn words(&self) -> String {
        let server = self.reports.first().map(Report::server_in_words).unwrap_or_default();
        if server.is_empty() { self.plan.target.to_string() } else { format!("{}, {server}", self.plan.target) }
    }
}
