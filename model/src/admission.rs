//! Admission: how many new registrations a cell process takes, so that those it knows already are always heard.
//!
//! Two lanes. New registrations have a token bucket, and each address a share of it. Renewals, and registrations of
//! instances that the cell knows already, have a larger bucket of their own. No renewal is refused within a second of
//! an admitted registration, before or after it (I14): a registration is admitted only while the lane of the known has
//! room and refused nobody for a second; and for a second after it that lane refuses nobody. What is refused costs
//! nothing and is told how long the bucket needs. Never here: a queue; a request is judged at once.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::time::Instant;

/// Renewals a second: a region of 100,000 agents renews 10,000 times a second, and one process of its cell may have to
/// take them all while the others restart; five times that is half a million agents, so it is met only by a loop gone
/// wild.
pub const KNOWN_PER_SECOND: u32 = 50_000;
/// Renewals at once: each of 100,000 agents once, as after a cut of the network.
pub const KNOWN_BURST: u32 = 100_000;
/// How long before and after an admitted registration no renewal is refused.
pub const PROTECTED: Duration = Duration::from_secs(1);
/// Addresses of one generation; two are kept. At the default limits so many others are not admitted before an
/// address's share is full again, and one whose share is full need not be remembered. About 3 MB.
pub const GENERATION_MAX: usize = 16_384;

/// A token's size in a bucket: so that a rate per second times nanoseconds is exact.
const TOKEN: u128 = 1_000_000_000;

/// A rate with the room for a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens that come back in a second; at least 1.
    pub per_second: u32,
    /// Tokens of a full bucket; at least 1.
    pub burst: u32,
}

/// How much of the new registrations one address may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressShare {
    /// A tenth of rate and burst: one host that loops leaves nine tenths to the others.
    #[default]
    Tenth,
    /// All of it: behind a proxy, and on one machine, all callers have one address.
    Whole,
}

/// What a cell process takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// New registrations.
    pub new: Rate,
    /// Renewals, and registrations of known instances.
    pub known: Rate,
    /// How much of the new ones one address may have.
    pub share: AddressShare,
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        Self {
            new: Rate { per_second: 1_000, burst: 5_000 },
            known: Rate { per_second: KNOWN_PER_SECOND, burst: KNOWN_BURST },
            share: AddressShare::default(),
        }
    }
}

/// Why it was not admitted; nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// All new registrations of this process together are too many.
    TooMany {
        /// When the bucket has a token again.
        wait: Duration,
    },
    /// This address has used up its share.
    AddressShare {
        /// When its bucket has a token again.
        wait: Duration,
    },
    /// Those who are known need what there is.
    KnownFirst {
        /// When their lane has room again.
        wait: Duration,
    },
}

impl NotAdmitted {
    /// After how long the same call would be admitted, if nobody else came.
    #[must_use]
    pub const fn wait(self) -> Duration {
        match self {
            Self::TooMany { wait } | Self::AddressShare { wait } | Self::KnownFirst { wait } => wait,
        }
    }
}

/// A token bucket: full at first, refilled by elapsed time, never above its burst.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: Rate,
    level: u128,
    filled: Instant,
}

impl Bucket {
    fn full(rate: Rate, now: Instant) -> Self {
        let rate = Rate { per_second: rate.per_second.max(1), burst: rate.burst.max(1) };
        Self { rate, level: u128::from(rate.burst) * TOKEN, filled: now }
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.since(self.filled);
        let capacity = u128::from(self.rate.burst) * TOKEN;
        // A rate of 32 bits times nanoseconds of 96: it cannot overflow before it saturates.
        let refilled = elapsed.as_nanos().saturating_mul(u128::from(self.rate.per_second));
        self.level = self.level.saturating_add(refilled).min(capacity);
        self.filled = self.filled.max(now);
    }

