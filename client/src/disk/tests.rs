use std::sync::Arc;

use rollcall_model::declaration::RawEndpoint;
use rollcall_model::{
    Declaration, Declared, Epoch, Incarnation, Moment, Owned, Registration, Replaced, Revision, Snapshot,
    State, Timestamp, Uptime,
};

use super::*;

fn region(name: &str) -> Region {
    Region::parse(name).unwrap()
}

/// A state of so many instances, at a revision of its own.
fn saved(name: &str, many: u64, saved_at: i64) -> Saved {
    let mut state = State::default();
    for n in 1..=many {
        let raw = Declaration {
            id: format!("ops/mail/{n}"),
            endpoints: vec![RawEndpoint { url: "http://10.0.0.7:8080/".into(), protocol: None }],
            ..Declaration::default()
        };
        let declared = Declared::check(raw, String::new).unwrap();
        let owned = Owned::of(&declared);
        let revision = Revision(n);
        let epoch = Epoch::new(1, revision);
        let one = Registration {
            declared,
            epoch,
            registered_at: Timestamp(0),
            replaced: Replaced::default(),
            revision,
            owned,
        };
        state.put(Arc::new(one));
    }
    let position = Position::new(Incarnation::new(1, name).unwrap(), Revision(many + 100));
    let snapshot = Snapshot::of(region(name), position, state);
    Saved {
        snapshot,
        saved_at: Moment::of_wall(Timestamp(saved_at)),
        log: None,
        beat: None,
        history: Vec::new(),
    }
}

fn writer(directory: &Path) -> Writer {
    Copies::new(directory, &region("us")).writer.unwrap()
}

/// What a process that starts finds: how many instances, if any copy is good.
fn found(directory: &Path) -> Option<u64> {
    writer(directory).read(&region("us")).map(|saved| saved.snapshot.state().count())
}

type Damage = fn(Vec<u8>) -> Vec<u8>;

fn fresh() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn i24_cut_at_every_byte_and_between_all_steps_the_old_or_the_new_state_is_found() {
    let new = disk::encode(&saved("us", 3, 0));
    for before in 0..=2_u64 {
        let old = (before > 0).then_some(before);
        let prepared = || {
            let directory = fresh();
            let mut writer = writer(directory.path());
            (1..=before).for_each(|many| writer.try_write(&saved("us", many, 0)).unwrap());
            std::fs::create_dir_all(directory.path()).unwrap();
            (directory, writer)
        };
        for written in 0..=new.len() {
            let (directory, writer) = prepared();
            writer.files.crash(&new, writer.is_good, Some(written), 0);
            assert_eq!(found(directory.path()), old, "{written} bytes were written");
        }
        for steps in 0..=4 {
            let (directory, writer) = prepared();
            writer.files.crash(&new, writer.is_good, None, steps);
            let expected = if steps < 3 { old } else { Some(3) };
            assert_eq!(found(directory.path()), expected, "after {steps} steps");
        }
    }
}

#[test]
fn f35_a_damaged_newest_copy_gives_the_one_before_and_is_not_kept_over_it() {
    let damages: [(&str, Damage); 5] = [
        ("empty", |_| Vec::new()),
        ("cut", |bytes| bytes[..bytes.len() - 1].to_vec()),
        ("flipped", |mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            bytes
        }),
        ("another version", |mut bytes| {
            bytes[8] += 1;
            bytes
        }),
        ("another region", |_| disk::encode(&saved("eu", 5, 0))),
    ];
    for (what, damage) in damages {
        let directory = fresh();
        let mut first = writer(directory.path());
        (1..=2).for_each(|many| first.try_write(&saved("us", many, 0)).unwrap());
        let newest = first.files.newest();
        drop(first);
        std::fs::write(&newest, damage(std::fs::read(&newest).unwrap())).unwrap();
        assert_eq!(found(directory.path()), Some(1), "{what}");
        // The next writer is cut just after it took the damaged one away: the good one is still there.
        let next = {
            let mut next = writer(directory.path());
            next.read(&region("us"));
            next
        };
        next.files.crash(&disk::encode(&saved("us", 3, 0)), next.is_good, None, 2);
        assert_eq!(found(directory.path()), Some(1), "{what}, and a crash");
    }
}

