use tollgate_sim::clusters::Run;
use tollgate_topology::planted::Planted;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n: u64 = a[1].parse().unwrap();
    let only: &'static str = Box::leak(a[2].clone().into_boxed_str());
    for fault in Planted::ALL.into_iter().filter(|f| a.len() < 4 || format!("{f:?}") == a[3]) {
        let mut by: Vec<u64> = Default::default();
        for seed in 0..n {
            if (Run { fault: Some(fault), only: Some(only), ..Run::new(seed) }).simulate().is_err() {
                by.push(seed);
            }
        }
        println!("{fault:?}: {by:?}");
    }
}
