use tollgate_sim::clusters::Run;
use tollgate_topology::planted::Planted;
fn main() {
    let n: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    for fault in Planted::ALL {
        let mut by: std::collections::BTreeMap<&str, Vec<u64>> = Default::default();
        for seed in 0..n {
            if let Err(f) = (Run { fault: Some(fault), ..Run::new(seed) }).simulate() {
                by.entry(f.checker).or_default().push(seed);
            }
        }
        println!("{fault:?}: {by:?}");
    }
}
