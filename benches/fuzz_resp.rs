//! Bytes that no server sends, against the RESP codec: it must neither panic, nor believe a declared
//! length, nor read them differently when they arrive in pieces.
//!
//! `scripts/fuzz-resp [seconds [seed]]`. Traffic that servers and clients do send is mutated; what shows a
//! shape of outcome that was not seen before joins the corpus and is mutated in its turn. The first
//! finding ends the loop with exit 1 and prints the bytes; a seed gives the same inputs again.

#![expect(
    clippy::disallowed_methods,
    reason = "the loop is bounded by time, and its exit code is its answer"
)]

#[path = "shared/allocations.rs"]
mod allocations;
#[path = "fuzz_resp/checks.rs"]
mod checks;
#[path = "fuzz_resp/corpus.rs"]
mod corpus;
#[path = "fuzz_resp/mutate.rs"]
mod mutate;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use mutate::Dice;

const CORPUS: usize = 20_000;

fn main() {
    // Cargo adds --bench.
    let mut numbers = std::env::args().skip(1).filter_map(|arg| arg.parse::<u64>().ok());
    let seconds = numbers.next().unwrap_or(300);
    let seed = numbers.next().unwrap_or(1);
    println!("fuzz-resp: seed {seed}, {seconds} s");
    let mut corpus: Vec<Vec<u8>> = corpus::TRAFFIC.iter().map(|text| text.as_bytes().to_vec()).collect();
    let mut dice = Dice(seed);
    let mut shapes = HashSet::new();
    let (mut tried, mut whole) = (0u64, 0u64);
    let began = Instant::now();
    // What is in the corpus is itself tried first.
    let mut fresh: Vec<Vec<u8>> = corpus.clone();
    while began.elapsed() < Duration::from_secs(seconds) {
        let input = fresh.pop().unwrap_or_else(|| mutate::mutate(&corpus, &mut dice));
        tried += 1;
        match catch_unwind(AssertUnwindSafe(|| checks::check(&input, &mut dice))) {
            Ok(Ok(shape)) => {
                whole += u64::from(shape.whole);
                if shapes.insert(shape.hash) && corpus.len() < CORPUS {
                    corpus.push(input);
                }
            }
            Ok(Err(why)) => return fail(tried, &input, &why),
            Err(_) => return fail(tried, &input, "it panicked"),
        }
    }
    println!(
        "fuzz-resp: {tried} inputs, {whole} of them whole frames or commands, {} shapes of outcome: clean",
        shapes.len()
    );
    // Mutations that are all refused, or all read, try nothing.
    if whole == 0 || whole == tried || shapes.len() < 100 {
        println!("fuzz-resp: too little was tried");
        std::process::exit(1);
    }
}

fn fail(tried: u64, input: &[u8], why: &str) {
    println!("fuzz-resp: input {tried}: {why}\n{}", input.escape_ascii());
    std::process::exit(1);
}
