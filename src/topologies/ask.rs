//! What is said to servers while they are wired, one connection for each question: nothing of it is measured.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::ports::backend::BackendError;
use crate::wire::resp::{Decoder, Frame, Limits, encode_command};

/// For one question.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks at a state.
const POLL: Duration = Duration::from_millis(10);
/// Generous: the slowest state, of a cluster, is there after about ten seconds.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Asks a server; the command's words are parted by spaces. An error that it answers is an error.
pub async fn ask(address: SocketAddr, command: &str) -> Result<Frame, String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let mut bytes = Vec::new();
        encode_command(&command.split(' ').collect::<Vec<_>>(), &mut bytes);
        stream.write_all(&bytes).await?;
        let mut decoder = Decoder::new(Limits::default());
        let mut chunk = vec![0; 16 << 10];
        loop {
            let n = stream.read(&mut chunk).await?;
            if n == 0 {
                return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof));
            }
            decoder.feed(&chunk[..n]);
            if let Some((frame, _)) = decoder.next().map_err(std::io::Error::other)? {
                return Ok(frame);
            }
        }
    };
    let why = match timeout(ANSWERS_WITHIN, exchange).await {
        Ok(Ok(frame)) => match frame.error() {
            None => return Ok(frame),
            Some(error) => String::from_utf8_lossy(error).into_owned(),
        },
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {ANSWERS_WITHIN:?}"),
    };
    // A command can be very long.
    let words: Vec<&str> = command.split(' ').take(6).collect();
    Err(format!("{address}: {}: {why}", words.join(" ")))
}

/// Tells a server to do something.
pub async fn tell(address: SocketAddr, command: &str) -> Result<(), BackendError> {
    let answer = ask(address, command).await;
    answer.map(|_| ()).map_err(|why| BackendError::Engine { what: "wiring the servers".to_owned(), why })
}

/// The answer as text: that of INFO and its like, or a list as words parted by spaces, in which nothing is
/// an empty word.
pub async fn text(address: SocketAddr, command: &str) -> Result<String, String> {
    Ok(words(&ask(address, command).await?).join(" "))
}

pub fn words(frame: &Frame) -> Vec<String> {
    match frame {
        Frame::Simple(text) | Frame::Bulk(text) => vec![String::from_utf8_lossy(text).into_owned()],
        Frame::Int(n) => vec![n.to_string()],
        Frame::Array(frames) => frames.iter().flat_map(words).collect(),
        _ => vec![String::new()],
    }
}

/// Waits for a state. `look` says what is still missing.
pub async fn until<F>(server: &str, mut look: impl FnMut() -> F) -> Result<(), BackendError>
where
    F: Future<Output = Result<(), String>>,
{
    let mut last = String::new();
    let there = async {
        while let Err(why) = look().await {
            last = why;
            sleep(POLL).await;
        }
    };
    let outcome = timeout(READY_WITHIN, there).await;
    outcome.map_err(|_| BackendError::StartTimeout {
        server: server.to_owned(),
        after: READY_WITHIN,
        last,
        log: String::new(),
    })
}

/// That something is so, or what is missing.
pub fn holds(fact: bool, missing: impl FnOnce() -> String) -> Result<(), String> {
    if fact { Ok(()) } else { Err(missing()) }
}
