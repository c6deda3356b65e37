//! Waiting: exponential backoff with full jitter, and the jitter of a beat. Chance is an argument.

use std::time::Duration;

/// A schedule of waits that doubles up to a bound; each wait is drawn evenly from zero to it (full jitter).
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    attempt: u32,
}

impl Backoff {
    /// A schedule whose first wait is at most `first` and whose later ones are at most `most`.
    #[must_use]
    pub const fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, attempt: 0 }
    }

    /// The next wait; `chance` is in [0, 1).
    pub fn next(&mut self, chance: f64) -> Duration {
        let bound =
            self.first.saturating_mul(1_u32.checked_shl(self.attempt).unwrap_or(u32::MAX)).min(self.most);
        self.attempt = self.attempt.saturating_add(1).min(31);
        bound.mul_f64(chance.clamp(0.0, 1.0))
    }

    /// Begins anew after a lasting success. Not after a mere connect: that is how herds form (museum B77).
    pub const fn reset(&mut self) {
        self.attempt = 0;
    }
}

/// A beat moved by up to ±20 % (acceptance LEA-03); `chance` is in [0, 1).
#[must_use]
pub fn jittered(beat: Duration, chance: f64) -> Duration {
    beat.mul_f64(0.8 + 0.4 * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_bound_and_keep_their_spread() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(16));
        let most: Vec<_> = (0..40).map(|_| backoff.next(1.0).as_secs()).collect();
        assert_eq!(most[..6], [1, 2, 4, 8, 16, 16]);
        assert_eq!(most[39], 16);
        assert_eq!(backoff.next(0.0), Duration::ZERO);
    }

    #[test]
    fn a_beat_moves_by_a_fifth_at_most() {
        let beat = Duration::from_secs(10);
        assert_eq!((jittered(beat, 0.0).as_millis(), jittered(beat, 1.0).as_millis()), (8_000, 12_000));
    }
}
