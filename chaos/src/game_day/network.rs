//! The sealed network: a bridge, a namespace for each zone, and the pairs of zones that are cut.
//!
//! Lives in a network namespace of its own (see [`sealed`](super::sealed)), so that no interface, rule or address of
//! the machine is ever touched. Between two zones packets pass the bridge, where a rule drops those of a cut pair
//! without a sound. The observer's own packets do not pass it: it sees every zone all the time.

use std::process::Command;

use serde_json::Value;

use super::layout::{Layout, OBSERVER, PREFIX};

/// The zones' network; it goes with the namespace it was made in.
#[derive(Debug)]
pub struct Network(());

impl Network {
    /// Makes it.
    ///
    /// # Errors
    /// What a tool said.
    pub fn make(layout: &Layout) -> Result<Self, String> {
        let bridge = format!("{PREFIX}hub");
        run("ip", &["link", "set", "lo", "up"])?;
        run("ip", &["link", "add", &bridge, "type", "bridge"])?;
        run("ip", &["addr", "add", &format!("{OBSERVER}/24"), "dev", &bridge])?;
        run("ip", &["link", "set", &bridge, "up"])?;
        for place in &layout.places {
            let name = &place.namespace;
            run("ip", &["netns", "add", name])?;
            run("ip", &["link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name])?;
            run("ip", &["link", "set", name, "master", &bridge, "up"])?;
            run("ip", &["-n", name, "addr", "add", &format!("{}/24", place.address), "dev", "eth0"])?;
            run("ip", &["-n", name, "link", "set", "eth0", "up"])?;
            run("ip", &["-n", name, "link", "set", "lo", "up"])?;
        }
        // nft takes one statement a line.
        run("nft", &["add table bridge rollcall"])?;
        run("nft", &["add set bridge rollcall cut { type ifname . ifname; counter; }"])?;
        run(
            "nft",
            &["add chain bridge rollcall between { type filter hook forward priority 0; policy accept; }"],
        )?;
        run("nft", &["add rule bridge rollcall between iifname . oifname @cut drop"])?;
        Ok(Self(()))
    }

    /// Drops what goes from the first to the second of each pair, from now on.
    ///
    /// # Errors
    /// What nft said.
    pub fn cut(&self, pairs: &[(String, String)]) -> Result<(), String> {
        let pairs: Vec<_> = pairs.iter().map(|(from, to)| format!("{from:?} . {to:?}")).collect();
        run("nft", &[&format!("add element bridge rollcall cut {{ {} }}", pairs.join(", "))]).map(drop)
    }

    /// Joins all again; gives how many packets had been dropped.
    ///
    /// # Errors
    /// What nft said.
    pub fn heal(&self) -> Result<u64, String> {
        let dropped = self.dropped()?;
        run("nft", &["flush set bridge rollcall cut"])?;
        Ok(dropped)
    }

    /// Packets that were dropped since the cut.
    ///
    /// # Errors
    /// What nft said.
    pub fn dropped(&self) -> Result<u64, String> {
        let set = run("nft", &["-j", "list set bridge rollcall cut"])?;
        let set: Value = serde_json::from_str(&set).map_err(|error| error.to_string())?;
        let elements = set["nftables"].as_array().into_iter().flatten();
        let elements = elements.filter_map(|part| part["set"]["elem"].as_array()).flatten();
        Ok(elements.filter_map(|element| element["elem"]["counter"]["packets"].as_u64()).sum())
    }
}

fn run(tool: &str, arguments: &[&str]) -> Result<String, String> {
    let done = Command::new(tool).args(arguments).output().map_err(|error| format!("{tool}: {error}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    Err(format!("{tool} {}: {}", arguments.join(" "), String::from_utf8_lossy(&done.stderr).trim()))
}
