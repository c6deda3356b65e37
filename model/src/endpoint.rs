//! Endpoints: which addresses are acceptable, and why not.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::code::{Code, Invalid};
use crate::limits;

/// One address of an instance, kept exactly as it was given.
///
/// One text: the URL, and behind a zero byte, which no URL has, the protocol if there is one. Whoever holds a million of
/// them holds nothing for the protocol that is nearly never said.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint(Box<str>);

/// Ends the URL where a protocol follows it.
const URL_ENDS: u8 = b'\0';

/// Where an instance is called, first preferred; read as the list that it is.
///
/// Nearly every instance has one, and whoever holds a million of them holds no list for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints(Held);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    One(Endpoint),
    /// None, or more than one. In a box of its own, so that the usual one takes two words and not three.
    Several(Box<Box<[Endpoint]>>),
}

impl Deref for Endpoints {
    type Target = [Endpoint];

    fn deref(&self) -> &[Endpoint] {
        match &self.0 {
            Held::One(one) => std::slice::from_ref(one),
            Held::Several(several) => several,
        }
    }
}

impl DerefMut for Endpoints {
    fn deref_mut(&mut self) -> &mut [Endpoint] {
        match &mut self.0 {
            Held::One(one) => std::slice::from_mut(one),
            Held::Several(several) => several,
        }
    }
}

impl From<Vec<Endpoint>> for Endpoints {
    fn from(list: Vec<Endpoint>) -> Self {
        match <[Endpoint; 1]>::try_from(list) {
            Ok([one]) => one.into(),
            Err(list) => Self(Held::Several(Box::new(list.into()))),
        }
    }
}

impl From<Endpoint> for Endpoints {
    fn from(one: Endpoint) -> Self {
        Self(Held::One(one))
    }
}

impl FromIterator<Endpoint> for Endpoints {
    fn from_iter<I: IntoIterator<Item = Endpoint>>(list: I) -> Self {
        Vec::from_iter(list).into()
    }
}

impl<'a> IntoIterator for &'a Endpoints {
    type Item = &'a Endpoint;
    type IntoIter = std::slice::Iter<'a, Endpoint>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Endpoint {
    /// Takes an address that was checked at some door; `None` for a URL with a zero byte in it, which no door lets in.
    #[must_use]
    pub fn of(url: &str, protocol: Option<&str>) -> Option<Self> {
        if url.as_bytes().contains(&URL_ENDS) {
            return None;
        }
        Some(Self(match protocol {
            None => url.into(),
            Some(protocol) => [url, protocol].join("\0").into(),
        }))
    }

    /// The URL's text.
    #[must_use]
    pub fn url(&self) -> &str {
        self.parts().0
    }

    /// Bytes of both texts, and one more where there are two.
    pub(crate) fn text_bytes(&self) -> usize {
        self.0.len()
    }

    /// What is spoken there (`http`, or an A2A binding such as `JSONRPC`), if said.
    #[must_use]
    pub fn protocol(&self) -> Option<&str> {
        self.parts().1
    }

    /// Both, for one look at the text.
    #[must_use]
    pub fn parts(&self) -> (&str, Option<&str>) {
        // By bytes: looking for a character costs several times as much in so short a text.
        let ends = self.0.bytes().position(|byte| byte == URL_ENDS);
        let parts = ends.and_then(|at| Some((self.0.get(..at)?, self.0.get(at + 1..))));
        parts.unwrap_or((&self.0, None))
    }

