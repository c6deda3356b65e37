//! A plain HTTP client that knows nothing of Rollcall's types: it sees what any other tool sees.

use std::time::Duration;

use serde_json::Value;

/// An answer, read whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Header names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body's bytes.
    pub bytes: Vec<u8>,
}

impl Answer {
    /// The body as JSON; `null` when it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }

    /// One header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// A client of one cell.
#[derive(Clone, Debug)]
pub struct Http {
    base: String,
    client: reqwest::Client,
}

impl Http {
    /// Talks to the cell at this URL.
    #[must_use]
    pub fn new(base: impl Into<String>) -> Self {
        Self::patient(base, Duration::from_secs(10))
    }

    /// The same, waiting so long for an answer.
    #[must_use]
    pub fn patient(base: impl Into<String>, patience: Duration) -> Self {
        let client = reqwest::Client::builder().timeout(patience).build().expect("a client builds");
        Self { base: base.into(), client }
    }

    /// The same, calling from this address of the own machine.
    #[must_use]
    pub fn from_address(base: impl Into<String>, patience: Duration, own: std::net::IpAddr) -> Self {
        let client = reqwest::Client::builder().timeout(patience).local_address(own).build();
        Self { base: base.into(), client: client.expect("a client builds") }
    }

    /// The cell's URL.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// One request.
    ///
    /// # Errors
    /// No answer came.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Result<Answer, String> {
        let method = method.parse::<reqwest::Method>().map_err(|error| error.to_string())?;
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_owned());
        }
        let answer = request.send().await.map_err(|error| format!("{error:?}"))?;
        let status = answer.status().as_u16();
        let headers = answer
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap_or_default().to_owned()))
            .collect();
        let bytes = answer.bytes().await.map_err(|error| error.to_string())?.to_vec();
        Ok(Answer { status, headers, bytes })
    }

    /// A GET whose answer is 200 and JSON.
    ///
    /// # Errors
    /// Anything else, as a sentence.
    pub async fn get(&self, path: &str) -> Result<Value, String> {
        let answer = self.send("GET", path, &[], None).await?;
        if answer.status == 200 {
            return Ok(answer.json());
        }
        Err(format!("{path}: {} {}", answer.status, String::from_utf8_lossy(&answer.bytes)))
    }

    /// Registers and gives the 201 body.
    ///
    /// # Errors
    /// Anything but 201.
    pub async fn register(&self, body: &Value) -> Result<Value, String> {
        let answer = self.send("POST", "/v1/registrations", &[], Some(&body.to_string())).await?;
        if answer.status == 201 {
            return Ok(answer.json());
        }
        Err(format!("register: {} {}", answer.status, String::from_utf8_lossy(&answer.bytes)))
    }

    /// Renews with an epoch; gives the status.
    ///
    /// # Errors
    /// No answer came.
    pub async fn renew(&self, id: &str, epoch: &str) -> Result<Answer, String> {
        let tag = format!("\"{epoch}\"");
        self.send("PUT", &format!("/v1/registrations/{id}/lease"), &[("if-match", &tag)], None).await
    }

    /// Deregisters with an epoch.
    ///
    /// # Errors
    /// No answer came.
    pub async fn deregister(&self, id: &str, epoch: &str) -> Result<Answer, String> {
        let tag = format!("\"{epoch}\"");
        self.send("DELETE", &format!("/v1/registrations/{id}"), &[("if-match", &tag)], None).await
    }
}
