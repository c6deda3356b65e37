//! What redb's errors mean to a caller of the port.

use std::io::ErrorKind;
use std::path::Path;

use redb::{CommitError, DatabaseError, StorageError, TableError, TransactionError};

use crate::store::StoreError;
use crate::store::space::Bound;

/// A failure before the commit: the transaction is gone and nothing was written.
pub(super) struct Failure(pub(super) StoreError);

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Io(error) if out_of_space(&error) => Self(StoreError::Full(Bound::Disk)),
            other => Self(StoreError::Unavailable(other.to_string())),
        }
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Storage(error) => error.into(),
            other => Self(StoreError::Unavailable(other.to_string())),
        }
    }
}

impl From<TransactionError> for Failure {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Storage(error) => error.into(),
            other => Self(StoreError::Unavailable(other.to_string())),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self(error)
    }
}

/// The commit failed, and the file shows that nothing of it was written.
pub(super) fn undone(error: CommitError) -> Failure {
    match error {
        CommitError::Storage(error) => error.into(),
        other => Failure(StoreError::Unavailable(other.to_string())),
    }
}

/// The commit itself failed, and what reached the disk could not be seen.
impl From<CommitError> for Failure {
    fn from(error: CommitError) -> Self {
        Self(StoreError::Unknown(error.to_string()))
    }
}

/// Opening failed. The path is named, because a person has to look there.
pub(super) fn opening(path: &Path, error: DatabaseError) -> StoreError {
    let path = path.display();
    match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::Unavailable(format!(
            "{path} is in use by another process: end that one, or give this one a data_dir of its own"
        )),
        DatabaseError::Storage(StorageError::Io(error)) if out_of_space(&error) => {
            StoreError::Full(Bound::Disk)
        }
        other => StoreError::Unavailable(format!(
            "{path}: {other}: if it is no store of this program, put it away; if it is, put a backup in its place"
        )),
    }
}

fn out_of_space(error: &std::io::Error) -> bool {
    // The last is a limit on the size of files, which is a disk of that size to us.
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}
