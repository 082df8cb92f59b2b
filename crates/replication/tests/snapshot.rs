//! Snapshots: what comes back is what was there, and what is not whole does not come back at all.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

use std::collections::BTreeMap;
use std::io::Cursor;
use tollgate_limits::{Ask, Micros, Mode, Policy, Rate, Window};
use tollgate_replication::snapshot::{MAGIC, Part, Reader, SNAPSHOT_VERSION, Stamp, Unreadable, Writer, stamp_of};
use tollgate_replication::{Export, import};
use tollgate_store::{Content, Eviction, Holding, Store, StoreConfig, Value};

const NOW: Micros = 1_577_836_800_000_000;
const STAMP: Stamp = Stamp { timeline: NOW + 7, wall: NOW + 9 };

fn store(core: u16, cores: u16) -> Store {
    Store::new(StoreConfig {
        hash_seed: [u64::from(core) + 1, 2, 3, 4],
        core,
        cores,
        memory_max_bytes: 0,
        eviction: Eviction::NoEviction,
        random_seed: 1,
    })
}

fn policies() -> [Policy; 5] {
    let (window, rate) = (Window::new(60_000_000).unwrap(), Rate::new(7, 3_000_000).unwrap());
    [
        Policy::Slide { limit: 10, window },
        Policy::Fixed { limit: 10, window },
        Policy::Log { limit: 10, window },
        Policy::Token { capacity: 10, rate },
        Policy::Leak { capacity: 10, rate },
    ]
}

/// Puts keys of each kind into a store, as far as they are its own.
fn fill(store: &mut Store, keys: std::ops::Range<usize>) {
    let (hasher, policies) = (store.hasher(), policies());
    for number in keys {
        let key = format!("key:{number}");
        let at = hasher.locate(key.as_bytes());
        if !store.owns(at.slot) {
            continue;
        }
        match policies.get(number % 8) {
            Some(policy) => {
                for cost in [2, 3] {
                    let ask = Ask { policy: *policy, cost, mode: Mode::Charge };
                    store.charge(at, key.as_bytes(), &ask, NOW + cost).unwrap();
                }
            }
            None => {
                let value = if number % 8 == 5 { Value::Integer(-5) } else { Value::Bytes(b"some bytes") };
                let content = Content::of(Holding::Value(value, (number % 8 == 6).then_some(NOW + 1_000_000_000)));
                store.put_content(at, key.as_bytes(), None, &content, false, NOW).unwrap();
            }
        }
    }
}

/// All that stores hold, by key.
fn held(stores: &[Store]) -> BTreeMap<Vec<u8>, Content> {
    let mut held = BTreeMap::new();
    for store in stores {
        let mut cursor = store.first_cursor();
        while let Some(at) = cursor {
            cursor = store.scan(at, 100, NOW, &mut |id, key| {
                held.insert(key.to_vec(), store.content(id));
            });
        }
    }
    held
}

/// A snapshot of stores, in parts of some records each.
fn written(stores: &mut [Store]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for store in stores {
        let mut walk = Export::new(store);
        while !walk.is_done() {
            let mut part = Vec::new();
            let records = walk.step(store, 10, NOW, &mut part);
            writer.records(&part, records).unwrap();
        }
    }
    writer.end(STAMP).unwrap()
}

/// Reads a snapshot into stores. `None`: it was refused.
fn read(file: &[u8], stores: &mut [Store]) -> Result<Stamp, Unreadable> {
    let (mut reader, mut body) = (Reader::new(file)?, Vec::new());
    for number in 0.. {
        match reader.next(&mut body)? {
            Part::Records(count) => {
                for store in &mut *stores {
                    let records = import(&body, store, NOW).map_err(|error| Unreadable::Record(number, error))?;
                    assert_eq!(records, count);
                }
            }
            Part::End(stamp) => return Ok(stamp),
        }
    }
    unreachable!("a snapshot has an end")
}

fn cores(count: u16) -> Vec<Store> {
    (0..count).map(|core| store(core, count)).collect()
}

#[test]
fn what_was_there_comes_back_whatever_the_number_of_cores() {
    for from in [1, 2, 5] {
        let mut stores = cores(from);
        stores.iter_mut().for_each(|store| fill(store, 0..1_000));
        let (file, expected) = (written(&mut stores), held(&stores));
        assert_eq!(expected.len(), 1_000);
        assert_eq!(stamp_of(&mut Cursor::new(&file)).unwrap(), STAMP);
        for to in [1, 3] {
            let mut again = cores(to);
            assert_eq!(read(&file, &mut again).unwrap(), STAMP);
            assert_eq!(held(&again), expected, "{from} cores, then {to}");
            for store in &again {
                assert_eq!(store.memory_used(), store.memory_recounted());
            }
        }
    }
}

