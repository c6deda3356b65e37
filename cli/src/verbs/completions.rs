//! `rollcall completions`: what a shell needs to complete a line.

use clap::CommandFactory;

use crate::args::Args;
use crate::exit::Exit;
use crate::show::Shown;

pub(crate) fn completions(shell: clap_complete::Shell) -> Shown {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "rollcall", &mut script);
    Shown { stdout: String::from_utf8_lossy(&script).into_owned(), stderr: String::new(), exit: Exit::Done }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_shell_gets_a_script_that_knows_the_verbs() {
        for shell in clap_complete::Shell::value_variants() {
            let script = completions(*shell).stdout;
            assert!(script.contains("deregister"), "{shell}");
        }
    }
}
