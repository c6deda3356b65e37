//! What is said beside an empty answer about capabilities: that nobody has one at all, so that a misspelt word is told from
//! an instance that is not there.
//!
//! Promises: one line of ASCII and of bounded length. It is looked for in an empty answer alone, by the index. Never here: a
//! word about a region that was never loaded; its standing tells that.

use rollcall_model::{CapabilityName, Query, State};

use crate::refusal::Refusal;
use crate::regions::{Regions, Which};

/// Capabilities that are looked for, at most: a question names one or two.
const LOOKED_FOR: usize = 8;

/// The hint that goes with an empty answer to this question, if there is one.
///
/// # Errors
/// The own region is not served, which is never so.
pub(super) fn of(regions: &Regions, query: &Query) -> Result<Option<String>, Refusal> {
    if query.capabilities.is_empty() {
        return Ok(None);
    }
    let views = regions.now(&Which::All)?;
    let states: Vec<_> = views.iter().filter_map(|view| view.state()).collect();
    Ok(of_states(&states, query))
}

fn of_states(states: &[&State], query: &Query) -> Option<String> {
    let is_strange = |name: &&CapabilityName| {
        let alone =
            Query { capabilities: vec![(*name).clone()], internal: query.internal, ..Query::default() };
        states.iter().all(|state| state.select(&alone, None).next().is_none())
    };
    let looked_for = query.capabilities.iter().take(LOOKED_FOR).filter(|_| !states.is_empty());
    let strange: Vec<_> = looked_for.filter(is_strange).map(CapabilityName::as_str).collect();
    let asks = match strange.as_slice() {
        [] => return None,
        [_] => "is it spelt right?",
        [..] => "are they spelt right?",
    };
    Some(format!("nobody in any region that is loaded has {}: {asks}", strange.join(" or ")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rollcall_model::testing::registration;
    use rollcall_model::{Capability, Details};

    use super::*;

    fn asked(names: &[&str]) -> Query {
        let capabilities = names.iter().map(|name| CapabilityName::parse(name).unwrap()).collect();
        Query { capabilities, namespace: Some("elsewhere".into()), ..Query::default() }
    }

    /// A state whose one registration has a capability, and another one inside.
    fn state() -> State {
        let mut one = registration("ops/mail/1", 1, 1);
        for (name, internal) in [("email:send:v1", false), ("admin:reset:v1", true)] {
            let name = CapabilityName::parse(name).unwrap();
            one.declared.capabilities.push(Capability::new(name, internal, Details::default()));
        }
        let mut state = State::default();
        state.put(Arc::new(one));
        state
    }

    #[test]
    fn res_05_only_what_nobody_has_at_all_is_told_and_nothing_while_nothing_is_known() {
        let (empty, state) = (State::default(), state());
        let hint = |names: &[&str]| of_states(&[&empty, &state], &asked(names));
        let of_one = "nobody in any region that is loaded has email:sned:v1: is it spelt right?";
        assert_eq!(hint(&["email:send:v1", "email:sned:v1"]).as_deref(), Some(of_one));
        assert_eq!(hint(&["email:send:v1"]), None);
        assert_eq!(hint(&[]), None);
        let of_two = "nobody in any region that is loaded has a:b:v1 or c:d:v1: are they spelt right?";
        assert_eq!(hint(&["a:b:v1", "c:d:v1"]).as_deref(), Some(of_two));
        assert_eq!(of_states(&[], &asked(&["a:b:v1"])), None);
        // What is internal is nobody's for those who are not shown it.
        assert!(hint(&["admin:reset:v1"]).is_some());
        let shown = Query { internal: true, ..asked(&["admin:reset:v1"]) };
        assert_eq!(of_states(&[&state], &shown), None);
    }

    #[test]
    fn a_hint_is_one_line_of_ascii_however_much_is_asked() {
        let long = format!("{}:b:v1", "a".repeat(121));
        let many: Vec<_> = std::iter::repeat_n(long.as_str(), 500).collect();
        let hint = of_states(&[&State::default()], &asked(&many)).unwrap();
        assert!(hint.len() < 1_500 && hint.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{hint}");
    }
}
