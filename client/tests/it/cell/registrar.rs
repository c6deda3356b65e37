//! What the cell does with a writer's calls: all of them come on a session.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rollcall_client::model::Code;
use rollcall_proto::v1::registrar_server::Registrar;
use rollcall_proto::v1::renew_response::Result as Judged;
use rollcall_proto::v1::session_request::Request as Asked;
use rollcall_proto::v1::session_response::Response as Answered;
use rollcall_proto::{convert, refusal, v1};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::{Call, Cell, Open};

#[tonic::async_trait]
impl Registrar for Cell {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<v1::SessionResponse, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<tonic::Streaming<v1::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        self.shared.sessions.fetch_add(1, Ordering::SeqCst);
        self.shared.open.fetch_add(1, Ordering::SeqCst);
        let cell = self.clone();
        let mut asked = request.into_inner();
        let (sender, receiver) = mpsc::channel(4);
        tokio::spawn(async move {
            let _open = Open(Arc::clone(&cell.shared), |shared| &shared.open);
            let mut ends = cell.ends.subscribe();
            let breaks = ends.borrow().breaks;
            loop {
                let answer = tokio::select! {
                    _ = ends.wait_for(|ends| ends.stopping || ends.breaks > breaks) => Err(()),
                    asked = asked.message() => match asked {
                        Ok(Some(asked)) => Ok(asked),
                        Ok(None) | Err(_) => return,
                    },
                };
                let answer = match answer {
                    Ok(asked) => Ok(cell.perform(asked)),
                    Err(()) if cell.ends.borrow().stopping => {
                        Err(refusal::status(Code::Draining, "as told", None))
                    }
                    Err(()) => Err(Status::unavailable("broken, as told")),
                };
                let over = answer.is_err();
                if sender.send(answer).await.is_err() || over {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn register(
        &self,
        _: Request<v1::RegisterRequest>,
    ) -> Result<Response<v1::RegisterResponse>, Status> {
        Err(Status::unimplemented("register"))
    }

    async fn renew(&self, _: Request<v1::RenewRequest>) -> Result<Response<v1::RenewResponse>, Status> {
        Err(Status::unimplemented("renew"))
    }

    async fn update(&self, _: Request<v1::UpdateRequest>) -> Result<Response<v1::UpdateResponse>, Status> {
        Err(Status::unimplemented("update"))
    }

    async fn deregister(
        &self,
        _: Request<v1::DeregisterRequest>,
    ) -> Result<Response<v1::DeregisterResponse>, Status> {
        Err(Status::unimplemented("deregister"))
    }
}

impl Cell {
    fn perform(&self, asked: v1::SessionRequest) -> v1::SessionResponse {
        let response = match asked.request.unwrap() {
            Asked::Register(request) => self.register_one(request).map(Answered::Register),
            Asked::Renew(request) => self.renew_all(request).map(Answered::Renew),
            Asked::Update(_) => Err(Status::unimplemented("update")),
            Asked::Deregister(request) => self.deregister_one(request).map(Answered::Deregister),
        };
        let response = response.unwrap_or_else(|status| {
            let retry_after = refusal::retry_after_of(&status);
            Answered::Refusal(v1::session_response::Refusal {
                code: refusal::code_of(&status).unwrap_or(Code::Internal).as_str().into(),
                detail: status.message().into(),
                retry_after_ms: retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap()),
                current: None,
            })
        });
        v1::SessionResponse { call: asked.call, response: Some(response) }
    }

    fn register_one(&self, request: v1::RegisterRequest) -> Result<v1::RegisterResponse, Status> {
        let lifecycle = convert::registration::lifecycle_from(request.lifecycle());
        let mut script = self.script();
        let epoch = script.next_epoch();
        let holder = request.holder.clone();
        self.note(Call::Register { id: request.id.clone(), holder, epoch, lifecycle });
        script.refused()?;
        script.held.insert(request.id.clone(), (epoch, request.endpoints[0].url.clone()));
        Ok(v1::RegisterResponse {
            id: request.id,
            region: "us".into(),
            epoch,
            lease_seconds: 30,
            heartbeat_seconds: script.beat.as_secs_f64(),
            lease_expires_at_ms: 0,
            position: None,
            holder: None,
        })
    }

    fn renew_all(&self, request: v1::RenewRequest) -> Result<v1::RenewResponse, Status> {
        let mut script = self.script();
        self.shared.renewals.lock().unwrap().push(request.items.len());
        if request.items.iter().any(|item| Some(&item.id) == script.unreadable.as_ref()) {
            script.spoiled += usize::from(request.items.len() > 1);
            return Err(refusal::status(Code::InvalidBody, "as told", None));
        }
        for item in &request.items {
            self.note(Call::Renew {
                id: item.id.clone(),
                holder: item.holder.clone(),
                epoch: item.epoch,
                lifecycle: convert::registration::lifecycle_from(item.lifecycle()),
                queue_depth: item.load.map(|load| load.queue_depth),
            });
        }
        script.refused()?;
        let results = request.items.into_iter().map(|item| {
            let outcome = script.renew(&item);
            Judged { id: item.id, outcome: Some(outcome) }
        });
        Ok(v1::RenewResponse { results: results.collect() })
    }

    fn deregister_one(&self, request: v1::DeregisterRequest) -> Result<v1::DeregisterResponse, Status> {
        let v1::DeregisterRequest { id, epoch, holder } = request;
        self.note(Call::Deregister { id: id.clone(), holder: holder.clone(), epoch });
        let mut script = self.script();
        script.refused()?;
        if holder.is_none() {
            script.judge(&id, epoch).map_err(|(code, _)| refusal::status(code, "as told", None))?;
        }
        script.held.remove(&id);
        Ok(v1::DeregisterResponse {})
    }
}
