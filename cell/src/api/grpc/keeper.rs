//! The other processes of this cell, asking the keeper.

use std::sync::Arc;

use futures_util::future::join_all;
use rollcall_model::{Code, limits};
use rollcall_proto::v1::ask_request::Question;
use rollcall_proto::v1::ask_response::{Answer, NoOffice, answer};
use rollcall_proto::v1::keeper_server::Keeper;
use rollcall_proto::v1::{AskRequest, AskResponse};
use tonic::{Request, Response, Status};

use crate::api::Api;
use crate::api::grpc::{invalid, refused};

/// The service.
pub(super) struct Door {
    pub(super) api: Arc<Api>,
}

#[tonic::async_trait]
impl Keeper for Door {
    async fn ask(&self, request: Request<AskRequest>) -> Result<Response<AskResponse>, Status> {
        let questions = request.into_inner().questions;
        if questions.len() > limits::RENEWALS_MAX {
            let refusal = invalid(Code::InvalidBody, "/questions", "there are more than 1,000 of them");
            return Err(refused(&refusal));
        }
        let answers = join_all(questions.into_iter().map(|question| self.answer(question))).await;
        Ok(Response::new(AskResponse { answers }))
    }
}

impl Door {
    async fn answer(&self, question: Question) -> Answer {
        let answer = match question.about {
            Some(about) => self.api.registrar.answer(about).await,
            // A question of a newer version: the asker hears that nobody judges it.
            None => answer::Answer::NoOffice(NoOffice {}),
        };
        Answer { answer: Some(answer) }
    }
}
