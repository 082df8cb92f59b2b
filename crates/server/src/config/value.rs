//! One parser for each kind of value. Each answers nothing where the text is not of its kind; what to say about that
//! stands in the setting's row.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A whole number: digits only, no sign, no spaces.
pub(super) fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// A size in Redis's units, in any case: bytes without a unit or with `b`; `k`, `m`, `g` count in thousands;
/// `kb`, `mb`, `gb` count in 1024s.
pub(super) fn size_bytes(text: &str) -> Option<u64> {
    let digits_end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(digits_end)?;
    let unit_bytes: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number(digits)?.checked_mul(unit_bytes)
}

/// Yes or no, in the words that people use for it, in any case.
pub(super) fn yes_or_no(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "true" | "1" | "on" => Some(true),
        "no" | "false" | "0" | "off" => Some(false),
        _ => None,
    }
}

/// Permission bits from octal digits, at most 777.
pub(super) fn permission_bits(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|byte| matches!(byte, b'0'..=b'7')) {
        return None;
    }
    u32::from_str_radix(text, 8).ok().filter(|&bits| bits <= 0o777)
}

/// One address; one in square brackets is read too, as it stands in a URL.
pub(super) fn address(text: &str) -> Option<IpAddr> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match inner {
        Some(version_six) => version_six.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    }
}

/// Addresses between spaces or commas, each kept once; `*` is every address of both families.
pub(super) fn addresses(text: &str) -> Option<Vec<IpAddr>> {
    let mut found: Vec<IpAddr> = Vec::new();
    for word in text.split([' ', ',', '\t']).filter(|word| !word.is_empty()) {
        let named = match word {
            "*" => vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)],
            _ => vec![address(word)?],
        };
        for one in named {
            if !found.contains(&one) {
                found.push(one);
            }
        }
    }
    Some(found)
}

/// A host and its port: `host:port`, an IPv6 address in brackets.
pub(super) fn host_and_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_name = !host.is_empty() && host.len() <= 255 && host.bytes().all(|byte| byte.is_ascii_graphic());
    let port = u16::try_from(number(port)?).ok().filter(|port| *port > 0)?;
    is_name.then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_redis_units() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("17b", Some(17)),
            ("1k", Some(1_000)),
            ("1kb", Some(1_024)),
            ("1K", Some(1_000)),
            ("1KB", Some(1_024)),
            ("5m", Some(5_000_000)),
            ("100mb", Some(104_857_600)),
            ("1g", Some(1_000_000_000)),
            ("1gb", Some(1_073_741_824)),
            ("1Gb", Some(1_073_741_824)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("17179869184gb", None),
            ("", None),
            ("gb", None),
            ("1 gb", None),
            ("1.5gb", None),
            ("-1", None),
            ("+1", None),
            ("1tb", None),
            ("1gbb", None),
            ("1é", None),
            ("٣mb", None),
        ] {
            assert_eq!(size_bytes(text), bytes, "{text:?}");
        }
    }

    #[test]
    fn numbers_are_digits_only() {
        for (text, value) in [("0", Some(0)), ("007", Some(7)), ("", None), ("+7", None), ("-7", None), ("7 ", None)] {
            assert_eq!(number(text), value, "{text:?}");
        }
    }

    #[test]
    fn permission_bits_are_octal() {
        for (text, bits) in [
            ("700", Some(0o700)),
            ("0770", Some(0o770)),
            ("0", Some(0)),
            ("777", Some(0o777)),
            ("1777", None),
            ("448", None),
            ("", None),
            ("-7", None),
            ("77777777777777777777", None),
        ] {
            assert_eq!(permission_bits(text), bits, "{text:?}");
        }
    }

    #[test]
    fn address_lists_are_split_and_deduplicated() {
        for (text, shown) in [
            ("127.0.0.1", Some("[127.0.0.1]")),
            ("127.0.0.1 ::1", Some("[127.0.0.1, ::1]")),
            ("127.0.0.1,[::1], 127.0.0.1", Some("[127.0.0.1, ::1]")),
            ("*", Some("[0.0.0.0, ::]")),
            ("", Some("[]")),
            ("localhost", None),
            ("127.0.0.1:6379", None),
            ("[127.0.0.1]", None),
            ("-::1", None),
            ("127.1", None),
        ] {
            assert_eq!(addresses(text).map(|list| format!("{list:?}")).as_deref(), shown, "{text:?}");
        }
    }
}
