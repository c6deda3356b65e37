//! The process of one zone: agents, callers and writers in the zone's namespace.
//!
//! Everything in it is as a user's would be: agents answer HTTP and are kept registered by the SDK, callers resolve by
//! the SDK and call what they found, writers talk plain HTTP. It takes orders on its standard input, says what happens
//! on its standard output (see [`words`](super::words)), and ends with its input. Never here: a judgement.

mod agents;
mod callers;
mod writers;

use std::io::Write as _;
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::mpsc as channel;

use self::agents::Agents;
use self::callers::Callers;
use self::writers::Writers;
use super::words::{Orders, Said, Told};
use crate::timeline::Timeline;

/// The verb of this program that is such a process.
pub const VERB: &str = "game-day-zone";
/// Lines that may wait to be read; far more than a second of the largest zone says.
const LINES: usize = 65_536;
const SECOND: Duration = Duration::from_secs(1);

/// Says things; a clone says them on the same way.
#[derive(Clone, Debug)]
struct Voice(mpsc::SyncSender<Said>);

impl Voice {
    fn say(&self, said: Said) {
        // Who cannot be heard any more is about to end: its input closes with the runner.
        let _ = self.0.try_send(said);
    }
}

/// The lines of the standard input, read by a thread that the runtime need not wait for.
fn listen() -> channel::Receiver<String> {
    // What is not taken yet waits in the pipe.
    let (sender, receiver) = channel::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The process itself; runs until its input ends.
///
/// # Errors
/// The orders cannot be read or followed.
pub async fn run() -> Result<(), String> {
    let mut input = listen();
    let orders = input.recv().await.ok_or("no orders")?;
    let orders: Orders = serde_json::from_str(&orders).map_err(|error| format!("orders: {error}"))?;
    let timeline = Timeline::at(orders.now, orders.told);
    let (sender, lines) = mpsc::sync_channel(LINES);
    let voice = Voice(sender);
    std::thread::spawn(move || {
        let mut output = std::io::stdout().lock();
        while let Ok(said) = lines.recv() {
            let line = serde_json::to_string(&said).unwrap_or_default();
            if writeln!(output, "{line}").and_then(|()| output.flush()).is_err() {
                break;
            }
        }
    });
    let mut agents = Agents::start(&orders, timeline).await?;
    while !agents.are_settled(&voice) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    voice.say(Said::Ready);
    let mut at_work: Option<(Callers, Writers)> = None;
    let mut second = tokio::time::interval(SECOND);
    loop {
        tokio::select! {
            line = input.recv() => {
                let Some(line) = line else { return Ok(()) };
                match serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))? {
                    Told::Begin => {
                        let callers = Callers::start(&orders, timeline, &voice)?;
                        at_work = Some((callers, Writers::start(&orders, timeline)));
                    }
                    Told::Finish => {
                        if let Some((callers, writers)) = at_work.take() {
                            callers.stop().await;
                            writers.stop(&voice).await;
                        }
                        voice.say(Said::Finished);
                    }
                }
            }
            _ = second.tick() => {
                let mut tick = agents.tick(&voice);
                if let Some((callers, writers)) = &mut at_work {
                    callers.tick(&mut tick);
                    writers.tell(&voice);
                }
                voice.say(Said::Tick(tick));
            }
        }
    }
}
