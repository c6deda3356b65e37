//! Evidence of death: while the guard holds, each suspect's endpoints are tried.
//!
//! A connection that the host refuses proves that nothing listens there; no answer proves nothing, because that is what a
//! cut network looks like. All endpoints must refuse. Nothing is sent.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rollcall_model::{Epoch, InstanceId, View};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::KeeperHandle;

/// An answer takes a round trip; a refusal does, too.
const PATIENCE: Duration = Duration::from_secs(1);
/// Connections tried at once: a probe must not look like an attack, nor exhaust descriptors.
const AT_ONCE: usize = 32;
/// Between two rounds.
const EVERY: Duration = Duration::from_secs(1);

/// What one try showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The host refused: nothing listens there.
    Refused,
    /// It listens, or nobody answered, or it may not be tried.
    Unproved,
}

/// Tries suspects while the guard holds, until cancelled.
pub(crate) async fn run(keeper: KeeperHandle, view: watch::Receiver<Arc<View>>, cancel: CancellationToken) {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let suspects = keeper.unproved();
        if !suspects.is_empty() {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = round(&keeper, suspects, &view, &slots) => {}
            }
        }
    }
}

async fn round(
    keeper: &KeeperHandle,
    suspects: Vec<(InstanceId, Epoch)>,
    view: &watch::Receiver<Arc<View>>,
    slots: &Arc<Semaphore>,
) {
    let mut tries = tokio::task::JoinSet::new();
    for (id, epoch) in suspects {
        let endpoints = {
            let view = view.borrow();
            let current = view.state().and_then(|state| state.get(id.as_str()));
            current.filter(|current| current.epoch == epoch).map(|current| current.declared.endpoints.clone())
        };
        let Some(endpoints) = endpoints else { continue };
        let Ok(slot) = Arc::clone(slots).acquire_owned().await else { return };
        let keeper = keeper.clone();
        tries.spawn(async move {
            let mut refused = !endpoints.is_empty();
            for endpoint in &endpoints {
                refused = refused && is_refused(endpoint.url()).await;
            }
            if refused {
                keeper.proved_dead(&id, epoch);
            }
            drop(slot);
        });
    }
    while tries.join_next().await.is_some() {}
}

/// Whether the host of this URL refuses connections: nothing listens there.
pub(super) async fn is_refused(url: &str) -> bool {
    tried(url).await == Answer::Refused
}

async fn tried(url: &str) -> Answer {
    let Some((host, port)) = address(url) else { return Answer::Unproved };
    let Ok(Ok(found)) = tokio::time::timeout(PATIENCE, tokio::net::lookup_host((host.as_str(), port))).await
    else {
        return Answer::Unproved;
    };
    let addresses: Vec<SocketAddr> = found.collect();
    if addresses.is_empty() || addresses.iter().any(|address| is_forbidden(address.ip())) {
        return Answer::Unproved;
    }
    for address in addresses {
        match tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await {
            Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {}
            Ok(Ok(_) | Err(_)) | Err(_) => return Answer::Unproved,
        }
    }
    Answer::Refused
}

/// Host and port of an endpoint that speaks TCP; a topic has none.
fn address(url: &str) -> Option<(String, u16)> {
    let uri: http::Uri = url.parse().ok()?;
    let port = match (uri.scheme_str()?, uri.port_u16()) {
        ("http" | "https" | "grpc" | "grpcs", Some(port)) => port,
        ("http" | "grpc", None) => 80,
        ("https" | "grpcs", None) => 443,
        _ => return None,
    };
    Some((uri.host()?.trim_start_matches('[').trim_end_matches(']').to_owned(), port))
}

/// Link-local addresses are where clouds keep their metadata: never tried (fault F45).
fn is_forbidden(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast(),
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(mapped) => is_forbidden(IpAddr::V4(mapped)),
            None => ip.is_unicast_link_local() || ip.is_unspecified() || ip.is_multicast(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_refused_connection_is_evidence_and_a_listener_or_a_topic_is_not() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(tried(&format!("http://{address}/")).await, Answer::Unproved);
        drop(listener);
        assert_eq!(tried(&format!("http://{address}/")).await, Answer::Refused);
        assert_eq!(tried("kafka://topic").await, Answer::Unproved);
    }

    #[tokio::test]
    async fn f45_metadata_addresses_are_never_tried() {
        for url in ["http://169.254.169.254/", "http://[fe80::1]:80/", "http://[::ffff:169.254.169.254]:80/"]
        {
            let (host, _) = address(url).unwrap();
            assert!(is_forbidden(host.parse().unwrap()), "{url}");
        }
    }
}