#[test]
fn i22_of_two_whole_copies_the_newer_is_taken_and_not_lost_by_the_next_write_whatever_their_names() {
    let directory = fresh();
    let mut first = writer(directory.path());
    (1..=2).for_each(|many| first.try_write(&saved("us", many, 0)).unwrap());
    let (newest, before) = (first.files.newest(), first.files.before());
    drop(first);
    let aside = directory.path().join("aside");
    for (from, to) in [(&newest, &aside), (&before, &newest), (&aside, &before)] {
        std::fs::rename(from, to).unwrap();
    }
    assert_eq!(found(directory.path()), Some(2));
    let mut next = writer(directory.path());
    next.read(&region("us"));
    next.files.crash(&disk::encode(&saved("us", 3, 0)), next.is_good, None, 2);
    assert_eq!(found(directory.path()), Some(2), "and a crash in the next write");
}

#[test]
fn i24_with_both_copies_damaged_there_is_none() {
    let directory = fresh();
    let mut first = writer(directory.path());
    (1..=2).for_each(|many| first.try_write(&saved("us", many, 0)).unwrap());
    for path in [first.files.newest(), first.files.before()] {
        std::fs::write(path, b"ROLLCALL").unwrap();
    }
    assert_eq!(found(directory.path()), None);
}

#[test]
fn i24_of_two_that_share_a_directory_one_writes_and_the_other_takes_over_when_it_ends() {
    let directory = fresh();
    let (mut one, mut other) = (writer(directory.path()), writer(directory.path()));
    one.try_write(&saved("us", 1, 0)).unwrap();
    other.try_write(&saved("us", 2, 0)).unwrap();
    assert_eq!(found(directory.path()), Some(1), "one at a time");
    one.try_write(&saved("us", 3, 0)).unwrap();
    drop(one);
    other.try_write(&saved("us", 4, 0)).unwrap();
    assert_eq!(found(directory.path()), Some(4));
    // What the first one wrote last is the generation before.
    std::fs::write(other.files.newest(), b"").unwrap();
    assert_eq!(found(directory.path()), Some(3));
}

#[test]
fn i21_a_copy_is_as_old_as_the_time_away_and_never_younger_than_nothing() {
    let age_at = |wall: i64| {
        let clock = Clock::new(|| Duration::from_secs(7), move || wall);
        let mut view = View::new(region("us"));
        install(&mut view, saved("us", 1, 1_000_000), &clock);
        view.age(clock.now()).unwrap()
    };
    assert_eq!(age_at(1_000_000), Duration::ZERO);
    assert_eq!(age_at(1_000_000 + 90_000), Duration::from_secs(90));
    // The clock was put back meanwhile, and the machine's uptime is not known.
    assert_eq!(age_at(0), Duration::ZERO);
}

