//! A limiter that is a service, asked over HTTP/1.1.
//!
//! A call is a GET with the key in `X-User`; it is refused if the answer is 429, has no answer if that is 500 or
//! more, and is admitted otherwise. What the answer tells of the limit is read into the decision and noted for
//! the record as it was said. Connections are kept and used again; each carries one call at a time.
//!
//! Whatever the service sends is bounded in size and time, and what is no HTTP is an error in words. A call that
//! may have reached the service and has no answer may have been counted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Waiting;
use super::front::Watch;
use crate::model::foreign::HttpWay;
use crate::model::http::{
    Answer, CONTENT_TYPE, COST, DATE, DRAFT, Decided, Family, IDENTITY, LATER, PROBLEM_JSON, Problem,
    REQUEST_ID, RETRY_AFTER, X, shortened,
};
use crate::model::op::Decision;
use crate::model::protocol::Hello;
use crate::model::template::{Filling, Template};
use crate::model::units::{Cost, Limit};
use crate::ports::BoxFuture;
use crate::ports::limiter::Limiter;
use crate::ports::store::{
    StoreError, current_op, mark_sent, note_clock, note_contact, note_http, note_near, note_trips,
};

/// For a whole answer to be there.
pub const PATIENCE: Duration = Duration::from_secs(30);
const LONGEST_HEAD: usize = 64 << 10;
const MOST_FIELDS: usize = 200;
const LONGEST_BODY: usize = 1 << 20;

/// Where a service is, and what each request to it says.
#[derive(Debug, Clone)]
pub struct Target {
    host: String,
    port: u16,
    /// As the field `Host` names it.
    authority: String,
    path: String,
    fields: HeaderMap,
    /// Whether requests say who calls, at what cost, and which call it is.
    named: bool,
}