#[test]
fn what_is_there_all_the_while_is_in_it_though_tables_grow() {
    let mut stores = [store(0, 1)];
    stores[0].set_split_load(3);
    fill(&mut stores[0], 0..500);
    let before = held(&stores);
    let (mut writer, mut walk, mut next) = (Writer::new(Vec::new()).unwrap(), Export::new(&stores[0]), 500);
    while !walk.is_done() {
        let mut part = Vec::new();
        let records = walk.step(&mut stores[0], 10, NOW, &mut part);
        writer.records(&part, records).unwrap();
        fill(&mut stores[0], next..next + 30);
        next += 30;
    }
    let mut again = cores(1);
    read(&writer.end(STAMP).unwrap(), &mut again).unwrap();
    let (found, now) = (held(&again), held(&stores));
    assert!(before.iter().all(|(key, content)| found.get(key) == Some(content)));
    assert!(found.iter().all(|(key, content)| now.get(key) == Some(content)));
}

#[test]
fn keys_that_have_expired_are_left_out() {
    let mut stores = cores(1);
    fill(&mut stores[0], 0..80);
    let (mut writer, mut walk, mut records) = (Writer::new(Vec::new()).unwrap(), Export::new(&stores[0]), 0);
    let mut part = Vec::new();
    while !walk.is_done() {
        records += walk.step(&mut stores[0], 1_000, NOW + 2_000_000_000, &mut part);
    }
    writer.records(&part, records).unwrap();
    // Integers and bytes without an expiry: two of eight.
    assert_eq!(records, 20);
    let mut again = cores(1);
    read(&writer.end(STAMP).unwrap(), &mut again).unwrap();
    assert_eq!(held(&again).len(), 20);
}

/// Where the parts of a snapshot begin, and its end.
fn boundaries(file: &[u8]) -> Vec<usize> {
    let mut at = MAGIC.len() + 1;
    let mut places = vec![at];
    while at < file.len() {
        at += 9 + u32::from_le_bytes(file[at + 5..at + 9].try_into().unwrap()) as usize + 4;
        places.push(at);
    }
    places
}

#[test]
fn no_piece_of_a_snapshot_is_taken_for_one() {
    let mut stores = cores(1);
    fill(&mut stores[0], 0..60);
    let file = written(&mut stores);
    let places = boundaries(&file);
    assert!(places.len() > 4 && places.last() == Some(&file.len()));
    for end in 0..file.len() {
        let error = read(&file[..end], &mut cores(1)).unwrap_err();
        match end {
            ..9 => assert!(matches!(error, Unreadable::Foreign), "{end}: {error}"),
            _ => assert!(matches!(error, Unreadable::CutOff(_)), "{end}: {error}"),
        }
        assert!(stamp_of(&mut Cursor::new(&file[..end])).is_err(), "{end}");
    }
    // Without a part, with one twice, with two in another order, with something behind.
    let part = |number: usize| &file[places[number]..places[number + 1]];
    let (first, last) = (&file[..places[0]], places.len() - 2);
    let without = [first, &file[places[1]..]].concat();
    let twice = [first, part(0), &file[places[0]..]].concat();
    let swapped = [first, part(1), part(0), &file[places[2]..]].concat();
    let behind = [&file[..], &[0]].concat();
    let only_end = [first, part(last)].concat();
    for (name, changed) in
        [("without", without), ("twice", twice), ("swapped", swapped), ("behind", behind), ("only the end", only_end)]
    {
        let error = read(&changed, &mut cores(1)).unwrap_err();
        assert!(matches!(error, Unreadable::Damaged(..)), "{name}: {error}");
    }
}

#[test]
fn no_changed_bit_is_overlooked() {
    let mut stores = cores(1);
    fill(&mut stores[0], 0..16);
    let file = written(&mut stores);
    for place in 0..file.len() {
        for bit in 0..8 {
            let mut changed = file.clone();
            changed[place] ^= 1 << bit;
            let error = read(&changed, &mut cores(1)).unwrap_err();
            match place {
                ..8 => assert!(matches!(error, Unreadable::Foreign), "{place}: {error}"),
                8 => assert!(matches!(error, Unreadable::Newer(_) | Unreadable::Unknown(_)), "{place}: {error}"),
                _ => assert!(matches!(error, Unreadable::Damaged(..) | Unreadable::CutOff(_)), "{place}: {error}"),
            }
        }
    }
}

/// A part says that it is 4 GiB long; what is taken for it must be what is there.
#[test]
fn a_declared_length_takes_no_memory() {
    let mut file = [&MAGIC[..], &[SNAPSHOT_VERSION, 1, 0, 0, 0, 0]].concat();
    file.extend(u32::MAX.to_le_bytes());
    file.extend([0; 100]);
    let (mut reader, mut body) = (Reader::new(&file[..]).unwrap(), Vec::new());
    assert!(matches!(reader.next(&mut body), Err(Unreadable::CutOff(0))));
    assert!(body.capacity() < 1 << 20, "{}", body.capacity());
}

#[test]
fn later_versions_and_other_files_are_told_apart() {
    let mut later = written(&mut cores(1));
    later[8] = SNAPSHOT_VERSION + 1;
    let error = stamp_of(&mut Cursor::new(&later)).unwrap_err().to_string();
    assert!(error.contains(&format!("version {}", SNAPSHOT_VERSION + 1)), "{error}");
    for foreign in [&b""[..], b"REDIS0011\xfa\x09redis-ver", b"TOLLGATE"] {
        assert!(matches!(stamp_of(&mut Cursor::new(foreign)), Err(Unreadable::Foreign)));
    }
}
