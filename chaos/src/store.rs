//! What really stands in a region's etcd, read past the product with etcd's own tool.

use std::collections::BTreeMap;
use std::process::Command;

use rollcall_tests::paths;

/// The registrations of a region by id, with the revision their key was last written at.
///
/// # Errors
/// etcd did not answer.
pub fn registrations(endpoint: &str, region: &str) -> Result<BTreeMap<String, u64>, String> {
    let prefix = format!("rollcall/v1/{region}/reg/");
    let output = Command::new(paths::tools().join("etcd/bin/etcdctl"))
        .args(["--endpoints", endpoint, "get", "--prefix", &prefix, "-w", "json"])
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let answer: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let mut found = BTreeMap::new();
    for entry in answer["kvs"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let key = base64(entry["key"].as_str().unwrap_or_default());
        let id = key.strip_prefix(prefix.as_str()).ok_or("a key outside of the prefix")?.to_owned();
        found.insert(id, entry["mod_revision"].as_u64().ok_or("no mod_revision")?);
    }
    Ok(found)
}

/// Standard base64 of text; etcdctl's JSON holds keys so.
fn base64(text: &str) -> String {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bits = 0_u32;
    let mut have = 0;
    let mut bytes = Vec::new();
    for c in text.bytes().filter(|c| *c != b'=') {
        bits = (bits << 6) | u32::from(value(c));
        have += 6;
        if have >= 8 {
            have -= 8;
            bytes.push(u8::try_from((bits >> have) & 0xff).expect("one byte"));
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn keys_are_read() {
        assert_eq!(super::base64("cm9sbGNhbGw="), "rollcall");
        assert_eq!(super::base64("YS9iLzE="), "a/b/1");
    }
}