    /// Checks the address.
    ///
    /// Schemes are `http(s)://`, `grpc(s)://` and `kafka://topic`. An address that nobody can dial, such as
    /// `0.0.0.0`, is a misconfiguration and refused with the reason (acceptance MOD-18).
    ///
    /// # Errors
    /// Says what is wrong with the URL.
    pub fn parse(url: &str, protocol: Option<&str>) -> Result<Self, String> {
        if url.chars().count() > limits::URL_CHARS_MAX {
            return Err("the URL is longer than 2,048 characters".into());
        }
        if url.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("the URL has white space in it".into());
        }
        if protocol.is_some_and(|p| p.is_empty() || p.chars().count() > limits::SHORT_TEXT_CHARS_MAX) {
            return Err("the protocol is 1-64 characters".into());
        }
        let parsed = url::Url::parse(url).map_err(|error| format!("{url:?} is no URL: {error}"))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("a URL with credentials in it would show them to every reader".into());
        }
        match parsed.scheme() {
            "http" | "https" | "grpc" | "grpcs" => {}
            "kafka" => return Self::kafka(url, parsed.host_str(), protocol),
            other => {
                return Err(format!(
                    "the scheme {other:?} is unknown: http, https, grpc, grpcs and kafka are"
                ));
            }
        }
        // The parser repairs `http:h`, `http:///h` and backslashes as a browser does; what is kept is the text, and
        // other dialers do not repair it.
        let written =
            url.split_once("://").filter(|(scheme, _)| scheme.eq_ignore_ascii_case(parsed.scheme()));
        let authority = written.map_or("", |(_, rest)| rest);
        if authority.is_empty() || authority.starts_with(['/', '?', '#']) || url.contains('\\') {
            return Err("a URL is <scheme>://<host>, as in http://10.0.0.1:8080/".into());
        }
        let host = parsed.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err("the URL has no host".into());
        }
        // Other schemes than http keep an IP address as text, so it is read here for all alike.
        match bare.parse::<std::net::IpAddr>().map(|address| address.to_canonical()) {
            Ok(address) if address.is_unspecified() => Err(format!(
                "{bare} is where the agent listens, not where a caller finds it: give a reachable host"
            )),
            Ok(address) if address.is_multicast() => Err(format!("{bare} is a multicast address")),
            Ok(_) | Err(_) => Self::checked(url, protocol),
        }
    }

    fn kafka(url: &str, topic: Option<&str>, protocol: Option<&str>) -> Result<Self, String> {
        let topic = topic.unwrap_or_default();
        let fits = (1..=249).contains(&topic.len())
            && topic.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        if !fits || url != format!("kafka://{topic}") {
            return Err("a kafka endpoint is kafka://<topic>".into());
        }
        Self::checked(url, protocol)
    }

    /// A URL without control characters.
    fn checked(url: &str, protocol: Option<&str>) -> Result<Self, String> {
        Self::of(url, protocol).ok_or_else(|| "the URL has a zero byte in it".into())
    }

    /// Checks the address and names the member it stands in.
    ///
    /// # Errors
    /// The finding, with `pointer`.
    pub(crate) fn at(
        url: &str,
        protocol: Option<&str>,
        pointer: String,
        code: Code,
    ) -> Result<Self, Invalid> {
        Self::parse(url, protocol).map_err(|detail| Invalid::new(code, pointer, detail))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.url()).field("protocol", &self.protocol()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_what_is_spoken_there_read_back_as_they_were_given() {
        for protocol in [None, Some(""), Some("JSONRPC"), Some("a\0b")] {
            let endpoint = Endpoint::of("http://h:1/", protocol).unwrap();
            assert_eq!((endpoint.url(), endpoint.protocol()), ("http://h:1/", protocol));
        }
        assert_eq!(Endpoint::of("http://h:1/\0JSONRPC", None), None, "a URL that would read as two texts");
    }

    #[test]
    fn dialable_addresses_are_kept_as_given() {
        for url in [
            "http://10.20.30.40:8080/callback",
            "https://agents.example:443/a?b=c",
            "grpc://[::1]:80",
            "grpcs://host:1",
            "kafka://orders.in",
            "http://[::ffff:10.0.0.1]:80/",
        ] {
            assert_eq!(Endpoint::parse(url, None).unwrap().url(), url);
        }
    }

    #[test]
    fn addresses_nobody_can_dial_are_refused() {
        for url in [
            "",
            "http://",
            "http:///x",
            "http:h:1/",
            "http:/h/",
            "http:h/x://y",
            "http:\\\\h\\x",
            "http://h\\@i/",
            "grpc:///x",
            "http://?q",
            "10.0.0.1:80",
            "ftp://h/x",
            "http://0.0.0.0:80",
            "http://[::ffff:0.0.0.0]:80",
            "http://[::ffff:224.0.0.1]:80",
            "grpc://0.0.0.0:80",
            "http://[::]:80",
            "http://a b/",
            "http://h:99999/",
            "http://user:pw@h/",
            "kafka://",
            "kafka://a/b",
            "http://[fe80::1%eth0]:80/",
            "http://::1:80/",
            "http://h/\n",
            "javascript:alert(1)",
            "http://224.0.0.1/",
        ] {
            assert!(Endpoint::parse(url, None).is_err(), "{url:?} was accepted");
        }
    }
}
