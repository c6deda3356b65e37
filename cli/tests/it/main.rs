//! The program as its users meet it: the real binary, started as a process, talked to over its command line.

#![allow(clippy::expect_used, reason = "a test that cannot go on fails where it stands")]

mod cell;
mod dev;
mod doctor;
mod operator;
mod process;
mod replicator;
mod run;
mod verbs;
