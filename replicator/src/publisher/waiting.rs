//! Standing by: the cell and the feed followed side by side, for `standby` to judge.

use rollcall_model::{Follower, Next};

use super::standby::Standby;
use super::{Ended, Publisher, TICK, Unanswered};
use crate::chance;
use crate::feed_log::newest::Tail;
use crate::feed_log::{FeedLog, Follow as _, Topic, record};

impl<L: FeedLog> Publisher<L> {
    /// Follows the cell and the feed until the feed has been behind the cell for too long.
    pub(super) async fn stand_by(&mut self, tail: Tail) -> Result<(), Ended> {
        let mut events = self.source.open(self.view.position()).await?;
        let mut feed = self.log.follow(&Topic::feed(&self.region), tail.offsets.end).await?;
        self.known = Some(tail.offsets.end);
        self.status.send_modify(|status| {
            status.waiting_for = None;
            status.unanswered = None;
            status.is_standing_by = true;
            status.heard_at = Some(self.clock.now());
        });
        tracing::info!(region = %self.region, tail = ?tail.position, "standing by while another publishes, if one does");
        let mut standby = Standby::new(tail.position, chance::draw());
        let mut follower = Follower::new(None);
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !standby.is_due(self.clock.now()) {
            tokio::select! {
                event = events.next() => {
                    let (event, now) = (event?, self.clock.now());
                    let next = follower.accept(&mut self.view, event, now, self.clock.wall());
                    if let Next::Restart(reason) = next {
                        return Err(Ended::Restart(reason));
                    }
                    if let Some(position) = self.view.position() {
                        standby.cell_at(position, now);
                        self.tell_older(&standby);
                    }
                }
                record = feed.next() => {
                    let record = record?;
                    self.known = Some(record.offset + 1);
                    let Ok(item) = record::read_item(&self.region, &record) else { continue };
                    let to = record::ends(&item).2.clone();
                    standby.feed_at(&to);
                    let now = self.clock.now();
                    self.status.send_modify(|status| {
                        status.position = Some(to);
                        status.heard_at = Some(now);
                    });
                }
                _ = ticks.tick() => {}
            }
        }
        tracing::warn!(region = %self.region, "the feed stays behind the cell: taking over");
        // Whether that one is gone or the log, the next steps show, and they may wait for seconds.
        let trouble = format!("another published, and nothing of it comes (log at {})", self.log.address());
        let since = standby.behind_since().unwrap_or_else(|| self.clock.now());
        self.status.send_modify(|status| status.unanswered = Some(Unanswered { since, trouble }));
        Ok(())
    }

    /// Says, once, that nothing will be published as things are.
    fn tell_older(&self, standby: &Standby) {
        let older = standby.older_than_the_feed().map(|(cell, feed)| {
            format!(
                "the cell tells history {}, and its feed holds the later {}; a region that was founded anew without its data \
                 is not seen by others as long as the old feed and their copies of it are kept",
                cell.incarnation, feed.incarnation
            )
        });
        self.status.send_if_modified(|status| {
            if status.waiting_for == older {
                return false;
            }
            match &older {
                Some(why) => tracing::warn!(region = %self.region, why, "nothing is published"),
                None => {
                    tracing::info!(region = %self.region, "the cell has come up to the history of its feed")
                }
            }
            status.waiting_for = older;
            true
        });
    }
}
