//! The source is tested too.
//!
//! The problem: rules of form that only people watch are kept until the first busy week. The idea: whatever can be read
//! off the text (lengths of lines, functions and files, words that promise work for later, who may depend on a clock)
//! is a test, and a file that may break a rule stands in a list here, with the reason.
//!
//! Each test collects all faults before it fails, so that one run names them all.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a tree that cannot be read is a test that fails")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const LINE_CHARS_MAX: usize = 120;
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 700;

/// Files that may be longer, and why.
const LONG_FILES: &[(&str, &str)] = &[("crates/engine/src/table.rs", "one row a command: a table, read by search")];

/// Files that may hold `unsafe`, and why.
const UNSAFE_FILES: &[(&str, &str)] = &[
    ("crates/store/src/prefetch.rs", "reads that nobody waits for: a third of a call on a random one of many keys"),
    ("crates/store/src/region.rs", "memory that is reached without a check: 31 instructions a call"),
    ("crates/store/src/wide.rs", "code for CPUs that are asked first: a tenth of a call's instructions"),
];

/// Where Rust source lies.
const SOURCE_FOLDERS: [&str; 5] = ["benches", "crates", "fuzz", "src", "tests"];

/// Crates that are given the time and never wait.
const PURE_CRATES: [&str; 5] = ["limits", "resp", "store", "topology", "engine"];
/// What none of them may depend on, however far down.
const IMPURE_PACKAGES: [&str; 6] = ["tokio", "mio", "hyper", "chrono", "time", "async-std"];
/// What stands for a clock, a thread or a socket in source.
const IMPURE_PATHS: [&str; 9] = [
    "std::time",
    "time::Instant",
    "Instant::now",
    "SystemTime",
    "clock_gettime",
    "std::thread",
    "thread::spawn",
    "std::net",
    "async fn",
];

/// Words that promise work for later or switch a test off, in halves so that this file does not hold them.
const FORBIDDEN_WORDS: [(&str, &str); 8] = [
    ("TO", "DO"),
    ("FIX", "ME"),
    ("XX", "X"),
    ("#[ign", "ore"),
    ("#[should_", "panic"),
    ("to", "do!("),
    ("unimple", "mented!("),
    ("db", "g!("),
];

/// One source file.
struct Source {
    /// From the root of the repository, with `/`.
    path: String,
    text: String,
    /// The text with comments and the insides of literals blanked: as many lines, as many characters.
    code: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<Source> {
    let mut paths = Vec::new();
    SOURCE_FOLDERS.iter().for_each(|folder| collect(&root().join(folder), &mut paths));
    paths.sort();
    assert!(paths.len() > 100, "only {} files of Rust found", paths.len());
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let below_root = path.strip_prefix(root()).expect("found below the root");
        let code = code_of(&text);
        Source { path: below_root.to_string_lossy().replace('\\', "/"), text, code }
    };
    paths.into_iter().map(read).collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        // What a build leaves behind is not source.
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
}

fn assert_none(rule: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{rule}:\n  {}", faults.join("\n  "));
}

#[test]
fn lines_fit() {
    let mut faults = Vec::new();
    for source in sources() {
        for (number, line) in numbered(&source.text) {
            let length = line.chars().count();
            if length > LINE_CHARS_MAX {
                faults.push(format!("{}:{number}: {length} characters", source.path));
            }
            if line.trim_end() != line {
                faults.push(format!("{}:{number}: blanks at the end", source.path));
            }
        }
    }
    assert_none("a line has at most 120 characters, and none at its end that nobody sees", &faults);
}

#[test]
fn functions_fit_on_a_screen() {
    let mut faults = Vec::new();
    for source in sources() {
        for (number, name, lines) in functions(&source.code) {
            if lines > FUNCTION_LINES_MAX {
                faults.push(format!("{}:{number}: fn {name} has {lines} lines", source.path));
            }
        }
    }
    assert_none("a function has at most 70 lines", &faults);
}

#[test]
fn files_hold_one_idea() {
    let mut faults = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        let is_listed = LONG_FILES.iter().any(|(path, _)| *path == source.path);
        if lines > FILE_LINES_MAX && !is_listed {
            faults.push(format!("{}: {lines} lines", source.path));
        }
    }
    assert_none("a file has at most 700 lines", &faults);
}

#[test]
fn every_file_says_what_it_is_for() {
    let is_silent = |source: &Source| !source.text.starts_with("//!");
    let faults: Vec<_> = sources().into_iter().filter(is_silent).map(|source| source.path).collect();
    assert_none("a file begins with a `//!` header", &faults);
}

#[test]
fn nothing_is_put_off_or_switched_off() {
    let words: Vec<String> = FORBIDDEN_WORDS.iter().map(|(first, second)| format!("{first}{second}")).collect();
    let mut faults = Vec::new();
    for source in sources() {
        for (number, line) in numbered(&source.text) {
            for word in words.iter().filter(|word| holds_word(line, word)) {
                faults.push(format!("{}:{number}: {word}", source.path));
            }
        }
    }
    assert_none("work is done or not begun, and every test runs", &faults);
}

