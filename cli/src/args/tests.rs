use clap::CommandFactory;
use clap::error::ErrorKind;

use super::*;

fn parse(line: &str) -> Result<Args, clap::Error> {
    Args::try_parse_from(std::iter::once("rollcall").chain(line.split_whitespace()))
}

#[test]
fn the_definition_is_sound() {
    Args::command().debug_assert();
}

#[test]
fn url_and_output_stand_before_or_after_the_verb() {
    for line in [
        "--url http://h:1 -o json regions",
        "regions --url http://h:1 -o json",
        "-o json regions --url http://h:1",
        "regions --output json --url=http://h:1",
    ] {
        let args = parse(line).unwrap();
        assert_eq!((args.url(&[]).as_str(), args.output), ("http://h:1", Output::Json), "{line}");
    }
    assert_eq!(parse("regions").unwrap().output, Output::Table);
}

#[test]
fn the_cell_is_the_flags_or_the_environments_or_the_default_one() {
    let url = |line: &str, variable: &str| {
        parse(line).unwrap().url(&[("ROLLCALL_URL".to_owned(), variable.to_owned())])
    };
    assert_eq!(url("regions --url http://h:1", "http://e:1"), "http://h:1");
    assert_eq!(url("regions", "http://e:1"), "http://e:1");
    assert_eq!(url("regions", ""), URL);
    assert_eq!(parse("regions").unwrap().url(&[]), URL);
    // As by a script whose variable is not set: the next best cell would be the wrong one.
    for line in [&["regions", "--url", ""][..], &["--url=", "regions"], &["doctor", "--replicator", ""]] {
        let refused = Args::try_parse_from(std::iter::once(&"rollcall").chain(line)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidValue, "{line:?}: {refused}");
    }
    let help = Args::command().render_help().to_string();
    assert!(help.contains("[env: ROLLCALL_URL]") && help.contains(&format!("[default: {URL}]")), "{help}");
}

#[test]
fn every_verb_of_the_contract_is_understood() {
    for line in [
        "dev",
        "dev --regions a,b --base-port 0 --agents 0 --data-dir d",
        "cell --config f",
        "replicator --config f",
        "run --id a/b --endpoint http://h:1 -- sh -c true",
        "run -f body.json --url http://h:1 -- true",
        "register --id a/b/c --endpoint http://h:1 --endpoint http://h:2 --capability a:b:v1 --kind tool --version 1.0.0 \
         --zone a --scope service --holder h --metadata k=v --metadata l=w --lease 10 --card f",
        "register -f -",
        "renew a/b/c --epoch 7",
        "deregister --epoch 7 a/b/c",
        "renew a/b/c --epoch 7 --holder h",
        "deregister a/b/c --epoch 7 --holder h",
        "agents --namespace a --name b --capability a:b:v1 --capability c:d:v1 --skill s --tag t --tag u --kind agent \
         --version ^2 --zone a --lifecycle healthy --metadata k=v --region all --limit 5 --page-token t",
        "agent a/b/c --region eu-west",
        "resolve --capability a:b:v1 --policy sticky --affinity-key k --from-zone a --failover eu,ap --residency us,eu \
         --prefer x,y --canary-version ^2 --canary-share 0.05 --limit 5",
        "regions",
        "watch --since 1-ab:7 --region all --capability a:b:v1",
        "removals --limit 5 --id a/b/c",
        "guard",
        "guard release a/b/c d/e/f",
        "-o json guard release a/b/c --url http://h:1",
        "evict a/b/c --reason x",
        "mute --seconds 60 a/b/c",
        "doctor",
        "doctor --replicator http://h:1 --replicator http://h:2 -o json",
        "config check f",
        "config check f --role cell",
        "config print f --role replicator",
        "completions bash",
    ] {
        assert!(parse(line).is_ok(), "{line}: {}", parse(line).unwrap_err());
    }
}

