//! The ports of `rollcall dev`: all of them, or a sentence about the one that is taken.
//!
//! Promises: the first region has the base port, each further one ten more, gRPC one above HTTP, also when the system
//! chooses. They are bound before anything else happens and stay bound.

use rollcall_runtime::{ListenError, listen};
use tokio::net::TcpListener;

use crate::exit::Exit;
use crate::roles::Refused;

/// From one region's port to the next.
const STEP: usize = 10;
/// Tries to find two free ports side by side; with 28,000 of the system's to choose from, a few are plenty.
const TRIES: usize = 50;

/// The listeners of one region.
pub(crate) struct Ports {
    /// HTTP.
    pub(crate) http: TcpListener,
    /// gRPC, one above.
    pub(crate) grpc: TcpListener,
}

/// Binds the ports of all regions; with base 0, free ones.
pub(crate) async fn bind(base: u16, regions: usize) -> Result<Vec<Ports>, Refused> {
    let mut all = Vec::new();
    for at in 0..regions {
        all.push(if base == 0 { free_pair().await? } else { pair(base, at).await? });
    }
    Ok(all)
}

async fn pair(base: u16, at: usize) -> Result<Ports, Refused> {
    let port = usize::from(base) + STEP * at;
    let http = u16::try_from(port).ok().filter(|port| *port < u16::MAX).ok_or_else(|| {
        Refused::new(
            Exit::Usage,
            format!("--base-port {base} leaves no port for region {}; take a lower one", at + 1),
        )
    })?;
    Ok(Ports { http: one(http).await?, grpc: one(http + 1).await? })
}

async fn free_pair() -> Result<Ports, Refused> {
    let mut refused = None;
    for _ in 0..TRIES {
        let http = one(0).await?;
        let port = http.local_addr().map_or(u16::MAX, |address| address.port());
        let Some(above) = port.checked_add(1) else { continue };
        match one(above).await {
            Ok(grpc) => return Ok(Ports { http, grpc }),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused
        .unwrap_or_else(|| Refused::new(Exit::Unavailable, "there are no two free ports side by side")))
}

async fn one(port: u16) -> Result<TcpListener, Refused> {
    listen::bind(&format!("127.0.0.1:{port}")).await.map_err(|error| match error {
        ListenError::Taken { .. } => Refused::new(
            Exit::Unavailable,
            format!(
                "port {port} is taken, nothing was started: stop the process that listens there, perhaps another \
                 `rollcall dev`, or choose others with --base-port"
            ),
        ),
        other => Refused::new(Exit::Failed, format!("nothing was started: {other}")),
    })
}
