//! What the line says that a registrant writes now and then: whether all is well, in numbers.

use std::time::Duration;

use rollcall_model::Instant;

use crate::registrant::Status;

/// How often the line is written: rare enough for a fleet's log (acceptance OBS-02).
pub(super) const EVERY: Duration = Duration::from_secs(300);

/// What was counted up to the last line.
#[derive(Debug, Default)]
pub(super) struct Tally {
    successes: u64,
    failures: u64,
    last_success: Option<Instant>,
}

/// The facts of one line.
#[derive(Debug, PartialEq)]
pub(super) struct Summary {
    /// Registrations and renewals since the line before.
    pub(super) successes: u64,
    /// Failed calls since the line before.
    pub(super) failures: u64,
    /// Successes of a hundred calls; none without a call.
    pub(super) success_percent: Option<u64>,
    /// Since the last registration or renewal; none before the first.
    pub(super) since_success: Option<Duration>,
}

impl Tally {
    /// A registration or renewal succeeded.
    pub(super) const fn succeeded(&mut self, now: Instant) {
        self.last_success = Some(now);
    }

    /// The facts since the last time.
    pub(super) fn sum_up(&mut self, status: &Status, now: Instant) -> Summary {
        let all = status.registrations.saturating_add(status.renewals);
        let successes = all.saturating_sub(self.successes);
        let failures = status.failures.saturating_sub(self.failures);
        (self.successes, self.failures) = (all, status.failures);
        Summary {
            successes,
            failures,
            // Rounded down: 100 means that nothing failed.
            success_percent: (successes * 100).checked_div(successes + failures),
            since_success: self.last_success.map(|at| now.since(at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use rollcall_model::InstanceId;

    use super::*;
    use crate::registrant::RegistrantState;

    #[test]
    fn obs_02_the_line_counts_what_happened_since_the_line_before() {
        let mut status = Status {
            id: InstanceId::parse("ops/mail/1").unwrap(),
            region: None,
            epoch: None,
            state: RegistrantState::Registering,
            last_error: None,
            registrations: 0,
            renewals: 0,
            failures: 0,
        };
        let at = |seconds| Instant(Duration::from_secs(seconds));
        let mut tally = Tally::default();
        let silent = Summary { successes: 0, failures: 0, success_percent: None, since_success: None };
        assert_eq!(tally.sum_up(&status, at(300)), silent);

        (status.registrations, status.renewals, status.failures) = (1, 28, 1);
        tally.succeeded(at(595));
        let since_success = Some(Duration::from_secs(5));
        let well = Summary { successes: 29, failures: 1, success_percent: Some(96), since_success };
        assert_eq!(tally.sum_up(&status, at(600)), well);

        status.failures = 31;
        let since_success = Some(Duration::from_secs(305));
        let away = Summary { successes: 0, failures: 30, success_percent: Some(0), since_success };
        assert_eq!(tally.sum_up(&status, at(900)), away);
    }
}
