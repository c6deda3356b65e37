//! The endpoints of the fleet: each agent says who it is and what it heard.
//!
//! Promises: a stock A2A client gets an answer that it can read, in the version of the agent's card; anybody else's JSON
//! or text comes back as it was received. It never remembers anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::cast::{Member, Protocol};

/// Largest message that is heard: that of a registration, and an echo needs no more.
const BODY_BYTES_MAX: usize = rollcall_model::limits::BODY_BYTES_MAX;

type Members = Arc<BTreeMap<String, Arc<Member>>>;

/// Answers until it is cancelled.
pub(crate) async fn serve(
    listener: TcpListener,
    members: BTreeMap<String, Arc<Member>>,
    stop: CancellationToken,
) {
    let app = Router::new()
        .route("/agents/{name}/{instance}", post(call))
        .route("/agents/{name}/{instance}/.well-known/agent-card.json", get(card))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(Arc::new(members));
    if let Err(error) = axum::serve(listener, app).with_graceful_shutdown(stop.cancelled_owned()).await {
        tracing::error!(%error, "fleet's endpoints stopped");
    }
}

async fn call(
    State(members): State<Members>,
    Path((name, instance)): Path<(String, String)>,
    body: Bytes,
) -> Response {
    match members.get(&format!("{name}/{instance}")) {
        Some(member) => Json(answer(&member.id, member.protocol(), &body)).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn card(State(members): State<Members>, Path((name, instance)): Path<(String, String)>) -> Response {
    match members.get(&format!("{name}/{instance}")) {
        Some(member) => Json(member.card()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// What an agent says to what it heard.
fn answer(id: &str, protocol: Protocol, body: &[u8]) -> Value {
    let received: Value = serde_json::from_slice(body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()));
    if received.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return json!({"agent": id, "received": received});
    }
    let call = received.get("id").cloned().unwrap_or_default();
    let method = received.get("method").and_then(Value::as_str).unwrap_or_default();
    let parts = received.pointer("/params/message/parts").and_then(Value::as_array);
    let heard: Vec<_> =
        parts.into_iter().flatten().filter_map(|part| part.get("text").and_then(Value::as_str)).collect();
    let text = format!("{id} heard: {}", heard.join(" "));
    let message = uuid::Uuid::new_v4().to_string();
    let result = match (protocol, method) {
        (Protocol::V03, "message/send") => json!({
            "kind": "message", "messageId": message, "role": "agent", "parts": [{"kind": "text", "text": text}],
        }),
        (Protocol::V10, "SendMessage") => {
            json!({"message": {"messageId": message, "role": "ROLE_AGENT", "parts": [{"text": text}]}})
        }
        (Protocol::V03 | Protocol::V10, _) => {
            let problem = format!("{id} does not know the method {method:?}");
            return json!({"jsonrpc": "2.0", "id": call, "error": {"code": -32601, "message": problem}});
        }
    };
    json!({"jsonrpc": "2.0", "id": call, "result": result})
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "demo/translator/us-east-1";

    #[test]
    fn what_is_no_a2a_comes_back_with_who_heard_it() {
        assert_eq!(
            answer(ID, Protocol::V03, br#"{"text":"hello"}"#),
            json!({"agent": ID, "received": {"text": "hello"}})
        );
        assert_eq!(answer(ID, Protocol::V10, b"hello"), json!({"agent": ID, "received": "hello"}));
    }

    #[test]
    fn each_version_of_a2a_is_answered_in_its_own_shape() {
        let v03 = br#"{"jsonrpc":"2.0","id":7,"method":"message/send","params":{"message":{"parts":[{"kind":"text","text":"hi"}]}}}"#;
        let said = answer(ID, Protocol::V03, v03);
        assert_eq!(said["id"], 7);
        assert_eq!(said["result"]["kind"], "message");
        assert_eq!(said["result"]["parts"][0]["text"], format!("{ID} heard: hi"));
        let v10 = br#"{"jsonrpc":"2.0","id":"x","method":"SendMessage","params":{"message":{"parts":[{"text":"a"},{"text":"b"}]}}}"#;
        let said = answer(ID, Protocol::V10, v10);
        assert_eq!(said["id"], "x");
        assert_eq!(said["result"]["message"]["role"], "ROLE_AGENT");
        assert_eq!(said["result"]["message"]["parts"][0]["text"], format!("{ID} heard: a b"));
        assert_eq!(answer(ID, Protocol::V03, v10)["error"]["code"], -32601);
    }
}
