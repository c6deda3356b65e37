//! URLs as people write them: one, several in one text, or a list.

use std::fmt;

use serde::de::{Deserializer, SeqAccess, Visitor};

struct Urls;

impl<'de> Visitor<'de> for Urls {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a URL, several with commas between them, or a list of them")
    }

    fn visit_str<E>(self, text: &str) -> Result<Vec<String>, E> {
        Ok(text.split(',').map(|url| url.trim().to_owned()).collect())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<String>, A::Error> {
        let mut urls = Vec::new();
        while let Some(url) = list.next_element()? {
            urls.push(url);
        }
        Ok(urls)
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    deserializer.deserialize_any(Urls)
}

#[cfg(test)]
mod tests {
    use super::super::StoreConfig;

    #[test]
    fn cfg_03b_a_store_is_named_by_one_url_by_several_or_by_a_list() {
        let endpoints = |text: &str| {
            let config: StoreConfig =
                toml::from_str(&format!("kind = \"etcd\"\nendpoints = {text}")).unwrap();
            config.endpoints
        };
        assert_eq!(endpoints("\"http://a:2379\""), ["http://a:2379"]);
        for cluster in ["\"http://a:1, http://b:1\"", "[\"http://a:1\", \"http://b:1\"]"] {
            assert_eq!(endpoints(cluster), ["http://a:1", "http://b:1"]);
        }
        let embedded: StoreConfig = toml::from_str("kind = \"embedded\"").unwrap();
        assert!(embedded.endpoints.is_empty());
        let refused = toml::from_str::<StoreConfig>("kind = \"etcd\"\nendpoints = 7").unwrap_err();
        assert!(refused.message().contains("a URL, several with commas"), "{refused}");
    }
}
