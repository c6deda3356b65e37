//! The A2A card of an agent, byte for byte as it was registered, for stock A2A resolvers.
//!
//! Promises: the bytes are the registrant's; `A2A-Version` is a preference among different cards and never hides the
//! only one; nobody is redirected.

use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::IntoResponse as _;
use rollcall_model::name::is_part;
use rollcall_model::{Card, Lifecycle, Query, Registration, View};

use crate::api::http::parameters::Parameters;
use crate::api::http::subject::AgentOf;
use crate::api::http::{Answer, Shared};
use crate::api::reading;
use crate::regions::Which;

/// The A2A version that the caller speaks.
const A2A_VERSION: &str = "a2a-version";
/// A heartbeat's length: a caller that keeps the card is no further behind than the registry itself.
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=10");

pub(super) async fn card(
    State(api): State<Shared>,
    AgentOf(agent): AgentOf,
    mut parameters: Parameters,
    headers: HeaderMap,
) -> Answer {
    let part = |text: &str| match is_part(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is outside the grammar of an id's part")),
    };
    let instance = parameters.one("instance", part);
    // The own region first, then the views, unless one is named.
    let which = parameters.region().unwrap_or(Which::All);
    parameters.close()?;
    let spoken = headers.get(A2A_VERSION).and_then(|value| value.to_str().ok());
    let views = api.regions.now(&which)?;
    let chosen = pick(&views, &agent, instance.as_deref(), spoken).ok_or_else(|| {
        let named = [&agent.namespace, &agent.name].map(|part| part.as_deref().unwrap_or_default()).join("/");
        reading::nowhere(&views, format!("no instance of {named} that fits has a card"))
    })?;
    let tag = etag(&chosen);
    let known = headers.get_all(IF_NONE_MATCH).iter().any(|value| names(value, &tag));
    let cached = [
        (ETAG, HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"\""))),
        (CACHE_CONTROL, CACHED),
        (VARY, HeaderValue::from_static("A2A-Version")),
    ];
    if known {
        return Ok((StatusCode::NOT_MODIFIED, cached).into_response());
    }
    let kind = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    let card = api.unread.weigh(chosen.json().to_owned().into())?;
    Ok((cached, kind, card).into_response())
}

/// The card to show: of the first region that has a usable instance; failing that, of the first that has any.
fn pick(views: &[Arc<View>], agent: &Query, instance: Option<&str>, spoken: Option<&str>) -> Option<Card> {
    let with_card = |view: &'_ Arc<View>, usable: bool| -> Vec<Arc<Registration>> {
        let all = view.state().into_iter().flat_map(|state| state.select(agent, None));
        all.filter(|r| r.declared.card.is_some())
            .filter(|r| instance.is_none_or(|instance| r.declared.id.instance() == instance))
            .filter(|r| rank(r.owned.lifecycle).is_some() == usable)
            .cloned()
            .collect()
    };
    let of_regions =
        [true, false].into_iter().flat_map(|usable| views.iter().map(move |view| (view, usable)));
    for (view, usable) in of_regions {
        let found = with_card(view, usable);
        if let Some(best) = best(&found, spoken) {
            return best.declared.card.clone();
        }
    }
    None
}

/// The best of instances that are equally usable: one that speaks the caller's version if there is any, then the
/// healthiest, then the newest.
fn best<'a>(found: &'a [Arc<Registration>], spoken: Option<&str>) -> Option<&'a Arc<Registration>> {
    let mut best: Option<(&Arc<Registration>, bool)> = None;
    for registration in found {
        // Instances of one build share one card; its text is read once for all of them that follow each other.
        let same = best.filter(|(known, _)| known.declared.card == registration.declared.card);
        let speaks = same.map_or_else(|| speaks(registration, spoken), |(_, speaks)| speaks);
        let is_better = best.is_none_or(|(known, known_speaks)| {
            let order = |r: &Registration| rank(r.owned.lifecycle).unwrap_or(u8::MAX);
            match (speaks, known_speaks) {
                (true, false) => true,
                (false, true) => false,
                (true, true) | (false, false) => match order(registration).cmp(&order(known)) {
                    std::cmp::Ordering::Less => true,
                    std::cmp::Ordering::Greater => false,
                    std::cmp::Ordering::Equal => registration.is_newer_than(known),
                },
            }
        });
        if is_better {
            best = Some((registration, speaks));
        }
    }
    best.map(|(registration, _)| registration)
}

/// How usable an instance is; none for those that should not be called now.
const fn rank(lifecycle: Lifecycle) -> Option<u8> {
    match lifecycle {
        Lifecycle::Healthy => Some(0),
        Lifecycle::Degraded => Some(1),
        Lifecycle::Unknown => Some(2),
        Lifecycle::Starting | Lifecycle::Draining | Lifecycle::Offline => None,
    }
}

fn speaks(registration: &Registration, spoken: Option<&str>) -> bool {
    let Some(spoken) = spoken else { return false };
    let Some(card) = &registration.declared.card else { return false };
    card.protocol_versions().iter().any(|version| generation(version) == generation(spoken))
}

/// A2A's versions speak to each other by major and minor number.
fn generation(version: &str) -> (&str, &str) {
    let mut parts = version.trim().split('.');
    (parts.next().unwrap_or_default(), parts.next().unwrap_or("0"))
}

