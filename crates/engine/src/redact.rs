//! Which arguments no log, no MONITOR and no other client may ever see.

use crate::command::Command;
use crate::slowlog::is_secret;
use tollgate_resp::Args;

/// What is shown in the place of a secret.
pub const REDACTED: &str = "(redacted)";

/// The positions of what is, or may be, a secret among a call's arguments, as the slow log knows them.
pub fn secrets<'a>(command: &Command, args: Args<'a>) -> impl Fn(usize) -> bool + 'a {
    let name = command.name;
    move |position| is_secret(name, args, position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Found, registry};
    use tollgate_resp::Span;

    fn shown(line: &str) -> String {
        let mut spans = Vec::new();
        let mut start = 0;
        for word in line.split(' ') {
            let end = start + u32::try_from(word.len()).unwrap();
            spans.push(Span { start, end });
            start = end + 1;
        }
        let args = Args::new(line.as_bytes(), &spans);
        let Found::Row(entry) = registry().find(args) else { panic!("{line} names no command") };
        let is_secret = secrets(entry.command, args);
        let words = line.split(' ').enumerate().map(|(at, word)| if is_secret(at) { "*" } else { word });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn passwords_and_their_users_are_secret_and_nothing_else() {
        let table = [
            ("AUTH pw", "AUTH *"),
            ("auth default pw", "auth * *"),
            ("HELLO 3", "HELLO 3"),
            ("HELLO 3 AUTH default pw SETNAME me", "HELLO 3 AUTH * * * *"),
            ("hello 3 setname me auth default pw", "hello 3 setname me auth * *"),
            ("HELLO 2 auth default word pw", "HELLO 2 auth * * *"),
            ("COMMAND GETKEYS AUTH pw", "COMMAND GETKEYS AUTH *"),
            ("ACL SETUSER me >pw", "ACL SETUSER me *"),
            ("ECHO auth", "ECHO auth"),
            ("RL.SLIDE auth 5 60", "RL.SLIDE auth 5 60"),
        ];
        for (line, expected) in table {
            assert_eq!(shown(line), expected);
        }
    }
}
