//! Each client gets exactly one reply for each request, in the order of its requests, and it is the reply to that one.

use super::{Checker, Fact, Scene};
use crate::answer::Answer;
use crate::errand::RequestId;
use crate::request::Request;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Watches what each client asks and reads.
#[derive(Default)]
pub(super) struct ReplyOrder {
    waiting: BTreeMap<usize, VecDeque<(RequestId, Rc<Request>)>>,
    made: BTreeMap<RequestId, Vec<u8>>,
}

impl Checker for ReplyOrder {
    fn name(&self) -> &'static str {
        "reply order"
    }

    fn see(&mut self, fact: &Fact, _scene: &Scene<'_>) -> Result<(), String> {
        match fact {
            Fact::Asked(id, request) => {
                self.waiting.entry(id.client).or_default().push_back((*id, request.clone()));
            }
            Fact::Made(id, reply) => {
                let earlier = self.made.insert(*id, reply.clone());
                return earlier.map_or(Ok(()), |_| Err(format!("{id} got a second reply")));
            }
            Fact::Gone(client) => {
                self.waiting.remove(client);
            }
            Fact::Received(client, bytes) => return self.receive(*client, bytes),
            _ => {}
        }
        Ok(())
    }
}

impl ReplyOrder {
    fn receive(&mut self, client: usize, bytes: &[u8]) -> Result<(), String> {
        let waiting = self.waiting.entry(client).or_default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (id, request) = waiting.pop_front().ok_or_else(|| format!("client {client} got more than it asked"))?;
            let (answer, behind) = Answer::read(rest).ok_or_else(|| format!("client {client} got a broken reply"))?;
            let (reply, _) = rest.split_at(rest.len() - behind.len());
            rest = behind;
            if self.made.remove(&id).as_deref() != Some(reply) {
                return Err(format!("{id} {request} got the reply of another request: {answer}"));
            }
            if !is_shaped(&request, &answer) {
                return Err(format!("{id} {request} got {answer}"));
            }
        }
        // A client reads only whole batches, and what it asked is one of them.
        waiting.front().map_or(Ok(()), |(id, _)| Err(format!("{id} got no reply")))
    }
}

/// Whether such a request can be answered so.
fn is_shaped(request: &Request, answer: &Answer) -> bool {
    let is_busy = matches!(answer, Answer::Error(text) if text.starts_with("BUSY"));
    let fits = match request {
        Request::Limit(group, _) => {
            let limit = i64::try_from(group.rule.limit).ok();
            answer.five().is_some_and(|five| Some(five[1]) == limit) || matches!(answer, Answer::Error(_))
        }
        Request::All(groups) => {
            answer.all().is_some_and(|(_, _, fives)| fives.len() == groups.len()) || matches!(answer, Answer::Error(_))
        }
        Request::Delete(_) | Request::Exists(_) | Request::Pttl(_) => answer.number().is_some(),
        Request::Type(_) => matches!(answer, Answer::Text(_)),
        Request::Keys => matches!(answer, Answer::List(_)),
        Request::Echo(text) => *answer == Answer::Text(text.clone()),
        Request::Malformed(..) => matches!(answer, Answer::Error(text) if text.starts_with("ERR")),
    };
    fits || is_busy
}
