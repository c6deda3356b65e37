//! What `rollcall dev` prints: the line that scripts wait for, and three lines for people to paste.
//!
//! Promises: each line works as it stands, from any directory, in a POSIX shell, while the process runs.

use std::path::PathBuf;
use std::time::Duration;

/// The line on stdout: every region with its address, and how long it took.
pub(crate) fn ready(urls: &[(String, String)], taken: Duration) -> String {
    let regions: Vec<_> = urls.iter().map(|(region, url)| format!("{region}={url}")).collect();
    format!("ready {} in {:.1}s\n", regions.join(" "), taken.as_secs_f64())
}

/// How to look around; an agent's endpoint is tried too, where there is one.
pub(crate) fn guide(program: &str, urls: &[(String, String)], endpoint: Option<&str>) -> String {
    let at = |index: usize| urls.get(index).or(urls.first()).map_or("", |(_, url)| url.as_str());
    let last = match endpoint {
        Some(endpoint) => format!("curl -s -d '{{\"text\":\"hello\"}}' {endpoint}"),
        None => format!(
            "{program} register --url {} --id demo/mine --endpoint {} --capability text:echo:v1",
            at(0),
            at(0)
        ),
    };
    format!(
        "look around:\n  curl -s '{}/v1/agents?region=all'\n  {program} agents --region all --url {}\n  {last}\nCtrl-C ends it.\n",
        at(0),
        at(1)
    )
}

/// How this program is called: as it was if the shell finds it, else by its whole path.
pub(crate) fn program() -> String {
    let called = std::env::args().next().unwrap_or_default();
    let by_name = !called.is_empty() && !called.contains('/');
    let path = if by_name {
        PathBuf::from(called)
    } else {
        std::env::current_exe().unwrap_or_else(|_| called.into())
    };
    quoted(&path.display().to_string())
}

fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls() -> Vec<(String, String)> {
        vec![
            ("us-east".into(), "http://127.0.0.1:7400".into()),
            ("eu-west".into(), "http://127.0.0.1:7410".into()),
        ]
    }

    #[test]
    fn the_ready_line_is_one_line_with_every_region() {
        let line = ready(&urls(), Duration::from_millis(680));
        assert_eq!(line, "ready us-east=http://127.0.0.1:7400 eu-west=http://127.0.0.1:7410 in 0.7s\n");
    }

    #[test]
    fn the_guide_has_three_lines_to_paste() {
        let text = guide("rollcall", &urls(), Some("http://127.0.0.1:9/agents/x/1"));
        let expected = "look around:\n  curl -s 'http://127.0.0.1:7400/v1/agents?region=all'\n  \
                        rollcall agents --region all --url http://127.0.0.1:7410\n  \
                        curl -s -d '{\"text\":\"hello\"}' http://127.0.0.1:9/agents/x/1\nCtrl-C ends it.\n";
        assert_eq!(text, expected);
        assert!(
            guide("rollcall", &urls()[..1], None)
                .contains("rollcall register --url http://127.0.0.1:7400 --id ")
        );
    }

    #[test]
    fn a_path_with_blanks_is_quoted() {
        assert_eq!(quoted("/opt/a_b/rollcall-1.0"), "/opt/a_b/rollcall-1.0");
        assert_eq!(quoted("/my dir/it's"), r"'/my dir/it'\''s'");
    }
}