#[test]
fn unsafe_code_is_listed_and_argued() {
    let mut faults = Vec::new();
    for source in sources() {
        let lines: Vec<&str> = source.text.lines().collect();
        for (number, line) in numbered(&source.code).filter(|(_, line)| holds_word(line, "unsafe")) {
            if !UNSAFE_FILES.iter().any(|(path, _)| *path == source.path) {
                faults.push(format!("{}:{number}: not in the list of files with unsafe code", source.path));
            }
            let above = &lines[number.saturating_sub(6)..number];
            if !above.iter().any(|line| line.contains("SAFETY:")) {
                faults.push(format!("{}:{number}: no SAFETY line above {:?}", source.path, line.trim()));
            }
        }
    }
    assert_none("unsafe code lies in few files and says why it is sound", &faults);
}

#[test]
fn lists_of_exceptions_are_not_stale() {
    let paths: BTreeSet<String> = sources().into_iter().map(|source| source.path).collect();
    let listed = LONG_FILES.iter().chain(UNSAFE_FILES);
    let faults: Vec<_> = listed.map(|(path, _)| (*path).to_owned()).filter(|path| !paths.contains(path)).collect();
    assert_none("a file with an exception exists", &faults);
}

#[test]
fn pure_crates_name_no_clock_thread_or_socket() {
    let mut faults = Vec::new();
    for source in sources() {
        let is_pure = PURE_CRATES.iter().any(|name| source.path.starts_with(&format!("crates/{name}/src/")));
        if !is_pure {
            continue;
        }
        for (number, line) in numbered(&source.code) {
            for path in IMPURE_PATHS.iter().filter(|path| holds_word(line, path)) {
                faults.push(format!("{}:{number}: {path}", source.path));
            }
        }
    }
    assert_none("limits, resp, store and engine are given the time and do no I/O", &faults);
}

#[test]
fn pure_crates_depend_on_no_runtime() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata writes JSON");
    let graph = Graph::of(&metadata);
    let mut faults = Vec::new();
    for name in PURE_CRATES.map(|name| format!("tollgate-{name}")) {
        for chain in graph.chains_from(&name) {
            if chain.last().is_some_and(|last| IMPURE_PACKAGES.contains(&last.as_str())) {
                faults.push(chain.join(" -> "));
            }
        }
    }
    assert_none("limits, resp, store and engine depend on neither a runtime nor a clock", &faults);
    let server = graph.chains_from("tollgate-server");
    let reaches_tokio = server.iter().any(|chain| chain.last().is_some_and(|last| last == "tokio"));
    assert!(reaches_tokio, "the walk finds nothing: the server does depend on tokio");
}

/// Packages and what each needs to be built into a program: neither for its tests nor for its build script.
struct Graph {
    names: BTreeMap<String, String>,
    needs: BTreeMap<String, Vec<String>>,
}

impl Graph {
    fn of(metadata: &Value) -> Graph {
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let list = |value: &Value| value.as_array().expect("a list").clone();
        let packages = list(&metadata["packages"]);
        let names = packages.iter().map(|package| (text(&package["id"]), text(&package["name"]))).collect();
        let mut needs = BTreeMap::new();
        for node in list(&metadata["resolve"]["nodes"]) {
            let is_normal =
                |dependency: &Value| list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            let dependencies = list(&node["deps"]);
            let normal = dependencies.iter().filter(|dependency| is_normal(dependency));
            needs.insert(text(&node["id"]), normal.map(|dependency| text(&dependency["pkg"])).collect());
        }
        Graph { names, needs }
    }

    /// For each package that `name` reaches, one way to it, by names.
    fn chains_from(&self, name: &str) -> Vec<Vec<String>> {
        let start = self.names.iter().find(|(_, of)| *of == name).map(|(id, _)| id.clone());
        let start = start.unwrap_or_else(|| panic!("no package {name}"));
        let mut chains = vec![(start.clone(), vec![name.to_owned()])];
        let mut seen = BTreeSet::from([start]);
        let mut next = 0;
        while let Some((id, chain)) = chains.get(next).cloned() {
            next += 1;
            for needed in self.needs.get(&id).into_iter().flatten().filter(|needed| seen.insert((*needed).clone())) {
                let longer = chain.iter().chain(self.names.get(needed)).cloned().collect();
                chains.push((needed.clone(), longer));
            }
        }
        chains.into_iter().map(|(_, chain)| chain).collect()
    }
}

/// Lines with their numbers, from 1.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Whether `word` stands in the line with no letter, digit or underscore right before or after it.
fn holds_word(line: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + word.len()..]);
        let begins = !word.starts_with(is_part) || !before.ends_with(is_part);
        let ends = !word.ends_with(is_part) || !after.starts_with(is_part);
        begins && ends
    })
}

