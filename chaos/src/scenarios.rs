//! The fault runs by name. A scenario is a stage, a crowd and steps; what must hold is the same for all.

mod agents;
mod compaction;
mod crashes;
mod hostile;
mod load;
mod members;
mod partitions;
mod processes;
mod stores;
mod watchers;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use rollcall_tests::stage::Shape;

use crate::crowd::Size;
use crate::game::{Game, Ways};
use crate::report::Report;

/// Steps of a scenario: faults, and what must be seen of them.
pub type Steps = for<'a> fn(&'a mut Game) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A fault run.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// What it is called by.
    pub name: &'static str,
    /// The fault's id.
    pub fault: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// The stage.
    pub shape: fn() -> Shape,
    /// The crowd.
    pub size: fn() -> Size,
    /// How steady owners reach the cell.
    pub ways: Ways,
    /// What happens.
    pub steps: Steps,
}

/// All of them, in order of their faults.
#[must_use]
pub fn all() -> Vec<Scenario> {
    let mut all = [
        members::all(),
        processes::all(),
        crashes::all(),
        stores::all(),
        compaction::all(),
        agents::all(),
        partitions::all(),
        load::all(),
        watchers::all(),
        hostile::all(),
    ]
    .concat();
    all.sort_by_key(|scenario| scenario.fault);
    all
}

/// The one with this name or this fault's id.
#[must_use]
pub fn find(name: &str) -> Option<Scenario> {
    all().into_iter().find(|scenario| scenario.name == name || scenario.fault.eq_ignore_ascii_case(name))
}

/// A scenario with the stage, crowd and ways that most have.
fn scenario(name: &'static str, fault: &'static str, shows: &'static str, steps: Steps) -> Scenario {
    Scenario { name, fault, shows, shape: stage, size: Size::default, ways: Ways::Direct, steps }
}

/// So long after the dead went again the traffic goes on: one that stayed would be missed by then.
const MISSED: Duration = Duration::from_secs(8);

/// Runs one: traffic before, during and after, then every check.
pub async fn run(scenario: &Scenario, seed: u64, say: fn(&str)) -> Report {
    let mut game = Game::begin(&(scenario.shape)(), (scenario.size)(), scenario.ways, seed, say).await;
    game.busy("before").await;
    (scenario.steps)(&mut game).await;
    game.busy("after").await;
    game.buries().await;
    game.flow(MISSED).await;
    Box::pin(game.end(scenario, seed)).await
}

/// A stage whose owners' endpoints are not tried: they all refuse, and that is evidence of death.
fn stage() -> Shape {
    Shape {
        settings: "[guard]\nprobe = false\n\n[admission]\naddress_share = \"whole\"\n".into(),
        ..Shape::default()
    }
}