impl Target {
    /// Reads `http://HOST[:PORT][/PATH]`; the error says what is wrong with it.
    pub fn parse(url: &str) -> Result<Self, String> {
        let no = |why: &str| format!("'{url}' is not of the form http://HOST[:PORT][/PATH]: {why}");
        let uri: Uri = url.parse().map_err(|e| no(&format!("{e}")))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(no("TLS is not spoken here; ask the service behind it")),
            _ => return Err(no("the scheme is missing")),
        }
        let authority = uri.authority().ok_or_else(|| no("the host is missing"))?;
        if authority.as_str().contains('@') {
            return Err(no("a user belongs into a field, such as Authorization"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(no("the host is missing"));
        }
        // A port that is none is no part of the authority's host, and would be passed over.
        let named = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
        let port = match (authority.port_u16(), named) {
            (Some(port), _) => port,
            (None, "") => 80,
            (None, _) => return Err(no("the port is no number up to 65535")),
        };
        let path = uri.path_and_query().map_or("/", |p| p.as_str());
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (host, authority) = (host.to_owned(), authority.as_str().to_owned());
        Ok(Self { host, port, authority, path, fields: HeaderMap::new(), named: true })
    }

    /// Adds a field, written `Name: value`.
    pub fn with_field(mut self, line: &str) -> Result<Self, String> {
        let no = |why: &str| format!("'{line}' is not of the form 'Name: value': {why}");
        let (name, value) = line.split_once(':').ok_or_else(|| no("the colon is missing"))?;
        let name: HeaderName = name.trim().parse().map_err(|_| no("the name is none"))?;
        let value = HeaderValue::from_bytes(value.trim().as_bytes()).map_err(|_| no("the value is none"))?;
        self.fields.append(name, value);
        Ok(self)
    }

    /// The same, with nothing in its requests but what was added.
    #[must_use]
    pub fn as_it_is(self) -> Self {
        Self { named: false, ..self }
    }

    fn request(
        &self,
        own: &[(&'static str, &str)],
        asked: Option<&Asked>,
    ) -> Result<Request<Empty<Bytes>>, StoreError> {
        let cannot = |e: hyper::http::Error| StoreError::NotConnected(format!("this cannot be asked: {e}"));
        let (method, path) = asked.map_or(("GET", &self.path), |a| (a.method.as_str(), &a.path));
        let mut request = Request::builder().method(method).uri(path).header(HOST, &self.authority);
        for (name, value) in asked.iter().flat_map(|a| &a.fields) {
            request = request.header(name, value.as_bytes());
        }
        for (name, value) in &self.fields {
            request = request.header(name, value);
        }
        let there =
            |name: &str| asked.is_some_and(|a| a.fields.iter().any(|(n, _)| n.eq_ignore_ascii_case(name)));
        let named = |name: &str| self.named && !self.fields.contains_key(name) && !there(name);
        for (name, value) in own.iter().filter(|(name, _)| named(name)) {
            request = request.header(*name, value.as_bytes());
        }
        request.body(Empty::new()).map_err(cannot)
    }
}

/// How a service of somebody else's is asked.
#[derive(Debug, Clone)]
pub struct Asks {
    pub way: &'static HttpWay,
    /// What its app server was told.
    pub base: Hello,
    pub port: u16,
}

/// The same for one call.
struct Asked {
    method: String,
    path: String,
    fields: Vec<(String, String)>,
}

impl Asks {
    fn call(&self, key: &str, cost: Cost, id: u32) -> Result<Asked, StoreError> {
        // A key may hold anything, and is part of an address.
        let escaped: String = key.bytes().map(escaped).collect();
        let base = &self.base;
        let with = |key| Filling {
            key,
            cost: cost.get(),
            limit: base.limit.get(),
            window_ms: base.window_ms.millis(),
            node: base.node.0,
            id: id.into(),
            port: self.port,
            redis: &base.redis,
            now_us: crate::ports::clock::system().wall_us(),
        };
        let cannot = StoreError::Unexpected;
        let filled =
            |(name, t): (&String, &Template)| Ok((name.clone(), t.fill(&with(key)).map_err(cannot)?));
        Ok(Asked {
            method: self.way.method.clone(),
            path: self.way.path.fill(&with(&escaped)).map_err(cannot)?,
            fields: self.way.headers.iter().map(filled).collect::<Result<_, _>>()?,
        })
    }

    /// What an answer comes to: refused by one of its statuses, admitted by one below 400, and nothing else.
    fn meant(&self, status: u16, decision: Decision) -> Result<Decision, StoreError> {
        let refused = self.way.refused.contains(&status);
        if !refused && status >= 400 {
            let known: Vec<String> = self.way.refused.iter().map(u16::to_string).collect();
            let why = format!(
                "it answered {status}, which is no success and none of what refused names ({})",
                known.join(", ")
            );
            return Err(StoreError::Unexpected(why));
        }
        Ok(Decision { allowed: !refused, retry_after: decision.retry_after.filter(|_| refused), ..decision })
    }
}

/// A byte as addresses write it.
fn escaped(byte: u8) -> String {
    match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    }
}

type Sender = SendRequest<Empty<Bytes>>;

pub struct Http {
    target: Target,
    limit: Limit,
    within: Duration,
    /// Connections on which nothing is open.
    idle: Mutex<Vec<Sender>>,
    watch: Option<Arc<Watch>>,
    asks: Option<Asks>,
}

impl Http {
    /// `limit` stands in where an answer tells none; `watch` knows what the service did, where the lab is the
    /// service.
    pub fn new(target: Target, limit: Limit, within: Duration, watch: Option<Arc<Watch>>) -> Self {
        Self { target, limit, within, idle: Mutex::default(), watch, asks: None }
    }

    /// The same for a service that is asked in a way of its own.
    #[must_use]
    pub fn asking(self, asks: Asks) -> Self {
        Self { asks: Some(asks), ..self }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Sender>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self) -> Result<Sender, StoreError> {
        let Target { host, port, .. } = &self.target;
        let not = |why: String| StoreError::NotConnected(format!("{host}:{port}: {why}"));
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|e| not(e.to_string()))?;
        let _ = stream.set_nodelay(true);
        let greeting = http1::Builder::new()
            .max_buf_size(LONGEST_HEAD)
            .max_headers(MOST_FIELDS)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = greeting.await.map_err(|e| not(in_full(&e)))?;
        // It ends with its sender, or with the service; whoever waits for an answer is told so.
        tokio::spawn(connection);
        Ok(sender)
    }

    /// Asks once. A kept connection that turns out to be closed, with nothing sent on it, is no answer.
    async fn ask(&self, own: &[(&'static str, &str)], asked: Option<&Asked>) -> Result<Answer, StoreError> {
        let mut request = self.target.request(own, asked)?;
        loop {
            let kept = self.idle().pop();
            let again = kept.is_some();
            let mut sender = match kept {
                Some(sender) => sender,
                None => self.connect().await?,
            };
            if sender.ready().await.is_err() {
                if again {
                    continue;
                }
                let why = format!("{} closed the connection", self.target.authority);
                return Err(StoreError::NotConnected(why));
            }
            match sender.try_send_request(request).await {
                Ok(response) => {
                    mark_sent();
                    let answer = read(response).await?;
                    self.idle().push(sender);
                    return Ok(answer);
                }
                Err(mut failed) => match failed.take_message().filter(|_| again) {
                    Some(unsent) => request = unsent,
                    None => {
                        mark_sent();
                        return Err(StoreError::NoAnswer(in_full(failed.error())));
                    }
                },
            }
        }
    }

    async fn decide(&self, key: &str, cost: Cost) -> Result<Decision, StoreError> {
        let (id, costs) = (current_op().to_string(), cost.get().to_string());
        let own = [(IDENTITY, key), (COST, costs.as_str()), (REQUEST_ID, id.as_str())];
        let call = self.asks.as_ref().map(|asks| asks.call(key, cost, current_op())).transpose()?;
        // Who is not watched does not say how far its call came.
        let waiting = Waiting::begin();
        let asked = tokio::time::timeout(self.within, self.ask(&own, call.as_ref())).await;
        if asked.is_ok() {
            waiting.heard();
        }
        let late = || StoreError::NoAnswer(format!("no answer within {} ms", self.within.as_millis()));
        let asked = asked.unwrap_or_else(|_| Err(late()));
        let seen = self.watch.as_ref().and_then(|watch| watch.take(current_op()));
        let mut source = None;
        let decided = seen.and_then(|seen| {
            note_trips(seen.trace.trips);
            if let Some(us) = seen.trace.clock_us {
                note_clock(us);
            }
            note_contact(seen.trace.note.contact);
            if seen.trace.note.near {
                note_near();
            }
            source = seen.decision.as_ref().map(|d| d.source);
            seen.decision.as_ref().map(Decided::from)
        });
        let answer = Answer { decided, ..asked? };
        note_http(answer.clone());
        if answer.undecided() {
            let what = answer.problem.as_ref().and_then(|p| p.detail.clone()).unwrap_or_default();
            return Err(StoreError::NoAnswer(format!("it answered {} {what}", answer.status)));
        }
        let decision = answer.decision(self.limit);
        let decision = match &self.asks {
            Some(asks) => asks.meant(answer.status, decision)?,
            None => decision,
        };
        Ok(Decision { source: source.unwrap_or(decision.source), ..decision })
    }
}

impl Limiter for Http {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(self.decide(key, cost))
    }

    fn preset<'a>(&'a self, _key: &'a str, _used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        let why = "a service cannot be told what was used before".to_owned();
        Box::pin(std::future::ready(Err(StoreError::Refused(why))))
    }
}

/// What an answer says. Its body is read to the end, or the connection could not be used again.
async fn read(response: Response<Incoming>) -> Result<Answer, StoreError> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, LONGEST_BODY).collect().await;
    let body = body.map_err(|e| StoreError::NoAnswer(format!("the body of its answer: {e}")))?.to_bytes();
    let fields = &head.headers;
    // Several fields of a name are one list (RFC 9110, 5.2), which none of these may be.
    let text = |name: &str| {
        let values = fields.get_all(name).iter().map(|v| String::from_utf8_lossy(v.as_bytes()));
        let joined = values.collect::<Vec<_>>().join(", ");
        fields.contains_key(name).then(|| shortened(&joined))
    };
    let family = |[limit, remaining, reset]: [&str; 3]| Family {
        limit: text(limit),
        remaining: text(remaining),
        reset: text(reset),
    };
    let media_type = text(CONTENT_TYPE).map(|t| {
        let without = t.split(';').next().unwrap_or_default();
        without.trim().to_ascii_lowercase()
    });
    let problem = media_type.as_deref() == Some(PROBLEM_JSON);
    Ok(Answer {
        status: head.status.as_u16(),
        date: text(DATE),
        retry_after: text(RETRY_AFTER),
        draft: family(DRAFT),
        unread: Some(
            LATER.into_iter().filter(|name| fields.contains_key(*name)).collect::<Vec<_>>().join(", "),
        )
        .filter(|names| !names.is_empty()),
        x: family(X),
        media_type,
        problem: if problem { Problem::read(&body) } else { None },
        decided: None,
    })
}

