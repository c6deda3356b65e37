//! Every bound of the registry in one place, each with its reason.
//!
//! Over a limit is refused at the door, never truncated (promise I47).

use std::time::Duration;

/// Longest part of an id, in characters: a DNS label plus one, so that names map onto host names.
pub const NAME_PART_CHARS_MAX: usize = 64;
/// Longest whole id: three parts and two slashes, short enough for a key and a URL path.
pub const ID_CHARS_MAX: usize = 128;
/// Endpoints of one registration: a list to try in order, not a fleet.
pub const ENDPOINTS_MAX: usize = 16;
/// Longest endpoint URL: what common HTTP stacks accept without a setting.
pub const URL_CHARS_MAX: usize = 2_048;
/// Capabilities of one registration: each is an index entry in every holder of the state.
pub const CAPABILITIES_MAX: usize = 256;
/// Longest free text of a capability (description, summaries).
pub const DESCRIPTION_CHARS_MAX: usize = 1_024;
/// Tags of one capability or skill.
pub const TAGS_MAX: usize = 32;
/// Longest tag, and longest input or output type.
pub const TAG_CHARS_MAX: usize = 64;
/// Skills taken from one card: the same index cost as a capability.
pub const SKILLS_MAX: usize = 256;
/// Metadata entries: a hint for routing, not a database.
pub const METADATA_ENTRIES_MAX: usize = 64;
/// Longest metadata key.
pub const METADATA_KEY_CHARS_MAX: usize = 64;
/// Longest metadata value.
pub const METADATA_VALUE_CHARS_MAX: usize = 1_024;
/// Longest zone, version or holder.
pub const SHORT_TEXT_CHARS_MAX: usize = 64;
/// Holders of one shared entry that are known by name: a large deployment. One more keeps the entry alive all the same.
pub const HOLDERS_MAX: usize = 1_024;
/// Replaced registrations of a shared entry whose holders still keep it alive: a rollout has two or three of them at once.
pub const REPLACED_MAX: usize = 32;
/// Registrations of one shared entry that may wait for their holder's name: a name follows within milliseconds.
pub const NEWCOMERS_MAX: usize = 16;
/// Largest A2A card, in bytes: eight of them fit one snapshot page.
pub const CARD_BYTES_MAX: usize = 128 * 1024;
/// Largest request body over HTTP: a whole registration with its card and room to spare.
pub const BODY_BYTES_MAX: usize = 256 * 1024;
/// Most renewals of one batch: a few milliseconds of the keeper's time.
pub const RENEWALS_MAX: usize = 1_000;

/// Shortest lease: three beats of 1.7 s survive a lost packet and its retransmission.
pub const LEASE_SECONDS_MIN: u64 = 5;
/// Longest lease: a dead entry is a nuisance for at most this long.
pub const LEASE_SECONDS_MAX: u64 = 300;
/// Lease when the registrant asks for none.
pub const LEASE_SECONDS_DEFAULT: u64 = 30;

/// Page size of a list when none is asked for.
pub const PAGE_DEFAULT: usize = 100;
/// Largest page of a list.
pub const PAGE_MAX: usize = 1_000;

/// Most bytes of agents in one answer to a reader; a page ends earlier then, at one agent at least. A thousand agents of
/// 2 KiB fit, and what one answer costs is bounded: some 20 ms of writing, and this much memory until it is taken.
pub const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Most bytes of large answers that wait in one process for their callers: 32 of the largest, and enough to fill any
/// network.
pub const UNREAD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// An answer of no more bytes is not counted: with the kernel's own room for what is sent, hardly any of it waits here.
pub const UNREAD_SMALL_BYTES: usize = 64 * 1024;

/// Largest snapshot page on any wire, in bytes of record: no message is over 1 MiB (museum B43).
pub const SNAPSHOT_PAGE_BYTES_MAX: usize = 768 * 1024;
/// Most records of one snapshot page.
pub const SNAPSHOT_PAGE_RECORDS_MAX: usize = 500;

/// Deltas kept in a history: a minute and more of peak churn.
pub const HISTORY_DELTAS_MAX: usize = 65_536;
/// Record bytes kept in a history, about: a minute of a thousand changes a second of 1 KiB each.
pub const HISTORY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Deltas of a history that are kept on disk beside the state: some seconds of peak churn. Whoever follows a holder is
/// that far behind it when it stops, and older places are gone with it.
pub const HISTORY_TAIL_DELTAS: usize = 8_192;
/// Record bytes of these, about: they are written with each copy, so no more than a tenth of a large one.
pub const HISTORY_TAIL_BYTES: usize = 4 * 1024 * 1024;
/// Removals kept for `GET /v1/removals`.
pub const REMOVALS_MAX: usize = 1_000;

/// Younger than this, a state is called current: three missed bookmarks.
pub const CURRENT_AGE: Duration = Duration::from_secs(3);
/// Younger than this, a state is called behind; older is stale.
pub const BEHIND_AGE: Duration = Duration::from_secs(30);
/// Older than this, a state is not resolved from, unless a caller sets another limit: hours, so that an outage of the
/// registry is none of its callers.
pub const AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// What a state counts as of which nobody has said yet how old it is: the oldest that may still be used. Any limit that a
/// caller sets below it is kept.
pub const UNHEARD_AGE: Duration = AGE_MAX;
/// Longest wait of a request that speaks of a revision the cell has not applied yet.
pub const AHEAD_WAIT: Duration = Duration::from_secs(1);
/// Revisions by which a current holder may be behind its store: twenty thousand a second, which is more than etcd takes.
pub const REVISIONS_MISSED_MOST: u64 = 60_000;
/// Longest wait of a watch whose position is ahead of its holder. A holder that is well catches up within a second or
/// two; one that did not in ten will not soon, or the position never was.
pub const AHEAD_WATCH_MOST: Duration = Duration::from_secs(10);

const _: () = assert!(3 * NAME_PART_CHARS_MAX + 2 > ID_CHARS_MAX);
const _: () = assert!(CARD_BYTES_MAX < BODY_BYTES_MAX);
const _: () = assert!(BODY_BYTES_MAX < SNAPSHOT_PAGE_BYTES_MAX);
const _: () = assert!(SNAPSHOT_PAGE_BYTES_MAX + BODY_BYTES_MAX <= 1024 * 1024);
