//! What one decision costs: each limit on a key that exists, the common ones on a key that does not, and the numbers
//! of a call.
//!
//! `cargo bench -p tollgate-limits`

#![allow(clippy::expect_used, reason = "the numbers of a benchmark are known to be good")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tollgate_limits::{
    Ask, Bucket, Change, Fixed, Log, LogChange, Micros, Mode, Policy, Rate, Slide, StateRef, Window, decide,
    parse_amount, parse_rate, parse_window,
};

const NOW: Micros = 1_751_540_400_400_000;
const LIMIT: u64 = 1_000_000;

fn ask(policy: Policy) -> Ask {
    Ask { policy, cost: 1, mode: Mode::Charge }
}

fn bench(criterion: &mut Criterion, name: &str, call: &Ask, stored: Option<(&Policy, StateRef<'_>)>) {
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| decide(black_box(stored), black_box(call), black_box(NOW)));
    });
}

/// The bucket after one charge.
fn charged(call: &Ask) -> Bucket {
    match decide(None, call, NOW - 1_000).map(|outcome| outcome.change) {
        Some(Change::Bucket(_, bucket)) => bucket,
        other => panic!("a bucket is charged: {other:?}"),
    }
}

fn windows(criterion: &mut Criterion) {
    let window = Window::new(60_000_000).expect("a window");
    let slide = ask(Policy::Slide { limit: LIMIT, window });
    let index = NOW / window.micros();
    let both = Slide { index, cur: 55, prev: 82 };
    bench(criterion, "slide hit", &slide, Some((&slide.policy, StateRef::Slide(both))));
    let next = Slide { index: index - 1, cur: 55, prev: 82 };
    bench(criterion, "slide hit in the next window", &slide, Some((&slide.policy, StateRef::Slide(next))));
    bench(criterion, "slide miss", &slide, None);
    let full = Ask { policy: Policy::Slide { limit: 100, window }, ..slide };
    bench(criterion, "slide denied", &full, Some((&full.policy, StateRef::Slide(both))));

    let fixed = ask(Policy::Fixed { limit: LIMIT, window });
    bench(criterion, "fixed hit", &fixed, Some((&fixed.policy, StateRef::Fixed(Fixed { index, count: 55 }))));

    let log = ask(Policy::Log { limit: LIMIT, window });
    let mut entries = Log::default();
    for back in (0..100_000).rev() {
        entries.apply(LogChange::Append { at: NOW - back * 500, units: 1, drop_through: 0 });
    }
    bench(criterion, "log hit of 100,000 entries", &log, Some((&log.policy, StateRef::Log(&entries))));
}

fn buckets(criterion: &mut Criterion) {
    let rows = [
        ("10 a second", 20, Rate::new(10, 1_000_000)),
        ("100 a minute, capacity 1,000,000", LIMIT, Rate::new(100, 60_000_000)),
        ("17 digits, capacity 10^12", 1_000_000_000_000, Rate::new(99_999_999_999_999_999, 10_u128.pow(23))),
    ];
    for (name, capacity, rate) in rows {
        let token = ask(Policy::Token { capacity, rate: rate.expect("a rate") });
        let stored = (&token.policy, StateRef::Token(charged(&token)));
        bench(criterion, &format!("token hit, {name}"), &token, Some(stored));
        bench(criterion, &format!("token miss, {name}"), &token, None);
    }
    let leak = ask(Policy::Leak { capacity: 20, rate: Rate::new(10, 1_000_000).expect("a rate") });
    bench(criterion, "leak hit", &leak, Some((&leak.policy, StateRef::Leak(charged(&leak)))));
}

fn numbers(criterion: &mut Criterion) {
    criterion.bench_function("parse amount", |bencher| bencher.iter(|| parse_amount(black_box(b"100"))));
    criterion.bench_function("parse window", |bencher| bencher.iter(|| parse_window(black_box(b"60"))));
    criterion.bench_function("parse rate", |bencher| bencher.iter(|| parse_rate(black_box(b"100/1m"))));
}

criterion_group!(benches, windows, buckets, numbers);
criterion_main!(benches);
