//! server

fn main() {}
