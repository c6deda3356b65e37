//! Who plays: names, what they can do, and their cards, spread evenly over regions and zones.
//!
//! Promises: the same number of agents and the same regions give the same cast. Every card names the endpoint that
//! answers, half of them as A2A 0.3 and half as 1.0. Never here: a port, a task, a clock.

use rollcall_model::Declaration;
use rollcall_model::declaration::{RawCapability, RawEndpoint};
use serde_json::{Value, json};

/// The failure domains of a sample region.
const ZONES: [&str; 3] = ["a", "b", "c"];

/// One part of the play.
struct Part {
    name: &'static str,
    version: &'static str,
    about: &'static str,
    capabilities: &'static [(&'static str, &'static str)],
    skill: (&'static str, &'static str),
    tags: &'static [&'static str],
    protocol: Protocol,
}

/// Which version of A2A a card and its agent speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// 0.3
    V03,
    /// 1.0
    V10,
}

const PARTS: [Part; 8] = [
    Part {
        name: "translator",
        version: "2.3.1",
        about: "Translates text between languages",
        capabilities: &[
            ("text:translate:v1", "Translates plain text"),
            ("text:detect_language:v1", "Names the language of a text"),
        ],
        skill: ("translate", "Translate text"),
        tags: &["language", "fast"],
        protocol: Protocol::V10,
    },
    Part {
        name: "summarizer",
        version: "1.4.0",
        about: "Makes long documents short",
        capabilities: &[("text:summarize:v2", "Summarises a document in a few sentences")],
        skill: ("summarize", "Summarise a document"),
        tags: &["language", "documents"],
        protocol: Protocol::V10,
    },
    Part {
        name: "email-sender",
        version: "3.0.2",
        about: "Sends e-mail and renders its templates",
        capabilities: &[("email:send:v1", "Sends one e-mail"), ("template:render:v2", "Fills a template in")],
        skill: ("send-email", "Send an e-mail"),
        tags: &["email", "outbound"],
        protocol: Protocol::V03,
    },
    Part {
        name: "invoice-reader",
        version: "1.1.0",
        about: "Reads amounts and dates from invoices",
        capabilities: &[("document:extract:v1", "Extracts fields from a scanned invoice")],
        skill: ("read-invoice", "Read an invoice"),
        tags: &["documents", "finance"],
        protocol: Protocol::V03,
    },
    Part {
        name: "calendar",
        version: "2.0.0",
        about: "Finds times that suit everybody",
        capabilities: &[
            ("calendar:find_slot:v1", "Finds a free slot"),
            ("calendar:book:v1", "Books a meeting"),
        ],
        skill: ("schedule", "Schedule a meeting"),
        tags: &["planning"],
        protocol: Protocol::V10,
    },
    Part {
        name: "web-researcher",
        version: "0.9.4",
        about: "Looks things up and names its sources",
        capabilities: &[
            ("web:search:v1", "Searches the web"),
            ("text:summarize:v2", "Summarises what it found"),
        ],
        skill: ("research", "Research a question"),
        tags: &["research", "slow"],
        protocol: Protocol::V10,
    },
    Part {
        name: "code-reviewer",
        version: "1.0.0-rc.2",
        about: "Comments on changes to code",
        capabilities: &[("code:review:v1", "Reviews a diff")],
        skill: ("review", "Review a change"),
        tags: &["code"],
        protocol: Protocol::V03,
    },
    Part {
        name: "ticket-router",
        version: "4.2.0",
        about: "Sends support tickets to the right desk",
        capabilities: &[
            ("ticket:classify:v1", "Names a ticket's subject"),
            ("ticket:route:v1", "Chooses the desk"),
        ],
        skill: ("route-ticket", "Route a ticket"),
        tags: &["support", "fast"],
        protocol: Protocol::V03,
    },
];

/// One agent of the fleet.
pub(crate) struct Member {
    part: &'static Part,
    /// Its region.
    pub(crate) region: String,
    zone: &'static str,
    instance: String,
    /// `demo/<name>/<region>-<number>`.
    pub(crate) id: String,
    /// Where it is called.
    pub(crate) url: String,
}

