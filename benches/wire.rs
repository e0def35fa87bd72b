//! What an idle proxy adds to a round trip, as a multiple of a round trip past it: same server, same run,
//! in turns.
//!
//! `make bench`, or `cargo bench --bench wire`. Exits 1 if a ratio misses its bound.

#![expect(clippy::disallowed_methods, reason = "a bench measures time, and its exit code is its answer")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use rl_lab::backends::{self, journal::Journal};
use rl_lab::ports::backend::{BackendOptions, ServerSpec};
use rl_lab::wire::proxy::{Action, Match, Options, Proxy};
use rl_lab::wire::resp::encode_command;

const TURNS: usize = 100;
const PER_TURN: usize = 200;
/// The proxy is one more peer on the way: one more round trip, and as much again for reading it.
const MOST: f64 = 2.0;

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let journal = Arc::new(Journal::open_in(folder.path(), "bench-wire").expect("a journal"));
    let kept = runtime.block_on(async {
        let backend = backends::open("local", &BackendOptions::default(), journal, &mut |_| ()).await?;
        let server = backend.start(ServerSpec { name: "wire".to_owned(), ..ServerSpec::default() }).await?;
        let kept = compare(server.address());
        backend.shutdown().await?;
        Ok::<_, rl_lab::ports::backend::BackendError>(kept)
    });
    match kept {
        Ok(Ok(kept)) => std::process::exit(i32::from(!kept)),
        Ok(Err(error)) => println!("wire: cannot be measured here: {error}"),
        Err(error) => println!("wire: cannot be measured here: {error}"),
    }
    std::process::exit(1);
}

fn compare(server: SocketAddr) -> std::io::Result<bool> {
    let idle = Proxy::start(Options::before(server))?;
    let ruled = Proxy::start(Options::before(server))?;
    // Rules that look at every command and match none.
    for n in 0..10 {
        ruled.install(Match::name("INCR").key(&format!("other:{n}")).then(Action::Drop)).keep();
    }
    let (mut direct, mut idle_line, mut ruled_line) =
        (Line::to(server)?, Line::to(idle.address())?, Line::to(ruled.address())?);
    let value = "v".repeat(1024);
    direct.ask(&[&["SET", "value", &value]], b"+OK\r\n".len())?;
    let mut kept = true;
    for (what, commands, reply) in [
        ("one INCR", vec![vec!["INCRBY", "n", "0"]], b":0\r\n".len()),
        ("one GET of 1 KiB", vec![vec!["GET", "value"]], b"$1024\r\n".len() + 1024 + 2),
        ("a pipeline of 16", vec![vec!["INCRBY", "n", "0"]; 16], 16 * b":0\r\n".len()),
    ] {
        let commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
        let mut times = [vec![], vec![], vec![]];
        for _ in 0..TURNS {
            for (line, times) in [&mut direct, &mut idle_line, &mut ruled_line].into_iter().zip(&mut times) {
                for _ in 0..PER_TURN {
                    times.push(line.ask(&commands, reply)?);
                }
            }
        }
        let [past, idle, ruled] = times.map(median);
        for (who, time) in [("idle", idle), ("with ten rules that match nothing", ruled)] {
            let added = (time - past) / past;
            let fine = added <= MOST;
            kept &= fine;
            println!(
                "proxy, {who}, {what}: p50 {time:.1} µs, past it {past:.1} µs: adds {added:.2} round trips, at most {MOST}: {}",
                if fine { "ok" } else { "MISSED" }
            );
        }
    }
    Ok(kept)
}

struct Line {
    stream: TcpStream,
    bytes: Vec<u8>,
    reply: Vec<u8>,
}

impl Line {
    fn to(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, bytes: Vec::new(), reply: vec![0; 1 << 16] })
    }

    /// Microseconds until all of the reply is there.
    fn ask(&mut self, commands: &[&[&str]], reply: usize) -> std::io::Result<f64> {
        self.bytes.clear();
        commands.iter().for_each(|args| encode_command(args, &mut self.bytes));
        let began = Instant::now();
        self.stream.write_all(&self.bytes)?;
        self.stream.read_exact(&mut self.reply[..reply])?;
        Ok(began.elapsed().as_secs_f64() * 1e6)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
