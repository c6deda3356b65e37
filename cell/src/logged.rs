//! For tests: what a thread logs.

use std::io;
use std::sync::{Arc, Mutex};

use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

/// The lines that the thread which began it logs, as long as it lives.
pub(crate) struct Logged {
    text: Text,
    _here: DefaultGuard,
}

#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Text {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Logged {
    pub(crate) fn begin() -> Self {
        let text = Text::default();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(text.clone()).finish();
        Self { _here: tracing::subscriber::set_default(lines), text }
    }

    /// The lines that hold these words, a level among them.
    pub(crate) fn lines(&self, words: &[&str]) -> Vec<String> {
        let text = String::from_utf8(self.text.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().filter(|line| words.iter().all(|word| line.contains(word)));
        lines.map(str::to_owned).collect()
    }
}
