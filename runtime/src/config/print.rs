//! Settings as text with nothing secret in it.
//!
//! Promises: what is under a secret's key is hidden whole, whatever its form, and so is what stands before the `@` of a
//! URL. In doubt it hides too much. The text is TOML again.

use toml::{Table, Value};

const HIDDEN: &str = "(hidden)";

/// Keys that hold secrets everywhere: these words, and names that end in one of them.
const SECRETS: [&str; 3] = ["password", "token", "secret"];

/// Writes settings as TOML, with the values of secret keys and the credentials in URLs replaced.
///
/// `secret_keys` are names to hide besides `password`, `token`, `secret`, their plurals and names ending so.
#[must_use]
pub fn print(table: &Table, secret_keys: &[&str]) -> String {
    let mut shown = table.clone();
    hide(&mut shown, secret_keys);
    // A table of values has a text; should that ever change, the reason is what a person can use.
    toml::to_string(&shown).unwrap_or_else(|error| format!("# cannot be shown: {error}\n"))
}

fn hide(table: &mut Table, secret_keys: &[&str]) {
    for (key, value) in table.iter_mut() {
        if is_secret(key, secret_keys) {
            hide_all(value);
        } else {
            hide_value(value, secret_keys);
        }
    }
}

fn hide_value(value: &mut Value, secret_keys: &[&str]) {
    match value {
        Value::String(text) => *text = hide_in_urls(text),
        Value::Array(array) => array.iter_mut().for_each(|element| hide_value(element, secret_keys)),
        Value::Table(table) => hide(table, secret_keys),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}

/// Hides what is inside but keeps the shape: how many secrets there are is none.
fn hide_all(value: &mut Value) {
    match value {
        Value::Array(array) => array.iter_mut().for_each(hide_all),
        Value::Table(table) => table.iter_mut().for_each(|(_, value)| hide_all(value)),
        plain => *plain = Value::String(HIDDEN.to_owned()),
    }
}

/// Whether a key's value is a secret.
pub(super) fn is_secret(key: &str, secret_keys: &[&str]) -> bool {
    let key = key.to_lowercase().replace('-', "_");
    // An element of a list is as secret as the list.
    let key = key.split('[').next().unwrap_or_default();
    let key = key.strip_suffix('s').unwrap_or(key);
    let same = |secret: &str| secret.strip_suffix('s').unwrap_or(secret) == key;
    SECRETS.iter().any(|secret| key.ends_with(secret)) || secret_keys.iter().any(|secret| same(secret))
}

/// Replaces what stands between `://` and the last `@` of the host part.
pub(super) fn hide_in_urls(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, from) = rest.split_at(at + "://".len());
        shown.push_str(before);
        let mut end = from.find(['/', '?', '#', ' ', '"', '\n']).unwrap_or(from.len());
        if from[..end].ends_with(':') && from[end..].starts_with("//") {
            // In a list the next URL begins before this one's host is closed.
            end -= 1;
        }
        let (host, after) = from.split_at(end);
        match host.rsplit_once('@') {
            Some((_, host)) => {
                shown.push_str(HIDDEN);
                shown.push('@');
                shown.push_str(host);
            }
            None => shown.push_str(host),
        }
        rest = after;
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str, secret_keys: &[&str]) -> String {
        print(&text.parse().expect("TOML"), secret_keys)
    }

    #[test]
    fn what_is_under_a_secret_key_is_hidden_whole() {
        let table = [
            ("password = \"x\"", "password = \"(hidden)\"\n"),
            ("token = 5", "token = \"(hidden)\"\n"),
            ("sasl_password = \"x\"", "sasl_password = \"(hidden)\"\n"),
            ("client-secret = \"x\"", "client-secret = \"(hidden)\"\n"),
            ("tokens = [\"x\", \"y\"]", "tokens = [\"(hidden)\", \"(hidden)\"]\n"),
            ("[secrets]\na = \"x\"", "[secrets]\na = \"(hidden)\"\n"),
            ("[a]\npassword = \"x\"\nuser = \"u\"", "[a]\npassword = \"(hidden)\"\nuser = \"u\"\n"),
            ("[[a]]\ntoken = \"x\"", "[[a]]\ntoken = \"(hidden)\"\n"),
            ("token_file = \"/t\"", "token_file = \"/t\"\n"),
        ];
        for (text, expected) in table {
            assert_eq!(printed(text, &[]), expected, "for {text}");
        }
    }

    #[test]
    fn the_caller_may_name_more_secrets() {
        assert_eq!(printed("passphrase = \"x\"", &["passphrase"]), "passphrase = \"(hidden)\"\n");
        assert_eq!(printed("passphrase = \"x\"", &[]), "passphrase = \"x\"\n");
    }

    #[test]
    fn credentials_in_a_url_are_hidden_and_nothing_else() {
        let table = [
            ("http://u:p@h:1/p?q#f", "http://(hidden)@h:1/p?q#f"),
            ("http://token@h", "http://(hidden)@h"),
            ("http://u:p@ss@h/", "http://(hidden)@h/"),
            ("http://h/@scope", "http://h/@scope"),
            ("http://h?mail=a@b", "http://h?mail=a@b"),
            ("http://a:1,http://u:p@b", "http://a:1,http://(hidden)@b"),
            ("kafka://u:p@a:1 and kafka://v:q@b:2", "kafka://(hidden)@a:1 and kafka://(hidden)@b:2"),
            ("mail@example.org", "mail@example.org"),
            ("://", "://"),
            ("", ""),
        ];
        for (text, expected) in table {
            assert_eq!(hide_in_urls(text), expected);
        }
    }

    #[test]
    fn what_is_printed_is_toml_again() {
        let text = "z = [[\"http://u:p@h\"], []]\n[a.b]\nc = 1.5\nd = 2026-01-01\n[[e]]\nf = true\n";
        let again: Table = printed(text, &[]).parse().expect("TOML");
        let mut expected: Table = text.parse().expect("TOML");
        expected["z"] = "z = [[\"http://(hidden)@h\"], []]".parse::<Table>().expect("TOML")["z"].clone();
        assert_eq!(again, expected);
    }
}
