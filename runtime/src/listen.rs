//! Opening a listening socket, with an answer a person can act on when that fails.
//!
//! Promises: the socket is bound or nothing is; the error names the address and the next step. It never retries and
//! never picks another port.

use std::io;

use tokio::net::TcpListener;

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

/// Binds a TCP listener to `host:port`; port 0 lets the system choose.
///
/// # Errors
/// The reason as a sentence; nothing is bound then.
pub async fn bind(addr: &str) -> Result<TcpListener, ListenError> {
    let address = addr.to_owned();
    TcpListener::bind(addr).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::Taken { address },
        io::ErrorKind::AddrNotAvailable => ListenError::Foreign { address },
        io::ErrorKind::PermissionDenied => ListenError::Forbidden { address, source },
        _ => ListenError::Other { address, source },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
    async fn what_is_no_address_of_ours_is_told_apart_from_what_is_no_address() {
        // 192.0.2.0/24 is reserved for documentation: no machine has it.
        let foreign = bind("192.0.2.1:7400").await.expect_err("not ours");
        assert!(matches!(foreign, ListenError::Foreign { .. }), "{foreign}");
        let nonsense = bind("seven thousand").await.expect_err("no address");
        assert!(matches!(nonsense, ListenError::Other { .. }), "{nonsense}");
        assert!(nonsense.to_string().starts_with("seven thousand cannot be listened on"), "{nonsense}");
    }
}
