//! A round trip between two cores: messages put down, the other core woken, each answered, at batch 1, 8 and 64.
//!
//! The other core is a thread that parks when its lanes are empty, as a core's runtime does.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use tollgate_mailbox::Mesh;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn serve(mesh: &Mesh<u64>, stop: &AtomicBool) {
    mesh.set_waker(1, Waker::from(Arc::new(Unpark(thread::current()))));
    while !stop.load(Ordering::Relaxed) {
        let mut answered = false;
        mesh.take_mark(1);
        while let Some(message) = mesh.take_request(0, 1) {
            let _ = mesh.answer(1, 0, message + 1);
            answered = true;
        }
        if answered {
            mesh.wake(0);
            continue;
        }
        mesh.before_sleep(1);
        if !mesh.has_mail(1) {
            thread::park_timeout(std::time::Duration::from_millis(10));
        }
        mesh.after_sleep(1);
    }
}

fn round_trips(criterion: &mut Criterion) {
    let mesh = Arc::new(Mesh::new(2, 64));
    let stop = Arc::new(AtomicBool::new(false));
    let other = thread::spawn({
        let (mesh, stop) = (mesh.clone(), stop.clone());
        move || serve(&mesh, &stop)
    });
    let mut group = criterion.benchmark_group("mailbox_round_trip");
    for batch in [1u64, 8, 64] {
        group.throughput(Throughput::Elements(batch));
        group.bench_function(BenchmarkId::from_parameter(batch), |bencher| {
            bencher.iter(|| {
                for message in 0..batch {
                    let _ = mesh.send(0, 1, message);
                }
                mesh.wake(1);
                let mut answers = 0;
                while answers < batch {
                    match mesh.take_reply(1, 0) {
                        Some(_) => answers += 1,
                        None => std::hint::spin_loop(),
                    }
                }
            });
        });
    }
    group.finish();
    stop.store(true, Ordering::Relaxed);
    let _ = other.join();
}

criterion_group!(benches, round_trips);
criterion_main!(benches);
