//! The contract of the cell's two faces, over real sockets: each row of its tables, each code that can be reached.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a promise that is not kept ends the test")]

mod api {
    mod admitting;
    mod card;
    mod cell;
    mod churn;
    mod events;
    mod forwarding;
    mod full;
    mod grpc;
    mod hearing;
    mod judge;
    mod lists;
    #[path = "../../src/logged.rs"]
    mod logged;
    mod moody;
    mod museum;
    mod nine;
    mod operating;
    mod outage;
    mod overdue;
    mod planted;
    mod process;
    mod reading;
    mod regions;
    mod registering;
    mod renewing;
    mod reporting;
    mod resolving;
    mod session;
    mod sharing;
    mod tap;
    mod told;
    mod unread;
    mod updating;
    mod watching;
    mod wire;
}
