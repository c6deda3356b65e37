//! A watcher's connection, over SSE or gRPC, heard as what the judge judges.

use std::collections::BTreeMap;

use rollcall_model::Registration;
use rollcall_proto::convert::{change_from, registration_from};
use rollcall_proto::v1;
use rollcall_proto::v1::discovery_client::DiscoveryClient;
use rollcall_proto::v1::watch_response::Event as Wire;
use serde_json::Value;
use tonic::Streaming;
use tonic::transport::Channel;

use super::cell::{Cell, DEADLINE};
use super::events::{Event, Events};
use super::told::{Change, Figures, Filter, Gone, Record, Told};

/// How it is connected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Over {
    Sse,
    Grpc,
}

/// One connection. All positions are of one incarnation, or it fails.
pub(super) struct Hearing {
    line: Line,
    incarnation: String,
}

enum Line {
    Sse(Events),
    Grpc(Box<Streaming<v1::WatchResponse>>),
}

/// The least that HTTP/2 lets a stream have on its way: who reads slowly holds its cell up.
const WINDOW: u32 = 65_535;

impl Hearing {
    pub(super) async fn open(
        cell: &Cell,
        over: Over,
        filter: &Filter,
        incarnation: &str,
        since: Option<u64>,
    ) -> Self {
        let line = match over {
            Over::Sse => {
                let since = since.map(|since| format!("{incarnation}:{since}"));
                let header: Vec<_> = since.iter().map(|since| ("last-event-id", since.as_str())).collect();
                Line::Sse(Events::of(cell.open(&format!("/v1/watch?{}", parameters(filter)), &header).await))
            }
            Over::Grpc => {
                let to = Channel::from_shared(cell.grpc_url.clone()).unwrap();
                let to = to.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
                let since = since.map(|revision| v1::Position { incarnation: incarnation.into(), revision });
                let request = v1::WatchRequest { query: Some(query(filter)), since, ..Default::default() };
                let mut discovery = DiscoveryClient::new(to.connect().await.unwrap());
                Line::Grpc(Box::new(discovery.watch(request).await.unwrap().into_inner()))
            }
        };
        Self { line, incarnation: incarnation.to_owned() }
    }

    /// What is told next; `None` when the connection ended.
    pub(super) async fn next(&mut self) -> Option<Told> {
        match &mut self.line {
            Line::Sse(events) => Some(told(&events.next().await?, &self.incarnation)),
            Line::Grpc(stream) => {
                let message =
                    tokio::time::timeout(DEADLINE, stream.message()).await.expect("a message in time");
                Some(heard(message.unwrap()?.event.unwrap(), &self.incarnation))
            }
        }
    }
}

fn parameters(filter: &Filter) -> String {
    let Filter { name, capability, tag, lifecycle } = filter;
    let all = [("name", name), ("capability", capability), ("tag", tag), ("lifecycle", lifecycle)];
    let set = all.iter().filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)));
    set.collect::<Vec<_>>().join("&")
}

fn query(filter: &Filter) -> v1::Query {
    let many = |one: Option<&str>| one.into_iter().map(str::to_owned).collect();
    let lifecycle = filter.lifecycle.map(|word| format!("LIFECYCLE_{}", word.to_uppercase()));
    v1::Query {
        name: filter.name.map(str::to_owned),
        capabilities: many(filter.capability),
        tags: many(filter.tag),
        lifecycle: lifecycle
            .map(|word| v1::Lifecycle::from_str_name(&word).unwrap().into())
            .unwrap_or_default(),
        ..v1::Query::default()
    }
}

