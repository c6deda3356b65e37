//! What owners do to their leases: renew, join and let go.

use std::time::Duration;

use super::{Deadlines, look_at};
use crate::holders::{HeardAt, Holder, Holders};
use crate::lease::Verdict;
use crate::position::Epoch;
use crate::time::{Instant, Timestamp};

/// The answer to a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The deadline moved; the lease lasts this long from now.
    Renewed(Duration),
    /// The same, by a holder of a shared entry whose declaration was replaced by a newer one.
    KeptAlive(Duration),
    /// A newer epoch holds the instance.
    Superseded,
    /// There is no such registration.
    NotRegistered,
    /// The epoch is newer than what the keeper has applied, or a removal is under way: ask again soon.
    Wait,
}

/// The answer to a holder that lets a registration go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LettingGo {
    /// The entry is one process's own: its epoch alone decides.
    NotShared,
    /// Others hold the entry, or may; it stays.
    Others,
    /// That was the last one: this registration is to be removed now, and is marked as being removed.
    Last(Epoch),
    /// The epoch was never issued.
    Superseded,
    /// There is no such registration.
    NotRegistered,
    /// The epoch is newer than what the keeper has applied, or a removal is under way: ask again soon.
    Wait,
}

impl Deadlines {
    /// Moves the deadline of one lease. Only the server's monotonic clock decides (acceptance LEA-10). `holder` tells
    /// apart those that share an entry; one that was not known joins.
    pub fn renew(
        &mut self,
        id: &str,
        holder: &Holder,
        epoch: Epoch,
        now: Instant,
        wall: Timestamp,
    ) -> Renewal {
        self.heard(id, epoch, HeardAt { at: now, wall }, |holders, lease, heard| {
            holders.hear(holder, epoch, lease, heard);
        })
    }

    /// The same for the holder whose registration was just written under this epoch.
    pub fn wrote(
        &mut self,
        id: &str,
        holder: &Holder,
        epoch: Epoch,
        now: Instant,
        wall: Timestamp,
    ) -> Renewal {
        self.heard(id, epoch, HeardAt { at: now, wall }, |holders, lease, heard| {
            holders.wrote(holder, epoch, lease, heard);
        })
    }

    fn heard(
        &mut self,
        id: &str,
        epoch: Epoch,
        heard: HeardAt,
        tell: impl FnOnce(&mut Holders, Duration, HeardAt),
    ) -> Renewal {
        let (zero, ahead) = (self.zero, self.is_ahead(epoch));
        match self.get_mut(id) {
            None if ahead => Renewal::Wait,
            None => Renewal::NotRegistered,
            Some((lease, column)) if lease.may_be_held_by(epoch) => {
                if lease.removing {
                    return Renewal::Wait;
                }
                // A muted registrant is told that all is well, so that the drill shows what the others do.
                if !lease.is_muted(heard.at) {
                    lease.hear(heard);
                    let length = lease.length();
                    if let Some(holders) = lease.holders_mut() {
                        tell(holders, length, heard);
                    }
                    *column = look_at(lease, zero);
                }
                if lease.epoch == epoch {
                    Renewal::Renewed(lease.length())
                } else {
                    Renewal::KeptAlive(lease.length())
                }
            }
            Some(_) if ahead => Renewal::Wait,
            Some(_) => Renewal::Superseded,
        }
    }

    /// A holder lets go of a shared entry. Its epoch may be an older one: it only ever speaks for itself, and for what
    /// it held under that epoch.
    pub fn let_go(&mut self, id: &str, holder: &Holder, epoch: Epoch, now: Instant) -> LettingGo {
        let (zero, ahead) = (self.zero, self.is_ahead(epoch));
        match self.get_mut(id) {
            None if ahead => LettingGo::Wait,
            None => LettingGo::NotRegistered,
            Some((lease, column)) => {
                let (may, removing, length) = (lease.may_be_held_by(epoch), lease.removing, lease.length());
                let Some(holders) = lease.holders_mut() else { return LettingGo::NotShared };
                if !may {
                    return if ahead { LettingGo::Wait } else { LettingGo::Superseded };
                }
                if removing {
                    return LettingGo::Wait;
                }
                holders.let_go(holder, epoch);
                let left = holders.latest().filter(|_| holders.is_held(length, now));
                let doubtful = holders.is_doubtful(length, now);
                let Some(heard) = left else {
                    lease.removing = true;
                    return LettingGo::Last(lease.epoch);
                };
                if doubtful {
                    lease.judge(Verdict::LetGo);
                }
                lease.move_deadline(heard);
                *column = look_at(lease, zero);
                LettingGo::Others
            }
        }
    }
}
