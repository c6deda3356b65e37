//! What an address has that no URL may have as it is: `curl 'http://…?version=>=2'` sends the `>` just so.
//!
//! Never here: a judgement of a request that could be read.

use std::fmt;

use hyper::Uri;

/// So many characters are named; who wrote more of them sees the kind of it.
const NAMED_MAX: usize = 8;

/// The characters, in the order in which they come, each once. Shown as what to do about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unescaped(Vec<char>);

impl Unescaped {
    /// Those that made the beginning of a head unreadable; none where its request line was not the fault.
    pub(super) fn of(head: &[u8]) -> Option<Self> {
        let end = head.iter().position(|&byte| byte == b'\n')?;
        let line = std::str::from_utf8(head.get(..end)?).ok()?.trim_end_matches('\r');
        let (_, behind_method) = line.split_once(' ')?;
        // An address with a space in it ends at the last one all the same.
        let (address, version) = behind_method.rsplit_once(' ')?;
        if !version.starts_with("HTTP/") || address.parse::<Uri>().is_ok() {
            return None;
        }
        let mut named = Vec::new();
        for character in address.chars().filter(|character| !may_stand(*character)) {
            if !named.contains(&character) && named.len() < NAMED_MAX {
                named.push(character);
            }
        }
        (!named.is_empty()).then_some(Self(named))
    }
}

/// Whether RFC 3986 has this character in a URL.
const fn may_stand(character: char) -> bool {
    character.is_ascii_graphic() && !matches!(character, '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}')
}

impl fmt::Display for Unescaped {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("the URL has characters that have to be percent-encoded: ")?;
        for (nth, character) in self.0.iter().enumerate() {
            let (before, verb) = if nth == 0 { ("", " is written") } else { (", ", "") };
            match character {
                ' ' => write!(to, "{before}a space{verb} ")?,
                '"' | '\\' => write!(to, "{before}{character}{verb} ")?,
                character => write!(to, "{before}{}{verb} ", character.escape_debug())?,
            }
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                write!(to, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(head: &str) -> Option<String> {
        let said = Unescaped::of(head.as_bytes())?.to_string();
        Some(said.split_once(": ").expect("what, and how").1.to_owned())
    }

    #[test]
    fn what_must_be_escaped_is_named_with_how_it_is_written() {
        for (address, expected) in [
            ("/v1/agents?version=>=2.0,<3.0", "> is written %3E, < %3C"),
            ("/v1/agents?name=a b c", "a space is written %20"),
            ("/v1/agents?name=\"a\"&x=>", "\" is written %22, > %3E"),
            ("/v1/agents/ä>/b", "ä is written %C3%A4, > %3E"),
            ("/a\u{1b}[2J", "\\u{1b} is written %1B"),
        ] {
            assert_eq!(said(&format!("GET {address} HTTP/1.1\r\nhost: a\r\n")).as_deref(), Some(expected));
        }
        let many = said("GET /<>\"{}|\\^`\u{1}\u{2} HTTP/1.1\n").unwrap();
        assert_eq!(many.matches('%').count(), NAMED_MAX, "{many}");
    }

    #[test]
    fn where_the_address_is_not_the_fault_nothing_is_named() {
        for head in [
            "",
            "\n",
            "nonsense\r\n\r\n",
            "GET  HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\nhost a\r\n\r\n",
            // No end of the line, and no version: no request line of ours.
            "GET /?version=>=2 HTTP/1.1",
            "GET /?version=>=2\r\n",
        ] {
            assert_eq!(said(head), None, "{head:?}");
        }
        assert_eq!(Unescaped::of(b"GET /\xff> HTTP/1.1\r\n"), None);
    }
}
