//! Two generations of one file, replaced in steps between which a crash costs nothing.
//!
//! Promises (I24): whoever reads finds, whatever byte a crash cut the writing at, the content before or the new one. A
//! newest generation that was found damaged is never kept over a good one before it. One process at a time writes. Only
//! regular files are opened: a pipe or a device under one of the names is an error, and no wait.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Where the generations of one file are.
#[derive(Clone, Debug)]
pub(super) struct Generations {
    directory: PathBuf,
    name: String,
}

impl Generations {
    pub(super) const fn new(directory: PathBuf, name: String) -> Self {
        Self { directory, name }
    }

    pub(super) fn newest(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    pub(super) fn before(&self) -> PathBuf {
        self.directory.join(format!("{}.1", self.name))
    }

    fn temporary(&self) -> PathBuf {
        self.directory.join(format!("{}.tmp", self.name))
    }

    /// What is there, newest first.
    pub(super) fn read(&self) -> impl Iterator<Item = (PathBuf, io::Result<Vec<u8>>)> + use<> {
        [self.newest(), self.before()].into_iter().filter_map(|path| match read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some((path, read)),
        })
    }

    /// The right to write; `None` while another process, or another handle of this one, has it. It is held as long as
    /// the file is open.
    pub(super) fn lock(&self) -> io::Result<Option<File>> {
        fs::create_dir_all(&self.directory)?;
        let path = self.directory.join(format!("{}.lock", self.name));
        let file = open(&path, OpenOptions::new().create(true).truncate(false).write(true))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// Replaces the newest generation; the one that was it becomes the one before, if it `is_good`.
    pub(super) fn replace(&self, bytes: &[u8], is_good: bool) -> io::Result<()> {
        STEPS.iter().try_for_each(|step| self.perform(*step, bytes, is_good))
    }

    fn perform(&self, step: Step, bytes: &[u8], is_good: bool) -> io::Result<()> {
        let absent = |done: io::Result<()>| match done {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        };
        match step {
            Step::Write => {
                let mut file = open(&self.temporary(), OpenOptions::new().create(true).write(true))?;
                let written =
                    file.set_len(0).and_then(|()| file.write_all(bytes)).and_then(|()| file.sync_all());
                if written.is_err() {
                    // A full disk is not filled further by what is of no use.
                    let _ = fs::remove_file(self.temporary());
                }
                written
            }
            Step::Keep if is_good => absent(fs::rename(self.newest(), self.before())),
            Step::Keep => absent(fs::remove_file(self.newest())),
            Step::Install => fs::rename(self.temporary(), self.newest()),
            Step::Settle => File::open(&self.directory)?.sync_all(),
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, OpenOptions::new().read(true))?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file. Whoever opens a pipe waits for its other end, for ever if need be; so nothing is waited for, and
/// what was opened is looked at before anything is done with it.
fn open(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    let other = || io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file");
    #[cfg(unix)]
    let how = {
        use std::os::unix::fs::OpenOptionsExt as _;
        how.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
    };
    match how.open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Ok(_) => Err(other()),
        // A pipe whose other end nobody holds, or a socket.
        #[cfg(unix)]
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => Err(other()),
        Err(error) => Err(error),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The new content beside the old ones, down to the disk.
    Write,
    /// The newest generation becomes the one before.
    Keep,
    /// The new content becomes the newest generation.
    Install,
    /// The names, too, down to the disk.
    Settle,
}

const STEPS: [Step; 4] = [Step::Write, Step::Keep, Step::Install, Step::Settle];

#[cfg(test)]
impl Generations {
    /// Leaves what a crash leaves after so many bytes of the new content, or after so many steps.
    pub(super) fn crash(&self, bytes: &[u8], is_good: bool, written: Option<usize>, steps: usize) {
        if let Some(written) = written {
            fs::write(self.temporary(), &bytes[..written]).unwrap();
            return;
        }
        STEPS[..steps].iter().for_each(|step| self.perform(*step, bytes, is_good).unwrap());
    }
}
