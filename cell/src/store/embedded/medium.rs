//! Where the bytes are: memory, or a file that is opened again after the disk refused something.
//!
//! redb answers nothing more once an access to its file has failed. A disk that was full for a minute must not stop
//! the region until somebody restarts it, so the next write opens the file anew.
//!
//! Never here: what the tables mean.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use redb::backends::InMemoryBackend;
use redb::{Builder, Database, DatabaseError, ReadTransaction, ReadableDatabase, WriteTransaction};

use super::failure::{self, Failure};
use super::tables::{FIRST, HEAD, HISTORY, LAYOUT, LAYOUT_NOW, NUMBERS, VERSIONS, number};
use crate::store::StoreError;

/// Pages that redb keeps of a file: three regions run in one process of 120 MB.
const FILE_CACHE_BYTES: usize = 8 * 1024 * 1024;
/// Likewise in memory, where each page is there already.
const MEMORY_CACHE_BYTES: usize = 2 * 1024 * 1024;

type Open = Box<dyn Fn() -> Result<Database, StoreError> + Send + Sync>;

pub(super) struct Medium {
    /// Empty where opening again has failed. Written to by the one whose turn it is to write.
    database: RwLock<Option<Database>>,
    /// How a file is opened again; what was in memory cannot be.
    open: Option<Open>,
    /// Whether redb may have given up on the file.
    broken: AtomicBool,
}

impl Medium {
    pub(super) fn memory() -> Result<(Self, u64), StoreError> {
        let database = Builder::new()
            .set_cache_size(MEMORY_CACHE_BYTES)
            .create_with_backend(InMemoryBackend::new())
            .map_err(|error| failure::opening(Path::new("memory"), error))?;
        Self::start(database, None)
    }

    pub(super) fn file(path: &Path) -> Result<(Self, u64), StoreError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .map_err(|error| StoreError::Unavailable(format!("{}: {error}", folder.display())))?;
        }
        make_where_there_is_none(path)?;
        let owned = path.to_owned();
        // What is opened again may never become an empty store because its file has gone.
        let open = move || {
            Builder::new()
                .set_cache_size(FILE_CACHE_BYTES)
                .open(&owned)
                .map_err(|error| failure::opening(&owned, error))
        };
        let database = open()?;
        Self::start(database, Some(Box::new(open))).map_err(|error| match error {
            StoreError::Unavailable(why) => StoreError::Unavailable(format!("{}: {why}", path.display())),
            other => other,
        })
    }

    fn start(database: Database, open: Option<Open>) -> Result<(Self, u64), StoreError> {
        let head = prepare(&database).map_err(|Failure(error)| error)?;
        Ok((Self { database: RwLock::new(Some(database)), open, broken: AtomicBool::new(false) }, head))
    }

    /// Whether work on it may wait for a disk.
    pub(super) fn may_wait(&self) -> bool {
        self.open.is_some()
    }

    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&ReadTransaction) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.note(self.with(|database| work(&database.begin_read()?)))
    }

    /// Gives `work` a write transaction; it commits or aborts by itself.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(WriteTransaction) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.note(self.with(|database| work(database.begin_write()?)))
    }

    /// Opens the file again if an access to it has failed, and tells the head that it has. Only one writer at a
    /// time may call this; readers wait for it.
    pub(super) fn mend(&self) -> Result<Option<u64>, Failure> {
        let Some(open) = self.open.as_ref().filter(|_| self.broken.load(Ordering::Acquire)) else {
            return Ok(None);
        };
        let mut slot = self.database.write().unwrap_or_else(PoisonError::into_inner);
        // The lock on the file goes with the old handle.
        *slot = None;
        let database = open()?;
        let head = prepare(&database)?;
        *slot = Some(database);
        self.broken.store(false, Ordering::Release);
        Ok(Some(head))
    }

    /// Has the file opened again before the next write.
    pub(super) fn distrust(&self) {
        self.broken.store(true, Ordering::Release);
    }

    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, Failure>) -> Result<T, Failure> {
        match self.database.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some(database) => work(database),
            None => Err(StoreError::Unavailable(
                "its file failed and could not be opened again; the next write tries: see that its disk is there".to_owned(),
            ).into()),
        }
    }

    fn note<T>(&self, done: Result<T, Failure>) -> Result<T, Failure> {
        if let Err(Failure(StoreError::Unavailable(_) | StoreError::Unknown(_) | StoreError::Full(_))) = done
        {
            self.distrust();
        }
        done
    }
}

