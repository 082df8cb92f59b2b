//! docs/commands.md is made from the command table; a page that is out of date misleads whoever reads it.

#![allow(clippy::expect_used, reason = "a page that cannot be read is a test that fails")]

use std::path::Path;
use tollgate_engine::docs::commands_page;
use tollgate_engine::registry::rows;

/// What renews the page, from the root of the repository.
const RENEW: &str = "cargo run -p tollgate-engine --example commands-page docs/commands.md";

#[test]
fn the_page_is_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    let made = commands_page();
    let first_difference = page.lines().zip(made.lines()).position(|(is, should)| is != should);
    let line = first_difference.unwrap_or_else(|| page.lines().count().min(made.lines().count())) + 1;
    assert!(page == made, "docs/commands.md is stale from line {line} on; renew it with: {RENEW}");
}

#[test]
fn every_command_that_runs_has_its_place_on_the_page() {
    let page = commands_page();
    for command in rows() {
        let heading = format!("\n### {}\n", command.name.replace('|', " ").to_ascii_uppercase());
        let is_container_only = !command.subcommands.is_empty() && command.name != "command";
        assert_eq!(page.matches(&heading).count(), usize::from(!is_container_only), "{heading}");
    }
}
