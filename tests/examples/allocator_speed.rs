//! How long the allocator takes per request: replays captures with addresses of its own.
//!
//! usage: `cargo run --release -p conformance --example allocator_speed -- ROUNDS FILE.json.gz…`

use std::io::Read;
use std::time::Instant;

use flate2::read::GzDecoder;
use simulator::allocator::Counting;
use simulator::allocator::replay::{Ask, run, script, settings_of};
use simulator::wire::AllocatorCapture;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rounds: u32 = arguments.next().and_then(|n| n.parse().ok()).expect("a number of rounds");
    for path in arguments {
        let file = std::fs::File::open(&path).expect("a readable file");
        let mut json = Vec::new();
        GzDecoder::new(file).read_to_end(&mut json).expect("gzip");
        let capture = AllocatorCapture::from_json(&json).expect("an allocator capture");
        let settings = settings_of(&capture).expect("known settings");
        let script = script(&capture).expect("known settings");
        let requests = script.iter().filter(|ask| matches!(ask, Ask::Alloc { .. })).count();
        let best = (0..rounds)
            .map(|_| {
                let start = Instant::now();
                let stats = run(&script, settings.clone(), Counting::unlimited());
                assert!(0 < stats.peak_reserved);
                start.elapsed()
            })
            .min()
            .expect("at least one round");
        let nanos = best.as_nanos() / requests.max(1) as u128;
        println!("{}: {requests} requests in {best:?}, {nanos} ns each", capture.id);
    }
}
