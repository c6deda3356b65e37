//! The one thread on which all registrants of the process live.
//!
//! Heartbeats must not starve while the caller's runtime is busy: an agent that computes for a minute, or blocks, on a
//! worker of its runtime would otherwise lose its lease in the middle of its work (acceptance SDK-04). A thread of our
//! own with a current-thread runtime is scheduled by the system, whatever the caller does. It is started with the first
//! registrant, serves all of them, and ends with the process; nothing that blocks ever runs on it.

use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle};

use crate::error::StartError;

static THREAD: Mutex<Option<Handle>> = Mutex::new(None);

/// The runtime of the thread; starts it when there is none. A start that failed is tried again by the next registrant.
pub(crate) fn runtime() -> Result<Handle, StartError> {
    let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*thread {
        return Ok(handle.clone());
    }
    let failed = |error: std::io::Error| StartError::Thread(error.to_string());
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("rollcall-registrant".into())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))
        .map_err(failed)?;
    *thread = Some(handle.clone());
    Ok(handle)
}
