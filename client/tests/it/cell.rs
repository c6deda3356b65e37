//! A cell in memory: real gRPC, real views, and a script for what goes wrong. It remembers every call.

mod registrar;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rollcall_client::model::declaration::{RawCapability, RawEndpoint};
use rollcall_client::model::{
    self, Change, Clock, Code, Cursor, Declaration, Declared, Delta, Epoch, Event, Incarnation, Lifecycle,
    Owned, Position, Query, Region, Registration, Removal, RemovalReason, Replaced, Revision, Snapshot,
    State, Timestamp, View,
};
use rollcall_proto::v1::discovery_server::{Discovery, DiscoveryServer};
use rollcall_proto::v1::registrar_server::RegistrarServer;
use rollcall_proto::v1::renew_response::{NotRegistered, Renewed, result::Outcome};
use rollcall_proto::{convert, refusal, v1};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};

/// Longest that any test waits for a named condition.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// The beat it asks for unless told otherwise: short, so that tests are.
const BEAT: Duration = Duration::from_millis(200);

/// What a client asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    Register {
        id: String,
        holder: Option<String>,
        epoch: u64,
        lifecycle: Option<Lifecycle>,
    },
    Renew {
        id: String,
        holder: Option<String>,
        epoch: u64,
        lifecycle: Option<Lifecycle>,
        queue_depth: Option<u32>,
    },
    Deregister {
        id: String,
        holder: Option<String>,
        epoch: u64,
    },
    Watch {
        region: String,
        since: Option<String>,
    },
}

struct Script {
    revision: u64,
    beat: Duration,
    /// What renewals say of the lease's length.
    lease_seconds: u32,
    /// Epoch and endpoint of each id.
    held: BTreeMap<String, (u64, String)>,
    refuse: Option<(Code, Duration)>,
    /// A message with this id in it is refused whole.
    unreadable: Option<String>,
    /// Messages of several leases that were refused for it.
    spoiled: usize,
    spoil_snapshots: bool,
    is_late_with_ages: bool,
}

/// So late a cell is with ages.
const LATE: Duration = Duration::from_millis(200);

struct Shared {
    script: Mutex<Script>,
    calls: watch::Sender<Vec<(Instant, Call)>>,
    views: watch::Sender<BTreeMap<String, View>>,
    watches: AtomicUsize,
    /// Connections accepted, ever.
    connections: AtomicUsize,
    /// Sessions opened, ever.
    sessions: AtomicUsize,
    /// Sessions open now.
    open: AtomicUsize,
    /// How many leases each message of renewals held.
    renewals: Mutex<Vec<usize>>,
    clock: Clock,
}

/// The cell; its memory outlives its server.
#[derive(Clone)]
pub(crate) struct Cell {
    shared: Arc<Shared>,
    ends: Arc<watch::Sender<Ends>>,
}

/// What ends the sessions of one server.
#[derive(Default)]
struct Ends {
    stopping: bool,
    breaks: u64,
}