/// Where each function with a body begins, its name, and how many lines it has.
fn functions(code: &str) -> Vec<(usize, String, usize)> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("fn ") {
        let is_word = !code[..start].ends_with(|character: char| character.is_alphanumeric() || character == '_');
        let name: String = code[start + 3..]
            .chars()
            .take_while(|character| character.is_alphanumeric() || *character == '_')
            .collect();
        let Some(end) = body_end(&code[start..]).filter(|_| is_word && !name.is_empty()) else { continue };
        let lines = code[start..start + end].lines().count();
        found.push((code[..start].matches('\n').count() + 1, name, lines));
    }
    found
}

/// Where the body ends of the function that begins here; `None` for one without a body.
fn body_end(code: &str) -> Option<usize> {
    let (mut round, mut curly) = (0_usize, 0_usize);
    for (position, character) in code.char_indices() {
        match character {
            '(' | '[' => round += 1,
            ')' | ']' => round = round.checked_sub(1)?,
            ';' if round == 0 && curly == 0 => return None,
            '{' => curly += 1,
            '}' if curly == 1 => return Some(position + 1),
            '}' => curly = curly.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// The text with comments and the insides of string and character literals blanked; line ends stay.
fn code_of(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut position = 0;
    while position < characters.len() {
        let end = blank_end(&characters, position);
        if end == position {
            code.push(characters[position]);
            position += 1;
            continue;
        }
        code.extend(characters[position..end].iter().map(|character| if *character == '\n' { '\n' } else { ' ' }));
        position = end;
    }
    code
}

/// Where the comment or literal ends that begins at `start`; `start` itself if none does.
fn blank_end(characters: &[char], start: usize) -> usize {
    let at = |offset: usize| characters.get(start + offset).copied().unwrap_or('\0');
    let is_in_word = start > 0 && (characters[start - 1].is_alphanumeric() || characters[start - 1] == '_');
    match (at(0), at(1)) {
        ('/', '/') => find(characters, start, |rest| rest[0] == '\n'),
        ('/', '*') => block_comment_end(characters, start),
        ('"', _) => quoted_end(characters, start + 1, '"'),
        ('r', '"' | '#') if !is_in_word || characters[start - 1] == 'b' => raw_string_end(characters, start),
        // A lifetime has no closing quote right after its first character.
        ('\'', '\\') => quoted_end(characters, start + 1, '\''),
        ('\'', _) if at(2) == '\'' => start + 3,
        _ => start,
    }
}

fn find(characters: &[char], start: usize, is_there: impl Fn(&[char]) -> bool) -> usize {
    (start..characters.len()).find(|position| is_there(&characters[*position..])).unwrap_or(characters.len())
}

fn block_comment_end(characters: &[char], start: usize) -> usize {
    let (mut depth, mut position) = (0, start);
    while position + 1 < characters.len() {
        match (characters[position], characters[position + 1]) {
            ('/', '*') => (depth, position) = (depth + 1, position + 2),
            ('*', '/') if depth == 1 => return position + 2,
            ('*', '/') => (depth, position) = (depth - 1, position + 2),
            _ => position += 1,
        }
    }
    characters.len()
}

fn quoted_end(characters: &[char], first: usize, quote: char) -> usize {
    let mut position = first;
    while let Some(character) = characters.get(position) {
        match character {
            '\\' => position += 2,
            character if *character == quote => return position + 1,
            _ => position += 1,
        }
    }
    characters.len()
}

fn raw_string_end(characters: &[char], start: usize) -> usize {
    let hashes = characters[start + 1..].iter().take_while(|character| **character == '#').count();
    if characters.get(start + 1 + hashes) != Some(&'"') {
        return start;
    }
    let closing: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let end = find(characters, start + 2 + hashes, |rest| rest.starts_with(&closing));
    (end + closing.len()).min(characters.len())
}

#[test]
fn the_scanner_tells_code_from_words() {
    let quote = '"';
    let samples = [
        ("let a = 'x'; // fn comment() {", "let a =    ;"),
        ("f(\"} fn \\\" x\", 'a', &'b str)", "f(           ,    , &'b str)"),
        ("/* a /* b */ } */ fn c() {}", "                  fn c() {}"),
        ("b'{' + '\\''", "b    +"),
    ];
    for (text, code) in samples {
        assert_eq!(code_of(text).trim_end(), code, "{text}");
    }
    let raw = format!("r#{quote}a {quote} }}{quote}# }}");
    assert_eq!(code_of(&raw).trim(), "}");
    let header = "fn one() {}\ntrait T {\n    fn none(&self);\n    fn two(&self, f: fn(u8)) -> [u8; 2] {\n";
    let text = format!("{header}        []\n    }}\n}}\n");
    let found = functions(&text);
    assert_eq!(found, [(1, "one".to_owned(), 1), (4, "two".to_owned(), 3)]);
    assert!(holds_word("a b", "b") && !holds_word("ab", "b") && holds_word("(b)", "b"));
}
