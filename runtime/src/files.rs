//! Files that survive a crash: replaced whole, with the generation before kept, in a directory one process owns.
//!
//! Promises: after a crash at any point a reader finds, newest first, exactly what was written or exactly what was
//! there before; never a mixture under the name itself. Whether a generation is *good* is for its reader to verify,
//! which is why there are two. It never deletes the last generation. It opens regular files alone: a pipe or a device
//! under one of its names is an error, and no wait.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// The lock's name inside the directory it locks.
const LOCK: &str = "lock";

/// The steps of a replacement, in order. Each leaves the directory in a state from which a reader finds a whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The new content goes to a name no reader looks at.
    Write,
    /// What was there becomes the previous generation, over the one before it.
    Keep,
    /// The new content takes the name.
    Install,
    /// The directory is made durable, so that a power cut does not undo the renames.
    Settle,
}

const STEPS: [Step; 4] = [Step::Write, Step::Keep, Step::Install, Step::Settle];

/// Replaces a file by `bytes`, durably; what was there before becomes `<path>.1`.
///
/// It waits for the disk, so it is called where waiting is allowed. One writer at a time: the directory
/// is locked by the process, and within it each file has one owner.
///
/// # Errors
/// When the disk refuses. What was there is then still found by [`read_generations`].
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    for step in STEPS {
        perform(step, path, bytes)?;
    }
    Ok(())
}

fn perform(step: Step, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = with_suffix(path, ".tmp");
    let previous = with_suffix(path, ".1");
    let (place, done) = match step {
        Step::Write => {
            // One fixed name, so that crashes leave at most one such file behind; the next replacement overwrites it.
            let written =
                open(&temporary, OpenOptions::new().write(true).create(true)).and_then(|mut file| {
                    let written =
                        file.set_len(0).and_then(|()| file.write_all(bytes)).and_then(|()| file.sync_all());
                    if written.is_err() {
                        // A full disk is not made fuller by half a file.
                        let _ = fs::remove_file(&temporary);
                    }
                    written
                });
            (&*temporary, written)
        }
        // A rename, not a copy: it is atomic, needs no space, and works where hard links do not exist.
        Step::Keep => match fs::rename(path, &previous) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => (&*previous, Ok(())),
            kept => (&*previous, kept),
        },
        Step::Install => (path, fs::rename(&temporary, path)),
        Step::Settle => {
            let directory = directory_of(path);
            (directory, File::open(directory).and_then(|directory| directory.sync_all()))
        }
    };
    // A person has to look there, and the system's own words do not say where.
    done.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", place.display())))
}

/// Reads a file's generations, newest first: the file itself, then `<path>.1`. One that is not there is left out.
///
/// Each is read only when asked for, so a reader that is content with the newest never touches the other.
pub fn read_generations(path: &Path) -> impl Iterator<Item = (PathBuf, io::Result<Vec<u8>>)> + use<> {
    let generations = [path.to_path_buf(), with_suffix(path, ".1")];
    generations.into_iter().filter_map(|path| match read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        read => Some((path, read)),
    })
}

/// Gives the name to the generation that its reader found to be the newest that is good, where it is the one before: the
/// next [`replace`] then keeps that one, and not what stood under the name. Where the disk refuses, nothing is lost yet.
pub fn name_newest(path: &Path, found: &Path) {
    if found != path {
        let _ = fs::rename(found, path);
    }
}

/// Reads a regular file whole.
///
/// # Errors
/// As the system's; [`io::ErrorKind::InvalidInput`] for what is no regular file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, OpenOptions::new().read(true))?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a regular file over, without the care of [`replace`]: for what costs little when it is lost.
///
/// # Errors
/// As for [`read`].
pub fn write_over(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = open(path, OpenOptions::new().write(true).create(true))?;
    file.set_len(0)?;
    file.write_all(bytes)
}