fn told(event: &Event, incarnation: &str) -> Told {
    let data = &event.data;
    let at = |member: &str| {
        assert_eq!(data[member]["incarnation"], incarnation, "{event:?}");
        number(&data[member]["revision"])
    };
    let figures = || -> Figures { (data["count"].as_u64().unwrap(), text(&data["digest"])) };
    let told = match event.name.as_str() {
        "snapshot_begin" => Told::Begin(at("position"), figures()),
        "put" => Told::Page(vec![record(data)]),
        "snapshot_end" => Told::End(at("position")),
        "delta" => {
            let changes = data["changes"].as_array().unwrap().iter().map(change).collect();
            Told::Delta { from: at("from"), to: at("to"), changes }
        }
        "bookmark" => Told::Bookmark(at("position"), figures()),
        "resync" => Told::Resync(text(&data["reason"])),
        other => panic!("{other} is none of the contract's events"),
    };
    let id = told.position().map(|revision| format!("{incarnation}:{revision}"));
    assert_eq!(event.id, id, "an event's id is where its watcher has come to");
    told
}

fn change(change: &Value) -> Change {
    let removed = &change["remove"];
    if removed.is_null() {
        return Change::Put(record(&change["put"]));
    }
    Change::Remove(Gone {
        id: text(&removed["id"]),
        epoch: number(&removed["epoch"]),
        reason: text(&removed["reason"]),
        actor: text(&removed["actor"]),
        revision: None,
    })
}

fn record(agent: &Value) -> Record {
    let all = |member: &str| agent[member].as_array().unwrap().iter();
    let tags = all("capabilities").chain(all("skills")).flat_map(|one| one["tags"].as_array().unwrap());
    Record {
        id: text(&agent["id"]),
        epoch: number(&agent["epoch"]),
        revision: number(&agent["revision"]),
        lifecycle: text(&agent["lifecycle"]),
        capabilities: all("capabilities").map(|one| text(&one["name"])).collect(),
        tags: tags.map(text).collect(),
        metadata: serde_json::from_value(agent["metadata"].clone()).unwrap(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

fn number(value: &Value) -> u64 {
    text(value).parse().unwrap()
}

fn heard(event: Wire, incarnation: &str) -> Told {
    let at = |position: Option<v1::Position>| {
        let position = position.unwrap();
        assert_eq!(position.incarnation, incarnation);
        position.revision
    };
    let figures = |count, digest: Vec<u8>| -> Figures {
        (count, digest.iter().map(|byte| format!("{byte:02x}")).collect())
    };
    match event {
        Wire::SnapshotBegin(head) => {
            Told::Begin(at(head.position), figures(head.count, head.digest.to_vec()))
        }
        Wire::Page(page) => {
            let records = page.records.into_iter().map(|one| Record::of(&registration_from(one).unwrap()));
            Told::Page(records.collect())
        }
        Wire::SnapshotEnd(end) => Told::End(at(end.position)),
        Wire::Delta(delta) => {
            let changes = delta.changes.into_iter().map(|one| match change_from(one).unwrap() {
                rollcall_model::Change::Put(put) => Change::Put(Record::of(&put)),
                rollcall_model::Change::Remove(removal) => Change::Remove(Gone {
                    id: removal.id.to_string(),
                    epoch: removal.epoch.get(),
                    reason: removal.reason.as_str().to_owned(),
                    actor: removal.actor.to_string(),
                    revision: Some(removal.revision.0),
                }),
            });
            Told::Delta { changes: changes.collect(), from: at(delta.from), to: at(delta.to) }
        }
        Wire::Bookmark(mark) => Told::Bookmark(at(mark.position), figures(mark.count, mark.digest.to_vec())),
        Wire::Resync(resync) => Told::Resync(resync.reason),
    }
}

impl Record {
    /// Of what the store or gRPC holds.
    pub(super) fn of(registration: &Registration) -> Self {
        let declared = &registration.declared;
        let tags = declared.capabilities.iter().flat_map(|one| one.tags.iter());
        let tags = tags.chain(declared.skills.iter().flat_map(|one| one.tags.iter()));
        Self {
            id: declared.id.to_string(),
            epoch: registration.epoch.get(),
            revision: registration.revision.0,
            lifecycle: registration.owned.lifecycle.as_str().to_owned(),
            capabilities: declared.capabilities.iter().map(|one| one.name.as_str().to_owned()).collect(),
            tags: tags.cloned().collect(),
            metadata: BTreeMap::clone(&registration.owned.metadata),
        }
    }
}
