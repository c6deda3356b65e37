//! Tells the binary which commit it is made from.
//!
//! Promises: the build never fails here and never waits for a network: without git, or outside of a clone of this
//! repository, the commit is `unknown`, with the reason. `ROLLCALL_COMMIT` of the build says it instead, for those who
//! build from an archive. It is in the binary's package alone, so that a commit costs one link and not all crates anew.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> io::Result<()> {
    let mut tell = io::stdout();
    writeln!(tell, "cargo::rerun-if-env-changed=ROLLCALL_COMMIT")?;
    writeln!(tell, "cargo::rerun-if-changed=build.rs")?;
    let said = std::env::var("ROLLCALL_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = match said {
        Some(commit) => commit,
        None => match asked() {
            Ok((commit, changes)) => {
                writeln!(tell, "cargo::rerun-if-changed={}", changes.display())?;
                commit
            }
            Err(why) => format!("unknown ({why})"),
        },
    };
    writeln!(tell, "cargo::rustc-env=ROLLCALL_COMMIT={commit}")
}

/// The commit, and the file that changes with it.
fn asked() -> Result<(String, PathBuf), &'static str> {
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").ok_or("built without cargo")?);
    let root = git(&package, &["rev-parse", "--show-toplevel"])?;
    // An archive that lies inside of another repository is not of its commits.
    if package.parent().and_then(|own| own.canonicalize().ok()) != Path::new(&root).canonicalize().ok() {
        return Err("built outside of a clone");
    }
    let commit = git(&package, &["rev-parse", "--short=12", "HEAD"])?;
    // Every commit, checkout and rebase ends with a line there.
    let changes = git(&package, &["rev-parse", "--git-path", "logs/HEAD"])?;
    Ok((commit, package.join(changes)))
}

fn git(at: &Path, line: &[&str]) -> Result<String, &'static str> {
    let asked = Command::new("git").arg("-C").arg(at).args(line).output().map_err(|_| "built without git")?;
    let text = String::from_utf8(asked.stdout).unwrap_or_default().trim().to_owned();
    if asked.status.success() && !text.is_empty() { Ok(text) } else { Err("built outside of a clone") }
}
