//! Bodies of registrations for tests.

use serde_json::{Value, json};

/// A plain agent with one capability.
#[must_use]
pub fn agent(id: &str, capability: &str) -> Value {
    json!({
        "id": id,
        "endpoints": [{"url": "http://127.0.0.1:9/"}],
        "capabilities": [capability],
        "version": "1.0.0",
        "zone": "a",
    })
}
