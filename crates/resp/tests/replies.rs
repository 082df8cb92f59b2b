//! Every kind of reply in both protocols, byte for byte.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

use tollgate_resp::{Protocol, Reply};

/// One call of the writer.
type Write = fn(&mut Reply<'_>);

fn check(write: impl Fn(&mut Reply<'_>), resp2: &str, resp3: &str) {
    for (protocol, expected) in [(Protocol::Resp2, resp2), (Protocol::Resp3, resp3)] {
        let mut out = b"before ".to_vec();
        let mut reply = Reply::new(&mut out, protocol);
        assert_eq!(reply.protocol(), protocol);
        write(&mut reply);
        assert_eq!(String::from_utf8(out).unwrap(), format!("before {expected}"), "{protocol:?}");
    }
}

#[test]
fn replies_without_a_difference() {
    let same: [(Write, &str); 14] = [
        (|reply| reply.simple("OK"), "+OK\r\n"),
        (|reply| reply.simple("a\r\nb"), "+a  b\r\n"),
        (|reply| reply.error("ERR no such key"), "-ERR no such key\r\n"),
        (|reply| reply.error("ERR a\r\n+OK\r\n\u{7f}\u{85}\0\u{e9}"), "-ERR a  +OK     \u{e9}\r\n"),
        (|reply| reply.integer(0), ":0\r\n"),
        (|reply| reply.integer(-1), ":-1\r\n"),
        (|reply| reply.integer(1_000_000_000_000), ":1000000000000\r\n"),
        (|reply| reply.integer(i64::MIN), ":-9223372036854775808\r\n"),
        (|reply| reply.five([1, 100, 20, 0, 1600]), "*5\r\n:1\r\n:100\r\n:20\r\n:0\r\n:1600\r\n"),
        (|reply| reply.bulk(b""), "$0\r\n\r\n"),
        (|reply| reply.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n"),
        (|reply| reply.bulk_str("\u{e9}"), "$2\r\n\u{e9}\r\n"),
        (|reply| reply.array(0), "*0\r\n"),
        (|reply| reply.raw(b"+OK\r\n"), "+OK\r\n"),
    ];
    for (write, expected) in same {
        check(write, expected, expected);
    }
}

#[test]
fn replies_with_a_difference() {
    check(|reply| reply.null(), "$-1\r\n", "_\r\n");
    check(|reply| reply.null_array(), "*-1\r\n", "_\r\n");
    check(|reply| reply.map(7), "*14\r\n", "%7\r\n");
    check(|reply| reply.set(3), "*3\r\n", "~3\r\n");
    check(|reply| reply.push(3), "*3\r\n", ">3\r\n");
    check(|reply| reply.boolean(true), ":1\r\n", "#t\r\n");
    check(|reply| reply.boolean(false), ":0\r\n", "#f\r\n");
    check(|reply| reply.verbatim_txt("a b"), "$3\r\na b\r\n", "=7\r\ntxt:a b\r\n");
}

#[test]
fn doubles() {
    let samples = [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (10.5, "10.5"),
        (0.1, "0.1"),
        (-2.25, "-2.25"),
        (0.00001, "0.00001"),
        (123_456_789_012.0, "123456789012"),
        (1e17, "1e+17"),
        (1.5e300, "1.5e+300"),
        (2.5e-10, "2.5e-10"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN, "nan"),
    ];
    for (value, text) in samples {
        let resp2 = format!("${}\r\n{text}\r\n", text.len());
        check(|reply| reply.double(value), &resp2, &format!(",{text}\r\n"));
    }
}

#[test]
fn integers_of_every_length() {
    let mut value: i64 = 1;
    for _ in 0..18 {
        for near in [value - 1, value, value + 1, value * 9] {
            check(|reply| reply.integer(near), &format!(":{near}\r\n"), &format!(":{near}\r\n"));
            check(|reply| reply.integer(-near), &format!(":{}\r\n", -near), &format!(":{}\r\n", -near));
        }
        value *= 10;
    }
    let widest = [i64::MIN; 5];
    let lines = ":-9223372036854775808\r\n".repeat(5);
    check(|reply| reply.five(widest), &format!("*5\r\n{lines}"), &format!("*5\r\n{lines}"));
}

#[test]
fn a_long_error_is_cut_between_characters() {
    let text = format!("ERR {}", "\u{20ac}".repeat(1000));
    let mut out = Vec::new();
    Reply::new(&mut out, Protocol::Resp2).error(&text);
    assert_eq!(out.len(), 1 + 1024 + 2);
    assert!(std::str::from_utf8(&out).is_ok());
}