/// A server of the cell; dropped, it is gone with all its connections.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    ends: Arc<watch::Sender<Ends>>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Cell {
    pub(crate) fn new() -> Self {
        let zero = Instant::now();
        let clock = Clock::new(move || zero.elapsed(), || 0);
        Self {
            shared: Arc::new(Shared {
                script: Mutex::new(Script {
                    revision: 0,
                    beat: BEAT,
                    lease_seconds: 30,
                    held: BTreeMap::new(),
                    refuse: None,
                    unreadable: None,
                    spoiled: 0,
                    spoil_snapshots: false,
                    is_late_with_ages: false,
                }),
                calls: watch::Sender::default(),
                views: watch::Sender::default(),
                watches: AtomicUsize::new(0),
                connections: AtomicUsize::new(0),
                sessions: AtomicUsize::new(0),
                open: AtomicUsize::new(0),
                renewals: Mutex::default(),
                clock,
            }),
            ends: Arc::default(),
        }
    }

    /// Serves on a free port.
    pub(crate) fn serve(&self) -> Serving {
        self.serve_at(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Serves on this address, which a server before it has let go of.
    pub(crate) fn serve_at(&self, address: SocketAddr) -> Serving {
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let ends = Arc::new(watch::Sender::default());
        let cell = Self { ends: Arc::clone(&ends), ..self.clone() };
        let shared = Arc::clone(&self.shared);
        runtime.spawn(async move {
            let incoming = TcpListenerStream::new(tokio::net::TcpListener::from_std(listener).unwrap());
            let incoming = incoming.map(move |connection| {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                connection
            });
            tonic::transport::Server::builder()
                .add_service(RegistrarServer::new(cell.clone()))
                .add_service(DiscoveryServer::new(cell))
                .serve_with_incoming(incoming)
                .await
        });
        Serving { address, ends, runtime: Some(runtime) }
    }

    /// Waits until the calls fulfil the condition.
    pub(crate) async fn saw(&self, what: &str, condition: impl Fn(&[Call]) -> bool) -> Vec<Call> {
        let mut calls = self.shared.calls.subscribe();
        let plain =
            |calls: &[(Instant, Call)]| calls.iter().map(|(_, call)| call.clone()).collect::<Vec<_>>();
        let seen = tokio::time::timeout(DEADLINE, calls.wait_for(|calls| condition(&plain(calls)))).await;
        match seen {
            Ok(calls) => plain(&calls.unwrap()),
            Err(_) => panic!("never saw: {what}; calls: {:?}", self.calls()),
        }
    }

    pub(crate) fn calls(&self) -> Vec<(Instant, Call)> {
        self.shared.calls.borrow().clone()
    }

    /// Forgets this registration, as a cell does that lost its store.
    pub(crate) fn forget(&self, id: &str) {
        assert!(self.script().held.remove(id).is_some(), "{id} is not registered");
    }

    /// Another process registers the id at this endpoint.
    pub(crate) fn take_over(&self, id: &str, endpoint: &str) {
        let mut script = self.script();
        let epoch = script.next_epoch();
        script.held.insert(id.into(), (epoch, endpoint.into()));
    }

    /// Refuses all that writes, until told otherwise.
    pub(crate) fn refuse(&self, with: Option<(Code, Duration)>) {
        self.script().refuse = with;
    }

    /// Says in renewals that leases are this long; those it registers are of 30 s.
    pub(crate) fn say_of_leases(&self, seconds: u32) {
        self.script().lease_seconds = seconds;
    }

    /// Cannot read any message with this id in it.
    pub(crate) fn cannot_read(&self, id: &str) {
        self.script().unreadable = Some(id.into());
    }

    /// Messages of several leases that it could not read.
    pub(crate) fn spoiled(&self) -> usize {
        self.script().spoiled
    }

    /// Sessions that are open.
    pub(crate) fn open_sessions(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Connections that were made to it.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Sessions that were opened with it.
    pub(crate) fn sessions(&self) -> usize {
        self.shared.sessions.load(Ordering::SeqCst)
    }

    /// How many leases each message of renewals held.
    pub(crate) fn renewals(&self) -> Vec<usize> {
        self.shared.renewals.lock().unwrap().clone()
    }

    /// Asks for a beat this often.
    pub(crate) fn ask_for_beat(&self, beat: Duration) {
        self.script().beat = beat;
    }

    /// From now on it takes a while to say how old a state is.
    pub(crate) fn say_ages_late(&self) {
        self.script().is_late_with_ages = true;
    }

    /// Snapshots claim one record more than they have, until told otherwise.
    pub(crate) fn spoil_snapshots(&self, spoil: bool) {
        self.script().spoil_snapshots = spoil;
    }

    /// Open watches.
    pub(crate) fn watches(&self) -> usize {
        self.shared.watches.load(Ordering::SeqCst)
    }

    /// Loads a region with these instances, at revision 1 of this incarnation.
    pub(crate) fn load(&self, name: &str, ordinal: u16, instances: &[(&str, Lifecycle)]) {
        let mut state = State::default();
        for (id, lifecycle) in instances {
            state.put(Arc::new(registration(id, *lifecycle, ordinal, 1)));
        }
        let position = Position::new(Incarnation::new(ordinal, name).unwrap(), Revision(1));
        let snapshot = Snapshot::of(region(name), position, state);
        self.with_view(name, |view| {
            let heard = model::freshness::Heard { at: self.shared.clock.now(), age: Duration::ZERO };
            view.install(snapshot, Some(heard), "started", Timestamp(0));
        });
    }

    /// Puts one instance into a loaded region, as the next revision.
    pub(crate) fn put(&self, name: &str, id: &str) {
        self.with_view(name, |view| {
            let from = view.position().unwrap().clone();
            let revision = Revision(from.revision.0 + 1);
            let to = Position::new(from.incarnation.clone(), revision);
            let put = registration(id, Lifecycle::Healthy, from.incarnation.ordinal(), revision.0);
            let delta = Delta { region: region(name), from, to, changes: vec![Change::Put(Arc::new(put))] };
            assert_eq!(view.apply(&Arc::new(delta)), model::Outcome::Applied);
        });
    }

    /// Takes one instance out of a loaded region, on its owner's word.
    pub(crate) fn remove(&self, name: &str, id: &str) {
        self.with_view(name, |view| {
            let from = view.position().unwrap().clone();
            let revision = Revision(from.revision.0 + 1);
            let to = Position::new(from.incarnation.clone(), revision);
            let gone = view.state().unwrap().get(id).unwrap();
            let removal = Removal {
                id: gone.declared.id.clone(),
                epoch: gone.epoch,
                reason: RemovalReason::Deregistered,
                actor: "owner".into(),
                term: None,
                at: Timestamp(0),
                revision,
            };
            let delta =
                Delta { region: region(name), from, to, changes: vec![Change::Remove(Arc::new(removal))] };
            assert_eq!(view.apply(&Arc::new(delta)), model::Outcome::Applied);
        });
    }

    pub(crate) fn position(&self, name: &str) -> String {
        self.shared.views.borrow()[name].position().unwrap().to_string()
    }

    fn with_view(&self, name: &str, change: impl FnOnce(&mut View)) {
        self.shared.views.send_modify(|views| {
            change(views.entry(name.into()).or_insert_with(|| View::new(region(name))));
        });
    }

    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.shared.script.lock().unwrap()
    }

    fn note(&self, call: Call) {
        self.shared.calls.send_modify(|calls| calls.push((Instant::now(), call)));
    }
}

impl Script {
    fn next_epoch(&mut self) -> u64 {
        self.revision += 1;
        Epoch::new(1, Revision(self.revision)).get()
    }

    fn judge(&self, id: &str, epoch: u64) -> Result<(), (Code, String)> {
        match self.held.get(id) {
            None => Err((Code::NotRegistered, String::new())),
            Some((held, endpoint)) if *held != epoch => Err((Code::Superseded, endpoint.clone())),
            Some(_) => Ok(()),
        }
    }

    fn renew(&self, item: &v1::renew_request::Item) -> Outcome {
        let renewed = |superseded| {
            Outcome::Renewed(Renewed {
                lease_seconds: self.lease_seconds,
                heartbeat_seconds: self.beat.as_secs_f64(),
                lease_expires_at_ms: 0,
                superseded,
            })
        };
        match self.judge(&item.id, item.epoch) {
            Ok(()) => renewed(false),
            // A holder of an older epoch keeps a shared entry alive.
            Err((Code::Superseded, _)) if item.holder.is_some() => renewed(true),
            Err((Code::NotRegistered, _)) => Outcome::NotRegistered(NotRegistered {}),
            Err((_, endpoint)) => Outcome::Superseded(v1::Current { epoch: self.held[&item.id].0, endpoint }),
        }
    }

    fn refused(&self) -> Result<(), Status> {
        match self.refuse {
            Some((code, retry_after)) => Err(refusal::status(code, "as told", Some(retry_after))),
            None => Ok(()),
        }
    }
}

impl Serving {
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Breaks the sessions there are.
    pub(crate) fn break_sessions(&self) {
        self.ends.send_modify(|ends| ends.breaks += 1);
    }

    /// Takes no more calls, as a process does that was told to stop.
    pub(crate) fn stop(&self) {
        self.ends.send_modify(|ends| ends.stopping = true);
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Waits for the end, or the dying server would still tell of what the test does next. On a thread of its own,
        // because a runtime must not wait inside another.
        if let Some(runtime) = self.runtime.take() {
            std::thread::spawn(move || runtime.shutdown_timeout(DEADLINE)).join().unwrap();
        }
    }
}

pub(crate) fn region(name: &str) -> Region {
    Region::parse(name).unwrap()
}

pub(crate) fn declaration(id: &str) -> Declaration {
    Declaration {
        id: id.into(),
        endpoints: vec![RawEndpoint { url: "http://own:1/".into(), protocol: None }],
        ..Declaration::default()
    }
}

fn registration(id: &str, lifecycle: Lifecycle, ordinal: u16, revision: u64) -> Registration {
    let capability = RawCapability { name: "mail:send:v1".into(), ..RawCapability::default() };
    let declaration = Declaration { capabilities: vec![capability], ..declaration(id) };
    let declared = Declared::check(declaration, String::new).unwrap();
    let owned = Owned { lifecycle, ..Owned::of(&declared) };
    let epoch = Epoch::new(ordinal, Revision(revision));
    Registration {
        declared,
        epoch,
        registered_at: Timestamp(0),
        revision: Revision(revision),
        owned,
        replaced: Replaced::default(),
    }
}

/// Counts a watch, or a session, as open while its task lives.
struct Open(Arc<Shared>, fn(&Shared) -> &AtomicUsize);

impl Drop for Open {
    fn drop(&mut self) {
        (self.1)(&self.0).fetch_sub(1, Ordering::SeqCst);
    }
}

#[tonic::async_trait]
impl Discovery for Cell {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let request = request.into_inner();
        let since = request.since.map(|since| convert::position_from(Some(since), "since").unwrap());
        self.note(Call::Watch {
            region: request.region.clone(),
            since: since.as_ref().map(ToString::to_string),
        });
        let shared = Arc::clone(&self.shared);
        shared.watches.fetch_add(1, Ordering::SeqCst);
        let open = Open(Arc::clone(&shared), |shared| &shared.watches);
        let (sender, receiver) = mpsc::channel(4);
        tokio::spawn(async move {
            let _open = open;
            let mut views = shared.views.subscribe();
            let mut cursor = Cursor::new(Query::default(), since);
            loop {
                let view = views.borrow_and_update().get(&request.region).cloned();
                let events = view.map(|view| cursor.advance(&view, shared.clock.now())).unwrap_or_default();
                if events.is_empty() {
                    let due = cursor.due().map(|due| due.since(shared.clock.now()));
                    tokio::select! {
                        changed = views.changed() => changed.unwrap(),
                        () = tokio::time::sleep(due.unwrap_or_default()), if due.is_some() => {}
                        () = sender.closed() => return,
                    }
                }
                for mut event in events {
                    if let Event::SnapshotBegin(head) = &mut event {
                        head.count += u64::from(shared.script.lock().unwrap().spoil_snapshots);
                    }
                    let is_late = shared.script.lock().unwrap().is_late_with_ages;
                    if matches!(event, Event::Bookmark(_)) && is_late {
                        tokio::time::sleep(LATE).await;
                    }
                    if sender.send(Ok(convert::event(&event))).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn list(&self, _: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        Err(Status::unimplemented("list"))
    }

    async fn get(&self, _: Request<v1::GetRequest>) -> Result<Response<v1::GetResponse>, Status> {
        Err(Status::unimplemented("get"))
    }

    async fn regions(&self, _: Request<v1::RegionsRequest>) -> Result<Response<v1::RegionsResponse>, Status> {
        Err(Status::unimplemented("regions"))
    }

    async fn removals(
        &self,
        _: Request<v1::RemovalsRequest>,
    ) -> Result<Response<v1::RemovalsResponse>, Status> {
        Err(Status::unimplemented("removals"))
    }
}
