//! Opening a listening socket, with an answer a person can act on when that fails.
//!
//! Promises: the socket is bound or nothing is; the error names the address and the next step; as many peers may knock
//! at once as the system lets wait. It never retries and never picks another port.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, lookup_host};

/// Peers that may wait to be accepted: as many as a listener has at once ([`Limits`](crate::serve::Limits)), because a
/// whole fleet comes back in the same moment. Linux lets at most `net.core.somaxconn` wait, 4,096 by default; whoever
/// finds no place knocks again after a second.
const KNOCKING_MOST: u32 = 16_384;

/// Why an address could not be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody else has it.
    #[error(
        "{address} is taken: another process listens there; change it under [listen] or stop that process"
    )]
    Taken {
        /// What was asked for.
        address: String,
    },
    /// The machine does not have it.
    #[error(
        "{address} is not an address of this machine; under [listen] give one that is, or 0.0.0.0 for all"
    )]
    Foreign {
        /// What was asked for.
        address: String,
    },
    /// The system forbids it.
    #[error(
        "{address} may not be listened on by this user; ports below 1024 need rights, choose a higher one"
    )]
    Forbidden {
        /// What was asked for.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// Anything else, a text that is no address included.
    #[error(
        "{address} cannot be listened on: {source}; [listen] wants host:port, for example 127.0.0.1:7400"
    )]
    Other {
        /// What was asked for.
        address: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Whether a text is the URL of a process of ours or of the store: `http://`, a host, a port from 1 on where one is said,
/// and nothing behind them, which would be passed over. There is no TLS of our own yet, so `https://` would never connect.
#[must_use]
pub fn is_http_url(text: &str) -> bool {
    text.parse::<axum::http::Uri>().is_ok_and(|uri| {
        let host = uri.host().unwrap_or_default();
        // A port that is no number of 16 bits is none to the parser, and would be passed over.
        let place = uri.authority().and_then(|authority| authority.as_str().rsplit('@').next());
        let is_place = place == Some(host) || uri.port_u16().is_some_and(|port| port > 0);
        uri.scheme_str() == Some("http")
            && !host.is_empty()
            && is_place
            && matches!(uri.path(), "" | "/")
            && uri.query().is_none()
    })
}

/// Who may call at an address, as far as the settings say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// The settings say nothing: only this machine.
    OwnMachine,
    /// The settings say who: anybody may connect and is judged then.
    Judged,
}

/// Checks an address from the settings before anything starts.
///
/// # Errors
/// It is no `host:port`; or it can be reached from other machines, and nobody said who may call.
pub fn check(address: &str, callers: Callers) -> Result<(), String> {
    if !is_host_and_port(address) {
        return Err(format!("{address:?} is no address to listen on: host:port, as in 127.0.0.1:7400"));
    }
    let is_loopback = match address.parse::<SocketAddr>() {
        Ok(address) => address.ip().is_loopback(),
        Err(_) => address.starts_with("localhost:"),
    };
    if !is_loopback && callers == Callers::OwnMachine {
        return Err(format!(
            "{address} is not loopback: say [auth] mode = \"none\" if everybody who can connect may call"
        ));
    }
    Ok(())
}

/// Whether this is `host:port`, with a port that there can be. Whether the host exists is not asked.
#[must_use]
pub fn is_host_and_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

/// Whether this is `host:port` at which somebody else may find it: no port to be chosen, no address that stands for all.
#[must_use]
pub fn is_reachable(text: &str) -> bool {
    let is_nobodys = |address: SocketAddr| address.ip().is_unspecified();
    is_host_and_port(text) && !text.ends_with(":0") && !text.parse().is_ok_and(is_nobodys)
}

/// Binds a TCP listener to `host:port`; port 0 lets the system choose.
///
/// # Errors
/// The reason as a sentence; nothing is bound then.
pub async fn bind(addr: &str) -> Result<TcpListener, ListenError> {
    let address = addr.to_owned();
    open(addr).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::Taken { address },
        io::ErrorKind::AddrNotAvailable => ListenError::Foreign { address },
        io::ErrorKind::PermissionDenied => ListenError::Forbidden { address, source },
        _ => ListenError::Other { address, source },
    })
}

