//! Where everything of a game day is: addresses, ports, command lines, settings. Pure.
//!
//! Promises that nothing outside is named: addresses are of the sealed network, files are under the run's folder.
//! Never here: a process or a file.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use super::scenario::{Scenario, Zone};

/// Prefix of every interface and namespace.
pub const PREFIX: &str = "rollcall-";
/// The network of the sealed world; nothing outside of it is reachable from there, so it cannot clash.
const NETWORK: [u8; 3] = [10, 79, 0];
/// The observer's own address, on the bridge.
pub const OBSERVER: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 254);
const STORE_PORT: u16 = 2379;
/// From one member's ports to the next one's in the same zone.
const STORE_STEP: u16 = 10;
const CELL_PORT: u16 = 7400;
const REPLICATOR_PORT: u16 = 7500;
const BROKER_PORT: u16 = 9092;
/// Where a broker listens for those that come by a long way.
const FAR_PORT: u16 = 9192;
/// The first long way, at the observer's address.
const WAY_PORT: u16 = 9200;
/// Ports of stores, cells and replicators, as nft writes them: everything that a write could need.
pub const WRITE_PORTS: &str = "2379-2479, 7400-7599";
/// Ports of brokers.
pub const FEED_PORTS: &str = "9092-9199";
/// A broker's settings as they are deployed; addresses and folders are filled in.
const BROKER: &str = include_str!("../../../infra/kafka/server.properties.template");
/// The first agent's port.
pub const AGENT_PORT: u16 = 10_000;

/// A zone's place in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The zone.
    pub zone: String,
    /// Its region.
    pub region: String,
    /// The address of everything in it.
    pub address: Ipv4Addr,
    /// Its namespace, and its interface on the bridge.
    pub namespace: String,
}

/// What a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A member of etcd.
    Store,
    /// A Kafka broker.
    Broker,
    /// A process of the cell.
    Cell,
    /// A replicator.
    Replicator,
}

impl Kind {
    /// In the order in which they are started.
    pub const ALL: [Self; 4] = [Self::Store, Self::Broker, Self::Cell, Self::Replicator];
}

/// A program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name in reports: `store-a1`, `cell-b`.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The region.
    pub region: String,
    /// The zone.
    pub zone: String,
    /// The binary.
    pub binary: PathBuf,
    /// What it is given.
    pub arguments: Vec<String>,
    /// Its settings, to be written before it starts.
    pub settings: Option<(PathBuf, String)>,
    /// Where it answers: the client URL of a member, the HTTP URL of a cell or replicator, a broker's address.
    pub url: String,
}

/// Where the binaries are.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// etcd.
    pub etcd: PathBuf,
    /// rollcall.
    pub rollcall: PathBuf,
    /// What runs a broker with a file of settings.
    pub broker: PathBuf,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The zones, in the scenario's order.
    pub places: Vec<Place>,
    /// The programs, in the order they are started.
    pub programs: Vec<Program>,
    /// The long ways.
    pub ways: Vec<LongWay>,
}

/// A way to a region's broker that can be made long, for the other regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongWay {
    /// The region whose broker it leads to.
    pub region: String,
    /// Where it is entered, at the observer's address.
    pub port: u16,
    /// The same with the address.
    pub from: String,
    /// Where it ends.
    pub to: String,
}

impl Layout {
    /// Lays a scenario out under a folder.
    #[must_use]
    pub fn of(scenario: &Scenario, folder: &Path, binaries: &Binaries) -> Self {
        let places: Vec<Place> = (1..).zip(&scenario.zones).map(|(n, zone)| place(n, zone)).collect();
        let mut programs = Vec::new();
        let ways = ways(scenario, &places);
        for region in scenario.regions() {
            let members = members(scenario, &places, region);
            for member in &members {
                programs.push(member.program(&members, folder, &binaries.etcd));
            }
            let stores: Vec<String> = members.iter().map(|member| member.url(0)).collect();
            for (zone, place) in scenario.zones.iter().zip(&places) {
                if zone.region == region && zone.cell {
                    programs.push(cell(scenario, &places, place, &stores, folder, &binaries.rollcall));
                }
                if zone.region == region && zone.replicator {
                    programs.push(replicator(scenario, &places, &ways, place, folder, &binaries.rollcall));
                }
                if zone.region == region && zone.broker {
                    let way = ways.iter().find(|way| way.region == region);
                    programs.push(broker(place, way, folder, &binaries.broker));
                }
            }
        }
        programs.sort_by_key(|program| program.kind);
        Self { places, programs, ways }
    }