/// Opens a regular file. Whoever opens a pipe waits for its other end, for ever if need be; so nothing is waited for, and
/// what was opened is looked at before anything is done with it.
fn open(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    let other = || io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file");
    let waits_for_nobody = OFlags::NONBLOCK.bits().cast_signed();
    match how.custom_flags(waits_for_nobody).open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Ok(_) => Err(other()),
        // A pipe whose other end nobody holds, or a socket.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => Err(other()),
        Err(error) => Err(error),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A directory held by this process alone; let go when dropped, or by the system when the process dies.
#[derive(Debug)]
#[must_use = "the directory is locked only while this is held"]
pub struct DirLock {
    _file: File,
}

/// Why a directory could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process works in it.
    #[error("directory {} is in use{holder}; stop that process or give this one another data_dir", .directory.display())]
    Held {
        /// The directory.
        directory: PathBuf,
        /// " by process N" where the holder left its number, else empty.
        holder: String,
    },
    /// It cannot be made or opened.
    #[error("directory {} cannot be used: {source}; make it writable or give another data_dir", .directory.display())]
    Unusable {
        /// The directory.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Locks a directory for this process, making it where it is missing.
///
/// # Errors
/// When another process holds it, or when it cannot be made or opened.
pub fn lock_dir(path: &Path) -> Result<DirLock, LockError> {
    let unusable = |source| LockError::Unusable { directory: path.to_path_buf(), source };
    if path.as_os_str().is_empty() {
        // It would be the working directory, whichever that is.
        return Err(unusable(io::Error::new(io::ErrorKind::InvalidInput, "no directory is named")));
    }
    fs::create_dir_all(path).map_err(unusable)?;
    let name = path.join(LOCK);
    // Not truncated on opening: the text belongs to the holder, who may be another.
    let opened = open(&name, OpenOptions::new().create(true).truncate(false).read(true).write(true));
    let mut file = opened.map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(LockError::Held { directory: path.to_path_buf(), holder: holder(&mut file) });
        }
        Err(TryLockError::Error(source)) => return Err(unusable(source)),
    }
    // Only for the sentence above; the lock itself is the system's.
    file.set_len(0).and_then(|()| file.rewind()).map_err(unusable)?;
    writeln!(file, "{}", std::process::id()).map_err(unusable)?;
    Ok(DirLock { _file: file })
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    // A process number is at most seven digits; anything longer is not ours.
    let read = file.take(16).read_to_string(&mut text);
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(process)) => format!(" by process {process}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What a reader that verifies nothing takes: the first generation there is.
    fn newest(path: &Path) -> Option<Vec<u8>> {
        read_generations(path).next().map(|(_, read)| read.expect("readable"))
    }

    fn all(path: &Path) -> Vec<Vec<u8>> {
        read_generations(path).map(|(_, read)| read.expect("readable")).collect()
    }

    fn names(directory: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(directory).expect("a directory");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
    }

    #[test]
    fn nothing_written_is_no_generation() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(all(&directory.path().join("state")), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn two_generations_are_kept_newest_first_and_no_more() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state");
        for content in ["a", "b", "c"] {
            replace(&path, content.as_bytes()).expect("written");
        }
        assert_eq!(all(&path), [b"c", b"b"]);
        assert_eq!(names(directory.path()), BTreeSet::from(["state".to_owned(), "state.1".to_owned()]));
    }

    #[test]
    fn after_a_crash_between_any_two_steps_the_reader_gets_old_or_new() {
        // What is there before, as generations newest first, and what the reader must get until `Install`.
        let befores: [&[&str]; 3] = [&[], &["old"], &["older", "old"]];
        for before in befores {
            for done in 0..=STEPS.len() {
                let directory = tempfile::tempdir().expect("a directory");
                let path = directory.path().join("state");
                for content in before {
                    replace(&path, content.as_bytes()).expect("written");
                }
                for step in &STEPS[..done] {
                    perform(*step, &path, b"new").expect("performed");
                }
                let installed = STEPS[..done].contains(&Step::Install);
                let expected = if installed { Some("new") } else { before.last().copied() };
                let case = format!("before {before:?}, {done} steps done");
                assert_eq!(newest(&path), expected.map(|text| text.as_bytes().to_vec()), "{case}");
                assert!(before.is_empty() || !all(&path).is_empty(), "{case}: the last generation is gone");

                // And whatever was left behind, the next replacement works and keeps what was readable.
                replace(&path, b"next").expect("written");
                let mut kept = vec![b"next".to_vec()];
                kept.extend(expected.map(|text| text.as_bytes().to_vec()));
                assert_eq!(all(&path), kept, "{case}");
                assert!(!names(directory.path()).contains("state.tmp"), "{case}");
            }
        }
    }

    #[test]
    fn after_a_crash_at_any_byte_of_the_new_content_the_reader_gets_the_old() {
        let new = b"the new content";
        for length in 0..=new.len() {
            let directory = tempfile::tempdir().expect("a directory");
            let path = directory.path().join("state");
            replace(&path, b"old").expect("written");
            fs::write(with_suffix(&path, ".tmp"), &new[..length]).expect("written");
            assert_eq!(all(&path), [b"old"], "{length} bytes written");
            replace(&path, new).expect("written");
            assert_eq!(all(&path), [new.to_vec(), b"old".to_vec()], "{length} bytes written");
        }
    }

    #[test]
    fn leftovers_of_every_kind_are_read_right() {
        // Which of the three files are there, and what the reader gets, newest first.
        type Row<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);
        let table: [Row<'_>; 6] = [
            (&[("state.tmp", "torn")], &[]),
            (&[("state.1", "old")], &["old"]),
            (&[("state.1", "old"), ("state.tmp", "new")], &["old"]),
            (&[("state", "new"), ("state.1", "old")], &["new", "old"]),
            (&[("state", "new"), ("state.tmp", "torn")], &["new"]),
            (&[("state", "new"), ("state.1", "old"), ("state.tmp", "torn")], &["new", "old"]),
        ];
        for (files, expected) in table {
            let directory = tempfile::tempdir().expect("a directory");
            for (name, content) in files {
                fs::write(directory.path().join(name), content).expect("written");
            }
            let read = all(&directory.path().join("state"));
            assert_eq!(
                read,
                expected.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>(),
                "{files:?}"
            );
        }
    }

    #[test]
    fn a_write_that_fails_leaves_what_was_there() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state");
        replace(&path, b"old").expect("written");
        // A directory in the way of the temporary file stands for a disk that refuses.
        fs::create_dir(with_suffix(&path, ".tmp")).expect("made");
        replace(&path, b"new").expect_err("it cannot be written");
        assert_eq!(all(&path), [b"old"]);
    }

    #[test]
    fn i24_the_generation_that_was_found_good_is_kept_by_the_next_write_whatever_its_name_was() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state");
        fs::write(&path, "damaged").expect("written");
        fs::write(with_suffix(&path, ".1"), "good").expect("written");
        name_newest(&path, &with_suffix(&path, ".1"));
        perform(Step::Write, &path, b"new").expect("performed");
        perform(Step::Keep, &path, b"new").expect("performed");
        assert_eq!(all(&path), [b"good"], "a crash now leaves the good one");
        name_newest(&path, &path);
    }

    #[test]
    fn a_generation_that_cannot_be_read_is_reported_and_the_other_still_offered() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state");
        fs::create_dir(&path).expect("made");
        fs::write(with_suffix(&path, ".1"), "old").expect("written");
        let read: Vec<_> = read_generations(&path).collect();
        assert_eq!(read.len(), 2);
        assert!(read[0].0 == path && read[0].1.is_err(), "{read:?}");
        assert_eq!(read[1].1.as_ref().expect("readable"), b"old");
    }

    /// A pipe of this name; whoever opens it waits for its other end.
    fn pipe(path: &Path) {
        let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
        assert!(made.success());
    }

    /// Runs it on a thread of its own: what would wait for ever is told as that.
    fn at_once<T: Send + 'static>(what: &str, act: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(act()));
        let deadline = std::time::Duration::from_secs(20);
        result.recv_timeout(deadline).unwrap_or_else(|_| panic!("{what} waits for the other end of a pipe"))
    }

    #[test]
    fn a_pipe_or_a_socket_under_the_name_is_reported_and_waited_for_by_nobody() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state");
        pipe(&path);
        fs::write(with_suffix(&path, ".1"), "old").expect("written");
        let from = path.clone();
        let read: Vec<_> = at_once("reading", move || read_generations(&from).collect());
        let error = read[0].1.as_ref().expect_err("it is no file");
        assert_eq!(error.to_string(), "it is no regular file");
        assert_eq!(read[1].1.as_ref().expect("readable"), b"old");

        let socket = directory.path().join("socket");
        let _bound = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
        let error = at_once("reading", move || super::read(&socket)).expect_err("it is no file");
        assert_eq!(error.to_string(), "it is no regular file");
    }

    #[test]
    fn a_pipe_in_the_way_of_what_is_written_or_locked_is_an_error_that_names_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state");
        replace(&path, b"old").expect("written");
        let temporary = with_suffix(&path, ".tmp");
        pipe(&temporary);
        let to = path.clone();
        let refused = at_once("writing", move || replace(&to, b"new")).expect_err("it cannot be written");
        assert_eq!(refused.to_string(), format!("{}: it is no regular file", temporary.display()));
        assert_eq!(all(&path), [b"old"]);

        let file = directory.path().join("over");
        pipe(&file);
        at_once("writing over", move || write_over(&file, b"new")).expect_err("it is no file");

        pipe(&directory.path().join(LOCK));
        let locked = directory.path().to_path_buf();
        let refused = at_once("locking", move || lock_dir(&locked)).expect_err("it is no file");
        assert!(matches!(refused, LockError::Unusable { .. }), "{refused}");
    }

    #[test]
    fn a_directory_is_held_by_one_at_a_time_and_the_refusal_names_it() {
        let parent = tempfile::tempdir().expect("a directory");
        let directory = parent.path().join("made/on/the/way");
        let held = lock_dir(&directory).expect("free");
        let refused = lock_dir(&directory).expect_err("held");
        let sentence = format!(
            "directory {} is in use by process {}; stop that process or give this one another data_dir",
            directory.display(),
            std::process::id()
        );
        assert_eq!(refused.to_string(), sentence);
        drop(held);
        let _again = lock_dir(&directory).expect("free again");
    }

    #[test]
    fn a_lock_file_left_by_a_process_that_died_locks_nobody_out() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join(LOCK), "4194304999999999999999999999\n").expect("written");
        let _held = lock_dir(directory.path()).expect("free");
        let text = fs::read_to_string(directory.path().join(LOCK)).expect("readable");
        assert_eq!(text, format!("{}\n", std::process::id()));
    }

    #[test]
    fn a_directory_without_a_name_is_refused() {
        let refused = lock_dir(Path::new("")).expect_err("the working directory is nobody's");
        assert!(matches!(refused, LockError::Unusable { .. }), "{refused}");
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let parent = tempfile::tempdir().expect("a directory");
        let file = parent.path().join("file");
        fs::write(&file, "").expect("written");
        let refused = lock_dir(&file.join("below")).expect_err("below a file there is no directory");
        assert!(matches!(refused, LockError::Unusable { .. }));
        assert!(
            refused
                .to_string()
                .starts_with(&format!("directory {} cannot be used: ", file.join("below").display()))
        );
    }
}
