//! Records: what is read is what was written, and nothing else is read.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

use proptest::prelude::*;
use tollgate_limits::{Ask, Log, Micros, Mode, Policy, Rate, StateRef, Window};
use tollgate_replication::{Damaged, Record, write, write_piece};
use tollgate_store::{Content, Eviction, Holding, KEY_BYTES_MAX, Store, StoreConfig, Value};

const NOW: Micros = 1_577_836_800_000_000;

fn store() -> Store {
    Store::new(StoreConfig {
        hash_seed: [1, 2, 3, 4],
        core: 0,
        cores: 1,
        memory_max_bytes: 0,
        eviction: Eviction::NoEviction,
        random_seed: 1,
    })
}

fn written(key: &[u8], content: Option<&Content>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, key, content.map(Content::holding));
    bytes
}

fn read_whole(bytes: &[u8]) -> Result<Record<'_>, Damaged> {
    let mut input = bytes;
    let record = Record::read(&mut input)?;
    assert!(input.is_empty());
    Ok(record)
}

/// Reads it back, writes that again, and takes each cut of it for what it is.
fn assert_is_kept(key: &[u8], content: Option<&Content>) {
    let bytes = written(key, content);
    let record = read_whole(&bytes);
    assert_eq!(record, Ok(Record { key, content: content.cloned(), kept_through: None }));
    assert_eq!(written(key, record.ok().and_then(|record| record.content).as_ref()), bytes);
    for end in 0..bytes.len() {
        assert_eq!(Record::read(&mut &bytes[..end]), Err(Damaged::CutOff), "{end} of {}", bytes.len());
    }
}

fn policies() -> impl Strategy<Value = Policy> {
    let limit = prop_oneof![0u64..20, 0..=1_000_000_000_000u64];
    let window = prop_oneof![1_000u64..10_000_000, Just(3_650 * 86_400 * 1_000_000)];
    let rate = (1u64..1_000_000, 1_000_000u128..1_000_000_000_000);
    (0..5u8, limit, window, rate).prop_filter_map(
        "a rate that is too slow",
        |(kind, limit, window, (tokens, micros))| {
            let (window, rate) = (Window::new(window)?, Rate::new(tokens, micros)?);
            Some(match kind {
                0 => Policy::Slide { limit, window },
                1 => Policy::Fixed { limit, window },
                2 => Policy::Token { capacity: limit, rate },
                3 => Policy::Leak { capacity: limit, rate },
                _ => Policy::Log { limit: limit.min(1_000), window },
            })
        },
    )
}

proptest! {
    /// What a key holds after any calls, under one limit or several, is kept.
    #[test]
    fn whatever_calls_lead_to_is_kept(
        policies in prop::collection::vec(policies(), 1..3),
        calls in prop::collection::vec((any::<u8>(), 0u64..40, 0u64..20_000_000), 1..40),
    ) {
        let mut store = store();
        let mut now = NOW;
        let key = b"rl:{a}:key";
        let at = store.hasher().locate(key);
        for (choice, cost, pause) in calls {
            now += pause;
            let policy = policies[usize::from(choice) % policies.len()];
            let mode = if choice > 200 { Mode::Refund } else { Mode::Charge };
            let _ = store.charge(at, key, &Ask { policy, cost, mode }, now);
            let content = store.find(at, key, now).map(|id| store.content(id));
            assert_is_kept(key, content.as_ref());
        }
    }

    #[test]
    fn values_are_kept(bytes in prop::collection::vec(any::<u8>(), 0..50), number: i64, expiry: Option<u64>) {
        let expires_at = expiry.filter(|at| *at != u64::MAX);
        for value in [Value::of(&bytes), Value::Integer(number)] {
            assert_is_kept(b"", Some(&Content::of(Holding::Value(value, expires_at))));
        }
    }

    /// Any bytes, and any record with some bytes changed, are refused or are a record that is written as those bytes.
    #[test]
    fn what_is_read_is_written_as_the_same_bytes(
        policy in policies(),
        cost in 0u64..40,
        changes in prop::collection::vec((any::<u16>(), any::<u8>()), 0..4),
        noise in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let mut store = store();
        let at = store.hasher().locate(b"key");
        let _ = store.charge(at, b"key", &Ask { policy, cost, mode: Mode::Charge }, NOW);
        let mut changed = written(b"key", store.find(at, b"key", NOW).map(|id| store.content(id)).as_ref());
        for (place, byte) in changes {
            let place = usize::from(place) % changed.len();
            changed[place] = byte;
        }
        for bytes in [changed, noise] {
            let mut input = &bytes[..];
            if let Ok(record) = Record::read(&mut input) {
                prop_assert_eq!(&written(record.key, record.content.as_ref()), &bytes[..bytes.len() - input.len()]);
            }
        }
    }
}

