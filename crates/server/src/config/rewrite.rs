//! CONFIG REWRITE: values that were changed while the server ran are brought into the configuration file.
//!
//! The file is a person's: comments, order and spelling stay, and only lines whose value is another now are touched. It
//! is replaced in one step (a new file, synced, renamed over the old one), so that a crash leaves one or the other.
//!
//! **Invariant:** a server that is started with the file alone has the values that CONFIG GET shows.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_engine::tunables::{Tunable, Tunables};
use toml_edit::{DocumentMut, Item, Value, value};

use super::raw::read_text;
use super::setting::SETTINGS;

/// A new file that is older than this is nobody's any more.
const REMAINS_AGE_MIN: Duration = Duration::from_secs(60);

/// Brings the values of `tunables` that differ from those in the file at `path` into it.
///
/// # Errors
/// Why that cannot be, in words that complete "ERR ". The file is as it was then.
pub(crate) fn rewrite(path: &Path, tunables: &Tunables) -> Result<(), String> {
    // The reason is for the operator's terminal: neither it nor the parser's message holds anything of the file.
    let failed = |why: String| format!("Rewriting config file: {} {why}", path.display());
    // A pipe has no end to wait for, and waiting would hold a core; nor can anything but a file be replaced by one.
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => return Err(failed("is not a regular file".to_owned())),
        _ => {}
    }
    let text = read_text(path).map_err(failed)?;
    let mut document: DocumentMut = text.parse().map_err(|_| failed("is not TOML any more".to_owned()))?;
    if !bring_in(&mut document, tunables) {
        return Ok(());
    }
    replace(path, &document.to_string()).map_err(|error| failed(format!("cannot be replaced: {error}")))
}

/// Answers whether anything had to be changed.
fn bring_in(document: &mut DocumentMut, tunables: &Tunables) -> bool {
    let mut changed = false;
    for tunable in Tunable::ALL {
        let wanted = tunables.get(tunable);
        let written = document.get(tunable.name()).map(written_text);
        let default = SETTINGS.into_iter().find(|setting| setting.key == tunable.name()).map(|row| row.default);
        let holds = written.unwrap_or_else(|| default.unwrap_or_default().to_owned());
        if tunable.parse(holds.as_bytes()) == Ok(wanted) {
            continue;
        }
        changed = true;
        let mut item = if tunable.is_number() { value(wanted) } else { value(tunables.text(tunable)) };
        // What stands around the value, a comment behind it above all, stays.
        if let (Some(old), Some(new)) = (document.get(tunable.name()).and_then(Item::as_value), item.as_value_mut()) {
            *new.decor_mut() = old.decor().clone();
        }
        match document.get_mut(tunable.name()) {
            Some(place) => *place = item,
            None => {
                document.insert(tunable.name(), item);
            }
        }
    }
    changed
}

/// A value as the text that a flag would have.
fn written_text(item: &Item) -> String {
    match item.as_value() {
        Some(Value::String(text)) => text.value().clone(),
        Some(Value::Integer(number)) => number.value().to_string(),
        _ => String::new(),
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let fresh = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    remove_remains(folder, &name);
    let written = write_beside(path, &fresh, text).and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
        return written;
    }
    // Without this the new name could be lost with the machine, and then the old file would still be there.
    File::open(folder)?.sync_all()
}

