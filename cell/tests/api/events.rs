//! Server-sent events, read as a client reads them.

use reqwest::Response;
use serde_json::Value;

use super::cell::DEADLINE;

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) id: Option<String>,
    pub(super) data: Value,
}

/// An open stream.
pub(super) struct Events {
    response: Response,
    text: String,
}

impl Events {
    pub(super) fn of(response: Response) -> Self {
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new() }
    }

    /// The next event; `None` when the stream ended. Comments are passed over.
    pub(super) async fn next(&mut self) -> Option<Event> {
        tokio::time::timeout(DEADLINE, self.read()).await.expect("an event in time")
    }

    async fn read(&mut self) -> Option<Event> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let event = parse(block);
                self.text = rest.to_owned();
                if event.is_some() {
                    return event;
                }
            }
            let chunk = self.response.chunk().await.unwrap()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next event that is no bookmark.
    pub(super) async fn next_news(&mut self) -> Event {
        loop {
            let event = self.next().await.expect("the stream goes on");
            if event.name != "bookmark" {
                return event;
            }
        }
    }

    /// Events up to and including the first with this name.
    pub(super) async fn until(&mut self, name: &str) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await.expect("the stream goes on");
            let is_last = event.name == name;
            events.push(event);
            if is_last {
                return events;
            }
        }
    }
}

fn parse(block: &str) -> Option<Event> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let data = field("data")?;
    Some(Event {
        name: field("event").unwrap_or("message").to_owned(),
        id: field("id").map(str::to_owned),
        data: serde_json::from_str(data).unwrap(),
    })
}