/// Names these very bytes: two spellings of one card have one digest, and the hash of the text tells them apart.
fn etag(card: &Card) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(card.json().as_bytes());
    format!("\"{}-{:016x}\"", card.digest(), hasher.finish())
}

/// Whether an `If-None-Match` names this tag. The comparison is the weak one, as RFC 9110 wants it here.
fn names(header: &HeaderValue, tag: &str) -> bool {
    let Ok(text) = header.to_str() else { return false };
    text.split(',').map(str::trim).any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rollcall_model::body::parse_registration;
    use rollcall_model::{
        Declared, Epoch, Incarnation, Outcome, Owned, Position, Region, Replaced, Revision, Snapshot, State,
        Timestamp,
    };

    const OLD: &str = r#"{"name":"t","protocolVersion":"0.3.0","url":"http://h:1/"}"#;
    const NEW: &str = r#"{"name":"t","supportedInterfaces":[{"url":"http://h:2/","protocolVersion":"1.0"}]}"#;

    fn view(region: &str, instances: &[(&str, u64, Lifecycle, &str)]) -> Arc<View> {
        let region = Region::parse(region).unwrap();
        let mut state = State::default();
        for (instance, revision, lifecycle, card) in instances {
            let body = format!(r#"{{"id":"a/b/{instance}","card":{card}}}"#);
            let declared =
                Declared::check(parse_registration(body.as_bytes()).unwrap(), String::new).unwrap();
            state.put(Arc::new(Registration {
                epoch: Epoch::new(1, Revision(*revision)),
                registered_at: Timestamp(0),
                revision: Revision(*revision),
                owned: Owned { lifecycle: *lifecycle, ..Owned::of(&declared) },
                replaced: Replaced::default(),
                declared,
            }));
        }
        let at = Position::new(Incarnation::new(1, "x").unwrap(), Revision(99));
        let mut view = View::new(region.clone());
        assert_eq!(
            view.install(Snapshot::of(region, at, state), None, "test", Timestamp(0)),
            Outcome::Applied
        );
        Arc::new(view)
    }

    fn picked(views: &[Arc<View>], instance: Option<&str>, spoken: Option<&str>) -> Option<String> {
        let mut agent = Query::default();
        assert!(agent.set("namespace", "a").unwrap() && agent.set("name", "b").unwrap());
        pick(views, &agent, instance, spoken).map(|card| card.json().to_owned())
    }

    use Lifecycle::{Degraded, Draining, Healthy, Starting};

    #[test]
    fn the_newest_usable_card_wins() {
        let both = [view("us", &[("1", 5, Healthy, OLD), ("2", 6, Healthy, NEW)])];
        assert_eq!(picked(&both, None, None).unwrap(), NEW);
        let sick = [view("us", &[("1", 5, Healthy, OLD), ("2", 6, Degraded, NEW), ("3", 7, Starting, NEW)])];
        assert_eq!(picked(&sick, None, None).unwrap(), OLD);
        let leaving = [view("us", &[("1", 5, Draining, OLD)])];
        assert_eq!(picked(&leaving, None, None).unwrap(), OLD);
    }

    #[test]
    fn the_version_is_a_preference_and_never_a_filter() {
        let both = [view("us", &[("1", 5, Degraded, OLD), ("2", 6, Healthy, NEW)])];
        assert_eq!(picked(&both, None, Some("0.3")).unwrap(), OLD);
        assert_eq!(picked(&both, None, Some("1.0")).unwrap(), NEW);
        assert_eq!(picked(&both, None, Some("1")).unwrap(), NEW);
        assert_eq!(picked(&both, None, Some("7.7")).unwrap(), NEW);
        let only = [view("us", &[("1", 5, Healthy, OLD)])];
        assert_eq!(picked(&only, None, Some("1.0")).unwrap(), OLD);
    }

    #[test]
    fn the_own_region_comes_first_unless_nothing_there_is_usable() {
        let own = view("us", &[("1", 5, Healthy, OLD)]);
        let other = view("eu", &[("2", 9, Healthy, NEW)]);
        assert_eq!(picked(&[Arc::clone(&own), Arc::clone(&other)], None, Some("1.0")).unwrap(), OLD);
        let leaving = view("us", &[("1", 5, Draining, OLD)]);
        assert_eq!(picked(&[leaving, Arc::clone(&other)], None, None).unwrap(), NEW);
        assert_eq!(picked(&[view("us", &[]), other], None, None).unwrap(), NEW);
    }

    #[test]
    fn an_instance_is_picked_by_name() {
        let both = [view("us", &[("1", 5, Healthy, OLD), ("2", 6, Healthy, NEW)])];
        assert_eq!(picked(&both, Some("1"), Some("1.0")).unwrap(), OLD);
        assert_eq!(picked(&both, Some("3"), None), None);
    }

    #[test]
    fn two_spellings_of_one_card_have_two_tags() {
        let (a, _) = Card::parse(r#"{"name":"t","version":"1"}"#).unwrap();
        let (b, _) = Card::parse(r#"{ "version":"1", "name":"t" }"#).unwrap();
        assert_eq!(a.digest(), b.digest());
        assert_ne!(etag(&a), etag(&b));
        let header = |text: &str| HeaderValue::from_str(text).unwrap();
        assert!(names(&header(&format!("\"x\", W/{}", etag(&a))), &etag(&a)));
        assert!(names(&header("*"), &etag(&a)));
        assert!(!names(&header(&etag(&b)), &etag(&a)));
    }
}