    /// The place of a zone.
    #[must_use]
    pub fn place(&self, zone: &str) -> Option<&Place> {
        self.places.iter().find(|place| place.zone == zone)
    }

    /// The programs of one kind, of one region.
    pub fn of_kind(&self, kind: Kind, region: &str) -> impl Iterator<Item = &Program> {
        self.programs.iter().filter(move |program| program.kind == kind && program.region == region)
    }

    /// The cell's processes of a zone's region as its clients name them: the own zone's first.
    #[must_use]
    pub fn cells_from(&self, place: &Place) -> Vec<String> {
        let mut cells: Vec<&Program> = self.of_kind(Kind::Cell, &place.region).collect();
        cells.sort_by_key(|cell| cell.zone != place.zone);
        cells.into_iter().map(|cell| cell.url.clone()).collect()
    }

    /// The broker that a region publishes to.
    #[must_use]
    pub fn broker_of(&self, region: &str) -> Option<&Program> {
        let mut brokers = self.programs.iter().filter(|program| program.kind == Kind::Broker);
        self.of_kind(Kind::Broker, region).next().or_else(|| brokers.next())
    }

    /// Pairs of interfaces that these zones' cut goes through, in both directions.
    #[must_use]
    pub fn cut(&self, zones: &[String]) -> Vec<(String, String)> {
        self.pairs(zones, |place| !zones.contains(&place.zone))
    }

    /// Pairs of interfaces between these zones and those, in both directions.
    #[must_use]
    pub fn between(&self, zones: &[String], others: &[String]) -> Vec<(String, String)> {
        self.pairs(zones, |place| others.contains(&place.zone))
    }

    fn pairs(&self, zones: &[String], is_outside: impl Fn(&Place) -> bool) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for inside in self.places.iter().filter(|place| zones.contains(&place.zone)) {
            for outside in self.places.iter().filter(|place| is_outside(place)) {
                pairs.push((inside.namespace.clone(), outside.namespace.clone()));
                pairs.push((outside.namespace.clone(), inside.namespace.clone()));
            }
        }
        pairs
    }
}

fn place(n: u8, zone: &Zone) -> Place {
    let [a, b, c] = NETWORK;
    Place {
        zone: zone.name.clone(),
        region: zone.region.clone(),
        address: Ipv4Addr::new(a, b, c, n),
        namespace: format!("{PREFIX}{}", zone.name),
    }
}

struct Member<'a> {
    place: &'a Place,
    n: u16,
}

impl Member<'_> {
    fn name(&self) -> String {
        format!("store-{}{}", self.place.zone, self.n + 1)
    }

    fn url(&self, beside: u16) -> String {
        format!("http://{}:{}", self.place.address, STORE_PORT + STORE_STEP * self.n + beside)
    }

    fn program(&self, members: &[Self], folder: &Path, binary: &Path) -> Program {
        let name = self.name();
        let all: Vec<_> =
            members.iter().map(|member| format!("{}={}", member.name(), member.url(1))).collect();
        let arguments = [
            ("--name", name.clone()),
            ("--log-level", "warn".to_owned()),
            ("--data-dir", folder.join(&name).display().to_string()),
            ("--listen-client-urls", self.url(0)),
            ("--advertise-client-urls", self.url(0)),
            ("--listen-peer-urls", self.url(1)),
            ("--initial-advertise-peer-urls", self.url(1)),
            ("--initial-cluster", all.join(",")),
        ];
        Program {
            kind: Kind::Store,
            region: self.place.region.clone(),
            zone: self.place.zone.clone(),
            binary: binary.to_owned(),
            arguments: arguments.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect(),
            settings: None,
            url: self.url(0),
            name,
        }
    }
}

