//! `rollcall config`: settings, judged and shown as a role would see them.
//!
//! Promises: what is good here is good for the role, because both read it by the same function; beyond that the check
//! looks at the directory, which it leaves as it is. A secret is never shown.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rollcall_cell::config::CellConfig;
use rollcall_replicator::config::ReplicatorConfig;
use rollcall_runtime::{ConfigErrors, config as settings};
use rustix::fs::{Access, access};
use serde_json::json;

use crate::args::{ConfigArgs, ConfigVerb, Output, Role};
use crate::exit::Exit;
use crate::http::{Answer, Failure};
use crate::roles;
use crate::show::{Shown, Told, show};

type Environment = [(String, String)];

pub(crate) fn config(verb: ConfigVerb, output: Output, environment: &Environment) -> Shown {
    let (result, table) = match verb {
        ConfigVerb::Check(args) => {
            let result = check(&args, environment);
            let table = result.as_ref().map(|role| format!("{} is good for a {role}", args.file.display()));
            let body = result.as_ref().map(|role| json!({"role": role}).to_string());
            (body.map_err(Clone::clone), table.unwrap_or_default())
        }
        ConfigVerb::Print(args) => match print(&args, environment) {
            // Read back, so that both forms hide the same.
            Ok(text) => match toml::from_str::<serde_json::Value>(&text) {
                Ok(value) => (Ok(value.to_string()), text),
                Err(error) => (Err(error.to_string()), String::new()),
            },
            Err(words) => (Err(words), String::new()),
        },
    };
    let result = result.map(|body| Answer { body, date: None, hint: None });
    show(output, result.map_err(|words| Failure { exit: Exit::Usage, body: None, words }), |_| Told {
        table,
        notes: Vec::new(),
    })
}

fn check(args: &ConfigArgs, environment: &Environment) -> Result<&'static str, String> {
    let role = role(args)?;
    let data_dir = judge(role, &args.file, environment).map_err(|error| error.to_string())?;
    if let Some(why) = unusable(&data_dir) {
        let problem = format!("cannot be used: {why}");
        let advice = "make it a directory that this user may write to, or give another";
        return Err(settings::refuse(&args.file, environment, "data_dir", problem, advice).to_string());
    }
    rollcall_runtime::telemetry::check(environment).map_err(|error| error.to_string())?;
    Ok(name(role))
}

/// Why a role could not work in this directory, as far as can be seen without touching it. One that is not there is made
/// by the role, often by another user or on another machine than this.
fn unusable(data_dir: &Path) -> Option<String> {
    for place in data_dir.ancestors() {
        let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
        let shown = place.display();
        match std::fs::metadata(place) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Some(format!("{shown}: {error}")),
            Ok(found) if !found.is_dir() => return Some(format!("{shown} is no directory")),
            Ok(_) if place == data_dir => {
                let denied = access(place, Access::WRITE_OK | Access::EXEC_OK).err()?;
                return Some(format!("{shown} cannot be written to: {denied}"));
            }
            Ok(_) => return None,
        }
    }
    None
}

fn print(args: &ConfigArgs, environment: &Environment) -> Result<String, String> {
    let role = role(args)?;
    judge(role, &args.file, environment).map_err(|error| error.to_string())?;
    let table = match role {
        Role::Cell => settings::effective::<CellConfig>(&args.file, environment),
        Role::Replicator => settings::effective::<ReplicatorConfig>(&args.file, environment),
    };
    Ok(settings::print(&table.map_err(|error| error.to_string())?, &[]))
}

/// Gives the role's directory.
fn judge(role: Role, file: &Path, environment: &Environment) -> Result<PathBuf, ConfigErrors> {
    match role {
        Role::Cell => roles::cell::settings(file, environment).map(|settings| settings.data_dir),
        Role::Replicator => roles::replicator::settings(file, environment).map(|settings| settings.data_dir),
    }
}

const fn name(role: Role) -> &'static str {
    match role {
        Role::Cell => "cell",
        Role::Replicator => "replicator",
    }
}

