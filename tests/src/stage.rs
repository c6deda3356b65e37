//! One region as a fault run needs it: etcd of several members, several processes of its cell, nothing else.
//!
//! Everything is a child of this process and ends with the stage, also when a test panics; then its folder is kept.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::etcd::Etcd;
use crate::eventually::eventually;
use crate::http::Http;
use crate::paths;
use crate::process::Process;
use crate::proxy::Proxy;
use crate::regions::free_base_port;

/// The region's name.
pub const REGION: &str = "us-east";
/// Distance from the base port to etcd's.
const ETCD: u16 = 400;
/// Most processes of the cell: so many are reserved in the range of ports.
pub const CELLS_MAX: usize = 3;

/// How large a stage is.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Members of etcd, at most three.
    pub members: usize,
    /// Processes of the cell, at most [`CELLS_MAX`].
    pub cells: usize,
    /// More flags of etcd.
    pub etcd_flags: Vec<&'static str>,
    /// More lines of the cells' configuration.
    pub settings: String,
    /// Whether each process of the cell reaches each member of etcd over a way of its own that can be cut.
    pub ways: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self { members: 3, cells: 2, etcd_flags: Vec::new(), settings: String::new(), ways: false }
    }
}

/// The region; dropping it ends it.
#[derive(Debug)]
pub struct Stage {
    /// Its store.
    pub etcd: Etcd,
    cells: Vec<Process>,
    urls: Vec<(String, String)>,
    ways: Vec<Vec<Proxy>>,
    folder: Option<tempfile::TempDir>,
}

impl Stage {
    /// Starts it and waits until every process of the cell is ready.
    pub async fn up(shape: &Shape) -> Self {
        let folder = tempfile::Builder::new().prefix("rollcall-stage-").tempdir().expect("a folder");
        let base = free_base_port();
        let flags = &shape.etcd_flags;
        let mut etcd = Etcd::start(shape.members, folder.path(), base + ETCD, flags);
        etcd.usable().await;
        let mut stage =
            Self { etcd, cells: Vec::new(), urls: Vec::new(), ways: Vec::new(), folder: Some(folder) };
        assert!(shape.cells <= CELLS_MAX, "at most {CELLS_MAX} processes of the cell");
        for n in 0..shape.cells {
            let mut endpoints = stage.etcd.addresses();
            let mut ways = Vec::new();
            if shape.ways {
                for endpoint in &endpoints {
                    ways.push(Proxy::to(endpoint).await);
                }
                endpoints = ways.iter().map(Proxy::url).collect();
            }
            stage.ways.push(ways);
            stage.add_cell(n, base, &endpoints, &shape.settings);
        }
        for n in 0..shape.cells {
            stage.cell_ready(n).await;
        }
        stage
    }

    fn add_cell(&mut self, n: usize, base: u16, endpoints: &[String], settings: &str) {
        let port = base + 10 * u16::try_from(n).expect("few cells");
        let (http, grpc) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{}", port + 1));
        let folder = self.folder().to_owned();
        let mut text = String::new();
        let data = folder.join(format!("cell{n}"));
        let _ = writeln!(
            text,
            "region = {REGION:?}\nzone = \"a\"\ndata_dir = {:?}\n",
            data.display().to_string()
        );
        let _ = writeln!(text, "[listen]\nhttp = {http:?}\ngrpc = {grpc:?}\n");
        let _ = writeln!(text, "[store]\nkind = \"etcd\"\nendpoints = {endpoints:?}\n\n{settings}");
        let file = folder.join(format!("cell{n}.toml"));
        std::fs::write(&file, text).expect("the configuration is written");
        let arguments = vec!["cell".to_owned(), "--config".to_owned(), file.display().to_string()];
        self.cells.push(Process::start(&format!("cell{n}"), &folder, paths::rollcall(), arguments, &[]));
        self.urls.push((format!("http://{http}"), format!("http://{grpc}")));
    }

    /// Where settings, data and logs are.
    ///
    /// # Panics
    /// Never: the folder lives as long as the stage.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.as_ref().expect("the folder lives as long as the stage").path()
    }

    /// The HTTP URLs of the cell's processes.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.urls.iter().map(|(http, _)| http.clone()).collect()
    }

    /// Where the cell's processes listen: over HTTP, and over gRPC.
    #[must_use]
    pub fn listens(&self) -> &[(String, String)] {
        &self.urls
    }

    /// A client of one process of the cell.
    #[must_use]
    pub fn http(&self, n: usize) -> Http {
        Http::new(self.urls[n].0.clone())
    }

    /// Waits until a process of the cell is ready.
    pub async fn cell_ready(&self, n: usize) {
        let http = self.http(n);
        eventually(&format!("cell{n} is ready"), Duration::from_secs(30), || async {
            http.get("/readyz").await.map(|_| ())
        })
        .await;
    }

    /// One process of the cell.
    pub fn cell(&mut self, n: usize) -> &mut Process {
        &mut self.cells[n]
    }

    /// The ways of one process of the cell to the members of etcd; none where the stage was made without.
    #[must_use]
    pub fn ways(&self, n: usize) -> &[Proxy] {
        &self.ways[n]
    }

    /// How many processes the cell has.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// The process that holds the keeper's office, by the address in its key in etcd.
    #[must_use]
    pub fn keeper(&self) -> Option<usize> {
        let prefix = format!("rollcall/v1/{REGION}/keeper/");
        // The oldest candidate holds the office.
        let arguments =
            ["get", "--prefix", &prefix, "--sort-by", "CREATE", "--limit", "1", "--print-value-only"];
        let address = (0..self.etcd.len()).find_map(|n| self.etcd.ctl(n, &arguments).ok())?;
        self.urls.iter().position(|(_, grpc)| grpc == address.trim())
    }

    /// Keeps the folder after the stage is gone, and says where.
    pub fn keep(&mut self) -> PathBuf {
        match self.folder.take() {
            Some(folder) => {
                let kept = folder.keep();
                self.folder = None;
                kept
            }
            None => PathBuf::new(),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for cell in &mut self.cells {
            cell.kill();
        }
        if std::thread::panicking()
            && let Some(folder) = self.folder.take()
        {
            eprintln!("logs of the failed run: {}", folder.keep().display());
        }
    }
}
