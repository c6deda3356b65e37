//! The sealed network: a bridge, a namespace for each zone, and the pairs of zones that are cut.
//!
//! Lives in a network namespace of its own (see [`sealed`](super::sealed)), so that no interface, rule or address of
//! the machine is ever touched. Between two zones packets pass the bridge, where a rule drops those of a cut pair
//! without a sound. The observer's own packets do not pass it: it sees every zone all the time.

use std::collections::BTreeMap;
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
        // What goes over a long way passes the observer and not the bridge. Dropped here it is lost as on a line: a
        // sender whose own rules drop it would be told.
        for hook in ["input", "output"] {
            let chain =
                format!("add chain bridge rollcall far-{hook} {{ type filter hook {hook} priority 0; }}");
            run("nft", &[&chain])?;
        }
        for way in &layout.ways {
            run("nft", &[&format!("add counter bridge rollcall {}", lost_of(way.port))])?;
        }
        Ok(Self(()))
    }

    /// Packets between zones of different regions so far.
    ///
    /// # Errors
    /// What nft said.
    pub fn crossings(&self) -> Result<Crossings, String> {
        let counters = counters()?;
        let packets = |name: &str| counters.get(name).copied().unwrap_or(0);
        Ok(Crossings { writes: packets("writes"), feeds: packets("feeds") })
    }

    /// Loses so many of a hundred packets to and from each of these ports of the observer's, by chance; of others none.
    ///
    /// # Errors
    /// What nft said.
    pub fn lose(&self, percents: &BTreeMap<u16, u8>) -> Result<(), String> {
        for (hook, end) in [("input", "dport"), ("output", "sport")] {
            run("nft", &[&format!("flush chain bridge rollcall far-{hook}")])?;
            for (port, percent) in percents {
                let rule = format!(
                    "add rule bridge rollcall far-{hook} tcp {end} {port} numgen random mod 100 < {percent} counter name {} drop",
                    lost_of(*port)
                );
                run("nft", &[&rule])?;
            }
        }
        Ok(())
    }

    /// Packets to and from a port of the observer's that were lost so far.
    ///
    /// # Errors
    /// What nft said.
    pub fn lost(&self, port: u16) -> Result<u64, String> {
        Ok(counters()?.get(&lost_of(port)).copied().unwrap_or(0))
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

/// The name of the counter of what was lost of a port's packets.
fn lost_of(port: u16) -> String {
    format!("lost-{port}")
}

/// Packets so far, by the counter's name.
fn counters() -> Result<BTreeMap<String, u64>, String> {
    let listed = run("nft", &["-j", "list counters table bridge rollcall"])?;
    let listed: Value = serde_json::from_str(&listed).map_err(|error| error.to_string())?;
    let counters = listed["nftables"].as_array().into_iter().flatten();
    let counted = counters.filter_map(|part| {
        let counter = &part["counter"];
        Some((counter["name"].as_str()?.to_owned(), counter["packets"].as_u64()?))
    });
    Ok(counted.collect())
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
