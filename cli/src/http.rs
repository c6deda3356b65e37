//! The one HTTP client: a call to a cell becomes an answer, or a failure with its exit code and its sentence.
//!
//! Promises: a failure says what happened, where, and what to do next; a refusal keeps the cell's body unchanged. It
//! never repeats a call by itself, follows no redirect and goes through no proxy: the cell that was named is the one
//! that answers.

mod refusal;

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, DATE, HeaderName, IF_MATCH, RETRY_AFTER};
use reqwest::{Client, Method, Response, StatusCode, Url, redirect};
use rollcall_model::Epoch;

use self::refusal::refusal;
use crate::exit::Exit;

/// Longest wait for a connection: a cell is in the own region, where a handshake takes milliseconds.
const CONNECT_MOST: Duration = Duration::from_secs(3);
/// Longest wait for a whole answer: more than a cell takes for its slowest, a write while its store holds an election.
const ANSWER_MOST: Duration = Duration::from_secs(15);
/// Largest answer that is read: a full page of the largest agents. Past it the other side is no cell.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Where a cell puts what it says beside an answer.
const HINT: HeaderName = HeaderName::from_static("rollcall-hint");

/// What is expected at an address, and how the caller named that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    noun: &'static str,
    flag: &'static str,
    /// What to do when nobody is there.
    next: &'static str,
}

impl Side {
    /// A cell.
    pub(crate) const CELL: Self = Self {
        noun: "cell",
        flag: "--url",
        next: "start one with `rollcall dev`, or name yours with --url or ROLLCALL_URL",
    };
    /// A replicator.
    pub(crate) const REPLICATOR: Self = Self {
        noun: "replicator",
        flag: "--replicator",
        next: "start it with `rollcall replicator`, or name its HTTP address, [listen] http",
    };
}

/// A cell's HTTP address, or what doctor asks beside it.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    side: Side,
    base: Url,
    client: Client,
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    /// Parts of the path; each is escaped.
    path: Vec<String>,
    query: Vec<(String, String)>,
    epoch: Option<Epoch>,
    body: Option<String>,
}

/// A call that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The body as it came; may be empty.
    pub(crate) body: String,
    /// When it was made, by the other side's clock, as its header says.
    pub(crate) date: Option<String>,
    /// What the other side says beside it, for people.
    pub(crate) hint: Option<String>,
}

/// A call that was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// How the run ends.
    pub(crate) exit: Exit,
    /// The body that came with it, if one did.
    pub(crate) body: Option<String>,
    /// For people.
    pub(crate) words: String,
}

impl Call {
    /// A call with this method to these parts of a path.
    pub(crate) fn new(method: Method, path: &[&str]) -> Self {
        let path = path.iter().map(|part| (*part).to_owned()).collect();
        Self { method, path, query: Vec::new(), epoch: None, body: None }
    }

    /// Adds parameters.
    pub(crate) fn query(mut self, query: impl IntoIterator<Item = (String, String)>) -> Self {
        self.query.extend(query);
        self
    }

    /// Puts an epoch in the condition.
    pub(crate) const fn epoch(mut self, epoch: Epoch) -> Self {
        self.epoch = Some(epoch);
        self
    }

    /// Gives it a JSON body.
    pub(crate) fn body(mut self, json: String) -> Self {
        self.body = Some(json);
        self
    }

    fn url(&self, base: &Url) -> Url {
        let mut url = base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(&self.path);
        }
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        url
    }
}

impl Cell {
    /// The cell at this address.
    ///
    /// # Errors
    /// When the address is none.
    pub(crate) fn at(url: &str) -> Result<Self, Failure> {
        Self::of(Side::CELL, url)
    }

    /// What is expected at this address.
    ///
    /// # Errors
    /// When the address is none.
    pub(crate) fn of(side: Side, url: &str) -> Result<Self, Failure> {
        let base = address(side, url).map_err(|words| Failure { exit: Exit::Usage, body: None, words })?;
        let client = Client::builder()
            .connect_timeout(CONNECT_MOST)
            .redirect(redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("rollcall/", env!("CARGO_PKG_VERSION")))
            .build();
        let failed = |error: reqwest::Error| Failure {
            exit: Exit::Failed,
            body: None,
            words: format!("the HTTP client could not be set up: {error}"),
        };
        Ok(Self { side, base, client: client.map_err(failed)? })
    }

    /// Makes a call and reads the whole answer.
    ///
    /// # Errors
    /// A refusal, or no answer.
    pub(crate) async fn send(&self, call: Call) -> Result<Answer, Failure> {
        match tokio::time::timeout(ANSWER_MOST, self.whole(&call)).await {
            Ok(result) => result,
            Err(_) => Err(self.silent()),
        }
    }

    async fn whole(&self, call: &Call) -> Result<Answer, Failure> {
        let response = self.begin(call).await?;
        let header = |name: HeaderName| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        let (date, hint) = (header(DATE), header(HINT));
        Ok(Answer { body: self.read(response).await?, date, hint })
    }

    /// Makes a call whose answer is a stream: done when the answer begins.
    ///
    /// # Errors
    /// A refusal, or no answer.
    pub(crate) async fn open(&self, call: Call) -> Result<Response, Failure> {
        match tokio::time::timeout(ANSWER_MOST, self.begin(&call)).await {
            Ok(result) => result,
            Err(_) => Err(self.silent()),
        }
    }

    /// A stream that broke off.
    pub(crate) fn broken(&self, why: &str) -> Failure {
        let words = format!("the stream from {} ended: {why}", self.base);
        Failure { exit: Exit::Unavailable, body: None, words }
    }

