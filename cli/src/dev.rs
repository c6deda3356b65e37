//! `rollcall dev`: a whole world in one process, to look around in before anything is installed.
//!
//! Promises: it is the real thing with the embedded pair of store and log: cells and replicators meet on loopback gRPC,
//! agents register as agents do. `ready` is printed once, when every region serves, every view is loaded and every region
//! sees the whole fleet. All ports are bound before anything starts. It never opens a port to other machines.

mod fleet;
mod guide;
mod ports;
mod ready;
mod region;

use std::future::Future;
use std::io::Write;
use std::time::Duration;

use rollcall_replicator::feed_log::memory::MemoryLog;
use rollcall_runtime::serve::raise_descriptor_limit;
use rollcall_runtime::{clock, shutdown, telemetry};

use crate::args::DevArgs;
use crate::exit::Exit;
use crate::roles::Refused;
use crate::show::put;

use self::fleet::Fleet;
use self::ports::Ports;
use self::region::{Owners, Running};

/// Logs unless `ROLLCALL_LOG` says otherwise: what needs an eye, and this program's own few lines. Thirty parts that
/// each tell of their start would bury the line that matters.
const LOG: &str = "warn,rollcall::=info,rollcall_runtime::shutdown=info";
/// Most regions of one process: each follows all others, and each pair is a view in memory, twice.
const REGIONS_MAX: usize = 16;

/// Descriptors that the parts hold of each other: each region's listeners, and both ends of a connection for each pair of
/// regions and for each fleet. Measured: 52 of three regions, 192 of eight.
fn own_descriptors(regions: usize) -> u64 {
    let regions = u64::try_from(regions).unwrap_or(u64::MAX);
    regions.saturating_mul(regions).saturating_mul(4)
}

pub(crate) async fn dev(args: DevArgs, environment: &[(String, String)]) -> Exit {
    match Box::pin(start(args, environment)).await {
        Ok(exit) => exit,
        Err(refused) => refused.emit(),
    }
}

async fn start(args: DevArgs, environment: &[(String, String)]) -> Result<Exit, Refused> {
    let began = clock::monotonic();
    check(&args)?;
    let mut environment = environment.to_vec();
    if !environment.iter().any(|(name, _)| name == "ROLLCALL_LOG") {
        environment.push(("ROLLCALL_LOG".to_owned(), LOG.to_owned()));
    }
    telemetry::init_from(&environment).map_err(|error| Refused::new(Exit::Usage, error))?;
    raise_descriptor_limit(own_descriptors(args.regions.len()))
        .map_err(|error| Refused::new(Exit::Failed, error))?;
    let ports = ports::bind(args.base_port, args.regions.len()).await?;
    let signalled = shutdown::signals()
        .map_err(|error| Refused::new(Exit::Failed, format!("signals cannot be listened for: {error}")))?;

    let owners = Owners::default();
    let asked_to_end = async {
        tokio::select! {
            () = signalled.cancelled() => {}
            () = owners.failed() => {}
        }
    };
    let lived = Box::pin(live(&args, ports, &owners, asked_to_end, began)).await;
    let ended = owners.end().await;
    lived.map(|()| ended)
}

/// From the first cell to the last agent's leave.
async fn live(
    args: &DevArgs,
    ports: Vec<Ports>,
    owners: &Owners,
    asked_to_end: impl Future<Output = ()>,
    began: Duration,
) -> Result<(), Refused> {
    tokio::pin!(asked_to_end);
    let running = region::start_all(args, ports, &MemoryLog::new(), owners).await?;
    tokio::select! {
        () = ready::all_serve(&running) => {}
        () = &mut asked_to_end => return Ok(()),
    }
    let fleet = Fleet::start(args.agents, &running, &owners.cells).await;
    let fleet = fleet.map_err(|words| Refused::new(Exit::Failed, words))?;
    let to_the_end = async {
        fleet.registered().await;
        ready::all_caught_up(&running).await;
        announce(&running, &fleet, clock::monotonic().saturating_sub(began));
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = to_the_end => {}
        () = asked_to_end => {}
    }
    // The agents go before the cells, while there is somebody to tell.
    fleet.close().await;
    Ok(())
}

fn check(args: &DevArgs) -> Result<(), Refused> {
    let usage = |words: String| Err(Refused::new(Exit::Usage, words));
    if args.regions.len() > REGIONS_MAX {
        return usage(format!(
            "{} regions are too many for one process; take at most {REGIONS_MAX}",
            args.regions.len()
        ));
    }
    for (at, region) in args.regions.iter().enumerate() {
        if args.regions.iter().take(at).any(|other| other == region) {
            return usage(format!("the region {region} stands twice in --regions"));
        }
    }
    Ok(())
}

fn announce(running: &[Running], fleet: &Fleet, taken: Duration) {
    let urls: Vec<_> =
        running.iter().map(|region| (region.name.clone(), format!("http://{}", region.http))).collect();
    let guide = guide::guide(&guide::program(), &urls, fleet.first_endpoint());
    // Whoever closed the one or the other does not want to read it.
    let _ = put(&guide::ready(&urls, taken));
    let _ = std::io::stderr().write_all(guide.as_bytes());
}
