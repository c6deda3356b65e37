//! Tables of files and environments with the settings or the sentence that comes of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::*;

#[derive(Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Settings {
    office: String,
    #[serde(default)]
    data_dir: Option<PathBuf>,
    #[serde(default)]
    workers: Option<u16>,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    store: Store,
    #[serde(default)]
    backend: Option<Backend>,
    #[serde(default)]
    peer: Vec<Peer>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Store {
    kind: Kind,
    endpoints: Vec<String>,
    sync_on_write: bool,
    fill: Option<f64>,
    password: Option<u16>,
    tls: Option<Tls>,
}

#[derive(Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Embedded,
    Remote,
}

#[derive(Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Tls {
    ca: PathBuf,
}

#[derive(Debug, Deserialize, Serialize, PartialEq)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
enum Backend {
    Memory {},
    Disk { path: PathBuf, limit: Option<u64> },
}

#[derive(Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Peer {
    office: String,
    source: String,
}

/// Variables, as name and value.
type Pairs<'a> = &'a [(&'a str, &'a str)];

struct File {
    path: PathBuf,
    _directory: TempDir,
}

fn file(text: &str) -> File {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("settings.toml");
    std::fs::write(&path, text).expect("written");
    File { path, _directory: directory }
}

fn environment(pairs: Pairs<'_>) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn loaded(text: &str, pairs: Pairs<'_>) -> Settings {
    load(&file(text).path, &environment(pairs)).unwrap_or_else(|error| panic!("{pairs:?}: {error}"))
}

/// The sentence, with the directory of this run taken out.
fn refused(text: &str, pairs: Pairs<'_>) -> String {
    let file = file(text);
    let error = load::<Settings>(&file.path, &environment(pairs)).expect_err("it must be refused");
    error.to_string().replace(&file.path.display().to_string(), "FILE")
}

const SMALL: &str = "office = \"upper\"\n";

#[test]
fn a_file_alone_is_read_whole() {
    let text = "office = \"upper\"\nworkers = 4\n[store]\nkind = \"remote\"\nendpoints = [\"a\"]\n\
                sync-on-write = true\n[[peer]]\noffice = \"lower\"\nsource = \"there\"\n";
    let settings = loaded(text, &[]);
    assert_eq!(settings.office, "upper");
    assert_eq!(settings.workers, Some(4));
    assert_eq!(settings.store.kind, Kind::Remote);
    assert_eq!(settings.store.endpoints, ["a"]);
    assert!(settings.store.sync_on_write);
    assert_eq!(settings.peer, [Peer { office: "lower".to_owned(), source: "there".to_owned() }]);
}