/// Listens on the first address of a name that can be listened on.
async fn open(addr: &str) -> io::Result<TcpListener> {
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
    for address in lookup_host(addr).await? {
        match open_at(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn open_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A process that starts again takes its port although the kernel still remembers connections of the one before.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(KNOCKING_MOST)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_url_of_a_process_is_http_a_host_and_a_port_and_nothing_that_would_be_passed_over() {
        for url in ["http://h:1", "http://h", "http://[::1]:7400/", "http://me:secret@10.0.0.1:2379"] {
            assert!(is_http_url(url), "{url}");
        }
        for url in [
            "",
            "h:1",
            "ftp://h:1",
            "https://h:1",
            "http://",
            "http://h:0",
            "http://h:99999",
            "http://h:",
            "http://h:1/x",
            "http://h:1/?q",
        ] {
            assert!(!is_http_url(url), "{url}");
        }
    }

    #[test]
    fn only_loopback_needs_no_word_on_who_may_call() {
        for address in ["127.0.0.1:7400", "[::1]:7400", "localhost:0"] {
            assert_eq!(check(address, Callers::OwnMachine), Ok(()), "{address}");
        }
        for address in
            ["0.0.0.0:7400", "[::]:7400", "registry:7400", "10.0.0.1:7400", "localhost.example:7400"]
        {
            let refused = check(address, Callers::OwnMachine).expect_err(address);
            assert!(refused.contains("is not loopback"), "{refused}");
            assert_eq!(check(address, Callers::Judged), Ok(()), "{address}");
        }
        for address in ["", "7400", ":7400", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:http"] {
            let refused = check(address, Callers::Judged).expect_err(address);
            assert!(refused.contains("is no address to listen on"), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_taken_port_is_named_in_a_sentence() {
        let first = bind("127.0.0.1:0").await.expect("the system has a free port");
        let address = first.local_addr().expect("bound").to_string();
        let refused = bind(&address).await.expect_err("the port is taken");
        assert_eq!(
            refused.to_string(),
            format!(
                "{address} is taken: another process listens there; change it under [listen] or stop that process"
            )
        );
    }

    #[tokio::test]
    async fn a_port_that_was_given_back_can_be_bound_again() {
        let first = bind("127.0.0.1:0").await.expect("the system has a free port");
        let address = first.local_addr().expect("bound").to_string();
        drop(first);
        bind(&address).await.expect("free again");
    }

    #[tokio::test]
    async fn as_many_may_knock_at_once_as_the_system_lets_wait() {
        let system = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
        let system: u32 = system.trim().parse().unwrap_or(128);
        let listener = bind("127.0.0.1:0").await.expect("the system has a free port");
        let address = listener.local_addr().expect("bound");
        for knocking in 0..system.min(KNOCKING_MOST) {
            // It waits for its turn although its peer has gone. Where there is no place, no wait helps: nobody accepts.
            let knock = tokio::net::TcpStream::connect(address);
            let knocked = tokio::time::timeout(Duration::from_secs(20), knock).await;
            knocked.unwrap_or_else(|_| panic!("no place behind {knocking}")).expect("connected");
        }
    }

    #[tokio::test]
    async fn what_is_no_address_of_ours_is_told_apart_from_what_is_no_address() {
        // 192.0.2.0/24 is reserved for documentation: no machine has it.
        let foreign = bind("192.0.2.1:7400").await.expect_err("not ours");
        assert!(matches!(foreign, ListenError::Foreign { .. }), "{foreign}");
        let nonsense = bind("seven thousand").await.expect_err("no address");
        assert!(matches!(nonsense, ListenError::Other { .. }), "{nonsense}");
        assert!(nonsense.to_string().starts_with("seven thousand cannot be listened on"), "{nonsense}");
    }
}
