//! Registrations that are read one after the other hold once what they have in common.
//!
//! A reader that makes each from its own bytes would hold every zone a million times. Promises: what a registration says
//! stays what it said. Never here: registrations that change, which share with those in their
//! [state](crate::State::share).

use std::collections::HashSet;
use std::sync::Arc;

use crate::name::Zone;
use crate::registration::Registration;

/// What those before had. Best in order of id, because an agent's instances stand together then.
#[derive(Debug, Default)]
pub struct Sharing {
    last: Option<Arc<Registration>>,
    /// As many as the registrations name, and these hold them anyway.
    zones: HashSet<Zone>,
}

impl Sharing {
    /// The registration, with what it has in common with those before it held as they hold it.
    pub fn take(&mut self, mut registration: Registration) -> Arc<Registration> {
        if let Some(last) = &self.last {
            registration.share(last);
        }
        if let Some(zone) = &mut registration.declared.zone {
            match self.zones.get(zone) {
                Some(known) => *zone = known.clone(),
                None => drop(self.zones.insert(zone.clone())),
            }
        }
        let registration = Arc::new(registration);
        self.last = Some(Arc::clone(&registration));
        registration
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_zone_is_held_once_by_all_who_are_in_it() {
        let in_zone = |id: &str, zone: &str| {
            let mut one = testing::registration(id, 1, 1);
            one.declared.zone = Some(Zone::parse(zone).unwrap());
            one
        };
        let mut sharing = Sharing::default();
        let taken = [("a/b/1", "a"), ("a/b/2", "b"), ("a/c/1", "a")]
            .map(|(id, zone)| (sharing.take(in_zone(id, zone)), in_zone(id, zone)));
        let place = |at: usize| taken[at].0.declared.zone.as_ref().unwrap().as_str().as_ptr();
        assert_eq!(place(0), place(2));
        assert_ne!(place(0), place(1));
        assert!(taken.iter().all(|(taken, told)| **taken == *told), "what it says stays what it said");
    }
}
