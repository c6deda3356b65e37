//! Runs a scenario on real processes and prints its report.
#![allow(clippy::print_stdout, reason = "the report is the result")]

use std::process::ExitCode;

use rollcall_chaos::{cycles, fleet, game_day, kill_each, planted, scenarios, soak, static_stability};

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    match name.as_str() {
        fleet::VERB => return ended(fleet::run(&rest).await),
        game_day::zone::VERB => return ended(game_day::zone::run().await),
        planted::VERB => return planted::run(rest.first().map(String::as_str), |text| print!("{text}")),
        game_day::VERB => return game_day::begin(&rest, |line| eprintln!("{line}")).await,
        game_day::sealed::WITHIN => {
            return game_day::within(&rest, |line| eprintln!("{line}"), |text| print!("{text}")).await;
        }
        static_stability::VERB => return ExitCode::from(static_stability::sealed().await),
        static_stability::WITHIN => {
            let report = tokio::select! {
                report = static_stability::within(|line| eprintln!("{line}")) => report,
                () = game_day::sealed::told_to_end() => Err("told to end".to_owned()),
            };
            return ended(report.and_then(|report| {
                print!("{}", report.text());
                report.broken.is_empty().then_some(()).ok_or_else(|| report.broken.join("\n"))
            }));
        }
        _ => {}
    }
    if name == soak::VERB {
        return tokio::select! {
            code = soaked(&rest) => code,
            _ = tokio::signal::ctrl_c() => ExitCode::from(130),
        };
    }
    let seed = rest.first().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random::<u32>);
    let seed = u64::from(seed);
    tokio::select! {
        code = run(&name, seed) => code,
        // Returning drops what runs, and with it every process that was started.
        _ = tokio::signal::ctrl_c() => ExitCode::from(130),
    }
}

async fn soaked(words: &[String]) -> ExitCode {
    let plan = match soak::Plan::parse(words) {
        Ok(plan) => plan,
        Err(why) => return ended(Err(why)),
    };
    let report = soak::run(plan, |line| eprintln!("{line}")).await;
    print!("{}", report.text);
    if report.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn ended(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            eprintln!("{words}");
            ExitCode::from(2)
        }
    }
}

async fn run(name: &str, seed: u64) -> ExitCode {
    let (text, held) = match name {
        "list" => {
            println!("{:<24} {:<5} {}", "kill-each", "F01", kill_each::SHOWS);
            println!("{:<24} {:<5} {}", static_stability::VERB, "F40", static_stability::SHOWS);
            println!("{:<24} {:<5} {}", cycles::VERB, "F39", cycles::SHOWS);
            println!("{:<24} {:<5} {}", soak::VERB, "I49", soak::SHOWS);
            for scenario in scenarios::all() {
                println!("{:<24} {:<5} {}", scenario.name, scenario.fault, scenario.shows);
            }
            return ExitCode::SUCCESS;
        }
        "kill-each" => {
            let report = kill_each::run(seed, |line| eprintln!("{line}")).await;
            (report.text(), report.broken.is_empty())
        }
        cycles::VERB => {
            let report = cycles::run(cycles::CYCLES, |line| eprintln!("{line}")).await;
            (report.text(), report.broken.is_empty())
        }
        name => {
            let Some(scenario) = scenarios::find(name) else {
                eprintln!("usage: rollcall-chaos list | NAME [SEED]");
                return ExitCode::from(2);
            };
            let report = scenarios::run(&scenario, seed, |line| eprintln!("{line}")).await;
            (report.text(), report.holds())
        }
    };
    print!("{text}");
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
