//! One replica of an agent: a process that answers with its own name and is kept registered by the SDK.
//!
//! `replica REGISTRY ID SCOPE ENDPOINT FILE` writes where it listens to the file once it is registered. With `-` for the
//! endpoint it is registered where it listens, else where told, as behind an address that replicas share. It ends only
//! by being killed: it never drains and never deregisters.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a part of a test fails by panicking")]

use rollcall_client::model::Declaration;
use rollcall_client::model::declaration::RawEndpoint;
use rollcall_client::{Registrant, RegistrantOptions};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

/// The shortest that there is, so that a test sees it end.
const LEASE_SECONDS: u64 = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [registry, id, scope, endpoint, file] = arguments.as_slice() else {
        panic!("replica REGISTRY ID SCOPE ENDPOINT FILE, not {arguments:?}")
    };
    // It serves before anybody can find it.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let own = listener.local_addr().expect("its address");
    let name = own.to_string();
    tokio::spawn(async move {
        while let Ok((mut caller, _)) = listener.accept().await {
            // A caller that hung up asked for nothing.
            let _ = caller.write_all(name.as_bytes()).await;
        }
    });
    let url = if endpoint == "-" { format!("http://{own}/") } else { endpoint.clone() };
    let declaration = Declaration {
        id: id.clone(),
        scope: Some(scope.clone()),
        endpoints: vec![RawEndpoint { url, protocol: None }],
        lease_seconds: Some(LEASE_SECONDS),
        ..Declaration::default()
    };
    let registrant =
        Registrant::start(RegistrantOptions::new([registry], declaration)).expect("a declaration");
    registrant.registered().await;
    // Whole or not there at all: the test waits for it.
    let begun = format!("{file}.begun");
    std::fs::write(&begun, own.to_string()).expect("written");
    std::fs::rename(&begun, file).expect("in its place");
    std::future::pending::<()>().await;
}
