//! What is said to a request that cannot be read as one: in the application's words, where the protocol's machine has a
//! bare status.
//!
//! The machine answers such a head by itself, before any application hears of it, and closes the connection. Its answer
//! has no body and always the same form, so it is known by that form on its way out, and another goes out in its place:
//! only on HTTP/1 and only while a head is being read, for an application's bytes may have any form.
//! Never here: a judgement of a request; that was made already.

use hyper::Response;

use super::unescaped::Unescaped;

/// Why a request could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is no HTTP, or its head contradicts itself.
    Malformed,
    /// Its address has characters that no URL may have as they are.
    Unescaped(Unescaped),
    /// Its head is larger than [`HEAD_BYTES_MAX`](super::HEAD_BYTES_MAX), or has more fields than are ever let through.
    TooLarge,
}

/// The application's answer to it. Its length, and that the connection ends with it, are said beside it.
pub type Words = fn(Unreadable) -> Response<Vec<u8>>;

/// The machine's answers, up to the moment they were made at.
const ANSWERS: [(&[u8], Unreadable); 3] = [
    (b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\ndate: ", Unreadable::Malformed),
    (b"HTTP/1.1 414 URI Too Long\r\nconnection: close\r\ncontent-length: 0\r\ndate: ", Unreadable::TooLarge),
    (
        b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\ndate: ",
        Unreadable::TooLarge,
    ),
];
/// As in `Sun, 06 Nov 1994 08:49:37 GMT`, and the end of a head.
const DATE_BYTES: usize = 29 + 4;

impl Unreadable {
    /// The same, said more closely where the beginning of the head tells more.
    pub(super) fn of_head(self, head: &[u8]) -> Self {
        match self {
            Self::Malformed => Unescaped::of(head).map_or(Self::Malformed, Self::Unescaped),
            Self::Unescaped(_) | Self::TooLarge => self,
        }
    }
}

/// Where the machine's own answer begins in what is to be written, if it ends with one.
pub(super) fn own_answer(bytes: &[u8]) -> Option<(usize, Unreadable)> {
    if !bytes.ends_with(b" GMT\r\n\r\n") {
        return None;
    }
    ANSWERS.into_iter().find_map(|(answer, why)| {
        let begins = bytes.len().checked_sub(answer.len() + DATE_BYTES)?;
        bytes.get(begins..)?.starts_with(answer).then_some((begins, why))
    })
}

/// An answer as it goes over the wire.
pub(super) fn written(answer: Response<Vec<u8>>) -> Vec<u8> {
    let (parts, body) = answer.into_parts();
    let reason = parts.status.canonical_reason().unwrap_or_default();
    let mut bytes = format!(
        "HTTP/1.1 {} {reason}\r\nconnection: close\r\ncontent-length: {}\r\n",
        parts.status.as_u16(),
        body.len()
    )
    .into_bytes();
    for (name, value) in &parts.headers {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\
                       date: Mon, 30 Nov 2026 09:40:08 GMT\r\n\r\n";

    #[test]
    fn only_the_machines_own_answer_is_known_by_its_form() {
        assert_eq!(own_answer(OWN.as_bytes()), Some((0, Unreadable::Malformed)));
        let large = OWN.replace("400 Bad Request", "431 Request Header Fields Too Large");
        assert_eq!(own_answer(large.as_bytes()), Some((0, Unreadable::TooLarge)));
        let before = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nlive\n";
        let behind = format!("{before}{OWN}");
        assert_eq!(own_answer(behind.as_bytes()), Some((before.len(), Unreadable::Malformed)));
        for other in [
            "",
            " GMT\r\n\r\n",
            before,
            &OWN.replace("length: 0", "length: 2"),
            &OWN.replace("400 Bad Request", "404 Not Found"),
            &format!("{OWN}{before}"),
        ] {
            assert_eq!(own_answer(other.as_bytes()), None, "{other}");
        }
    }
}
