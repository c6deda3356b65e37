//! What a question costs a cell: how many registrations are looked at for a page, in a fleet of thousands (STO-13).

use std::sync::Arc;

use rollcall_model::testing::{declared, registered};
use rollcall_model::{
    Capability, CapabilityName, Details, Epoch, Kind, Lifecycle, Position, Query, Region, Revision, Snapshot,
    State, Timestamp, View, Zone,
};

/// Agents by name; each has so many instances.
const AGENTS: u32 = 500;
const INSTANCES: u32 = 20;
const ALL: u32 = AGENTS * INSTANCES;

/// A region of ten thousand instances as a cell holds it. One agent in a hundred is a tool; one instance of each agent
/// is in zone `c`; agent 7 alone is of team `red`, has a version 2, and is on its way out; each agent shares its
/// capability with nine others. Half of them live in namespace `lab`, half in `ops`.
fn region() -> View {
    let mut state = State::default();
    for agent in 0..AGENTS {
        for instance in 0..INSTANCES {
            let namespace = if agent % 2 == 0 { "ops" } else { "lab" };
            let mut declared = declared(&format!("{namespace}/agent-{agent}/{instance:02}"));
            declared.kind = if agent % 100 == 0 { Kind::Tool } else { Kind::Agent };
            declared.zone =
                Zone::parse(if instance == 0 { "c" } else { ["a", "b"][agent as usize % 2] }).ok();
            declared.version = Some(if agent == 7 { "2.1.0".into() } else { format!("1.{}.0", agent % 40) });
            declared.lifecycle = if agent == 7 { Lifecycle::Draining } else { Lifecycle::Healthy };
            declared.metadata.insert("team".into(), if agent == 7 { "red".into() } else { "blue".into() });
            declared.capabilities.push(capability(agent % 50));
            let revision = Revision(u64::from(agent * INSTANCES + instance) + 1);
            state.put(Arc::new(registered(declared, Epoch::new(1, revision), revision)));
        }
    }
    let region = Region::parse("eu").unwrap();
    let position: Position = rollcall_model::testing::position(1, u64::from(ALL));
    let mut view = View::new(region.clone()).with_facets();
    view.install(Snapshot::of(region, position, state), None, "test", Timestamp(0));
    view
}

fn capability(kind: u32) -> Capability {
    let name = CapabilityName::parse(&format!("work:kind_{kind}:v1")).unwrap();
    Capability::new(name, false, Details { tags: vec![format!("tag-{kind}")], ..Details::default() })
}

fn query(text: &str) -> Query {
    let mut query = Query::default();
    for pair in text.split('&') {
        let (name, value) = pair.split_once('=').unwrap();
        assert_eq!(query.set(name, value), Ok(true), "{text}");
    }
    query
}

/// How many match, and how many are looked at for all of them.
fn cost(state: &State, text: &str) -> (u32, u32) {
    let query = query(text);
    let mut selected = state.select(&query, None);
    let found = u32::try_from(selected.by_ref().count()).unwrap();
    (found, selected.looked_at())
}

#[test]
fn sto_13_a_question_looks_at_those_who_fit_its_rarest_part_and_at_nobody_else() {
    let view = region();
    let state = view.state().unwrap();
    let fits = |text: &str| u32::try_from(state.iter().filter(|r| query(text).matches(r)).count()).unwrap();
    for (text, most) in [
        // Words.
        ("capability=work:kind_3:v1", 200),
        ("tag=tag-3", 200),
        ("name=agent-7", 20),
        ("namespace=lab&name=agent-7", 20),
        // Facets by themselves.
        ("zone=c", AGENTS),
        ("kind=tool", 100),
        ("lifecycle=draining", 20),
        ("metadata.team=red", 20),
        ("version=^2", 20),
        ("version=>=1.38, <2", 500),
        ("metadata.team=green", 0),
        ("zone=nowhere", 0),
        ("version=^3", 0),
        ("lifecycle=offline", 0),
        // Together: the rarest leads.
        ("zone=a&lifecycle=draining", 20),
        ("kind=agent&metadata.team=red&version=*", 20),
        ("capability=work:kind_7:v1&lifecycle=draining", 20),
        ("capability=work:kind_3:v1&zone=a", 200),
        ("zone=a&metadata.team=green", 0),
        // In one namespace nobody of the other is met, but the one behind its end.
        ("namespace=lab&zone=c", AGENTS / 2 + 1),
        ("namespace=lab&kind=agent", ALL / 2 + 1),
        ("namespace=nobody&kind=agent", 1),
        ("namespace=lab&version=^1.38", 501),
        ("namespace=zzz&capability=work:kind_3:v1", 0),
    ] {
        let (found, looked_at) = cost(state, text);
        assert_eq!(found, fits(text), "{text}");
        assert!(looked_at <= most, "{text}: {looked_at} looked at for {found}, of {ALL}");
    }
}

#[test]
fn sto_13_the_next_page_begins_where_the_last_one_ended() {
    let view = region();
    let state = view.state().unwrap();
    for text in
        ["zone=a", "kind=agent", "lifecycle=healthy", "version=^1", "namespace=ops&metadata.team=blue"]
    {
        let query = query(text);
        let (mut after, mut pages, mut listed) = (None::<String>, 0, 0);
        loop {
            let mut selected = state.select(&query, after.as_deref());
            let page: Vec<_> =
                selected.by_ref().take(100).map(|r| r.declared.id.as_str().to_owned()).collect();
            let looked_at = selected.looked_at();
            assert!(looked_at <= 101, "{text}: page {pages} looked at {looked_at}");
            pages += 1;
            listed += page.len();
            let Some(last) = page.into_iter().next_back() else { break };
            after = Some(last);
        }
        let fits = state.iter().filter(|r| query.matches(r)).count();
        assert_eq!(listed, fits, "{text}");
    }
}

#[test]
fn without_facets_words_cost_the_same_and_nothing_else_is_kept() {
    let mut state = State::default();
    for registration in region().state().unwrap().iter() {
        state.put(Arc::clone(registration));
    }
    assert_eq!(cost(&state, "capability=work:kind_3:v1"), (200, 200));
    assert_eq!(cost(&state, "zone=c"), (AGENTS, ALL), "a caller's copy has no index of zones");
}
