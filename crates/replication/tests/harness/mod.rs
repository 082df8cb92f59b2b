//! What must hold of any bytes that are taken for records or for a snapshot. Shared with the fuzz target.

use tollgate_limits::StateRef;
use tollgate_replication::snapshot::{Part, Reader};
use tollgate_replication::{Record, import, write, write_piece};
use tollgate_store::{Content, Eviction, Holding, Store, StoreConfig};

/// The time at which records are taken over.
pub const NOW: u64 = 1_577_836_800_000_000;

/// An empty store.
pub fn store() -> Store {
    Store::new(StoreConfig {
        hash_seed: [1, 2, 3, 4],
        core: 0,
        cores: 1,
        memory_max_bytes: 0,
        eviction: Eviction::NoEviction,
        random_seed: 1,
    })
}

/// Bytes from anywhere: as records, and as a file.
pub fn check(input: &[u8]) {
    check_records(input);
    let Ok(mut reader) = Reader::new(input) else { return };
    let mut body = Vec::new();
    while let Ok(Part::Records(_)) = reader.next(&mut body) {
        check_records(&body);
    }
    assert!(body.capacity() <= 4 * input.len() + (1 << 17), "taken for {} bytes: {}", input.len(), body.capacity());
}

/// What is read is written as the same bytes, and a store that takes it over can be served from.
fn check_records(input: &[u8]) {
    let (mut rest, mut read) = (input, 0);
    while let Ok(Record { key, content, kept_through }) = Record::read(&mut rest) {
        let mut again = Vec::new();
        match (content.as_ref().map(Content::holding), kept_through) {
            (Some(Holding::Limit(policy, StateRef::Log(log))), Some(through)) => {
                write_piece(&mut again, key, policy, log, through);
            }
            (holding, kept_through) => {
                assert_eq!(kept_through, None, "only logs come in pieces");
                write(&mut again, key, holding);
            }
        }
        assert_eq!(again, input[read..input.len() - rest.len()]);
        read = input.len() - rest.len();
        if rest.is_empty() {
            break;
        }
    }
    let mut store = store();
    // Whether all of it is good or only its begin.
    let _ = import(input, &mut store, NOW);
    for now in [0, NOW, u64::MAX] {
        store.sweep(now, 1_000);
        assert_eq!(store.memory_used(), store.memory_recounted());
    }
}