/// Makes the cast; `base` is where their endpoints are.
pub(crate) fn cast(agents: u16, regions: &[String], base: &str) -> Vec<Member> {
    let mut members: Vec<Member> = Vec::new();
    for at in 0..usize::from(agents) {
        let home = at % regions.len().max(1);
        let round = at / regions.len().max(1);
        // Shifted from region to region: some names are in several regions, none is in all of a small fleet.
        let (Some(region), Some(part)) = (regions.get(home), PARTS.get((round + 2 * home) % PARTS.len()))
        else {
            continue;
        };
        let zone = ZONES.get(round % ZONES.len()).copied().unwrap_or_default();
        let number = 1 + members.iter().filter(|m| &m.region == region && m.part.name == part.name).count();
        let instance = format!("{region}-{number}");
        let url = format!("{base}/agents/{}/{instance}", part.name);
        let id = format!("demo/{}/{instance}", part.name);
        members.push(Member { part, region: region.clone(), zone, instance, id, url });
    }
    members
}

impl Member {
    /// The path of its endpoint below `/agents/`.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.part.name, self.instance)
    }

    /// Which A2A it speaks.
    pub(crate) const fn protocol(&self) -> Protocol {
        self.part.protocol
    }

    /// What it declares.
    pub(crate) fn declaration(&self) -> Declaration {
        let tags = || self.part.tags.iter().map(|tag| (*tag).to_owned()).collect();
        let capability = |(name, about): &(&str, &str)| RawCapability {
            name: (*name).to_owned(),
            description: Some((*about).to_owned()),
            input_types: vec!["text".to_owned()],
            output_types: vec!["text".to_owned()],
            tags: tags(),
            ..RawCapability::default()
        };
        Declaration {
            id: self.id.clone(),
            kind: Some("agent".to_owned()),
            endpoints: vec![RawEndpoint { url: self.url.clone(), protocol: Some("JSONRPC".to_owned()) }],
            capabilities: self.part.capabilities.iter().map(capability).collect(),
            version: Some(self.part.version.to_owned()),
            zone: Some(self.zone.to_owned()),
            metadata: [("fleet".to_owned(), "sample".to_owned())].into(),
            card: Some(self.card().to_string()),
            ..Declaration::default()
        }
    }

    /// Its A2A card.
    pub(crate) fn card(&self) -> Value {
        let Part { name, version, about, skill: (id, skill), tags, protocol, .. } = self.part;
        let mut card = json!({
            "name": name,
            "description": about,
            "version": version,
            "capabilities": {"streaming": false, "pushNotifications": false},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [{"id": id, "name": skill, "description": about, "tags": tags}],
        });
        match protocol {
            Protocol::V03 => {
                card["protocolVersion"] = json!("0.3.0");
                card["url"] = json!(self.url);
                card["preferredTransport"] = json!("JSONRPC");
            }
            Protocol::V10 => {
                card["supportedInterfaces"] =
                    json!([{"url": self.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]);
            }
        }
        card
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rollcall_model::Declared;

    use super::*;

    fn regions() -> Vec<String> {
        ["us-east", "eu-west", "ap-south"].map(str::to_owned).to_vec()
    }

    #[test]
    fn every_declaration_passes_the_door_and_its_card_names_its_endpoint() {
        for member in cast(100, &regions(), "http://127.0.0.1:9000") {
            let declared = Declared::check(member.declaration(), String::new).unwrap();
            assert_eq!(declared.id.as_str(), member.id);
            let (_, facts) = rollcall_model::Card::parse(&member.card().to_string()).unwrap();
            assert_eq!(facts.endpoints[0].url(), member.url);
            assert_eq!(facts.skills.len(), 1);
        }
    }

    #[test]
    fn ids_are_apart_and_the_fleet_is_spread() {
        let members = cast(12, &regions(), "http://h:1");
        let ids: BTreeSet<_> = members.iter().map(|member| &member.id).collect();
        assert_eq!(ids.len(), 12);
        for region in regions() {
            assert_eq!(members.iter().filter(|member| member.region == region).count(), 4, "{region}");
            let zones: BTreeSet<_> = members.iter().filter(|m| m.region == region).map(|m| m.zone).collect();
            assert_eq!(zones.len(), 3, "{region}");
        }
        let names: BTreeSet<_> = members.iter().map(|member| member.part.name).collect();
        assert_eq!(names.len(), PARTS.len());
    }

    #[test]
    fn a_fleet_of_one_or_none_is_a_fleet() {
        assert_eq!(cast(0, &regions(), "http://h:1").len(), 0);
        assert_eq!(cast(1, &regions()[..1], "http://h:1")[0].id, "demo/translator/us-east-1");
    }
}
