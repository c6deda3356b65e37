//! The office of a keeper whose process is gone: vacated at once, instead of when its lease lapses.
//!
//! The evidence is that of a suspect's death: its host refuses connections, twice, where the same keeper answered this
//! process before. Silence is no evidence, and neither is an address that never answered. Were the keeper alive all the
//! same, the fence lets nothing of it be written from then on (I10), and it learns so with its next beat.

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::Revision;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{InOffice, probe};
use crate::store::{Committed, Compare, Group, Op, Store};

/// Between the two tries: long enough for a listener that is being replaced.
const AGAIN: Duration = Duration::from_millis(200);

/// Vacates offices until cancelled. `unheard` tells each keeper that answered here and then failed to.
pub(crate) async fn run<S: Store>(
    store: Arc<S>,
    mut unheard: watch::Receiver<Option<InOffice>>,
    cancel: CancellationToken,
) {
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            told = unheard.changed() => if told.is_err() {
                return;
            },
        }
        let Some(keeper) = unheard.borrow_and_update().clone() else { continue };
        tokio::select! {
            () = cancel.cancelled() => return,
            () = look_after(&*store, &keeper) => {}
        }
    }
}

async fn look_after<S: Store>(store: &S, keeper: &InOffice) {
    if !probe::is_refused(&keeper.address).await {
        return;
    }
    tokio::time::sleep(AGAIN).await;
    if !probe::is_refused(&keeper.address).await {
        return;
    }
    let vacate = Group {
        fence: vec![Compare::ModRevision(keeper.key.to_string(), Revision(keeper.term))],
        also: vec![Op::Remove(keeper.key.to_string())],
        ..Group::default()
    };
    match store.commit(vacate).await {
        Ok(Committed::Done { .. }) => {
            tracing::warn!(term = keeper.term, address = %keeper.address, "keeper's host refuses connections; its office is vacated");
        }
        Ok(Committed::Fenced) => {}
        // Its lease lapses.
        Err(error) => tracing::debug!(%error, "office not vacated"),
    }
}
