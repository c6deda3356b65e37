//! A view as its watchers see it: at a pace.
//!
//! Each change of a busy region would wake each watcher, for a message that costs more than what is in it. What comes
//! within the pace comes together; the first change after a rest comes at once. All watchers of one step see the same
//! view, however long it takes to wake them: what they are sent is the same, and is written once. Who asks once, or
//! begins a watch, sees the view as it is.

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::View;
use tokio::sync::watch;

/// Shortest time between two steps: under what anybody notices, one message for two changes of a region that has a
/// thousand a second, and what a hundred watchers have anyway.
const PACE: Duration = Duration::from_millis(2);
/// The same for many watchers, of each: twice what a message costs, so that a busy region's steps take half of a processor
/// and not all there are.
const PACE_OF_EACH: Duration = Duration::from_micros(20);
/// Longest time between two steps, from 5,000 watchers on: still at once for who looks at it.
const PACE_MOST: Duration = Duration::from_millis(100);

/// The view at a pace, and the task that keeps it; it ends with the view, and what it shows with it.
pub(super) fn paced(
    mut view: watch::Receiver<Arc<View>>,
) -> (watch::Receiver<Arc<View>>, impl Future<Output = ()> + Send) {
    let (show, shown) = watch::channel(view.borrow_and_update().clone());
    let task = async move {
        while view.changed().await.is_ok() {
            show.send_replace(view.borrow_and_update().clone());
            tokio::time::sleep(pace(show.receiver_count())).await;
        }
    };
    (shown, task)
}

/// Time between two steps for so many watchers.
fn pace(watchers: usize) -> Duration {
    let watchers = u32::try_from(watchers).unwrap_or(u32::MAX);
    PACE_OF_EACH.saturating_mul(watchers).clamp(PACE, PACE_MOST)
}

#[cfg(test)]
mod tests {
    use rollcall_model::View;
    use rollcall_model::testing::region;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_watchers_have_a_slower_pace_and_the_first_change_comes_to_them_at_once_too() {
        let view = || Arc::new(View::new(region()));
        let (sender, receiver) = watch::channel(view());
        let (mut shown, task) = paced(receiver);
        let watchers: Vec<_> = (0..1_000).map(|_| shown.clone()).collect();
        let task = tokio::spawn(task);
        let began = tokio::time::Instant::now();
        sender.send_replace(view());
        shown.changed().await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
        sender.send_replace(view());
        shown.changed().await.unwrap();
        let slower = began.elapsed();
        assert!((pace(1_000)..pace(1_200)).contains(&slower), "{slower:?} for 1,000 watchers");
        drop(watchers);
        sender.send_replace(view());
        shown.changed().await.unwrap();
        sender.send_replace(view());
        let alone = tokio::time::Instant::now();
        shown.changed().await.unwrap();
        assert_eq!(alone.elapsed(), PACE, "when they are gone");
        assert_eq!(pace(usize::MAX), PACE_MOST);
        drop(sender);
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_change_comes_at_once_and_the_rest_together() {
        let view = || Arc::new(View::new(region()));
        let (sender, receiver) = watch::channel(view());
        let (mut shown, task) = paced(receiver);
        let task = tokio::spawn(task);
        let began = tokio::time::Instant::now();
        sender.send_replace(view());
        shown.changed().await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
        let first = shown.borrow_and_update().clone();
        sender.send_replace(view());
        let last = view();
        sender.send_replace(Arc::clone(&last));
        assert!(
            Arc::ptr_eq(&shown.borrow(), &first),
            "who is late in taking a step sees what the others saw"
        );
        shown.changed().await.unwrap();
        assert_eq!(began.elapsed(), PACE);
        assert!(Arc::ptr_eq(&shown.borrow(), &last));
        tokio::time::sleep(PACE * 3).await;
        assert!(!shown.has_changed().unwrap(), "once for both");
        sender.send_replace(view());
        shown.changed().await.unwrap();
        assert_eq!(began.elapsed(), PACE * 4, "after a rest at once again");
        drop(sender);
        task.await.unwrap();
        assert!(shown.changed().await.is_err());
    }
}
