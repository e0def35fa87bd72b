//! Asks a server whether it answers, without a client library in between: readiness is the one
//! thing that must not depend on anybody's reconnects and timeouts.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

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
    fn the_pid_counts_only_once_its_line_is_complete() {
        assert_eq!(pid_in("$99\r\n# Server\r\nprocess_id:4711\r\nx"), Some(4711));
        assert_eq!(pid_in("$99\r\n# Server\r\nprocess_id:47"), None);
    }
}
