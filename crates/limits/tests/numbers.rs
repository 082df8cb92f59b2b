//! How numbers are written, and what is said about those that are not.

use proptest::prelude::*;
use tollgate_limits::{
    AMOUNT_MAX, NumberError, NumberKind, Rate, WINDOW_MICROS_MAX, WINDOW_MICROS_MIN, parse_amount, parse_duration,
    parse_instant, parse_rate, parse_window,
};

/// What is never a number, whatever it is meant to be.
const NOT_NUMBERS: [&str; 41] = [
    "", " ", "-1", "-0", "+1", "1e3", "1e400", "0x10", "nan", "inf", "NaN", "infinity", " 5", "5 ", "5\n", "5\0", "01",
    "00", "00.5", ".5", "5.", "1..2", "1.2.3", "1_000", "1,000", "٣", "five", "--1", "1-", "1/", "/1", "1/1/1", "1/0",
    "1/-1", "1 /2", "1/ 2", "1S", "1M", "1min", "1/1M", "1x",
];

fn text<T: std::fmt::Debug>(result: Result<T, NumberError>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

#[test]
fn what_is_not_a_number() {
    for written in NOT_NUMBERS {
        let bytes = written.as_bytes();
        assert_eq!(parse_amount(bytes), Err(NumberError::NotANumber(NumberKind::Amount)), "{written:?}");
        assert_eq!(parse_window(bytes), Err(NumberError::NotANumber(NumberKind::Window)), "{written:?}");
        assert_eq!(parse_rate(bytes), Err(NumberError::NotANumber(NumberKind::Rate)), "{written:?}");
        assert_eq!(parse_duration(bytes), Err(NumberError::NotANumber(NumberKind::Duration)), "{written:?}");
        assert_eq!(parse_instant(bytes), Err(NumberError::NotANumber(NumberKind::Instant)), "{written:?}");
    }
}

#[test]
fn amounts() {
    let wrong = || Err("must be a whole number from 0 to 1000000000000".to_owned());
    let rows = [
        ("0", Ok(0)),
        ("1", Ok(1)),
        ("100", Ok(100)),
        ("1000000000000", Ok(AMOUNT_MAX)),
        ("1000000000001", wrong()),
        ("999999999999999999", wrong()),
        ("18446744073709551616", wrong()),
        ("1.0", wrong()),
        ("1s", wrong()),
        ("-9223372036854775808", wrong()),
    ];
    for (written, expected) in rows {
        assert_eq!(text(parse_amount(written.as_bytes())), expected, "{written}");
    }
}

#[test]
fn windows() {
    let rows = [
        ("1", Ok(1_000_000)),
        ("0.5", Ok(500_000)),
        ("1.50", Ok(1_500_000)),
        ("1ms", Ok(WINDOW_MICROS_MIN)),
        ("1000us", Ok(1_000)),
        ("0.001", Ok(1_000)),
        ("1s", Ok(1_000_000)),
        ("1m", Ok(60_000_000)),
        ("1.5h", Ok(5_400_000_000)),
        ("1d", Ok(86_400_000_000)),
        ("1w", Ok(604_800_000_000)),
        ("3650d", Ok(WINDOW_MICROS_MAX)),
        ("0.0000025m", Err("must be at least 1ms")),
        ("0", Err("must be at least 1ms")),
        ("0.0", Err("must be at least 1ms")),
        ("999us", Err("must be at least 1ms")),
        ("3650.00000001d", Err("must be at most 3650d")),
        ("999999999999999999w", Err("must be at most 3650d")),
        ("1000.5us", Err("must be a whole number of microseconds")),
        ("1.0000001", Err("must be a whole number of microseconds")),
        ("1000000000000000000", Err("must have at most 18 digits")),
        ("1.000000000000000000", Err("must have at most 18 digits")),
    ];
    for (written, expected) in rows {
        let micros = parse_window(written.as_bytes()).map(|window| window.micros());
        assert_eq!(text(micros), expected.map_err(str::to_owned), "{written}");
    }
}

#[test]
fn rates() {
    let rows = [
        ("10", Ok((1, 100_000))),
        ("600/1m", Ok((1, 100_000))),
        ("0.5", Ok((1, 2_000_000))),
        ("100/60", Ok((1, 600_000))),
        ("100/1m", Ok((1, 600_000))),
        ("0.5/1m", Ok((1, 120_000_000))),
        ("1000/0.5us", Err("must be at most 1000000000 a second")),
        ("1000000000", Ok((1_000, 1))),
        ("1/365d", Ok((1, 31_536_000_000_000))),
        ("17/30", Ok((17, 30_000_000))),
        ("0.00000003170979199", Ok((3_170_979_199, 100_000_000_000_000_000_000_000))),
        ("123456789012345/7w", Ok((8_230_452_600_823, 282_240_000_000))),
        ("1/366d", Err("must be at least 1 in 365d")),
        ("0.00000003170979198", Err("must be at least 1 in 365d")),
        ("0", Err("must be at least 1 in 365d")),
        ("0.0", Err("must be at least 1 in 365d")),
        ("0/60", Err("must be at least 1 in 365d")),
        ("1000000001", Err("must be at most 1000000000 a second")),
        ("1000000000.1", Err("must be at most 1000000000 a second")),
        ("999999999999999999", Err("must be at most 1000000000 a second")),
        ("1234567890/123456789", Err("must have at most 18 digits")),
        ("1000000000000000000", Err("must have at most 18 digits")),
        ("10s", Err("must be a rate such as 10, 0.5, 100/60 or 100/1m")),
        ("1/0.0", Err("must be a rate such as 10, 0.5, 100/60 or 100/1m")),
    ];
    for (written, expected) in rows {
        let rate = parse_rate(written.as_bytes()).map(|rate| (rate.tokens(), rate.micros()));
        assert_eq!(text(rate), expected.map_err(str::to_owned), "{written}");
    }
}

#[test]
fn clocks() {
    let rows = [
        ("137us", Ok(137)),
        ("1us", Ok(1)),
        ("1751540400", Ok(1_751_540_400_000_000)),
        ("1751540400s", Ok(1_751_540_400_000_000)),
        ("1751540400.000001", Ok(1_751_540_400_000_001)),
        ("0", Err("must be at least 1us")),
        ("0.5us", Err("must be a whole number of microseconds")),
        ("281474976710.655999", Ok(281_474_976_710_655_999)),
        ("281474976710.656", Err("must be at most 281474976710s")),
    ];
    for (written, expected) in rows {
        assert_eq!(text(parse_duration(written.as_bytes())), expected.map_err(str::to_owned), "{written}");
        assert_eq!(text(parse_instant(written.as_bytes())), expected.map_err(str::to_owned), "{written}");
    }
}

/// Equal rates are equal values, however they are written.
#[test]
fn rates_are_compared_as_numbers() {
    for (one, other) in [("10", "600/1m"), ("0.1", "1/10"), ("1", "1000/1000.0"), ("7", "4233600/1w"), ("2.50", "5/2")]
    {
        assert_eq!(parse_rate(one.as_bytes()), parse_rate(other.as_bytes()), "{one} {other}");
    }
    assert_eq!(Rate::new(u64::MAX, u128::MAX), None);
    assert_eq!(Rate::new(0, 1), None);
    assert_eq!(Rate::new(1, 0), None);
}

fn written_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(&b"0123456789.ush/mw -e"[..]), 0..24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_a_number_or_an_error(bytes in written_bytes()) {
        for kept in [parse_amount(&bytes).ok(), parse_duration(&bytes).ok(), parse_instant(&bytes).ok()] {
            prop_assert!(kept.is_none() || bytes[0].is_ascii_digit());
        }
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        if let Ok(window) = parse_window(&bytes) {
            // Any window is found again as whole microseconds.
            prop_assert_eq!(parse_window(format!("{}us", window.micros()).as_bytes()), Ok(window), "{}", shown);
        }
        prop_assert_eq!(parse_rate(&bytes).is_ok_and(|rate| rate.tokens() == 0), false);
    }

    #[test]
    fn whole_amounts_are_read_as_written(amount in 0_u64..=2_000_000_000_000) {
        let read = parse_amount(amount.to_string().as_bytes()).ok();
        prop_assert_eq!(read, (amount <= AMOUNT_MAX).then_some(amount));
    }
}