fn members<'a>(scenario: &Scenario, places: &'a [Place], region: &str) -> Vec<Member<'a>> {
    let zones = scenario.zones.iter().zip(places).filter(|(zone, _)| zone.region == region);
    zones.flat_map(|(zone, place)| (0..zone.stores).map(move |n| Member { place, n })).collect()
}

/// The place of the first zone of a region for which this holds.
fn find<'a>(
    scenario: &Scenario,
    places: &'a [Place],
    region: Option<&str>,
    holds: fn(&Zone) -> bool,
) -> Option<&'a Place> {
    let zones = scenario.zones.iter().zip(places);
    let mut of_region = zones.filter(|(zone, _)| region.is_none_or(|region| zone.region == region));
    of_region.find(|(zone, _)| holds(zone)).map(|(_, place)| place)
}

/// The brokers of a region: its own, or else the shared one.
fn brokers(scenario: &Scenario, places: &[Place], region: &str) -> String {
    let own = find(scenario, places, Some(region), |zone| zone.broker);
    let place = own.or_else(|| find(scenario, places, None, |zone| zone.broker));
    place.map(|place| format!("{}:{BROKER_PORT}", place.address)).unwrap_or_default()
}

fn ways(scenario: &Scenario, places: &[Place]) -> Vec<LongWay> {
    let far: Vec<&str> = scenario.regions().into_iter().filter(|region| scenario.is_far(region)).collect();
    let way = |(port, region): (u16, &str)| {
        let place = find(scenario, places, Some(region), |zone| zone.broker)?;
        let (from, to) = (format!("{OBSERVER}:{port}"), format!("{}:{FAR_PORT}", place.address));
        Some(LongWay { region: region.to_owned(), port, from, to })
    };
    (WAY_PORT..).zip(far).filter_map(way).collect()
}

fn broker(place: &Place, way: Option<&LongWay>, folder: &Path, binary: &Path) -> Program {
    let name = format!("broker-{}", place.zone);
    let address = place.address.to_string();
    let mut text = BROKER
        .replace("127.0.0.1", &address)
        .replace("@BROKER_PORT@", &BROKER_PORT.to_string())
        .replace("@CONTROLLER_PORT@", &(BROKER_PORT + 1).to_string())
        .replace("@DATA_DIR@", &folder.join(&name).display().to_string());
    if let Some(LongWay { from, to, .. }) = way {
        // Who comes by the way is told to go on by it. Of a key that stands twice the last one holds.
        let near = format!("BROKER://{address}:{BROKER_PORT}");
        let controller = format!("CONTROLLER://{address}:{}", BROKER_PORT + 1);
        let _ = writeln!(text, "listeners={near},FAR://{to},{controller}");
        let _ = writeln!(text, "advertised.listeners={near},FAR://{from}");
        let _ = writeln!(
            text,
            "listener.security.protocol.map=BROKER:PLAINTEXT,FAR:PLAINTEXT,CONTROLLER:PLAINTEXT"
        );
    }
    let file = folder.join(format!("{name}.properties"));
    Program {
        kind: Kind::Broker,
        region: place.region.clone(),
        zone: place.zone.clone(),
        binary: binary.to_owned(),
        arguments: vec![file.display().to_string()],
        settings: Some((file, text)),
        url: format!("{address}:{BROKER_PORT}"),
        name,
    }
}

fn replicator(
    scenario: &Scenario,
    places: &[Place],
    ways: &[LongWay],
    place: &Place,
    folder: &Path,
    binary: &Path,
) -> Program {
    let name = format!("replicator-{}", place.zone);
    let (grpc, http) = (REPLICATOR_PORT, REPLICATOR_PORT + 1);
    let (address, region) = (place.address, &place.region);
    let cells = scenario.zones.iter().zip(places).filter(|(zone, _)| zone.region == *region && zone.cell);
    let cells: Vec<_> = cells.map(|(_, cell)| format!("http://{}:{}", cell.address, CELL_PORT + 1)).collect();
    let data = folder.join(&name).display().to_string();
    let mut text = format!("region = {region:?}\ndata_dir = {data:?}\n\n");
    let _ = writeln!(text, "[listen]\nhttp = \"{address}:{http}\"\ngrpc = \"{address}:{grpc}\"\n");
    let _ = writeln!(text, "[cell]\nendpoints = {cells:?}\n\n[auth]\nmode = \"none\"\n");
    let own = brokers(scenario, places, region);
    let _ = writeln!(text, "[publish]\nkind = \"kafka\"\nbrokers = {own:?}\n");
    for other in scenario.regions().into_iter().filter(|other| other != region) {
        let way = ways.iter().find(|way| way.region == *other);
        let theirs = way.map_or_else(|| brokers(scenario, places, other), |way| way.from.clone());
        let _ = writeln!(text, "[[follow]]\nregion = {other:?}\nkind = \"kafka\"\nbrokers = {theirs:?}\n");
    }
    let file = folder.join(format!("{name}.toml"));
    Program {
        kind: Kind::Replicator,
        region: region.clone(),
        zone: place.zone.clone(),
        binary: binary.to_owned(),
        arguments: vec!["replicator".to_owned(), "--config".to_owned(), file.display().to_string()],
        settings: Some((file, text)),
        url: format!("http://{address}:{http}"),
        name,
    }
}

