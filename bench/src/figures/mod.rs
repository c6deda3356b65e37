//! The figures, each a room of its own. One program holds them all, so that the product is linked into it once.

mod catchup;
mod dark;
mod dev;
mod leases;
mod list;
mod mass_expiry;
mod memory;
mod overload;
mod reconnect;
mod register_latency;
mod registrations;
mod renewals;
mod resolve;
mod restart;
mod snapshot;
mod visible;
mod watch;

use std::future::Future;

/// Measures one figure and prints it. The words are for a figure that starts itself again as its own measured process.
type Run = fn(&[String]);

/// Every figure, in the order in which all are measured.
const FIGURES: [(&str, Run); 17] = [
    ("catchup", |_| on_all_cores(catchup::run())),
    ("dark", |_| on_all_cores(dark::run())),
    ("dev", |_| dev::run()),
    ("leases", |_| leases::run()),
    ("registrations", |_| on_all_cores(registrations::run())),
    ("register-latency", |_| on_all_cores(register_latency::run())),
    ("mass-expiry", |_| on_all_cores(mass_expiry::run())),
    ("memory", memory::run),
    ("renewals", |words| on_all_cores(renewals::run(words))),
    ("overload", |_| on_all_cores(overload::run())),
    ("restart", |_| on_all_cores(restart::run())),
    ("resolve", |_| resolve::run()),
    ("list", |_| on_all_cores(list::run())),
    ("reconnect", |_| on_all_cores(reconnect::run())),
    ("snapshot", snapshot::run),
    ("visible", |_| on_all_cores(visible::run())),
    ("watch", |_| on_one_thread(watch::run())),
];

/// Measures what the words of a command line ask for: all figures, some by name, or one's own process (`part-of NAME …`).
///
/// # Errors
/// There is no figure of a name; then none is measured.
///
/// # Panics
/// What is measured does not answer as it must: a figure of something broken is none.
pub fn measure(words: &[String]) -> Result<(), String> {
    if let [part_of, name, rest @ ..] = words
        && part_of == "part-of"
    {
        named(name)?(rest);
        return Ok(());
    }
    let mut asked: Vec<Run> = words.iter().map(|name| named(name)).collect::<Result<_, _>>()?;
    if asked.is_empty() {
        asked = FIGURES.iter().map(|(_, run)| *run).collect();
    }
    for run in asked {
        run(&[]);
        println!();
    }
    Ok(())
}

fn named(name: &str) -> Result<Run, String> {
    let found = FIGURES.iter().find(|(known, _)| *known == name);
    found.map(|(_, run)| *run).ok_or_else(|| {
        let known: Vec<&str> = FIGURES.iter().map(|(known, _)| *known).collect();
        format!("there is no figure {name:?}; there are: {}", known.join(" "))
    })
}

/// Runs this program again for a part of a figure, so that the memory and the time that are measured are its own.
fn child(figure: &str, arguments: &[&str]) -> String {
    let program = std::env::current_exe().expect("this program");
    let output = std::process::Command::new(program)
        .args(["part-of", figure])
        .args(arguments)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn on_all_cores(figure: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().expect("a runtime").block_on(figure);
}

/// For a reader that must not take a second core from what it measures.
fn on_one_thread(figure: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(figure);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_does_not_exist_is_refused_with_those_that_do() {
        let why = measure(&["leases".to_owned(), "resolv".to_owned()]).unwrap_err();
        assert!(why.contains("\"resolv\"") && why.contains("register-latency"), "{why}");
    }
}
