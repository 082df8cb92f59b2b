//! RANDOMKEY: each core draws one of its keys, and one of these is drawn with the cores' numbers of keys as weights.

use crate::call::Call;
use crate::core::Core;
use crate::fragment::{split_count, write_count};
use tollgate_resp::Reply;

/// One core's part of RANDOMKEY: how many keys it has, a random number, and one of the keys. Nothing if it has none.
pub fn random_key_part(core: &mut Core, call: &Call<'_>, fragment: &mut Vec<u8>) {
    let Some(id) = core.store.pick(call.now) else { return };
    write_count(fragment, core.store.len());
    write_count(fragment, u64::from(core.store.random_below(u32::MAX)));
    fragment.extend_from_slice(core.store.key(id));
}

/// RANDOMKEY.
pub fn random_key_merge(fragments: &[&[u8]], _call: &Call<'_>, reply: &mut Reply<'_>) {
    match draw(fragments) {
        Some(key) => reply.bulk(key),
        None => reply.null(),
    }
}

/// One of the parts' keys. A part's number is drawn by its own core, so together they are as good as one.
fn draw<'a>(fragments: &[&'a [u8]]) -> Option<&'a [u8]> {
    let read = |fragment: &&'a [u8]| {
        let (keys, rest) = split_count(fragment)?;
        let (random, key) = split_count(rest)?;
        Some((keys, random, key))
    };
    let parts: Vec<_> = fragments.iter().filter_map(read).collect();
    let all = parts.iter().fold(0_u64, |sum, (keys, ..)| sum.saturating_add(*keys));
    let random = parts.iter().fold(0, |mixed, (_, random, _)| mixed ^ random);
    let mut drawn = random.checked_rem(all)?;
    for (keys, _, key) in &parts {
        if drawn < *keys {
            return Some(key);
        }
        drawn -= keys;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(keys: u64, random: u64, key: &str) -> Vec<u8> {
        let mut fragment = Vec::new();
        write_count(&mut fragment, keys);
        write_count(&mut fragment, random);
        fragment.extend_from_slice(key.as_bytes());
        fragment
    }

    #[test]
    fn a_core_is_drawn_as_often_as_it_has_keys() {
        let mut drawn = [0; 3];
        for random in 0..100 {
            let fragments = [part(1, random, "a"), Vec::new(), part(3, 0, "b"), part(6, 0, "c")];
            let fragments: Vec<&[u8]> = fragments.iter().map(Vec::as_slice).collect();
            match draw(&fragments) {
                Some(b"a") => drawn[0] += 1,
                Some(b"b") => drawn[1] += 1,
                Some(b"c") => drawn[2] += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(drawn, [10, 30, 60]);
        assert_eq!(draw(&[&[], &[]]), None);
    }
}
