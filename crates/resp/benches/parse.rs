//! What one request costs to parse and one reply to write, in nanoseconds of one core.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tollgate_resp::{Parser, Protocol, Reply, RequestLimits, Span, Step};

/// Commands in one read of a pipelining client.
const BATCH: usize = 16;

fn encode(arguments: &[&str]) -> Vec<u8> {
    let mut wire = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        wire.extend_from_slice(format!("${}\r\n{argument}\r\n", argument.len()).as_bytes());
    }
    wire
}

/// Parses all commands in `wire` and gives how many bytes that took.
fn parse_all(parser: &mut Parser, wire: &[u8], spans: &mut Vec<Span>) -> usize {
    spans.clear();
    let mut start = 0;
    while let Ok(Step::Command { end }) = parser.step(wire, start, spans) {
        start = end;
    }
    start
}

fn parse(criterion: &mut Criterion) {
    let slide = ["RL.SLIDE", "rl:{user:00001234}:orders", "100", "1"];
    let with_cost = ["RL.SLIDE", "rl:{user:00001234}:orders", "100", "1", "COST", "5"];
    let samples = [
        ("slide, 4 words", encode(&slide), 1),
        ("slide with cost, 6 words", encode(&with_cost), 1),
        ("slide, batch of 16", encode(&slide).repeat(BATCH), BATCH),
        ("slide with cost, batch of 16", encode(&with_cost).repeat(BATCH), BATCH),
    ];
    let mut group = criterion.benchmark_group("parse");
    for (name, wire, commands) in samples {
        let mut parser = Parser::new(RequestLimits::AUTHENTICATED);
        let mut spans = Vec::new();
        assert_eq!(parse_all(&mut parser, &wire, &mut spans), wire.len());
        group.throughput(Throughput::Elements(u64::try_from(commands).unwrap_or(1)));
        group.bench_function(name, |bencher| {
            bencher.iter(|| parse_all(&mut parser, black_box(&wire), &mut spans));
        });
    }
    group.finish();
}

fn reply(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reply");
    let mut out = Vec::with_capacity(4096);
    for (name, values) in
        [("five, allowed", [1, 100, 42, 0, 1600]), ("five, large", [0, 1_000_000_000_000, 0, -1, 86_400_000])]
    {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                out.clear();
                Reply::new(&mut out, Protocol::Resp2).five(black_box(values));
                out.len()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, parse, reply);
criterion_main!(benches);
