//! Server-sent events, read as they come in: bytes in, whole events out.
//!
//! Promises: it does not matter where the bytes are cut, also inside a character or a line break. An event that was cut
//! off is never given out. It never reconnects: that is for its caller.

/// Longest event: a delta of one group commit with the largest cards stays far below. Past it the stream is no cell's.
const EVENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its name; `message` where the stream gives none.
    pub(crate) name: String,
    /// The position to go on from, if it carries one.
    pub(crate) id: Option<String>,
    /// Its data, lines joined.
    pub(crate) data: String,
}

/// What has come in and is no whole event yet.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    after_return: bool,
    event: Event,
    has_data: bool,
}

/// The stream is no event stream of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Parser {
    /// Takes bytes and gives out the events that are whole now.
    ///
    /// # Errors
    /// When an event is longer than any cell sends.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut whole = Vec::new();
        for &byte in bytes {
            // A line ends with a line feed, a return, or both; the second of both ends nothing.
            let ends = match byte {
                b'\n' => !std::mem::take(&mut self.after_return),
                b'\r' => {
                    self.after_return = true;
                    true
                }
                _ => {
                    self.after_return = false;
                    self.line.push(byte);
                    false
                }
            };
            if ends {
                let line = std::mem::take(&mut self.line);
                whole.extend(self.line(&String::from_utf8_lossy(&line)));
            }
            if self.line.len() + self.event.data.len() > EVENT_BYTES_MAX {
                return Err(TooLong);
            }
        }
        Ok(whole)
    }

    fn line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let mut event = std::mem::take(&mut self.event);
            if event.name.is_empty() {
                event.name.push_str("message");
            }
            // Without data it is no event, by the standard: a comment, or a pulse that keeps the connection open.
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "id" => self.event.id = Some(value.to_owned()),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // `retry`, comments (an empty field) and what later versions may add.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, id: Option<&str>, data: &str) -> Event {
        Event { name: name.into(), id: id.map(str::to_owned), data: data.into() }
    }

    const STREAM: &str = ": hello\n\nevent: put\ndata: {\"id\":\"ä/b/c\"}\n\nevent:delta\r\nid: 1-ab:7\r\ndata: a\r\ndata:b\r\n\r\n\
                          data: plain\rdata\r\rretry: 5\n\nevent: cut\ndata: off\n";

    fn expected() -> Vec<Event> {
        vec![
            event("put", None, "{\"id\":\"ä/b/c\"}"),
            event("delta", Some("1-ab:7"), "a\nb"),
            event("message", None, "plain\n"),
        ]
    }

    #[test]
    fn events_come_out_whole_and_one_that_was_cut_off_does_not() {
        assert_eq!(Parser::default().take(STREAM.as_bytes()).unwrap(), expected());
    }

    #[test]
    fn it_does_not_matter_where_the_bytes_are_cut() {
        for cut in 1..STREAM.len() {
            let mut parser = Parser::default();
            let events: Vec<_> =
                STREAM.as_bytes().chunks(cut).flat_map(|bytes| parser.take(bytes).unwrap()).collect();
            assert_eq!(events, expected(), "cut every {cut} bytes");
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; 1024 * 1024];
        let taken = (0..=64).map(|_| parser.take(&piece)).find(Result::is_err);
        assert_eq!(taken, Some(Err(TooLong)));
    }
}