/// Removes new files of processes that were killed before they could rename theirs: those of no running process, which
/// are old enough not to be written right now by one that is not seen from here, in another container for one.
fn remove_remains(folder: &Path, name: &str) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let file_name = entry.file_name();
        let process = file_name.to_str().and_then(|file| {
            let number = file.strip_prefix('.')?.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".tmp")?;
            number.parse::<u32>().ok()
        });
        let is_running = |process: u32| Path::new("/proc").join(process.to_string()).exists();
        let age =
            entry.metadata().ok().filter(fs::Metadata::is_file).and_then(|data| data.modified().ok()?.elapsed().ok());
        if process.is_some_and(|process| !is_running(process)) && age.is_some_and(|age| age >= REMAINS_AGE_MIN) {
            // Whoever may not remove it may not replace the file either, and is told that.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The new file has the old one's owner and permissions: it may hold a password.
fn write_beside(path: &Path, fresh: &PathBuf, text: &str) -> io::Result<()> {
    let old = fs::metadata(path)?;
    let _ = fs::remove_file(fresh);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(fresh)?;
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
        fchown(&file, Some(old.uid()), Some(old.gid()))?;
    }
    file.set_permissions(fs::Permissions::from_mode(old.permissions().mode()))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    fn rewritten(text: &str, change: impl Fn(&Tunables)) -> String {
        let scratch = Scratch::new();
        let path = scratch.path().join("tollgate.toml");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let tunables = Tunables::default();
        change(&tunables);
        rewrite(&path, &tunables).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1, "nothing is left beside it");
        fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn only_what_differs_is_touched() {
        let text = "# ours\nport = 7000\n\nmaxmemory = \"1gb\"   # all of it\nslowlog-max-len=128\n# the end\n";
        let gigabyte = 1 << 30;
        assert_eq!(rewritten(text, |tunables| tunables.set_memory_max_bytes(gigabyte)), text);
        let changed = rewritten(text, |tunables| {
            tunables.set_memory_max_bytes(5);
            tunables.set(Tunable::Timeout, 60);
            tunables.set_eviction(tollgate_store::Eviction::EvictLeast);
        });
        for line in ["# ours", "port = 7000", "maxmemory = 5   # all of it", "slowlog-max-len=128", "timeout = 60"] {
            assert!(changed.lines().any(|found| found == line), "{line} is missing in {changed}");
        }
        assert!(changed.contains("maxmemory-policy = \"evict-least\"\n"), "{changed}");
        assert!(changed.find("# ours") < changed.find("port") && changed.contains("# the end"), "{changed}");
    }

    #[test]
    fn what_a_killed_process_left_is_removed() {
        let scratch = Scratch::new();
        let path = scratch.path().join("tollgate.toml");
        fs::write(&path, "timeout = 60\n").unwrap();
        let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        // No process has a number above the kernel's most, 4194304.
        let dead = u32::MAX;
        let (running, other) = (format!(".tollgate.toml.{}.tmp", 1), ".other.toml.4294967295.tmp".to_owned());
        let named =
            [(format!(".tollgate.toml.{dead}.tmp"), hour_ago), (running.clone(), hour_ago), (other.clone(), hour_ago)];
        let young = (format!(".tollgate.toml.{}.tmp", dead - 1), std::time::SystemTime::now());
        for (name, modified) in named.iter().chain([&young]) {
            File::create(scratch.path().join(name)).unwrap().set_modified(*modified).unwrap();
        }
        rewrite(&path, &Tunables::default()).unwrap();
        let mut left: Vec<String> = fs::read_dir(scratch.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected = vec![running, other, young.0, "tollgate.toml".to_owned()];
        expected.sort();
        assert_eq!(left, expected);
    }

    #[test]
    fn what_is_no_file_is_refused_and_not_waited_for() {
        let scratch = Scratch::new();
        let pipe = scratch.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for path in [pipe.as_path(), scratch.path(), Path::new("/dev/null")] {
            let error = rewrite(path, &Tunables::default()).unwrap_err();
            assert!(error.ends_with("is not a regular file"), "{error}");
        }
    }

    #[test]
    fn what_was_set_back_to_its_default_is_said_too() {
        assert_eq!(rewritten("timeout = 60\n", |_| {}), "timeout = 0\n");
        assert_eq!(rewritten("", |_| {}), "");
    }

    #[test]
    fn a_file_that_cannot_be_rewritten_is_named() {
        let scratch = Scratch::new();
        let missing = rewrite(&scratch.path().join("none.toml"), &Tunables::default()).unwrap_err();
        assert!(missing.starts_with("Rewriting config file: ") && missing.contains("none.toml"), "{missing}");
        let broken = scratch.path().join("broken.toml");
        fs::write(&broken, "requirepass = \"s3cret\"\n=\n").unwrap();
        let error = rewrite(&broken, &Tunables::default()).unwrap_err();
        assert!(error.contains("is not TOML") && !error.contains("s3cret"), "{error}");
        assert_eq!(fs::read_to_string(&broken).unwrap(), "requirepass = \"s3cret\"\n=\n");
    }
}