/// An error with what caused it: hyper's own words alone are short.
fn in_full(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::model::op::Completion;
    use crate::ports::store::{Call, as_call};

    #[test]
    fn an_address_is_read_or_refused_in_words() {
        let read = |url: &str| Target::parse(url).map(|t| (t.host, t.port, t.path));
        let is = |host: &str, port, path: &str| Ok((host.to_owned(), port, path.to_owned()));
        assert_eq!(read("http://localhost"), is("localhost", 80, "/"));
        assert_eq!(read("http://10.0.0.1:8080/a/b?c=d"), is("10.0.0.1", 8080, "/a/b?c=d"));
        assert_eq!(read("http://[::1]:81/"), is("::1", 81, "/"));
        assert_eq!(read("http://localhost?c=d#e"), is("localhost", 80, "/?c=d"));
        for (url, why) in [
            ("https://localhost/", "TLS"),
            ("localhost:80", "http://HOST"),
            ("http://u:p@localhost/", "Authorization"),
            ("http://localhost:99999/", "http://HOST"),
            ("", "http://HOST"),
        ] {
            assert!(read(url).unwrap_err().contains(why), "{url}: {:?}", read(url));
        }
        let target = Target::parse("http://localhost").unwrap();
        assert!(target.clone().with_field("X-User: a b").is_ok());
        for line in ["X-User", "X User: a", "X-User: a\nb"] {
            assert!(target.clone().with_field(line).is_err(), "{line}");
        }
    }

    /// A service that answers the n-th connection with the n-th text, and then closes it or not.
    async fn service(texts: Vec<Vec<u8>>, closes: bool) -> Http {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut open = Vec::new();
            for text in texts {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut heard = Vec::new();
                while !heard.windows(4).any(|w| w == b"\r\n\r\n") {
                    assert!(stream.read_buf(&mut heard).await.unwrap() > 0);
                }
                // Who is told too much may hang up before the end.
                let _ = stream.write_all(&text).await;
                if !closes {
                    open.push(stream);
                }
            }
            std::future::pending::<()>().await;
        });
        let target = Target::parse(&format!("http://{address}/")).unwrap();
        Http::new(target, Limit::new(5).unwrap(), Duration::from_millis(500), None)
    }

    async fn call(http: &Http) -> Completion {
        let (answer, trace) = as_call(Call::new(3, 0), http.acquire("k", Cost::ONE)).await;
        answer.map_or_else(|error| error.completion(trace.sent), Completion::Ok)
    }

    #[tokio::test]
    async fn what_is_no_answer_leaves_open_whether_the_call_was_counted() {
        let long = |what: &[u8], n: usize| [b"HTTP/1.1 200 OK\r\n", what, &vec![b'x'; n]].concat();
        let cases: Vec<(Vec<u8>, bool)> = vec![
            (b"nonsense\r\n\r\n".to_vec(), false),
            (Vec::new(), true),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc".to_vec(), true),
            // Silent in the middle: the deadline.
            (b"HTTP/1.1 200 OK\r\ncontent-le".to_vec(), false),
            (long(b"x-filler: ", LONGEST_HEAD + 1), false),
            (long(b"\r\n", LONGEST_BODY + 1), true),
            (b"HTTP/1.1 503 Oh\r\ncontent-length: 0\r\n\r\n".to_vec(), false),
        ];
        for (text, closes) in cases {
            let beginning = String::from_utf8_lossy(&text[..text.len().min(60)]).into_owned();
            let http = service(vec![text], closes).await;
            let came = call(&http).await;
            assert!(matches!(came, Completion::Info(_)), "{beginning:?}: {came:?}");
        }
    }

    #[tokio::test]
    async fn a_call_that_finds_nobody_was_not_made() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let target = Target::parse(&format!("http://{address}/")).unwrap();
        let http = Http::new(target, Limit::new(5).unwrap(), PATIENCE, None);
        assert!(matches!(call(&http).await, Completion::Fail(_)));
    }

    #[tokio::test]
    async fn a_kept_connection_that_was_closed_meanwhile_is_no_error() {
        let answer =
            b"HTTP/1.1 429 No\r\nretry-after: 2\r\nRateLimit-Remaining: 0\r\ncontent-length: 0\r\n\r\n";
        let http = service(vec![answer.to_vec(), answer.to_vec()], true).await;
        for _ in 0..2 {
            let Completion::Ok(told) = call(&http).await else { panic!("it has no answer") };
            let wait = Some(Duration::from_secs(2));
            assert_eq!((told.allowed, told.remaining, told.retry_after), (false, Some(0), wait));
        }
    }
}
