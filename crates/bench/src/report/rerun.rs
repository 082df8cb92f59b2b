//! The command line that makes a report again, fit to be shown: credentials never stand in it.

/// What stands for the credentials of a target.
const HIDDEN: &str = "CREDENTIALS@";

/// Flags whose value is a target.
const TARGETS: [&str; 3] = ["--target", "--compare", "--failover"];

/// The words of a command as a shell would read them, with the credentials of every target taken out.
pub(crate) fn command_line(words: impl IntoIterator<Item = String>) -> String {
    let mut shown = Vec::new();
    let mut is_target = false;
    for (place, word) in words.into_iter().enumerate() {
        let word = match word.split_once('=') {
            // The program's folder says nothing to others.
            _ if place == 0 => word.rsplit('/').next().unwrap_or_default().to_owned(),
            Some((flag, target)) if TARGETS.contains(&flag) => format!("{flag}={}", without_credentials(target)),
            _ if is_target || word.contains("redis://") => without_credentials(&word),
            _ => word,
        };
        is_target = TARGETS.contains(&word.as_str());
        shown.push(quoted(&word));
    }
    shown.join(" ")
}

/// As `Target` reads it, all up to the last `@` are credentials, except in the path of a Unix socket.
fn without_credentials(target: &str) -> String {
    if target.starts_with("unix:") {
        return target.to_owned();
    }
    match target.rsplit_once('@') {
        None => target.to_owned(),
        Some((before, address)) => {
            let scheme = before.split_once("redis://").map(|(scheme, _)| format!("{scheme}redis://"));
            format!("{}{HIDDEN}{address}", scheme.unwrap_or_default())
        }
    }
}

fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@,%+".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], expected: &str) {
        assert_eq!(command_line(words.iter().map(|word| (*word).to_owned())), expected);
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        check(&["/usr/bin/tollgate", "bench", "--keys", "7"], "tollgate bench --keys 7");
        check(&["t", "--command", "RL.SLIDE {key} 100 60"], "t --command 'RL.SLIDE {key} 100 60'");
        check(&["t", "it's", ""], r"t 'it'\''s' ''");
        check(&["t", "--target=unix:/a@b", "--target", "unix:/c@d"], "t --target=unix:/a@b --target unix:/c@d");
    }

    #[test]
    fn credentials_are_never_shown() {
        let secret = "p@ss=w'ord";
        for line in [
            vec!["t".to_owned(), "--target".to_owned(), format!("redis://:{secret}@h:1")],
            vec!["t".to_owned(), format!("--target=redis://me:{secret}@h:1")],
            vec!["t".to_owned(), "--target".to_owned(), format!("me:{secret}@h:1")],
            vec!["t".to_owned(), "--compare".to_owned(), format!("redis://{secret}@h:1"), "--compare=h:2".to_owned()],
            vec!["t".to_owned(), format!("--unknown=redis://me:{secret}@h:1")],
        ] {
            let shown = command_line(line);
            assert!(!shown.contains("ss") && !shown.contains("ord") && !shown.contains("me:"), "{shown}");
            assert!(shown.contains("CREDENTIALS@h:1"), "{shown}");
        }
    }
}
