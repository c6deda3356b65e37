//! Where things are in a checkout.

use std::path::PathBuf;

/// The repository's root.
#[must_use]
pub fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository").to_owned()
}

/// The binary that was built with the running test: `target/<profile>/rollcall`.
#[must_use]
pub fn rollcall() -> PathBuf {
    if let Some(path) = std::env::var_os("ROLLCALL_BIN") {
        return path.into();
    }
    let mut at = std::env::current_exe().expect("a test knows its own path");
    while at.pop() {
        let candidate = at.join("rollcall");
        if candidate.is_file() {
            return candidate;
        }
    }
    panic!("the rollcall binary is not built: cargo build -p rollcall");
}

/// Where installed tools are.
#[must_use]
pub fn tools() -> PathBuf {
    std::env::var_os("ROLLCALL_TOOLS").map_or_else(|| repository().join(".tools"), PathBuf::from)
}
