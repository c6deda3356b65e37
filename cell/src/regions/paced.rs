//! A bell for watchers that rings at a pace.
//!
//! Each change of a busy region would wake each watcher, for a message that costs more than what is in it. What comes
//! within the pace comes together; the first change after a rest comes at once. Only waking is paced: who looks sees the
//! view as it is.

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::View;
use tokio::sync::watch;

/// Shortest time between two rings: under what anybody notices, and one message for five changes of a region that has a
/// thousand a second.
const PACE: Duration = Duration::from_millis(5);

/// The bell of a view, and the task that rings it; it ends with the view, and the bell with it.
pub(super) fn paced(
    mut view: watch::Receiver<Arc<View>>,
) -> (watch::Receiver<()>, impl Future<Output = ()> + Send) {
    let (ring, bell) = watch::channel(());
    view.mark_unchanged();
    let task = async move {
        while view.changed().await.is_ok() {
            ring.send_replace(());
            tokio::time::sleep(PACE).await;
        }
    };
    (bell, task)
}

#[cfg(test)]
mod tests {
    use rollcall_model::View;
    use rollcall_model::testing::region;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_change_comes_at_once_and_the_rest_together() {
        let view = || Arc::new(View::new(region()));
        let (sender, shown) = watch::channel(view());
        let (mut bell, task) = paced(shown);
        let task = tokio::spawn(task);
        let began = tokio::time::Instant::now();
        sender.send_replace(view());
        bell.changed().await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
        sender.send_replace(view());
        sender.send_replace(view());
        bell.changed().await.unwrap();
        assert_eq!(began.elapsed(), PACE);
        tokio::time::sleep(PACE * 3).await;
        assert!(!bell.has_changed().unwrap(), "once for both");
        sender.send_replace(view());
        bell.changed().await.unwrap();
        assert_eq!(began.elapsed(), PACE * 4, "after a rest at once again");
        drop(sender);
        task.await.unwrap();
        assert!(bell.changed().await.is_err());
    }
}
