use tollgate_resp::*;
#[inline(never)]
fn fill(parser: &mut Parser, wire: &[u8], spans: &mut Vec<Span>) -> usize {
    spans.clear();
    let mut start = 0;
    while let Ok(Step::Command { end }) = parser.step(wire, start, spans) { start = end; }
    start
}
#[inline(never)]
fn reply(out: &mut Vec<u8>, v: [i64; 5]) { Reply::new(out, Protocol::Resp2).five(v); }
fn main() {
    let mode = std::env::args().nth(1).unwrap();
    let one = b"*4\r\n$8\r\nRL.SLIDE\r\n$24\r\nrl:{user:00001234}:orders\r\n$3\r\n100\r\n$2\r\n60\r\n".repeat(if mode == "p" {1000} else {0});
    let one: Vec<u8> = String::from_utf8(one).unwrap().replace("{user:00001234}", "{user:001234}x").into_bytes();
    let mut parser = Parser::new(RequestLimits::AUTHENTICATED);
    let mut spans = Vec::with_capacity(8000);
    let mut out = Vec::with_capacity(64*1000+100);
    for _ in 0..100 {
        if mode == "p" { assert_eq!(fill(&mut parser, &one, &mut spans), one.len()); assert_eq!(spans.len(), 4000); }
        else { out.clear(); for _ in 0..1000 { reply(&mut out, std::hint::black_box([1,100,99,0,if mode=="r" {60000} else {7_200_000}])); } }
    }
    assert!(spans.len()+out.len() > 0);
}
