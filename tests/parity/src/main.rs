//! Prints the native digests, one a line; with a number, that scenario instead.

use parity::{N_SCENARIOS, digest, scenario};
use simulator::catalog::Catalog;

fn main() {
    let catalog = Catalog::builtin();
    match std::env::args().nth(1).and_then(|arg| arg.parse().ok()) {
        Some(index) => println!("{:#}", scenario(index, &catalog)),
        None => (0..N_SCENARIOS).for_each(|i| println!("{:016x}", digest(i, &catalog).0)),
    }
}