    /// How long until so many tokens are there; zero when they are. More than a full bucket is a full bucket.
    fn wait_for(&self, tokens: u32) -> Duration {
        let wanted = u128::from(tokens.min(self.rate.burst)) * TOKEN;
        let missing = wanted.saturating_sub(self.level);
        let nanos = missing.div_ceil(u128::from(self.rate.per_second));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Takes what there is, at most so many.
    fn take(&mut self, tokens: u32) {
        self.level = self.level.saturating_sub(u128::from(tokens) * TOKEN);
    }
}

/// Buckets of addresses in two generations: the older one is forgotten whole when the younger one is full, so that the
/// table is bounded and forgets who was away longest.
#[derive(Clone, Debug, Default)]
struct Addresses {
    young: BTreeMap<IpAddr, Bucket>,
    old: BTreeMap<IpAddr, Bucket>,
}

impl Addresses {
    fn get(&self, address: IpAddr) -> Option<Bucket> {
        self.young.get(&address).or_else(|| self.old.get(&address)).copied()
    }

    fn put(&mut self, address: IpAddr, bucket: Bucket) {
        if self.young.len() >= GENERATION_MAX && !self.young.contains_key(&address) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(address, bucket);
    }
}

/// The admission of one cell process.
#[derive(Clone, Debug)]
pub struct Admission {
    new: Bucket,
    known: Bucket,
    share: Option<Rate>,
    addresses: Addresses,
    last_new: Option<Instant>,
    last_refused_known: Option<Instant>,
}

impl Admission {
    /// Full buckets.
    #[must_use]
    pub fn new(limits: AdmissionLimits, now: Instant) -> Self {
        let tenth =
            Rate { per_second: limits.new.per_second.div_ceil(10), burst: limits.new.burst.div_ceil(10) };
        Self {
            new: Bucket::full(limits.new, now),
            known: Bucket::full(limits.known, now),
            share: match limits.share {
                AddressShare::Tenth => Some(tenth),
                AddressShare::Whole => None,
            },
            addresses: Addresses::default(),
            last_new: None,
            last_refused_known: None,
        }
    }

    /// Admits a registration of an instance that the cell does not know.
    ///
    /// # Errors
    /// Too many at once, from this address or in all, or those who are known need the room.
    pub fn register(&mut self, address: Option<IpAddr>, now: Instant) -> Result<(), NotAdmitted> {
        self.new.refill(now);
        self.known.refill(now);
        // Half of the lane is kept for the known: what they need in the second in which none of them is refused.
        let room = self.known.wait_for(self.known.rate.burst.div_ceil(2));
        let refused = self.last_refused_known;
        let quiet = refused.map_or(Duration::ZERO, |refused| refused.plus(PROTECTED).since(now));
        let share = address.map(network).zip(self.share).map(|(address, share)| {
            let mut bucket = self.addresses.get(address).unwrap_or_else(|| Bucket::full(share, now));
            bucket.refill(now);
            (address, bucket)
        });
        let of_share = share.as_ref().map_or(Duration::ZERO, |(_, bucket)| bucket.wait_for(1));
        // The longest wait is the one that is told: the others are over by then.
        let (known_first, too_many) = (room.max(quiet), self.new.wait_for(1));
        let wait = known_first.max(too_many).max(of_share);
        if !wait.is_zero() {
            return Err(match wait {
                wait if wait == known_first => NotAdmitted::KnownFirst { wait },
                wait if wait == too_many => NotAdmitted::TooMany { wait },
                wait => NotAdmitted::AddressShare { wait },
            });
        }
        if let Some((address, mut bucket)) = share {
            bucket.take(1);
            // Only who is admitted is remembered: refusals, from however many addresses, cost no memory.
            self.addresses.put(address, bucket);
        }
        self.new.take(1);
        self.last_new = Some(now);
        Ok(())
    }

    /// Admits so many renewals, or registrations of known instances, together.
    ///
    /// # Errors
    /// More than the lane takes, and no new registration was admitted within the last second.
    pub fn renew(&mut self, many: u32, now: Instant) -> Result<(), NotAdmitted> {
        self.known.refill(now);
        let wait = self.known.wait_for(many);
        let protected = self.last_new.is_some_and(|admitted| now.since(admitted) < PROTECTED);
        if !wait.is_zero() && !protected {
            self.last_refused_known = Some(now);
            return Err(NotAdmitted::KnownFirst { wait });
        }
        self.known.take(many);
        Ok(())
    }

    /// How many buckets of addresses are kept; at most two generations.
    #[must_use]
    pub fn addresses(&self) -> usize {
        self.addresses.young.len() + self.addresses.old.len()
    }
}

/// Whose share an address uses. IPv6 by its /64: one host can take any address of it.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_a_whole_ipv6_network_has_one_share() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
