//! Every figure that a process shows stands in docs/operations.md, and every one that stands there is shown.

use std::collections::BTreeSet;
use std::path::Path;

use rollcall_tests::paths;

/// Names of figures in a text, as in `rollcall.cell.view.age`, that stand between these two marks.
fn names(text: &str, mark: char) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in text.split(mark) {
        let words: Vec<_> = part.split('.').collect();
        let is_word =
            |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        if words.len() == 4 && words[0] == "rollcall" && words.iter().all(is_word) {
            found.insert(part.to_owned());
        }
    }
    found
}

fn of_source(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            of_source(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            // Tests make figures of their own.
            let product = text.split("#[cfg(test)]").next().unwrap_or_default();
            found.extend(names(product, '"'));
        }
    }
}

#[test]
fn every_figure_is_documented_and_every_alert_is_on_one_that_exists() {
    let root = paths::repository();
    let mut shown = BTreeSet::new();
    for folder in ["runtime", "cell", "replicator", "client", "cli"] {
        of_source(&root.join(folder).join("src"), &mut shown);
    }
    let told = names(&std::fs::read_to_string(root.join("docs/operations.md")).unwrap(), '`');
    assert!(shown.len() > 10, "{shown:?}");
    assert_eq!(shown, told, "left: what the processes show; right: what docs/operations.md tells");
}