/// Makes an empty store, unless there is a file. It takes its name when it is whole on disk: a crash on the way leaves
/// no store, and never an empty file, which could as well be what became of a full one.
fn make_where_there_is_none(path: &Path) -> Result<(), StoreError> {
    let unusable = |error: std::io::Error| StoreError::Unavailable(format!("{}: {error}", path.display()));
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() == 0 => {
            return Err(StoreError::Unavailable(format!(
                "{}: it is empty, which no store ever is: put a backup in its place, or remove it to begin with nothing",
                path.display()
            )));
        }
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(unusable(error)),
    }
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let create = || Builder::new().create(&new);
    let database = match create() {
        Err(DatabaseError::DatabaseAlreadyOpen) => Err(DatabaseError::DatabaseAlreadyOpen),
        // Half of one that a crash has left.
        Err(_) if std::fs::remove_file(&new).is_ok() => create(),
        created => created,
    };
    // Held until the end: nobody else makes one meanwhile.
    let database = database.map_err(|error| failure::opening(path, error))?;
    prepare(&database).map_err(|Failure(error)| error)?;
    // Somebody may have been done just before.
    if path.try_exists().map_err(unusable)? {
        return std::fs::remove_file(&new).map_err(unusable);
    }
    std::fs::rename(&new, path).map_err(unusable)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(unusable)
}

/// Makes the tables where they are missing, checks the layout and tells the head.
fn prepare(database: &Database) -> Result<u64, Failure> {
    let transaction = database.begin_write()?;
    let (head, fresh) = {
        transaction.open_table(VERSIONS)?;
        transaction.open_table(HISTORY)?;
        let mut numbers = transaction.open_table(NUMBERS)?;
        let layout = number(&numbers, LAYOUT)?;
        match layout {
            None => {
                numbers.insert(LAYOUT, LAYOUT_NOW)?;
            }
            Some(LAYOUT_NOW) => {}
            Some(other) => {
                return Err(StoreError::Unavailable(format!(
                    "its layout {other} is of another version: use that one, or begin with another data_dir"
                ))
                .into());
            }
        }
        (number(&numbers, HEAD)?.unwrap_or(FIRST), layout.is_none())
    };
    // A disk that is full can still be read from.
    if fresh {
        transaction.commit()?
    } else {
        transaction.abort()?
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use std::io::Error;
    use std::sync::Arc;

    use redb::StorageBackend;

    use super::super::Embedded;
    use super::*;
    use crate::store::contract::{commit, put};
    use crate::store::space::Bound;
    use crate::store::{Group, Store};

    /// A disk that outlives the database on it, and is full when it is told to be.
    #[derive(Clone, Debug, Default)]
    struct Disk {
        bytes: Arc<RwLock<Vec<u8>>>,
        full: Arc<AtomicBool>,
    }

    impl Disk {
        fn refuse_if_full(&self) -> Result<(), Error> {
            if self.full.load(Ordering::Acquire) {
                return Err(Error::from(ErrorKind::StorageFull));
            }
            Ok(())
        }
    }

    impl StorageBackend for Disk {
        fn len(&self) -> Result<u64, Error> {
            Ok(self.bytes.read().unwrap().len() as u64)
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
            let offset = usize::try_from(offset).unwrap();
            out.copy_from_slice(&self.bytes.read().unwrap()[offset..offset + out.len()]);
            Ok(())
        }

        fn set_len(&self, len: u64) -> Result<(), Error> {
            let len = usize::try_from(len).unwrap();
            if len > self.bytes.read().unwrap().len() {
                self.refuse_if_full()?;
            }
            self.bytes.write().unwrap().resize(len, 0);
            Ok(())
        }

        fn sync_data(&self) -> Result<(), Error> {
            Ok(())
        }

        fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
            let offset = usize::try_from(offset).unwrap();
            self.bytes.write().unwrap()[offset..offset + data.len()].copy_from_slice(data);
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_full_disk_is_told_and_mended_without_a_restart() {
        let disk = Disk::default();
        let open = {
            let disk = disk.clone();
            move || {
                Builder::new()
                    .create_with_backend(disk.clone())
                    .map_err(|error| failure::opening(Path::new("disk"), error))
            }
        };
        let (medium, head) = Medium::start(open().unwrap(), Some(Box::new(open))).unwrap();
        let store = Embedded::of(medium, head);
        let first = commit(&store, vec![put("a", "1")]).await;

        disk.full.store(true, Ordering::Release);
        let large = "x".repeat(1000 * 1024);
        let group = || Group { also: vec![put("b", &large), put("a", "2")], ..Group::default() };
        assert_eq!(store.commit(group()).await, Err(StoreError::Full(Bound::Disk)));
        assert_eq!(
            store.commit(group()).await,
            Err(StoreError::Full(Bound::Disk)),
            "still, and not for another reason"
        );

        disk.full.store(false, Ordering::Release);
        let second = commit(&store, vec![put("c", "3")]).await;
        assert_eq!(second.0, first.0 + 1, "what was refused has left no trace");
        let page = store.list("", None, None, 10).await.unwrap();
        assert_eq!(page.entries.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(page.entries[0].mod_revision, first);
    }
}
