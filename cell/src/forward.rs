//! What only the keeper can answer, asked of the process that keeps.
//!
//! Renewals that wait go together as one message; none waits for company while the line is free. Promises: a question
//! has its answer or its refusal within its patience, whatever the keeper does; one that may have been acted on and
//! must not be acted on twice is asked once. Never here: a judgement, or a question that came from another process.

pub(crate) mod words;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rollcall_model::{Backoff, limits};
use rollcall_proto::v1::ask_request::Question;
use rollcall_proto::v1::ask_request::question::About;
use rollcall_proto::v1::ask_response::answer::Answer;
use rollcall_proto::v1::keeper_client::KeeperClient;
use rollcall_proto::v1::{AskRequest, AskResponse};
use rollcall_runtime::meter::{Counter, KeyValue, Metrics};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tonic::transport::{Channel, Endpoint};

use crate::keeper::InOffice;
use crate::random;
use crate::views::MESSAGE_BYTES_MAX;

/// How long a question may take: a third of a registrant's patience of 3 s, so that it hears a refusal while it can
/// still try another process.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same for a removal, which waits for the store: just under a registrant's patience.
const PATIENCE_WITH_STORE: Duration = Duration::from_millis(2_500);
/// Questions that wait to be sent: a second of the renewals of 160,000 agents, which is as long as one would wait.
const QUEUE: usize = 16_384;
/// Batches on their way at once: while the keeper judges one the next one fills.
const IN_FLIGHT: usize = 2;
/// Questions on their way by themselves at once: they are rare, and a deployment that stops asks for hundreds.
const ALONE: usize = 256;
/// Between two tries of one question while nobody judges.
const AGAIN: Duration = Duration::from_millis(200);
/// A process that does not take a connection within this is not there: cells of one region are close.
const CONNECT: Duration = Duration::from_millis(500);

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unheard {
    /// No process that keeps the leases took it: nothing was done.
    NotJudged,
    /// It was sent, and what became of it is not known.
    Unknown,
    /// Too many wait already: nothing was done.
    Busy,
}

/// One question that waits for company.
pub(crate) struct Waiting {
    question: About,
    answer: oneshot::Sender<Result<Answer, Unheard>>,
}

/// The way to the keeper. Cheap to clone.
#[derive(Clone)]
pub struct Forward {
    queue: mpsc::Sender<Waiting>,
    alone: Arc<Semaphore>,
    line: Arc<Line>,
}

impl Forward {
    /// The way to whoever is in office by `office`, for the process that itself is reached at `own`; and what its task
    /// takes from.
    pub(crate) fn new(
        own: String,
        office: watch::Receiver<Option<InOffice>>,
        metrics: &Metrics,
    ) -> (Self, Batches) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(400));
        let open = Mutex::new(Open { client: None, backoff, not_before: None, heard: 0 });
        let forwarded = metrics.counter(
            "rollcall.cell.forward.questions",
            "{question}",
            "Questions that this process asked the keeper's, by whether they were answered.",
        );
        let unheard = watch::Sender::new(None);
        let line = Arc::new(Line { own, office, open, forwarded, unheard });
        let alone = Arc::new(Semaphore::new(ALONE));
        (Self { queue, alone, line: Arc::clone(&line) }, Batches { waiting, line })
    }

    /// The keeper that answered this process before and just did not.
    pub(crate) fn unheard(&self) -> watch::Receiver<Option<InOffice>> {
        self.line.unheard.subscribe()
    }

    /// Asks until somebody judges or the patience is over.
    pub(crate) async fn ask(&self, question: About) -> Result<Answer, Unheard> {
        let is_alone = goes_alone(&question);
        let is_repeatable = !matches!(question, About::LetGo(_));
        let patience = if is_repeatable { PATIENCE } else { PATIENCE_WITH_STORE };
        let end = Instant::now() + patience;
        let mut office = self.line.office.clone();
        let mut heard = Unheard::NotJudged;
        loop {
            office.mark_unchanged();
            let once = async {
                if is_alone {
                    self.alone(question.clone(), end).await
                } else {
                    self.together(question.clone()).await
                }
            };
            match timeout_at(end, once).await {
                Ok(Ok(Answer::NoOffice(_)) | Err(Unheard::NotJudged)) => {}
                Ok(Err(Unheard::Unknown)) if is_repeatable => heard = Unheard::Unknown,
                Ok(outcome) => return outcome,
                Err(_) => return Err(Unheard::Unknown),
            }
            // The next keeper, or this one a little later.
            let next = timeout(AGAIN, office.changed());
            if timeout_at(end, next).await.is_err() {
                return Err(heard);
            }
        }
    }

    async fn together(&self, question: About) -> Result<Answer, Unheard> {
        let (answer, verdict) = oneshot::channel();
        self.queue.try_send(Waiting { question, answer }).map_err(|_| Unheard::Busy)?;
        verdict.await.unwrap_or(Err(Unheard::NotJudged))
    }

    async fn alone(&self, question: About, end: Instant) -> Result<Answer, Unheard> {
        let Ok(_slot) = self.alone.acquire().await else { return Err(Unheard::NotJudged) };
        let answers = self.line.ask(vec![question], end).await?;
        answers.into_iter().next().ok_or(Unheard::Unknown)
    }
}

