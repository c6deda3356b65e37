//! Waiting for a named condition with a deadline, instead of sleeping and hoping.

use std::future::Future;
use std::time::{Duration, Instant};

/// Asks until the answer is `Ok`; at the deadline fails with the condition's name and the last `Err`.
pub async fn eventually<T, F, Fut>(condition: &str, deadline: Duration, mut ask: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, String>>,
{
    let started = Instant::now();
    loop {
        match ask().await {
            Ok(value) => return value,
            Err(why) if started.elapsed() > deadline => {
                panic!("not within {deadline:?}: {condition}; last seen: {why}");
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
