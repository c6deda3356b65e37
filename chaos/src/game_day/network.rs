//! The sealed network: a bridge, a namespace for each zone, and the pairs of zones that are cut.
//!
//! Lives in a network namespace of its own (see [`sealed`](super::sealed)), so that no interface, rule or address of
//! the machine is ever touched. Between two zones packets pass the bridge, where a rule drops those of a cut pair
//! without a sound. The observer's own packets do not pass it: it sees every zone all the time.

use std::process::Command;

use serde_json::Value;

use super::layout::{FEED_PORTS, Layout, OBSERVER, PREFIX, WRITE_PORTS};

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
        count_between_regions(layout)?;
        run("nft", &["add rule bridge rollcall between iifname . oifname @cut drop"])?;
        Ok(Self(()))
    }

    /// Packets between zones of different regions so far.
    ///
    /// # Errors
    /// What nft said.
    pub fn crossings(&self) -> Result<Crossings, String> {
        let listed = run("nft", &["-j", "list counters table bridge rollcall"])?;
        let listed: Value = serde_json::from_str(&listed).map_err(|error| error.to_string())?;
        let counters = || listed["nftables"].as_array().into_iter().flatten();
        let packets = |name: &str| {
            let found = counters().find(|part| part["counter"]["name"] == name);
            found.and_then(|part| part["counter"]["packets"].as_u64()).unwrap_or(0)
        };
        Ok(Crossings { writes: packets("writes"), feeds: packets("feeds") })
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

/// What went from one region to another over the bridge; what a cut dropped is among it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossings {
    /// Packets to or from a store, a cell or a replicator: nothing that a write does may be among them (I16).
    pub writes: u64,
    /// Packets to or from a broker.
    pub feeds: u64,
}

/// Counts, before anything is dropped, what goes between regions by what it is of.
fn count_between_regions(layout: &Layout) -> Result<(), String> {
    run("nft", &["add set bridge rollcall apart { type ifname . ifname; }"])?;
    let pairs: Vec<String> = layout
        .places
        .iter()
        .flat_map(|from| layout.places.iter().map(move |to| (from, to)))
        .filter(|(from, to)| from.region != to.region)
        .map(|(from, to)| format!("{:?} . {:?}", from.namespace, to.namespace))
        .collect();
    if pairs.is_empty() {
        return Ok(());
    }
    run("nft", &[&format!("add element bridge rollcall apart {{ {} }}", pairs.join(", "))])?;
    for (name, ports) in [("writes", WRITE_PORTS), ("feeds", FEED_PORTS)] {
        run("nft", &[&format!("add counter bridge rollcall {name}")])?;
        for end in ["dport", "sport"] {
            let rule = format!(
                "add rule bridge rollcall between iifname . oifname @apart tcp {end} {{ {ports} }} counter name {name}"
            );
            run("nft", &[&rule])?;
        }
    }
    Ok(())
}

fn run(tool: &str, arguments: &[&str]) -> Result<String, String> {
    let done = Command::new(tool).args(arguments).output().map_err(|error| format!("{tool}: {error}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    Err(format!("{tool} {}: {}", arguments.join(" "), String::from_utf8_lossy(&done.stderr).trim()))
}