#[test]
fn wrong_calls_are_usage_errors() {
    for line in [
        "",
        "fly",
        "regions extra",
        "regions -o xml",
        "register",
        "register --id a/b/c -f body.json",
        "register --endpoint http://h:1 -f body.json",
        "register --id a/b/c --metadata kv",
        "register --id a/b/c --metadata =v",
        "register --id a/b/c --lease soon",
        "renew a/b/c",
        "renew --epoch 7",
        "renew a/b --epoch 7",
        "renew a//c --epoch 7",
        "renew a/b/c --epoch abc",
        "renew a/b/c --epoch -1",
        "renew a/b/c --epoch +1",
        "renew a/b/c --epoch 7.0",
        "agent ../../version",
        "agent a/b/c/d",
        "guard hold",
        "guard release",
        "guard release a/b",
        "evict a/b/c",
        "evict --reason x",
        "mute a/b/c",
        "mute a/b/c --seconds -1",
        "mute a/b/c --seconds 1.5",
        "cell",
        "run --id a/b",
        "run --id a/b true",
        "run -- true",
        "dev --agents 1001",
        "dev --agents -1",
        "dev --base-port 70000",
        "dev --regions A",
        "config",
        "config check",
        "config check f --role router",
        "completions csh",
    ] {
        assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
    }
}

#[test]
fn help_and_version_are_results() {
    for (line, kind) in [("--help", ErrorKind::DisplayHelp), ("--version", ErrorKind::DisplayVersion)] {
        let said = parse(line).unwrap_err();
        assert_eq!((said.kind(), said.exit_code(), said.use_stderr()), (kind, 0, false));
    }
}

#[test]
fn query_flags_become_parameters_of_the_same_name() {
    let Verb::Agents { query, .. } = parse(
        "agents --tag t --tag u --namespace a --metadata k=v=w --metadata l=x --version ^2 --capability a:b:v1 --region all",
    )
    .unwrap()
    .verb
    else {
        panic!("it was parsed as another verb");
    };
    let parameters = query.parameters();
    let parameters: Vec<_> = parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        parameters,
        [
            ("namespace", "a"),
            ("capability", "a:b:v1"),
            ("tag", "t"),
            ("tag", "u"),
            ("version", "^2"),
            ("metadata.k", "v=w"),
            ("metadata.l", "x"),
            ("region", "all"),
        ]
    );
}

#[test]
fn flags_of_resolve_become_parameters_of_the_same_name() {
    let line = "resolve --policy canary --from-zone a --affinity-key k --failover false --residency us,eu --prefer x,y \
                --canary-version ^2 --canary-share 0.1 --limit 5 --name b";
    let Verb::Resolve(args) = parse(line).unwrap().verb else {
        panic!("it was parsed as another verb");
    };
    let mut parameters = args.parameters();
    parameters.sort();
    let parameters: Vec<_> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let expected = [
        "affinity_key=k",
        "canary_share=0.1",
        "canary_version=^2",
        "failover=false",
        "from_zone=a",
        "limit=5",
        "name=b",
        "policy=canary",
        "prefer=x,y",
        "residency=us,eu",
    ];
    assert_eq!(parameters, expected);
}

#[test]
fn what_stands_after_the_dashes_is_the_command_untouched() {
    let Verb::Run { command, .. } = parse("run --id a/b -- sh -o json --url x -- y").unwrap().verb else {
        panic!("it was parsed as another verb");
    };
    assert_eq!(command, ["sh", "-o", "json", "--url", "x", "--", "y"]);
}

#[test]
fn dev_has_three_regions_and_twelve_agents_unless_told() {
    let Verb::Dev(args) = parse("dev").unwrap().verb else {
        panic!("it was parsed as another verb");
    };
    let expected = DevArgs {
        regions: vec!["us-east".into(), "eu-west".into(), "ap-south".into()],
        base_port: 7400,
        agents: 12,
        data_dir: None,
    };
    assert_eq!(args, expected);
}