fn cell(
    scenario: &Scenario,
    places: &[Place],
    place: &Place,
    stores: &[String],
    folder: &Path,
    binary: &Path,
) -> Program {
    let name = format!("cell-{}", place.zone);
    let (http, grpc) = (CELL_PORT, CELL_PORT + 1);
    let (address, data) = (place.address, folder.join(&name).display().to_string());
    let mut text = format!("region = {:?}\nzone = {:?}\ndata_dir = {data:?}\n\n", place.region, place.zone);
    let _ = writeln!(text, "[listen]\nhttp = \"{address}:{http}\"\ngrpc = \"{address}:{grpc}\"\n");
    let _ = writeln!(text, "[store]\nkind = \"etcd\"\nendpoints = {stores:?}\n");
    let _ = writeln!(
        text,
        "[guard]\nfraction = {:?}\nfloor = {}\n",
        scenario.guard.fraction, scenario.guard.floor
    );
    // Every agent of a zone has one address; and nobody else is in the sealed network.
    let _ = writeln!(text, "[admission]\naddress_share = \"whole\"\n\n[auth]\nmode = \"none\"\n");
    if let Some(source) = find(scenario, places, Some(&place.region), |zone| zone.replicator) {
        for other in scenario.regions().into_iter().filter(|other| *other != place.region) {
            let source = format!("http://{}:{REPLICATOR_PORT}", source.address);
            let _ = writeln!(text, "[[view]]\nregion = {other:?}\nsource = {source:?}\n");
        }
    }
    let file = folder.join(format!("{name}.toml"));
    Program {
        kind: Kind::Cell,
        region: place.region.clone(),
        zone: place.zone.clone(),
        binary: binary.to_owned(),
        arguments: vec!["cell".to_owned(), "--config".to_owned(), file.display().to_string()],
        settings: Some((file, text)),
        url: format!("http://{address}:{http}"),
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_goes_through_every_way_out_of_a_zone_and_no_other() {
        let scenario = crate::game_day::read("zone-partition").unwrap();
        let binaries = Binaries { etcd: "etcd".into(), rollcall: "rollcall".into(), broker: "b".into() };
        let layout = Layout::of(&scenario, Path::new("/x"), &binaries);
        let pair = |from: &str, to: &str| (format!("{PREFIX}{from}"), format!("{PREFIX}{to}"));
        let mut cut = layout.cut(&["c".to_owned()]);
        cut.sort();
        assert_eq!(cut, [pair("a", "c"), pair("b", "c"), pair("c", "a"), pair("c", "b")]);
        let mut parted = layout.between(&["c".to_owned()], &["a".to_owned()]);
        parted.sort();
        assert_eq!(parted, [pair("a", "c"), pair("c", "a")]);
        let of = |kind| layout.of_kind(kind, "us-east").count();
        assert_eq!((of(Kind::Store), of(Kind::Cell)), (5, 3));
        let named: Vec<_> = scenario.zones.iter().flat_map(Zone::programs).collect();
        assert!(layout.programs.iter().all(|program| named.contains(&program.name)), "a step can name all");
        let from_c = layout.cells_from(layout.place("c").unwrap());
        assert_eq!(from_c[0], "http://10.79.0.3:7400", "a client asks its own zone first");
    }
}