/// Whether a question must not keep renewals waiting, by its time or by its size.
fn goes_alone(question: &About) -> bool {
    !matches!(question, About::Renew(_) | About::MayWriteLoad(_) | About::Wrote(_))
}

/// The task.
pub(crate) struct Batches {
    waiting: mpsc::Receiver<Waiting>,
    line: Arc<Line>,
}

impl Batches {
    /// Carries batches until every way to the keeper is dropped.
    pub(crate) async fn run(mut self) {
        let slots = Arc::new(Semaphore::new(IN_FLIGHT));
        let mut sent = tokio::task::JoinSet::new();
        loop {
            while sent.try_join_next().is_some() {}
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { break };
            let mut batch = Vec::new();
            if self.waiting.recv_many(&mut batch, limits::RENEWALS_MAX).await == 0 {
                break;
            }
            // Whoever's patience is over has had its refusal.
            batch.retain(|waiting| !waiting.answer.is_closed());
            if batch.is_empty() {
                continue;
            }
            let line = Arc::clone(&self.line);
            sent.spawn(async move {
                carry(&line, batch).await;
                drop(slot);
            });
        }
        while sent.join_next().await.is_some() {}
    }
}

async fn carry(line: &Line, batch: Vec<Waiting>) {
    let questions = batch.iter().map(|waiting| waiting.question.clone()).collect();
    match line.ask(questions, Instant::now() + PATIENCE).await {
        Ok(answers) => {
            for (waiting, answer) in batch.into_iter().zip(answers) {
                let _ = waiting.answer.send(Ok(answer));
            }
        }
        Err(unheard) => {
            for waiting in batch {
                let _ = waiting.answer.send(Err(unheard));
            }
        }
    }
}

/// The connection to whoever is in office.
struct Line {
    own: String,
    office: watch::Receiver<Option<InOffice>>,
    open: Mutex<Open>,
    forwarded: Counter<u64>,
    unheard: watch::Sender<Option<InOffice>>,
}

struct Open {
    client: Option<(Arc<str>, KeeperClient<Channel>)>,
    backoff: Backoff,
    /// After a failure nothing is sent for a while: what is down is not hammered.
    not_before: Option<Instant>,
    /// The term of the keeper that answered last.
    heard: u64,
}

impl Line {
    /// Asks whoever is in office now. A change of the office ends it: what was not answered is asked of the next one.
    async fn ask(&self, questions: Vec<About>, end: Instant) -> Result<Vec<Answer>, Unheard> {
        let mut office = self.office.clone();
        let keeper = office.borrow_and_update().clone();
        let Some(keeper) = keeper else { return Err(Unheard::NotJudged) };
        let Some(mut client) = self.client(&keeper.address) else { return Err(Unheard::NotJudged) };
        let count = questions.len();
        let questions = questions.into_iter().map(|about| Question { about: Some(about) }).collect();
        let asked = tokio::select! {
            asked = timeout_at(end, client.ask(AskRequest { questions })) => asked,
            _ = office.changed() => return Err(Unheard::Unknown),
        };
        let answers = match asked {
            Ok(Ok(response)) => said(response.into_inner()),
            Ok(Err(status)) => {
                tracing::debug!(%status, "keeper not heard");
                Vec::new()
            }
            Err(_) => {
                tracing::debug!("keeper did not answer in time");
                Vec::new()
            }
        };
        let is_whole = answers.len() == count;
        self.ended(is_whole, keeper);
        let outcome = KeyValue::new("outcome", if is_whole { "answered" } else { "unanswered" });
        self.forwarded.add(count as u64, &[outcome]);
        if is_whole { Ok(answers) } else { Err(Unheard::Unknown) }
    }

    fn client(&self, address: &Arc<str>) -> Option<KeeperClient<Channel>> {
        // Itself it has asked already; who stands for office without an address cannot be asked.
        if address.is_empty() || **address == *self.own {
            return None;
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match &open.client {
            Some((to, client)) if to == address => {
                if open.not_before.is_some_and(|at| Instant::now() < at) {
                    return None;
                }
                Some(client.clone())
            }
            Some(_) | None => {
                // A dead connection is noticed by what is asked on it, and by these while nothing is.
                let endpoint = Endpoint::from_shared(address.to_string())
                    .ok()?
                    .connect_timeout(CONNECT)
                    .tcp_nodelay(true)
                    .http2_keep_alive_interval(Duration::from_secs(2))
                    .keep_alive_timeout(Duration::from_secs(2));
                let client =
                    KeeperClient::new(endpoint.connect_lazy()).max_decoding_message_size(MESSAGE_BYTES_MAX);
                open.client = Some((Arc::clone(address), client.clone()));
                open.backoff.reset();
                open.not_before = None;
                Some(client)
            }
        }
    }

    fn ended(&self, is_heard: bool, keeper: InOffice) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if is_heard {
            open.backoff.reset();
            open.not_before = None;
            open.heard = keeper.term;
        } else {
            if open.heard == keeper.term {
                self.unheard.send_replace(Some(keeper));
            }
            let wait = open.backoff.next(random::chance());
            open.not_before = Some(Instant::now() + wait);
        }
    }
}

/// The answers, as far as this version reads them all.
fn said(response: AskResponse) -> Vec<Answer> {
    response.answers.into_iter().map_while(|answer| answer.answer).collect()
}
