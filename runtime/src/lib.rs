//! What every process does the same way: settings, logs, metrics, tasks, shutdown, readiness, files on disk.
//!
//! Promises: each piece is started by the process that owns it and by nobody else, ends in order, and says in a
//! sentence for a person what went wrong. It never knows what the process is for: no word of the registry's own domain
//! appears in here, and nothing in here is global except the two things that are so by nature, the log subscriber and
//! the signals.

pub mod build_info;
pub mod clock;
pub mod config;
pub mod files;
pub mod listen;
pub mod meter;
pub mod ready;
pub mod serve;
pub mod shutdown;
pub mod tasks;
pub mod telemetry;
pub mod unsaved;

pub use config::{ConfigError, ConfigErrors};
pub use listen::ListenError;
pub use meter::Metrics;
pub use ready::Ready;
pub use tasks::Tasks;