#[test]
fn a_variable_sets_the_setting_of_its_name() {
    type Check = fn(&Settings) -> bool;
    type Row<'a> = (&'a str, Pairs<'a>, Check);
    let with_peers = "office = \"upper\"\n[[peer]]\noffice = \"lower\"\nsource = \"there\"\n";
    let table: &[Row<'_>] = &[
        (SMALL, &[("ROLLCALL_OFFICE", "east")], |s| s.office == "east"),
        ("", &[("ROLLCALL_OFFICE", "east")], |s| s.office == "east"),
        (SMALL, &[("ROLLCALL_DATA_DIR", "/data")], |s| s.data_dir == Some("/data".into())),
        (SMALL, &[("ROLLCALL_WORKERS", "8")], |s| s.workers == Some(8)),
        // A text stays a text, whatever TOML would read in it.
        (SMALL, &[("ROLLCALL_OFFICE", "1")], |s| s.office == "1"),
        (SMALL, &[("ROLLCALL_OFFICE", "true")], |s| s.office == "true"),
        (SMALL, &[("ROLLCALL_OFFICE", "")], |s| s.office.is_empty()),
        (SMALL, &[("ROLLCALL_NAMES", r#"["a", "b"]"#)], |s| s.names == ["a", "b"]),
        (SMALL, &[("ROLLCALL_STORE__KIND", "remote")], |s| s.store.kind == Kind::Remote),
        (SMALL, &[("ROLLCALL_STORE__SYNC_ON_WRITE", "true")], |s| s.store.sync_on_write),
        (SMALL, &[("ROLLCALL_STORE__FILL", "0.5")], |s| s.store.fill == Some(0.5)),
        (SMALL, &[("ROLLCALL_STORE__ENDPOINTS", r#"["a","b"]"#)], |s| s.store.endpoints == ["a", "b"]),
        (SMALL, &[("ROLLCALL_STORE__ENDPOINTS__0", "a")], |s| s.store.endpoints == ["a"]),
        (SMALL, &[("ROLLCALL_STORE__TLS__CA", "ca.pem")], |s| {
            s.store.tls == Some(Tls { ca: "ca.pem".into() })
        }),
        (
            "office = \"n\"\n[store]\nkind = \"remote\"\nendpoints = [\"a\"]\n",
            &[("ROLLCALL_STORE__KIND", "embedded")],
            |s| s.store.kind == Kind::Embedded && s.store.endpoints == ["a"],
        ),
        (with_peers, &[("ROLLCALL_PEER__0__SOURCE", "here")], |s| {
            s.peer[0].source == "here" && s.peer[0].office == "lower"
        }),
        (with_peers, &[("ROLLCALL_PEER__1__OFFICE", "west"), ("ROLLCALL_PEER__1__SOURCE", "far")], |s| {
            s.peer.len() == 2 && s.peer[1].office == "west" && s.peer[1].source == "far"
        }),
        (SMALL, &[("ROLLCALL_LABELS__COLOUR", "blue")], |s| s.labels["colour"] == "blue"),
        (
            SMALL,
            &[
                ("ROLLCALL_BACKEND__KIND", "disk"),
                ("ROLLCALL_BACKEND__PATH", "/d"),
                ("ROLLCALL_BACKEND__LIMIT", "9"),
            ],
            |s| s.backend == Some(Backend::Disk { path: "/d".into(), limit: Some(9) }),
        ),
    ];
    for (text, pairs, holds) in table {
        let settings = loaded(text, pairs);
        assert!(holds(&settings), "{pairs:?} over {text:?} gave {settings:?}");
    }
}

#[test]
fn variables_that_are_not_ours_are_left_alone() {
    let pairs = [
        ("ROLLCALL_URL", "http://somewhere"),
        ("ROLLCALL_LOG", "debug"),
        // What a cluster injects for a service of that name.
        ("ROLLCALL_PORT", "tcp://10.0.0.1:7400"),
        ("ROLLCALL_CELL_SERVICE_HOST", "10.0.0.1"),
        // The name of a section, not of a plain setting.
        ("ROLLCALL_STORE", "x"),
        ("ROLLCALL_PEER", "x"),
        ("ROLLCALL_LABELS", "x"),
        ("OTHER_STORE__KIND", "remote"),
        ("rollcall_office", "east"),
    ];
    assert_eq!(loaded(SMALL, &pairs), loaded(SMALL, &[]));
}

#[test]
fn the_order_of_the_environment_does_not_matter() {
    // Eleven, because by name the tenth comes before the second.
    let mut pairs: Vec<_> =
        (0..11).map(|n| (format!("ROLLCALL_STORE__ENDPOINTS__{n}"), format!("e{n}"))).collect();
    let expected: Vec<_> = pairs.iter().map(|(_, value)| value.clone()).collect();
    pairs.rotate_left(7);
    let settings: Settings = load(&file(SMALL).path, &pairs).expect("accepted");
    assert_eq!(settings.store.endpoints, expected);
}

#[test]
fn a_wrong_file_is_refused_with_line_and_key() {
    let table = [
        (
            "office = \"n\"\noffcie = \"m\"\n",
            "FILE, line 2, column 1: `offcie` is not a known setting; correct or remove it; known there: \
             `office`, `data_dir`, `workers`, `names`, `store`, `backend`, `peer`, `labels`",
        ),
        (
            "office = \"n\"\n\n[store]\n  kindd = \"remote\"\n",
            "FILE, line 4, column 3: `store.kindd` is not a known setting; correct or remove it; known there: \
             `kind`, `endpoints`, `sync-on-write`, `fill`, `password`, `tls`",
        ),
        (
            "office = \"n\"\nstore.tls.cb = \"x\"\n",
            "FILE, line 2, column 11: `store.tls.cb` is not a known setting; correct or remove it; known there: `ca`",
        ),
        (
            "office = \"n\"\n[[peer]]\noffice = \"a\"\nsource = \"b\"\n[[peer]]\noffice = \"c\"\nsauce = \"d\"\n",
            "FILE, line 7, column 1: `peer[1].sauce` is not a known setting; correct or remove it; known there: \
             `office`, `source`",
        ),
        (
            "office = \"n\"\n[backend]\nkind = \"disk\"\npath = \"/d\"\nlimitt = 3\n",
            "FILE, line 5, column 1: `backend.limitt` is not a known setting; correct or remove it; known there: \
             `path`, `limit`",
        ),
        ("workers = 1\n", "FILE: `office` is missing; add it"),
        ("", "FILE: `office` is missing; add it"),
        (
            "office = \"n\"\n[[peer]]\noffice = \"a\"\n",
            "FILE, line 2, column 1: `peer[0].source` is missing; add it",
        ),
        ("office = \"n\"\n[store.tls]\n", "FILE, line 2, column 1: `store.tls.ca` is missing; add it"),
        ("office = 5\n", "FILE, line 1, column 1: `office` cannot be integer `5`; give a text in quotes"),
        (
            "office = \"n\"\nworkers = 70000\n",
            "FILE, line 2, column 1: `workers` cannot be integer `70000`; give a whole number from 0 to 65535",
        ),
        (
            "office = \"n\"\nworkers = \"four\"\n",
            "FILE, line 2, column 1: `workers` cannot be string \"four\"; give a whole number from 0 to 65535",
        ),
        (
            "office = \"n\"\n[store]\nkind = \"cloud\"\n",
            "FILE, line 3, column 1: `store.kind` cannot be `cloud`; use one of: `embedded`, `remote`",
        ),
        (
            "office = \"n\"\n[store]\nendpoints = \"a\"\n",
            "FILE, line 3, column 1: `store.endpoints` cannot be string \"a\"; give a list in brackets",
        ),
        (
            "office = \"n\"\nstore = 5\n",
            "FILE, line 2, column 1: `store` cannot be integer `5`; give a section",
        ),
        (
            "office = \"n\"\nnames = [\"a\", 2]\n",
            "FILE, line 2, column 15: `names[1]` cannot be integer `2`; give a text in quotes",
        ),
        (
            "office = \"n\"\noffice = \"m\"\n",
            "FILE, line 2, column 1: is not TOML: duplicate key; correct the syntax",
        ),
        (
            "office = \"é\" x\n",
            "FILE, line 1, column 14: is not TOML: unexpected key or value, expected newline, `#`; correct the syntax",
        ),
    ];
    for (text, sentence) in table {
        // What follows from it may be told behind it.
        assert_eq!(refused(text, &[]).lines().next(), Some(sentence), "for {text:?}");
    }
}

#[test]
fn a_wrong_variable_is_refused_by_its_name() {
    type Row<'a> = (&'a str, Pairs<'a>, &'a str);
    let table: &[Row<'_>] = &[
        (
            SMALL,
            &[("ROLLCALL_STORE__KINDD", "remote")],
            "environment variable ROLLCALL_STORE__KINDD (over FILE): `store.kindd` is not a known setting; unset it, \
             or use one of: `kind`, `endpoints`, `sync-on-write`, `fill`, `password`, `tls`",
        ),
        (
            SMALL,
            &[("ROLLCALL_STOER__KIND", "remote")],
            "environment variable ROLLCALL_STOER__KIND (over FILE): `stoer` is not a known setting; unset it, or use \
             one of: `office`, `data_dir`, `workers`, `names`, `store`, `backend`, `peer`, `labels`",
        ),
        (
            SMALL,
            &[("ROLLCALL_STORE__KIND", "cloud")],
            "environment variable ROLLCALL_STORE__KIND (over FILE): `store.kind` cannot be `cloud`; use one of: \
             `embedded`, `remote`",
        ),
        (
            SMALL,
            &[("ROLLCALL_WORKERS", "many")],
            "environment variable ROLLCALL_WORKERS (over FILE): `workers` cannot be string \"many\"; give a whole \
             number from 0 to 65535",
        ),
        // Over a line of the file the variable is to blame, not the line.
        (
            "office = \"n\"\nworkers = 3\n",
            &[("ROLLCALL_WORKERS", "many")],
            "environment variable ROLLCALL_WORKERS (over FILE): `workers` cannot be string \"many\"; give a whole \
             number from 0 to 65535",
        ),
        (
            SMALL,
            &[("ROLLCALL_NAMES", "[\"a\", 2]")],
            "environment variable ROLLCALL_NAMES (over FILE): `names[1]` cannot be integer `2`; give a text in quotes",
        ),
        (
            SMALL,
            &[("ROLLCALL_NAMES", "[2, \"a\"]")],
            "environment variable ROLLCALL_NAMES (over FILE): `names[0]` cannot be integer `2`; give a text in quotes",
        ),
        (
            SMALL,
            &[("ROLLCALL_PEER__0__OFFICE", "lower")],
            "environment variable ROLLCALL_PEER__0__OFFICE (over FILE): `peer[0].source` is missing; add it",
        ),
        (
            SMALL,
            &[("ROLLCALL_PEER__1__OFFICE", "lower")],
            "environment variable ROLLCALL_PEER__1__OFFICE (over FILE): `peer` has 0 elements, so 1 is not the next; \
             add those before it first",
        ),
        (
            SMALL,
            &[("ROLLCALL_PEER__FIRST__OFFICE", "lower")],
            "environment variable ROLLCALL_PEER__FIRST__OFFICE (over FILE): `peer` is a list: the next part of the \
             name must be a number; count its elements from 0",
        ),
        (
            SMALL,
            &[("ROLLCALL_OFFICE__NAME", "lower")],
            "environment variable ROLLCALL_OFFICE__NAME (over FILE): `office` is a plain value with nothing inside; \
             shorten the name",
        ),
        (
            SMALL,
            &[("ROLLCALL_STORE__TLS", "on")],
            "environment variable ROLLCALL_STORE__TLS (over FILE): `store.tls` is a section and has no value of its \
             own; set its keys one by one, as ROLLCALL_STORE__TLS__KEY",
        ),
        (
            SMALL,
            &[("ROLLCALL_STORE__", "x")],
            "environment variable ROLLCALL_STORE__ (over FILE): names no setting: a part between two `__` is empty; \
             write it as ROLLCALL_SECTION__KEY",
        ),
        (
            "office = \"n\"\nstore = 5\n",
            &[("ROLLCALL_STORE__KIND", "remote")],
            "environment variable ROLLCALL_STORE__KIND (over FILE): `store` is a plain value in the file; make it a \
             section there",
        ),
        (
            "office = \"n\"\nbackend = { kind = \"disk\", path = \"/d\" }\n",
            &[("ROLLCALL_BACKEND__LIMITT", "4")],
            "environment variable ROLLCALL_BACKEND__LIMITT (over FILE): `backend.limitt` is not a known setting; \
             correct or remove it; known there: `path`, `limit`",
        ),
    ];
    for (text, pairs, sentence) in table {
        assert_eq!(refused(text, pairs).lines().next(), Some(*sentence), "for {pairs:?}");
    }
}

#[test]
fn the_value_of_a_secret_is_not_in_the_error() {
    let in_file = refused("office = \"n\"\n[store]\npassword = \"hunter2\"\n", &[]);
    assert_eq!(
        in_file,
        "FILE, line 3, column 1: `store.password` cannot be this; give a whole number from 0 to 65535"
    );
    let in_environment = refused(SMALL, &[("ROLLCALL_STORE__PASSWORD", "hunter2")]);
    assert!(!in_environment.contains("hunter2"), "{in_environment}");
    let in_url = refused("office = \"n\"\nworkers = \"http://me:hunter2@there/\"\n", &[]);
    assert!(in_url.contains("http://(hidden)@there/") && !in_url.contains("hunter2"), "{in_url}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let missing = file(SMALL).path.with_file_name("missing.toml");
    let error = load::<Settings>(&missing, &[]).expect_err("not there");
    let sentence = error.to_string();
    assert!(sentence.starts_with(&format!("{}: cannot be read: ", missing.display())), "{sentence}");
    assert!(sentence.ends_with("; name a TOML file that this user may read"), "{sentence}");

    let long = file(&"#".repeat(usize::try_from(FILE_BYTES_MAX).expect("fits") + 1));
    let error = load::<Settings>(&long.path, &[]).expect_err("too long");
    assert!(error.to_string().contains("a settings file has at most 1048576"), "{error}");
}

#[test]
fn all_faults_that_can_be_seen_are_told_at_once() {
    let text = "ofice = \"n\"\nworkers = \"many\"\nnames = [1, \"b\", 2]\n[store]\nkind = \"cloud\"\nfil = 1\n\
                [[peer]]\noffice = \"a\"\n[[peer]]\nsource = 7\n";
    let pairs =
        [("ROLLCALL_STOER__KIND", "remote"), ("ROLLCALL_WORKERS__0", "1"), ("ROLLCALL_PEER__4__OFFICE", "x")];
    let told = refused(text, &pairs);
    let keys = [
        "variable ROLLCALL_STOER__KIND",
        "variable ROLLCALL_WORKERS__0",
        "variable ROLLCALL_PEER__4__OFFICE",
        "line 1, column 1: `ofice`",
        "line 2, column 1: `workers`",
        "line 3, column 10: `names[0]`",
        "line 5, column 1: `store.kind`",
        "line 6, column 1: `store.fil`",
        "`peer[0].source` is missing",
        "`peer[1].office` is missing",
        "`peer[1].source` cannot be",
        "`office` is missing",
    ];
    for key in keys {
        assert!(told.contains(key), "{key} is not in:\n{told}");
    }
    assert_eq!(told.lines().count(), keys.len(), "{told}");
}

#[test]
fn a_file_of_nothing_but_faults_is_told_up_to_a_bound() {
    let text: String = (0..100).map(|n| format!("strange{n} = 1\n")).collect();
    assert_eq!(refused(&text, &[]).lines().count(), FAULTS_MAX);
}

#[test]
fn the_parts_of_an_error_can_be_asked_for() {
    let file = file("office = \"n\"\n[store]\nkind = \"cloud\"\n");
    let errors = load::<Settings>(&file.path, &[]).expect_err("refused");
    let error = errors.iter().next().expect("one at least");
    assert_eq!(error.file(), file.path);
    assert_eq!(error.setting(), Some("store.kind"));
    assert_eq!(error.given_at(), Some(&Place::Line { line: 3, column: 1 }));
}

#[test]
fn a_refusal_of_the_caller_points_at_line_or_variable() {
    let file = file("office = \"n\"\n[[peer]]\noffice = \"a\"\nsource = \"b\"\n");
    let sentence = |environment: &[(String, String)], key: &str| {
        let error = refuse(&file.path, environment, key, "is this office itself", "name another");
        error.to_string().replace(&file.path.display().to_string(), "FILE")
    };
    assert_eq!(
        sentence(&[], "peer[0].office"),
        "FILE, line 3, column 1: `peer[0].office` is this office itself; name another"
    );
    assert_eq!(
        sentence(&environment(&[("ROLLCALL_PEER__0__OFFICE", "n")]), "peer[0].office"),
        "environment variable ROLLCALL_PEER__0__OFFICE (over FILE): `peer[0].office` is this office itself; name \
         another"
    );
    assert_eq!(sentence(&[], "auth.mode"), "FILE: `auth.mode` is this office itself; name another");
}

#[test]
fn the_effective_table_is_the_file_under_the_environment_and_over_the_defaults() {
    let file = file("office = \"n\"\n[store]\nkind = \"remote\"\nendpoints = [\"a\"]\n");
    let pairs = environment(&[("ROLLCALL_STORE__ENDPOINTS", r#"["b"]"#), ("ROLLCALL_WORKERS", "3")]);
    let table = effective::<Settings>(&file.path, &pairs).expect("accepted");
    let expected = "names = []\noffice = \"n\"\npeer = []\nworkers = 3\n\n[labels]\n\n[store]\nendpoints = [\"b\"]\n\
                    kind = \"remote\"\nsync-on-write = false\n";
    assert_eq!(print(&table, &[]), expected);
    let alone = read_table(&file.path).expect("TOML");
    assert!(alone.contains_key("store") && !alone.contains_key("workers"), "{alone:?}");
    let pairs = environment(&[("ROLLCALL_STORE__KIND", "cloud")]);
    assert!(effective::<Settings>(&file.path, &pairs).is_err());
}
