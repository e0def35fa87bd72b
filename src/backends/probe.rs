//! Asks a server whether it answers, without a client library in between: readiness is the one
//! thing that must not depend on anybody's reconnects and timeouts.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::ports::backend::{DATABASE, DATABASE_USER, ServerProgram};

/// For one attempt. Short, because an address that does not exist yet may stay silent.
const ATTEMPT: Duration = Duration::from_millis(250);

/// One PING on a fresh connection, within `limit`. The error says what came instead.
///
/// A server that wants a password answers, so it is up; one that loads its data is not.
pub async fn ping(address: SocketAddr, limit: Duration) -> Result<(), String> {
    match ask(address, "PING\r\n", limit, |text| text.contains("\r\n")).await? {
        answer if answer.starts_with("+PONG") || answer.starts_with("-NOAUTH") => Ok(()),
        answer => Err(format!("PING answered {}", answer.trim_end())),
    }
}

/// A PING with the limit that suits a wait for readiness.
pub async fn ready(address: SocketAddr) -> Result<(), String> {
    ping(address, ATTEMPT).await
}

/// The same for whatever the server is.
pub async fn serves(program: ServerProgram, address: SocketAddr) -> Result<(), String> {
    match program {
        ServerProgram::Server | ServerProgram::Sentinel => ready(address).await,
        ServerProgram::Postgres => lets_in(address).await,
    }
}

/// The pid of the process that serves this address. `None` if it wants a password first.
pub async fn process_id(address: SocketAddr) -> Result<Option<u32>, String> {
    let complete = |text: &str| text.starts_with('-') || pid_in(text).is_some();
    let answer = ask(address, "INFO server\r\n", ATTEMPT, complete).await?;
    match pid_in(&answer) {
        Some(pid) => Ok(Some(pid)),
        None if answer.starts_with("-NOAUTH") => Ok(None),
        None => Err(format!("INFO answered {}", answer.trim_end())),
    }
}

fn pid_in(info: &str) -> Option<u32> {
    let (_, rest) = info.split_once("process_id:")?;
    rest.split_once('\r')?.0.parse().ok()
}

/// The server's own time of day, in microseconds since the Unix epoch.
pub async fn time(address: SocketAddr) -> Result<i64, String> {
    let complete = |text: &str| text.starts_with('-') || time_in(text).is_some();
    let answer = ask(address, "TIME\r\n", ATTEMPT, complete).await?;
    time_in(&answer).ok_or_else(|| format!("TIME answered {}", answer.trim_end()))
}

fn time_in(answer: &str) -> Option<i64> {
    let lines: Vec<&str> = answer.split("\r\n").collect();
    let [_, _, seconds, _, micros, ""] = lines.as_slice() else { return None };
    seconds.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(micros.parse().ok()?)
}

/// Whether a PostgreSQL lets somebody in: it answers long before, while it still puts its data in order.
pub async fn lets_in(address: SocketAddr) -> Result<(), String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(&startup()).await?;
        let mut answer = Vec::new();
        while said(&answer).is_none() && stream.read_buf(&mut answer).await? > 0 {}
        Ok::<_, std::io::Error>(answer)
    };
    match timeout(ATTEMPT, exchange).await {
        Ok(Ok(answer)) => said(&answer).unwrap_or_else(|| Err("closed without an answer".to_owned())),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {ATTEMPT:?}")),
    }
    .map_err(|why| format!("{address}: {why}"))
}

/// Version 3.0 of the protocol, who is there, and where to.
fn startup() -> Vec<u8> {
    let mut body = 196_608_u32.to_be_bytes().to_vec();
    for word in ["user", DATABASE_USER, "database", DATABASE, ""] {
        body.extend([word.as_bytes(), &[0]].concat());
    }
    let length = u32::try_from(body.len() + 4).unwrap_or(0);
    [length.to_be_bytes().to_vec(), body].concat()
}

/// What became of it, once that is clear: ready for queries, or an error with its message.
fn said(mut answer: &[u8]) -> Option<Result<(), String>> {
    loop {
        let (kind, length) = (*answer.first()?, answer.get(1..5)?);
        let length = u32::from_be_bytes(length.try_into().ok()?) as usize;
        let body = answer.get(5..length.checked_add(1)?)?;
        match kind {
            b'Z' => return Some(Ok(())),
            b'E' => {
                let fields = body.split(|b| *b == 0);
                let message = fields.filter_map(|f| f.strip_prefix(b"M")).next().unwrap_or(b"an error");
                return Some(Err(String::from_utf8_lossy(message).into_owned()));
            }
            _ => answer = &answer[length + 1..],
        }
    }
}

/// Sends a line and reads until the answer is complete.
async fn ask(
    address: SocketAddr,
    line: &str,
    limit: Duration,
    complete: impl Fn(&str) -> bool,
) -> Result<String, String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(line.as_bytes()).await?;
        let mut answer = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&answer).into_owned();
            if complete(&text) {
                return Ok(text);
            }
            if stream.read_buf(&mut answer).await? == 0 {
                return Err(std::io::Error::new(
                    std::io::ErrorKind::UnexpectedEof,
                    "closed without an answer",
                ));
            }
        }
    };
    match timeout(limit, exchange).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("{address}: {error}")),
        Err(_) => Err(format!("{address}: no answer within {limit:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_counts_only_once_it_is_whole() {
        let whole = "*2\r\n$10\r\n1796085124\r\n$6\r\n759814\r\n";
        assert_eq!(time_in(whole), Some(1_796_085_124_759_814));
        assert!((0..whole.len()).all(|end| time_in(&whole[..end]).is_none()));
    }

    #[test]
    fn a_database_lets_nobody_in_before_it_is_ready_for_queries() {
        let message = |kind: u8, body: &[u8]| {
            let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
            [&[kind], length.as_slice(), body].concat()
        };
        let admitted = [message(b'R', &[0; 4]), message(b'K', &[7; 8]), message(b'Z', b"I")].concat();
        assert_eq!(said(&admitted), Some(Ok(())));
        assert!((0..admitted.len()).all(|end| said(&admitted[..end]).is_none()));
        let refused = message(b'E', b"SFATAL\0C57P03\0Mthe database system is starting up\0\0");
        assert_eq!(said(&refused), Some(Err("the database system is starting up".to_owned())));
        let greeting = startup();
        assert_eq!(greeting.len(), u32::from_be_bytes(greeting[..4].try_into().unwrap()) as usize);
    }

    #[test]
    fn the_pid_counts_only_once_its_line_is_complete() {
        assert_eq!(pid_in("$99\r\n# Server\r\nprocess_id:4711\r\nx"), Some(4711));
        assert_eq!(pid_in("$99\r\n# Server\r\nprocess_id:47"), None);
    }
}
