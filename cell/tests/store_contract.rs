//! Every adapter of the store port runs the one contract suite, and what only it promises.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a promise that is not kept ends the test")]

mod store_contract {
    mod cluster;
    mod embedded;
    mod etcd;
    mod etcds;
    mod full;
}