    async fn begin(&self, call: &Call) -> Result<Response, Failure> {
        let mut request = self.client.request(call.method.clone(), call.url(&self.base));
        if let Some(epoch) = call.epoch {
            request = request.header(IF_MATCH, format!("\"{epoch}\""));
        }
        if let Some(body) = &call.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        let response = request.send().await.map_err(|error| self.away(&error))?;
        let status = response.status().as_u16();
        if Exit::of_status(status) == Exit::Done {
            return self.of_a_cell(response);
        }
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.map(str::to_owned);
        // A refusal whose body broke off is still that refusal.
        let body = self.read(response).await.unwrap_or_default();
        Err(refusal(status, &body, retry_after.as_deref()))
    }

    /// The answer, if it is of a kind that cells give: any server says 200 to something.
    fn of_a_cell(&self, response: Response) -> Result<Response, Failure> {
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_known = ["json", "text/event-stream", "text/plain"].iter().any(|known| kind.contains(known));
        if is_known || response.status() == StatusCode::NO_CONTENT {
            return Ok(response);
        }
        let speaks = match kind {
            "" => "without a content type".to_owned(),
            kind if kind.starts_with("application/grpc") => "in gRPC alone".to_owned(),
            kind => format!("with {kind}"),
        };
        let Side { noun, flag, .. } = self.side;
        let words = format!("{} answers {speaks}, which no {noun} does over HTTP; check {flag}", self.base);
        Err(Failure { exit: Exit::Failed, body: None, words })
    }

    async fn read(&self, mut response: Response) -> Result<String, Failure> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.away(&error))? {
            if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
                let Side { noun, flag, .. } = self.side;
                let words = format!("{} answers more than a {noun} ever does; check {flag}", self.base);
                return Err(Failure { exit: Exit::Failed, body: None, words });
            }
            bytes.extend_from_slice(&chunk);
        }
        String::from_utf8(bytes).map_err(|_| Failure {
            exit: Exit::Failed,
            body: None,
            words: format!("{} answers what is no text; check {}", self.base, self.side.flag),
        })
    }

    fn away(&self, error: &reqwest::Error) -> Failure {
        let happened = if error.is_connect() {
            format!("no {} answers at {}: {}", self.side.noun, self.base, innermost(error))
        } else {
            format!("{} broke off: {}", self.base, innermost(error))
        };
        let words = format!("{happened}; {}", self.side.next);
        Failure { exit: Exit::Unavailable, body: None, words }
    }

    fn silent(&self) -> Failure {
        let seconds = ANSWER_MOST.as_secs();
        let words = format!("{} took the call and gave no answer in {seconds} s; try again", self.base);
        Failure { exit: Exit::Unavailable, body: None, words }
    }
}

/// Reads a process's address.
fn address(side: Side, text: &str) -> Result<Url, String> {
    let (noun, example) = (side.noun, crate::args::URL);
    let wrong = |why: &str| format!("{text:?} is no address of a {noun}: {why}; give one as in {example}");
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    match url.scheme() {
        "http" if url.query().is_some() || url.fragment().is_some() => {
            Err(wrong("it goes on after the path"))
        }
        "http" => Ok(url),
        "https" => Err(wrong("this build speaks http alone")),
        _ => Err(wrong("it does not begin with http://")),
    }
}

/// The reason at the bottom: those above it only repeat that something failed.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut at = error;
    while let Some(below) = at.source() {
        at = below;
    }
    at.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_none_are_told_with_an_example() {
        for (text, why) in [
            ("127.0.0.1:7400", "it does not begin with http://"),
            ("localhost:7400", "it does not begin with http://"),
            ("https://cell:7400", "this build speaks http alone"),
            ("http://", "empty host"),
            ("http://h:1/?x=1", "it goes on after the path"),
        ] {
            let failure = Cell::at(text).unwrap_err();
            // Without a scheme, the parser's own words differ by what stands before the colon.
            let said = failure.words.contains(why) || text.starts_with("127");
            assert!(said && failure.words.ends_with("as in http://127.0.0.1:7400"), "{}", failure.words);
            assert_eq!(failure.exit, Exit::Usage);
        }
    }

    #[test]
    fn the_path_is_escaped_and_goes_on_where_the_address_ends() {
        let call = Call::new(Method::GET, &["v1", "agents", "a b", "x?y"])
            .query([("metadata.k".to_owned(), "1&2".to_owned())]);
        let url = |base: &str| call.url(&address(Side::CELL, base).unwrap()).to_string();
        assert_eq!(url("http://h:1"), "http://h:1/v1/agents/a%20b/x%3Fy?metadata.k=1%262");
        assert_eq!(url("http://h:1/in/front/"), "http://h:1/in/front/v1/agents/a%20b/x%3Fy?metadata.k=1%262");
    }

    #[tokio::test]
    async fn no_connection_is_told_with_place_and_next_step() {
        let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = taken.local_addr().unwrap().port();
        drop(taken);
        let cell = Cell::at(&format!("http://127.0.0.1:{port}")).unwrap();
        let failure = cell.send(Call::new(Method::GET, &["v1", "regions"])).await.unwrap_err();
        assert_eq!(failure.exit, Exit::Unavailable);
        assert_eq!(failure.body, None);
        assert!(
            failure
                .words
                .starts_with(&format!("no cell answers at http://127.0.0.1:{port}/: Connection refused")),
            "{}",
            failure.words
        );
        assert!(failure.words.ends_with("with --url or ROLLCALL_URL"), "{}", failure.words);
    }
}
