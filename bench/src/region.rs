//! One region, measured: a cell and its etcd, each a process of its own, which no admission holds back.

use std::time::Duration;

use rollcall_tests::regions::Regions;

use crate::cpu_time;

/// What is measured comes from one address and as fast as it can; admission would refuse it, as it should.
const SETTINGS: [(&str, &str); 4] = [
    ("ROLLCALL_ADMISSION__REGISTRATIONS_PER_SECOND", "1000000"),
    ("ROLLCALL_ADMISSION__BURST", "1000000"),
    ("ROLLCALL_ADMISSION__RENEWALS_PER_SECOND", "1000000"),
    ("ROLLCALL_ADMISSION__ADDRESS_SHARE", "whole"),
];
const NAME: &str = "us-east";

/// A running region; its processes end when this is dropped.
#[derive(Debug)]
pub struct Region {
    regions: Regions,
    etcd_pid: u32,
    cell_pid: u32,
}

impl Region {
    /// Starts both and waits until they can be used.
    ///
    /// # Panics
    /// When they do not start.
    #[must_use]
    pub fn up() -> Self {
        Self::up_with(&[])
    }

    /// The same with more settings of the cell from the environment; a later one counts.
    ///
    /// # Panics
    /// When they do not start.
    #[must_use]
    pub fn up_with(settings: &[(&str, &str)]) -> Self {
        let settings = [&SETTINGS, settings].concat();
        let regions = Regions::up_with(Some("us-east/etcd,us-east/cell"), &settings);
        let pid = |name: &str| {
            let pid = regions.control("pid", &format!("{NAME}/{name}")).expect("it runs");
            pid.trim().parse().expect("a number")
        };
        Self { etcd_pid: pid("etcd"), cell_pid: pid("cell"), regions }
    }

    /// What started them.
    #[must_use]
    pub const fn regions(&self) -> &Regions {
        &self.regions
    }

    /// The URL of the cell.
    #[must_use]
    pub fn cell(&self) -> String {
        self.regions.url(NAME)
    }

    /// The client URL of the etcd.
    #[must_use]
    pub fn etcd(&self) -> String {
        self.regions.etcd(NAME)
    }

    /// The process of the etcd.
    #[must_use]
    pub const fn etcd_pid(&self) -> u32 {
        self.etcd_pid
    }

    /// The process of the cell.
    #[must_use]
    pub const fn cell_pid(&self) -> u32 {
        self.cell_pid
    }

    /// Processor time that the etcd has used so far.
    #[must_use]
    pub fn etcd_time(&self) -> Duration {
        cpu_time(self.etcd_pid)
    }

    /// Processor time that the cell has used so far.
    #[must_use]
    pub fn cell_time(&self) -> Duration {
        cpu_time(self.cell_pid)
    }
}
