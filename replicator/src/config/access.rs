//! How a cluster's brokers let this process in: TLS and SASL, passed through to the client.
//!
//! The keys are the client's own with `_` for each dot. These and no others: what else a client can be told is set in
//! `feed_log/kafka/settings.rs` for reasons of the feed. A password is never shown.

use std::fmt;

use serde::{Deserialize, Serialize};

use rollcall_runtime::config::Unusable;

/// How to speak to the brokers of a cluster. Nothing said means plain text without a name.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// `plaintext`, `ssl`, `sasl_plaintext` or `sasl_ssl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_protocol: Option<String>,
    /// `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sasl_mechanism: Option<String>,
    /// Who this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sasl_username: Option<String>,
    /// And how it is proved; best said in the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sasl_password: Option<String>,
    /// File of the authorities that the brokers' certificates are judged by; left out, the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssl_ca_location: Option<String>,
    /// File of the own certificate, where the brokers ask for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssl_certificate_location: Option<String>,
    /// File of its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssl_key_location: Option<String>,
    /// The key's password, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssl_key_password: Option<String>,
    /// `https`, the client's default: a certificate must name the host. `none` where it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssl_endpoint_identification_algorithm: Option<String>,
}

/// The brokers of a cluster and how they let one in.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Brokers {
    /// `host:port`, by commas.
    pub list: String,
    /// How to speak to them.
    pub access: Access,
}

const PROTOCOLS: [&str; 4] = ["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"];
const MECHANISMS: [&str; 3] = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];
const IDENTIFICATIONS: [&str; 2] = ["https", "none"];

impl Brokers {
    /// Brokers that speak plain text to everybody.
    #[must_use]
    pub fn plain(list: &str) -> Self {
        Self { list: list.to_owned(), access: Access::default() }
    }
}

impl Access {
    /// What is said, by the client's own names.
    pub fn properties(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("security.protocol", &self.security_protocol),
            ("sasl.mechanism", &self.sasl_mechanism),
            ("sasl.username", &self.sasl_username),
            ("sasl.password", &self.sasl_password),
            ("ssl.ca.location", &self.ssl_ca_location),
            ("ssl.certificate.location", &self.ssl_certificate_location),
            ("ssl.key.location", &self.ssl_key_location),
            ("ssl.key.password", &self.ssl_key_password),
            ("ssl.endpoint.identification.algorithm", &self.ssl_endpoint_identification_algorithm),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    /// Checks what the client would refuse later, or do without and nobody would notice.
    ///
    /// # Errors
    /// The first key under `section` that cannot work.
    pub(super) fn check(&self, section: &str) -> Result<(), Unusable> {
        let refuse = |key: &str, why: String| Err(Unusable::new(format!("{section}.{key}"), why));
        let protocol = self.security_protocol.as_deref().unwrap_or("plaintext");
        for (key, value, known) in [
            ("security_protocol", &self.security_protocol, &PROTOCOLS[..]),
            ("sasl_mechanism", &self.sasl_mechanism, &MECHANISMS[..]),
            (
                "ssl_endpoint_identification_algorithm",
                &self.ssl_endpoint_identification_algorithm,
                &IDENTIFICATIONS[..],
            ),
        ] {
            if let Some(value) = value.as_deref().filter(|value| !known.contains(value)) {
                return refuse(key, format!("{value:?} is none of {}", known.join(", ")));
            }
        }
        let is_sasl = protocol.starts_with("sasl_");
        for (key, value) in [
            ("sasl_mechanism", &self.sasl_mechanism),
            ("sasl_username", &self.sasl_username),
            ("sasl_password", &self.sasl_password),
        ] {
            match value {
                None if is_sasl => return refuse(key, format!("security_protocol {protocol} needs it")),
                Some(_) if !is_sasl => {
                    return refuse(key, format!("security_protocol {protocol} would not use it"));
                }
                Some(_) | None => {}
            }
        }
        let is_tls = protocol.ends_with("ssl");
        for (name, key) in self
            .properties()
            .filter(|(name, _)| name.starts_with("ssl."))
            .map(|(name, _)| (name, name.replace('.', "_")))
        {
            if !is_tls {
                return refuse(&key, format!("security_protocol {protocol} would not use {name}"));
            }
        }
        match (&self.ssl_certificate_location, &self.ssl_key_location) {
            (Some(_), None) => refuse("ssl_key_location", "a certificate needs its key".into()),
            (None, Some(_)) => refuse("ssl_certificate_location", "a key needs its certificate".into()),
            (Some(_), Some(_)) | (None, None) => Ok(()),
        }
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_map();
        for (name, value) in self.properties() {
            shown.entry(&name, &if name.ends_with("password") { "(hidden)" } else { value });
        }
        shown.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(text: &str) -> Access {
        toml::from_str(text).expect("well-formed")
    }

    #[test]
    fn what_could_not_work_or_would_not_be_used_is_refused_by_its_key() {
        let scram = "security_protocol = \"sasl_ssl\"\nsasl_mechanism = \"SCRAM-SHA-512\"\n\
                     sasl_username = \"us\"\nsasl_password = \"p\"\n";
        access(scram).check("kafka").expect("whole");
        access("").check("kafka").expect("nothing said");
        for (text, key) in [
            (scram.replace("sasl_ssl", "tls"), "security_protocol"),
            (scram.replace("SCRAM-SHA-512", "GSSAPI"), "sasl_mechanism"),
            (scram.replace("sasl_password", "#"), "sasl_password"),
            ("sasl_password = \"p\"".into(), "sasl_password"),
            ("ssl_ca_location = \"ca.pem\"".into(), "ssl_ca_location"),
            (format!("{scram}ssl_certificate_location = \"a\""), "ssl_key_location"),
            (format!("{scram}ssl_key_location = \"a\""), "ssl_certificate_location"),
        ] {
            let refused = access(&text).check("publish.kafka").expect_err("refused");
            assert_eq!(refused.key, format!("publish.kafka.{key}"), "{text}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let shown = format!("{:?}", access("sasl_username = \"us\"\nsasl_password = \"dear\""));
        assert!(shown.contains("us") && !shown.contains("dear"), "{shown}");
    }
}
