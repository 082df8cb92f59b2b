//! Replies as text that a test can be compared with: `[1, 100, 99, 0, 2000]`, `+OK`, `-ERR ...`, `"bulk"`, `nil`,
//! `{"key": value}`, `~["member"]`, `txt:"..."`.

/// A decoded reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Verbatim(String),
    Null,
    Array(Vec<Value>),
    Set(Vec<Value>),
    Map(Vec<(Value, Value)>),
    /// No reply at all.
    Silence,
}

impl Value {
    /// Decodes exactly one reply, or none.
    pub fn decode(bytes: &[u8]) -> Value {
        if bytes.is_empty() {
            return Value::Silence;
        }
        let mut rest = bytes;
        let value = take(&mut rest);
        assert!(rest.is_empty(), "more than one reply: {:?}", String::from_utf8_lossy(bytes));
        value
    }

    /// The elements of an array or a set.
    pub fn elements(&self) -> &[Value] {
        match self {
            Value::Array(elements) | Value::Set(elements) => elements,
            other => panic!("no array: {other:?}"),
        }
    }

    /// The pairs of a map, which RESP2 writes as an array.
    pub fn pairs(&self) -> Vec<(Value, Value)> {
        match self {
            Value::Map(pairs) => pairs.clone(),
            Value::Array(elements) => {
                assert!(elements.len().is_multiple_of(2), "no pairs: {self:?}");
                elements.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
            }
            other => panic!("no map: {other:?}"),
        }
    }

    /// The value of a map's text key.
    pub fn field(&self, name: &str) -> Option<Value> {
        let is_named = |key: &Value| matches!(key, Value::Bulk(bytes) if bytes == name.as_bytes());
        self.pairs().into_iter().find(|(key, _)| is_named(key)).map(|(_, value)| value)
    }

    /// Words of any kind.
    pub fn words(&self) -> String {
        match self {
            Value::Simple(text) | Value::Verbatim(text) | Value::Error(text) => text.clone(),
            Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("no text: {other:?}"),
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Simple(text) => write!(formatter, "+{text}"),
            Value::Error(text) => write!(formatter, "-{text}"),
            Value::Integer(number) => write!(formatter, "{number}"),
            Value::Bulk(bytes) => write!(formatter, "{:?}", String::from_utf8_lossy(bytes)),
            Value::Verbatim(text) => write!(formatter, "txt:{text:?}"),
            Value::Null => formatter.write_str("nil"),
            Value::Silence => formatter.write_str("silence"),
            Value::Array(elements) => write!(formatter, "[{}]", joined(elements)),
            Value::Set(elements) => write!(formatter, "~[{}]", joined(elements)),
            Value::Map(pairs) => {
                let pairs: Vec<_> = pairs.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                write!(formatter, "{{{}}}", pairs.join(", "))
            }
        }
    }
}

fn joined(elements: &[Value]) -> String {
    elements.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")
}

fn take(rest: &mut &[u8]) -> Value {
    let (kind, line) = take_line(rest);
    let number = || line.parse::<i64>().unwrap_or_else(|_| panic!("no number: {line:?}"));
    match kind {
        b'+' => Value::Simple(line),
        b'-' => Value::Error(line),
        b':' => Value::Integer(number()),
        b'_' => Value::Null,
        b'$' | b'*' if number() == -1 => Value::Null,
        b'$' => Value::Bulk(take_bytes(rest, length(number()))),
        b'=' => {
            let text = String::from_utf8(take_bytes(rest, length(number()))).expect("verbatim text is UTF-8");
            Value::Verbatim(text.strip_prefix("txt:").expect("the format is txt").to_owned())
        }
        b'*' => Value::Array(take_many(rest, length(number()))),
        b'~' => Value::Set(take_many(rest, length(number()))),
        b'%' => Value::Map((0..length(number())).map(|_| (take(rest), take(rest))).collect()),
        other => panic!("unknown kind of reply: {:?}", char::from(other)),
    }
}

fn length(number: i64) -> usize {
    usize::try_from(number).expect("a length is not negative")
}

fn take_many(rest: &mut &[u8], count: usize) -> Vec<Value> {
    (0..count).map(|_| take(rest)).collect()
}

fn take_line(rest: &mut &[u8]) -> (u8, String) {
    let end = rest.windows(2).position(|pair| pair == b"\r\n").expect("a reply ends in CRLF");
    let (line, after) = rest.split_at(end);
    *rest = &after[2..];
    (line[0], String::from_utf8(line[1..].to_vec()).expect("lines are UTF-8"))
}

fn take_bytes(rest: &mut &[u8], count: usize) -> Vec<u8> {
    let (bytes, after) = rest.split_at(count);
    *rest = after.strip_prefix(b"\r\n").expect("a string ends in CRLF");
    bytes.to_vec()
}
