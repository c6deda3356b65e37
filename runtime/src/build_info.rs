//! Which build this is: the version and the commit it was made from.
//!
//! Promises: both are fixed at compile time. The commit comes from the variable `ROLLCALL_COMMIT` of the build and is
//! `unknown` without it: there is no build script that asks git, because a source archive has no git.

/// The version of this build, as in `Cargo.toml`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit this build was made from, or `unknown`.
pub const COMMIT: &str = match option_env!("ROLLCALL_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Version and commit in one line, as `--version` and the first log line show them.
#[must_use]
pub fn describe() -> String {
    format!("{VERSION} ({COMMIT})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_version_and_commit() {
        assert_eq!(describe(), format!("{VERSION} ({COMMIT})"));
        assert!(VERSION.split('.').count() >= 3, "{VERSION} is not a version");
        assert!(!COMMIT.is_empty());
    }
}