/// Whose settings these are: as was said, or by the sections that only one role has.
fn role(args: &ConfigArgs) -> Result<Role, String> {
    if let Some(role) = args.role {
        return Ok(role);
    }
    let table = settings::read_table(&args.file).map_err(|error| error.to_string())?;
    let has = |section: &str| table.contains_key(section);
    match (has("store"), has("publish") || has("follow")) {
        (true, false) => Ok(Role::Cell),
        (false, true) => Ok(Role::Replicator),
        (both, _) => {
            let why = if both {
                "has sections of more than one role"
            } else {
                "has no section that tells its role"
            };
            Err(format!(
                "{}: {why}: [store] is a cell's, [publish] and [[follow]] are a replicator's; say which with --role",
                args.file.display()
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: &str = r#"region = "us-east"
zone = "a"
data_dir = "d"

[listen]
http = "127.0.0.1:7400"
grpc = "127.0.0.1:7401"

[store]
kind = "etcd"
endpoints = ["http://me:secret@127.0.0.1:2379"]

[[view]]
region = "eu-west"
source = "http://127.0.0.1:7500"
"#;
    const REPLICATOR: &str = r#"region = "us-east"
data_dir = "d"

[listen]
grpc = "127.0.0.1:7500"
http = "127.0.0.1:7501"

[cell]
endpoints = ["http://127.0.0.1:7401"]

[publish]
kind = "kafka"
brokers = "127.0.0.1:9092"

[[follow]]
region = "eu-west"
kind = "kafka"
brokers = "127.0.0.1:9092"
"#;

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.toml");
        std::fs::write(&file, text).unwrap();
        (folder, file)
    }

    fn checked(text: &str, role: Option<Role>, environment: &Environment) -> Shown {
        let (_folder, file) = file(text);
        config(ConfigVerb::Check(ConfigArgs { file, role }), Output::Table, environment)
    }

    #[test]
    fn the_smallest_files_of_the_contract_are_good_and_known_by_their_sections() {
        for (text, role) in [(CELL, "cell"), (REPLICATOR, "replicator")] {
            let shown = checked(text, None, &[]);
            assert_eq!(shown.exit, Exit::Done, "{}", shown.stderr);
            assert!(
                shown.stdout.ends_with(&format!("settings.toml is good for a {role}\n")),
                "{}",
                shown.stdout
            );
        }
    }

    #[test]
    fn what_a_role_would_not_start_with_is_not_good() {
        for (text, environment, named) in [
            (CELL.to_owned(), vec![("ROLLCALL_LOG", "zz=zz=zz")], "ROLLCALL_LOG"),
            (CELL.to_owned(), vec![("ROLLCALL_LOG_FORMAT", "xml")], "ROLLCALL_LOG_FORMAT"),
            (CELL.to_owned(), vec![("ROLLCALL_LISTEN__ADVERTISE", "0.0.0.0:7401")], "advertise"),
            (CELL.to_owned(), vec![("ROLLCALL_LISTEN__ADVERTISE", "[::]:7401")], "advertise"),
            (CELL.replace("region = \"eu-west\"", "region = \"own\""), vec![], "own"),
            (CELL.replacen("region = \"us-east\"", "region = \"all\"", 1), vec![], "all"),
            (REPLICATOR.replace("region = \"eu-west\"", "region = \"false\""), vec![], "false"),
        ] {
            let environment: Vec<_> = environment
                .into_iter()
                .map(|(name, value): (&str, &str)| (name.to_owned(), value.to_owned()))
                .collect();
            let shown = checked(&text, None, &environment);
            assert_eq!(shown.exit, Exit::Usage, "{named}: {}", shown.stdout);
            assert!(shown.stderr.contains(named), "{}", shown.stderr);
        }
    }

    #[test]
    fn a_bad_file_ends_with_2_and_names_line_and_key() {
        for (text, line, key) in [
            (CELL.replace("zone =", "zoen ="), "line 2,", "`zoen`"),
            (CELL.replace("\"etcd\"", "\"mongo\""), "line 10,", "`store.kind`"),
            (CELL.replace("\"eu-west\"", "\"EU\""), "line 14,", "`view[0].region`"),
            (CELL.replace("127.0.0.1:7400", "10.0.0.1:7400"), "line 6,", "`listen.http`"),
            (
                REPLICATOR.replacen("\"kafka\"\nbrokers = \"127.0.0.1:9092\"", "\"memory\"", 1),
                "line 12,",
                "`publish.kind`",
            ),
            (REPLICATOR.replacen("brokers =", "broker =", 1), "line 13,", "`publish.broker`"),
            (CELL.replace("\"d\"", "\"\""), "line 3,", "`data_dir`"),
            (CELL.replace("http://me:secret@", "ftp://"), "line 11,", "`store.endpoints`"),
            (CELL.replace("http://127.0.0.1:7500", "ftp://h:1"), "line 15,", "`view[0].source`"),
            (CELL.replace("http://me:secret@", "https://"), "line 11,", "`store.endpoints`"),
            (CELL.replace(":2379", ":99999"), "line 11,", "`store.endpoints`"),
            (CELL.replace(":2379", ":2379/path"), "line 11,", "`store.endpoints`"),
            (CELL.replace(":7500", ":0"), "line 15,", "`view[0].source`"),
            (REPLICATOR.replace("\"d\"", "\"\""), "line 2,", "`data_dir`"),
            (REPLICATOR.replace("[\"http:", "[\"ftp:"), "line 9,", "`cell.endpoints`"),
        ] {
            let shown = checked(&text, None, &[]);
            assert_eq!((shown.exit, shown.stdout.as_str()), (Exit::Usage, ""), "{}", shown.stderr);
            assert!(shown.stderr.contains(line) && shown.stderr.contains(key), "{}", shown.stderr);
        }
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once_each_with_its_line_and_key() {
        let typos =
            CELL.replace("zone =", "zoen =").replace("\"etcd\"", "\"mongo\"").replace("source", "sauce");
        let unusable = CELL.replace("\"a\"", "\"a b\"").replace("\"eu-west\"", "\"us-east\"")
            + "\n[guard]\nfraction = 2.0\n\n[admission]\nburst = 0\n";
        let two = REPLICATOR.replace("us-east", "US").replacen("9092", "kafka", 1);
        for (text, expected) in [
            (
                typos,
                [
                    ("line 2,", "`zoen`"),
                    ("line 10,", "`store.kind`"),
                    ("line 15,", "`view[0].sauce`"),
                    ("line 13,", "`view[0].source`"),
                ]
                .as_slice(),
            ),
            (
                unusable,
                &[
                    ("line 2,", "`zone`"),
                    ("line 14,", "`view[0].region`"),
                    ("line 18,", "`guard.fraction`"),
                    ("line 21,", "`admission.burst`"),
                ],
            ),
            (two, &[("line 1,", "`region`"), ("line 13,", "`publish.brokers`")]),
        ] {
            let shown = checked(&text, None, &[]);
            assert_eq!(shown.exit, Exit::Usage);
            let told: Vec<_> = shown.stderr.lines().collect();
            assert_eq!(told.len(), expected.len(), "{}", shown.stderr);
            for (line, key) in expected {
                let is_told = told.iter().any(|told| told.contains(line) && told.contains(key));
                assert!(is_told, "{line} {key}: {}", shown.stderr);
            }
        }
    }

    #[test]
    fn the_environment_is_judged_with_the_file() {
        let variable = |name: &str, value: &str| [(name.to_owned(), value.to_owned())];
        assert_eq!(checked(CELL, None, &variable("ROLLCALL_STORE__KIND", "embedded")).exit, Exit::Done);
        assert_eq!(checked(CELL, None, &variable("ROLLCALL_URL", "http://h:1")).exit, Exit::Done);
        for endpoints in ["http://h:1", "http://h:1,http://i:1", r#"["http://h:1"]"#] {
            let shown = checked(CELL, None, &variable("ROLLCALL_STORE__ENDPOINTS", endpoints));
            assert_eq!(shown.exit, Exit::Done, "{}", shown.stderr);
        }
        for (name, value) in
            [("ROLLCALL_STORE__KIND", "mongo"), ("ROLLCALL_STOER__KIND", "x"), ("ROLLCALL_REGION", "EU")]
        {
            let shown = checked(CELL, None, &variable(name, value));
            assert_eq!(shown.exit, Exit::Usage, "{name}");
            assert!(shown.stderr.contains(name), "{}", shown.stderr);
        }
    }

    #[test]
    fn a_directory_that_is_none_is_told_with_its_line_and_one_that_is_not_there_is_the_roles_to_make() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        std::fs::write(&taken, "").unwrap();
        let with = |data_dir: &Path| {
            let text = CELL.replace("data_dir = \"d\"", &format!("data_dir = {data_dir:?}"));
            checked(&text, None, &[])
        };
        for bad in [taken.clone(), taken.join("below")] {
            let shown = with(&bad);
            assert_eq!(shown.exit, Exit::Usage, "{bad:?}");
            let why = format!("cannot be used: {} is no directory", taken.display());
            assert!(shown.stderr.contains(&why) && shown.stderr.contains("data_dir"), "{}", shown.stderr);
            assert!(shown.stderr.contains(".toml, line 3"), "its line: {}", shown.stderr);
        }
        for good in [folder.path().to_owned(), folder.path().join("new/below")] {
            assert_eq!(with(&good).exit, Exit::Done, "{good:?}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
        // Nobody may write there, not even root.
        assert!(unusable(Path::new("/proc/self")).is_some());
    }

    #[test]
    fn a_file_of_no_role_or_of_two_asks_for_one() {
        for (text, why) in [
            ("region = \"a\"", "has no section that tells its role"),
            (&format!("{CELL}\n[publish]\nkind = \"kafka\""), "has sections of more than one role"),
        ] {
            let shown = checked(text, None, &[]);
            assert_eq!(shown.exit, Exit::Usage);
            assert!(shown.stderr.contains(why) && shown.stderr.contains("--role"), "{}", shown.stderr);
        }
        assert_eq!(checked(CELL, Some(Role::Replicator), &[]).exit, Exit::Usage);
        assert_eq!(checked(CELL, Some(Role::Cell), &[]).exit, Exit::Done);
    }

    #[test]
    fn what_is_printed_is_in_force_and_holds_no_secret() {
        let (_folder, file) = file(CELL);
        let print = |output| {
            let args = ConfigArgs { file: file.clone(), role: None };
            config(ConfigVerb::Print(args), output, &[("ROLLCALL_ZONE".into(), "b".into())])
        };
        let table = print(Output::Table);
        assert_eq!(table.exit, Exit::Done, "{}", table.stderr);
        assert!(table.stdout.contains("zone = \"b\""), "{}", table.stdout);
        // A default that the file says nothing about, beside what it does say.
        for line in
            ["[guard]\n", "floor = 1\n", "registrations_per_second = 1000\n", "[health]\n", "probe = true\n"]
        {
            assert!(table.stdout.contains(line), "{line} is missing: {}", table.stdout);
        }
        assert!(
            !table.stdout.contains("secret") && table.stdout.contains("(hidden)@127"),
            "{}",
            table.stdout
        );
        let json: serde_json::Value = serde_json::from_str(&print(Output::Json).stdout).unwrap();
        assert_eq!((json["zone"].as_str(), json["store"]["kind"].as_str()), (Some("b"), Some("etcd")));
        assert_eq!(json["admission"]["address_share"], "tenth");
    }

    #[test]
    fn what_is_printed_is_good_again_and_prints_the_same() {
        for text in [CELL.replace("me:secret@", ""), REPLICATOR.to_owned()] {
            let printed = |text: &str| {
                let (_folder, file) = file(text);
                config(ConfigVerb::Print(ConfigArgs { file, role: None }), Output::Table, &[])
            };
            let first = printed(&text);
            assert_eq!(first.exit, Exit::Done, "{}", first.stderr);
            assert_eq!(printed(&first.stdout), first);
        }
    }
}
