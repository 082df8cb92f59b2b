//! The directory of one process, and of one only.
//!
//! Two servers that write into one directory would each overwrite what the other has kept. So the directory holds a
//! lock file, and the process holds a lock on that file for its life. The kernel lets go of the lock when the process
//! ends, however it ends, so a crash leaves nothing behind that a person would have to remove; the file itself stays,
//! since removing it would let two processes lock two files of one name.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

/// The name of the lock file in the directory.
const LOCK_FILE_NAME: &str = "tollgate.lock";

/// The longest content of a lock file that is read: a process id has ten digits.
const PID_BYTES_MAX: u64 = 32;

/// A directory that this process has for itself until this value is dropped.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    _lock_file: File,
}

/// Why a directory cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Another process has it.
    #[error(
        "the directory {} is in use by another Tollgate process{}: stop that one, or name another with --dir",
        path.display(),
        pid.map_or(String::new(), |pid| format!(" (pid {pid})"))
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that has it, if the lock file tells.
        pid: Option<u32>,
    },
    /// It cannot be made, or its lock file cannot be opened or locked.
    #[error("the directory {} cannot be used: {source}", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Directory {
    /// Takes the directory at `path`, which is made (for its owner only) if it is missing.
    ///
    /// # Errors
    ///
    /// Another process has it, or it cannot be made, or not be written to.
    pub fn take(path: &Path) -> Result<Directory, DirectoryError> {
        let unusable = |source: io::Error| DirectoryError::Unusable { path: path.to_path_buf(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
        // The whole path, so that the directory stays the same one whatever the process's working directory becomes.
        let path_whole = path.canonicalize().map_err(unusable)?;
        let mut lock_file = open_lock_file(&path_whole.join(LOCK_FILE_NAME)).map_err(unusable)?;
        match flock(&lock_file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(DirectoryError::InUse { path: path_whole, pid: read_pid(&mut lock_file) });
            }
            Err(errno) => return Err(unusable(errno.into())),
        }
        write_pid(&mut lock_file).map_err(unusable)?;
        Ok(Directory { path: path_whole, _lock_file: lock_file })
    }

    /// The whole path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn open_lock_file(path: &Path) -> io::Result<File> {
    // Nothing is cut off on opening: the content belongs to whoever holds the lock. A symbolic link is refused, so that
    // nobody who can write here makes this process write elsewhere.
    let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(no_follow)
        .open(path)
}

fn write_pid(lock_file: &mut File) -> io::Result<()> {
    lock_file.set_len(0)?;
    lock_file.rewind()?;
    writeln!(lock_file, "{}", std::process::id())
}

fn read_pid(lock_file: &mut File) -> Option<u32> {
    let mut text = String::new();
    lock_file.take(PID_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn a_missing_directory_is_made_for_its_owner_only() {
        let scratch = Scratch::new();
        let directory = Directory::take(&scratch.path().join("a/b")).unwrap();
        let mode = directory.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn one_directory_has_one_owner_at_a_time() {
        let scratch = Scratch::new();
        let first = Directory::take(scratch.path()).unwrap();
        let refused = Directory::take(scratch.path()).unwrap_err().to_string();
        assert!(refused.contains(&format!("(pid {})", std::process::id())), "{refused}");
        assert!(refused.contains("--dir"), "{refused}");
        drop(first);
        Directory::take(scratch.path()).unwrap();
    }

    #[test]
    fn a_lock_file_without_a_pid_still_locks() {
        let scratch = Scratch::new();
        let held = open_lock_file(&scratch.path().join(LOCK_FILE_NAME)).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        let refused = Directory::take(scratch.path()).unwrap_err().to_string();
        assert!(refused.contains("in use by another Tollgate process:"), "{refused}");
    }

    #[test]
    fn what_a_dead_process_left_is_taken_over() {
        let scratch = Scratch::new();
        std::fs::write(scratch.path().join(LOCK_FILE_NAME), "4294967295 and more than fits into a lock file\n")
            .unwrap();
        Directory::take(scratch.path()).unwrap();
        let text = std::fs::read_to_string(scratch.path().join(LOCK_FILE_NAME)).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
    }

    #[test]
    fn a_file_or_a_link_in_the_way_is_an_error() {
        let scratch = Scratch::new();
        let file = scratch.path().join("file");
        std::fs::write(&file, "kept").unwrap();
        assert!(matches!(Directory::take(&file), Err(DirectoryError::Unusable { .. })));
        symlink(&file, scratch.path().join(LOCK_FILE_NAME)).unwrap();
        assert!(matches!(Directory::take(scratch.path()), Err(DirectoryError::Unusable { .. })));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    }
}
