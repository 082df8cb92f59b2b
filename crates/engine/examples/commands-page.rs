//! Writes docs/commands.md, which is made from the command table: to the path given, or to standard output.

use std::io::Write;
use std::process::ExitCode;
use tollgate_engine::docs::commands_page;

fn main() -> ExitCode {
    let path = std::env::args_os().nth(1);
    let page = commands_page();
    let outcome = match &path {
        Some(path) => std::fs::write(path, page),
        None => std::io::stdout().write_all(page.as_bytes()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let place = path.unwrap_or_else(|| "standard output".into());
            eprintln!("cannot write {}: {error}", place.display());
            ExitCode::FAILURE
        }
    }
}