#[test]
fn a_piece_is_kept() {
    let log = Log::of(50, &[(60, 3), (70, 1), (u64::MAX, 8)]).unwrap();
    let policy = Policy::Log { limit: 10, window: Window::new(1_000_000).unwrap() };
    for (through, left) in [(51, 3), (60, 2), (69, 2), (70, 1)] {
        let mut bytes = Vec::new();
        write_piece(&mut bytes, b"key", &policy, &log, through);
        let record = read_whole(&bytes).unwrap();
        let Some(Holding::Limit(read, StateRef::Log(later))) = record.content.as_ref().map(Content::holding) else {
            panic!("{record:?}");
        };
        assert_eq!((record.key, record.kept_through, *read, later.len()), (&b"key"[..], Some(through), policy, left));
        assert_eq!(later.dropped_through(), 50);
        assert!(later.entries().eq(log.entries_after(through)));
        for end in 0..bytes.len() {
            assert_eq!(Record::read(&mut &bytes[..end]), Err(Damaged::CutOff), "{end} of {}", bytes.len());
        }
    }
}

#[test]
fn a_key_that_holds_nothing_is_a_record_too() {
    assert_is_kept(b"gone", None);
    assert_is_kept(&vec![b'k'; KEY_BYTES_MAX], None);
}

/// A record by its parts, so that each can be out of range alone.
fn parts(kind: u8, words: &[u64]) -> Vec<u8> {
    let mut bytes = vec![kind, 1, 0, b'k'];
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes
}

#[test]
fn what_no_command_could_have_left_is_refused() {
    let over = 1_000_000_000_001;
    let log = |entries: &[u64]| {
        let mut bytes = parts(5, &[10, 1_000_000, 50]);
        bytes.extend((entries.len() as u32 / 2).to_le_bytes());
        bytes.extend(entries.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    };
    let piece = |head: &[u64], entries: &[u64]| {
        let mut bytes = parts(8, head);
        bytes.extend((entries.len() as u32 / 2).to_le_bytes());
        bytes.extend(entries.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    };
    let mut endless_piece = parts(8, &[10, 1_000_000, 55, 50]);
    endless_piece.extend(u32::MAX.to_le_bytes());
    let mut number_as_bytes = parts(7, &[u64::MAX]);
    number_as_bytes.extend([2, 0, 0, 0, b'4', b'2']);
    let mut long_key = vec![0u8];
    long_key.extend(40_000u16.to_le_bytes());
    let mut endless_log = parts(5, &[10, 1_000_000, 0]);
    endless_log.extend(u32::MAX.to_le_bytes());
    let cases: Vec<(&str, Vec<u8>, Damaged)> = vec![
        ("a kind of a later version", parts(9, &[0; 8]), Damaged::UnknownKind),
        ("a long key", long_key, Damaged::KeyTooLong),
        ("a limit above all", parts(1, &[over, 1_000_000, 0, 0]), Damaged::NoPolicy),
        ("a window of nothing", parts(1, &[10, 0, 0, 0]), Damaged::NoPolicy),
        ("a window of ages", parts(2, &[10, u64::MAX, 0, 0]), Damaged::NoPolicy),
        ("a count above all", parts(2, &[10, 1_000_000, 0, 1 << 40]), Damaged::NoState),
        ("no rate", parts(3, &[10, 0, 1, 0, 0, 0, 0, 0]), Damaged::NoPolicy),
        ("a rate not in lowest terms", parts(3, &[10, 2, 2_000_000, 0, 0, 0, 0, 0]), Damaged::NoPolicy),
        ("more than a microsecond left", parts(4, &[10, 1, 1_000_000, 0, 0, 0, 1_000_000, 0]), Damaged::NoState),
        ("a log that goes back", log(&[60, 1, 60, 1]), Damaged::NoState),
        ("a log from before its end", log(&[50, 1]), Damaged::NoState),
        ("a log of nothing", log(&[60, 0]), Damaged::NoState),
        ("a log of more than all", log(&[60, u64::MAX, 61, 1]), Damaged::NoState),
        ("a log that is only said to be long", endless_log, Damaged::CutOff),
        ("a piece of nothing", piece(&[10, 1_000_000, 55, 50], &[]), Damaged::NoState),
        ("a piece of what is kept", piece(&[10, 1_000_000, 60, 50], &[60, 1]), Damaged::NoState),
        ("a piece that keeps nothing", piece(&[10, 1_000_000, 50, 50], &[60, 1]), Damaged::NoState),
        ("a piece that goes back", piece(&[10, 1_000_000, 55, 50], &[60, 1, 60, 1]), Damaged::NoState),
        ("a piece with a limit above all", piece(&[over, 1_000_000, 55, 50], &[60, 1]), Damaged::NoPolicy),
        ("a piece with a window of nothing", piece(&[10, 0, 55, 50], &[60, 1]), Damaged::NoPolicy),
        ("a piece that is only said to be long", endless_piece, Damaged::CutOff),
        ("a number as bytes", number_as_bytes, Damaged::NoState),
    ];
    for (name, bytes, damage) in cases {
        assert_eq!(Record::read(&mut &bytes[..]), Err(damage), "{name}");
    }
}