#[test]
fn i21_i23_f15_a_copy_is_not_younger_because_the_wall_clock_was_put_back() {
    let clock = |wall: i64, ms: i64| {
        let uptime = move || Some(Uptime { boot: "one".into(), ms });
        Clock::new(|| Duration::from_secs(7), move || wall).with_uptime(uptime)
    };
    let saved = Saved { saved_at: clock(1_000_000, 5_000).moment(), ..saved("us", 1, 0) };
    let read = disk::decode(&disk::encode(&saved)).unwrap();
    let (mut view, later) = (View::new(region("us")), clock(0, 95_000));
    install(&mut view, read, &later);
    assert_eq!(view.age(later.now()), Some(Duration::from_secs(90)));
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_costs_nothing_else() {
    let directory = fresh();
    let taken = directory.path().join("a-file");
    std::fs::write(&taken, b"").unwrap();
    let clock = Clock::new(|| Duration::ZERO, || 0);
    let mut copies = Copies::new(&taken, &region("us"));
    let mut view = View::new(region("us"));
    copies.load(&mut view, &clock).await;
    assert!(view.state().is_none());
    install(&mut view, saved("us", 1, 0), &clock);
    copies.offer(&view, &clock);
    let writer = copies.writing.take().unwrap().await.unwrap();
    assert!(writer.is_failing);
    assert_eq!(std::fs::read(&taken).unwrap(), b"");
}

#[tokio::test]
async fn a_state_that_changes_all_the_time_is_saved_every_half_minute_and_a_quiet_one_seldom() {
    let directory = fresh();
    let mut copies = Copies::new(directory.path(), &region("us"));
    let mut view = View::new(region("us"));
    let mut saves = Vec::new();
    for second in 0..1_500_u64 {
        let clock = Clock::new(move || Duration::from_secs(second), || 0);
        if second < 100 {
            let saved = saved("us", second + 1, 0);
            let heard = Heard { at: clock.now(), age: Duration::ZERO };
            view.install(saved.snapshot, Some(heard), "started", Timestamp(0));
        }
        copies.offer(&view, &clock);
        if let Some(writing) = copies.writing.take() {
            let mut writer = writing.await.unwrap();
            writer.took = Duration::ZERO;
            copies.writer = Some(writer);
            saves.push(second);
        }
    }
    assert_eq!(saves, [0, 30, 60, 90, 120, 720, 1_320]);
}

#[tokio::test]
async fn what_came_last_before_the_registry_went_away_is_saved_at_once() {
    let directory = fresh();
    let mut copies = Copies::new(directory.path(), &region("us"));
    let mut view = View::new(region("us"));
    for (second, is_away) in [(0, false), (1, false), (2, true)] {
        let clock = Clock::new(move || Duration::from_secs(second), || 0);
        if !is_away {
            let saved = saved("us", second + 1, 0);
            let heard = Heard { at: clock.now(), age: Duration::ZERO };
            view.install(saved.snapshot, Some(heard), "started", Timestamp(0));
            copies.offer(&view, &clock);
        } else {
            copies.hurry(&view, &clock);
        }
        let writing = copies.writing.take();
        assert_eq!(writing.is_some(), second != 1, "at {second} s");
        if let Some(writing) = writing {
            copies.writer = Some(writing.await.unwrap());
        }
    }
    assert_eq!(found(directory.path()), Some(2));
}

#[cfg(unix)]
#[test]
fn a_pipe_under_any_of_the_names_is_waited_for_by_nobody_and_costs_no_other_copy() {
    let directory = fresh();
    let place = directory.path().to_path_buf();
    let mut writes = writer(&place);
    writes.write(&region("us"), &saved("us", 1, 0));
    writes.write(&region("us"), &saved("us", 2, 0));
    drop(writes);
    std::fs::remove_file(place.join("us.state")).unwrap();
    for name in ["us.state", "us.state.tmp", "us.state.lock"] {
        let _ = std::fs::remove_file(place.join(name));
        assert!(std::process::Command::new("mkfifo").arg(place.join(name)).status().unwrap().success());
    }
    let (done, result) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut writer = writer(&place);
        let read = writer.read(&region("us")).map(|saved| saved.snapshot.state().count());
        writer.write(&region("us"), &saved("us", 3, 0));
        std::fs::remove_file(place.join("us.state.lock")).unwrap();
        writer.write(&region("us"), &saved("us", 3, 0));
        done.send((read, writer.is_failing))
    });
    let ended = result.recv_timeout(Duration::from_secs(20));
    assert_eq!(ended, Ok((Some(1), true)), "the copy before it is read, and nothing waits for a pipe");
}
