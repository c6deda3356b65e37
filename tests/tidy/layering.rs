//! Arrows point down only: who may import whom, and who alone names an outside crate (ADR 0001).

use std::collections::{BTreeMap, BTreeSet};

use rollcall_tests::paths;

/// Package → ours that it may import.
fn allowed() -> BTreeMap<&'static str, Vec<&'static str>> {
    BTreeMap::from([
        ("rollcall-model", vec![]),
        ("rollcall-runtime", vec![]),
        ("rollcall-proto", vec!["rollcall-model"]),
        ("rollcall-client", vec!["rollcall-model", "rollcall-proto"]),
        ("rollcall-cell", vec!["rollcall-model", "rollcall-proto", "rollcall-runtime"]),
        ("rollcall-replicator", vec!["rollcall-model", "rollcall-proto", "rollcall-runtime"]),
        (
            "rollcall",
            vec![
                "rollcall-model",
                "rollcall-proto",
                "rollcall-runtime",
                "rollcall-client",
                "rollcall-cell",
                "rollcall-replicator",
            ],
        ),
    ])
}

/// Outside crate → the only packages that may name it in their own dependencies.
const ALONE: [(&str, &[&str]); 9] = [
    ("etcd-client", &["rollcall-cell"]),
    ("redb", &["rollcall-cell"]),
    ("rdkafka", &["rollcall-replicator"]),
    ("clap", &["rollcall"]),
    ("opentelemetry", &["rollcall-runtime"]),
    ("opentelemetry_sdk", &["rollcall-runtime"]),
    ("tracing-subscriber", &["rollcall-runtime"]),
    ("prost", &["rollcall-proto", "rollcall-replicator"]),
    ("imbl", &["rollcall-model"]),
];

const FOLDERS: [&str; 7] = ["model", "runtime", "proto", "client", "cell", "replicator", "cli"];

fn manifest(folder: &str) -> toml::Table {
    let path = paths::repository().join(folder).join("Cargo.toml");
    std::fs::read_to_string(path).unwrap().parse().unwrap()
}

fn dependencies(manifest: &toml::Table) -> BTreeSet<String> {
    manifest["dependencies"].as_table().unwrap().keys().cloned().collect()
}

#[test]
fn arrows_point_down_only() {
    let allowed = allowed();
    for folder in FOLDERS {
        let manifest = manifest(folder);
        let package = manifest["package"]["name"].as_str().unwrap();
        let ours: BTreeSet<_> =
            dependencies(&manifest).into_iter().filter(|name| name.starts_with("rollcall")).collect();
        for name in &ours {
            assert!(allowed[package].contains(&name.as_str()), "{package} imports {name}");
        }
    }
}

#[test]
fn each_outside_power_has_one_home() {
    for folder in FOLDERS {
        let manifest = manifest(folder);
        let package = manifest["package"]["name"].as_str().unwrap();
        for name in dependencies(&manifest) {
            if let Some((_, homes)) = ALONE.iter().find(|(outside, _)| *outside == name) {
                assert!(homes.contains(&package), "{package} names {name}, which belongs to {homes:?}");
            }
        }
    }
}

#[test]
fn the_model_is_pure() {
    let source = paths::repository().join("model/src");
    let forbidden = [
        "tokio",
        "async fn",
        ".await",
        "SystemTime",
        "std::time::Instant",
        "rand::",
        "std::fs",
        "std::net::Tcp",
        "std::thread",
        // Their order is by chance.
        "collections::HashMap",
        "imbl::HashMap",
        "tracing::",
        "std::env",
    ];
    let mut files = 0;
    for entry in std::fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "rs") {
            files += 1;
            let text = std::fs::read_to_string(&path).unwrap();
            for word in forbidden {
                assert!(!text.contains(word), "{} has {word}", path.display());
            }
        }
    }
    assert!(files > 20, "the model was not found");
}

#[test]
fn only_the_adapters_name_etcd_and_kafka_clients() {
    for (folder, word, home) in
        [("cell/src", "etcd_client", "store/etcd"), ("replicator/src", "rdkafka", "feed_log/kafka")]
    {
        let mut inside = 0;
        for path in sources(&paths::repository().join(folder)) {
            let text = std::fs::read_to_string(&path).unwrap();
            let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            if code.contains(word) {
                assert!(path.to_str().unwrap().contains(home), "{} names {word}", path.display());
                inside += 1;
            }
        }
        assert!(inside > 0, "{home} was not found");
    }
}

fn sources(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found
}
