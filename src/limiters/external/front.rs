//! A limiter behind a small HTTP server: the other side of [`super::http`].
//!
//! Every request but `GET /metrics` is a call. Who makes it says the field `X-User` (without it, callers are
//! known by their address), and `X-Cost` what it costs. It is answered 200 or 429, 503 where the limiter has no
//! answer, 400 where the fields cannot be read; what else it says is in `model/http`.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderMap;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::model::http::{
    Answer, CONTENT_TYPE, COST, DATE, DRAFT, IDENTITY, REQUEST_ID, RETRY_AFTER, Says, X, whole,
};
use crate::model::metrics::{self, Ended, Metrics};
use crate::model::op::{Completion, Contact, Decision, Outcome, Trace};
use crate::model::units::Cost;
use crate::ports::clock::Clock;
use crate::ports::limiter::Limiter;
use crate::ports::store::{Call, as_call};

/// For the head of a request to be there.
const PATIENCE: Duration = Duration::from_secs(30);
const LONGEST_HEAD: usize = 64 << 10;
const MOST_FIELDS: usize = 64;
const LONGEST_IDENTITY: usize = 32 << 10;

/// What is served.
pub struct Served {
    pub limiter: Arc<dyn Limiter>,
    pub clock: Arc<dyn Clock>,
    pub says: Says,
    /// What the key of an identity begins with.
    pub prefix: String,
    /// Who is to know what was decided, beside the caller.
    pub watch: Option<Arc<Watch>>,
    /// What `GET /metrics` says; without it that is a call like any other.
    pub metrics: Option<Mutex<Metrics>>,
}

/// What the front did for a call.
pub struct Seen {
    pub decision: Option<Decision>,
    pub trace: Trace,
}

/// What the front did for calls, by the number that each bears in `X-Request-Id`.
#[derive(Default)]
pub struct Watch(Mutex<HashMap<u32, Seen>>);

impl Watch {
    fn put(&self, id: u32, seen: Seen) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, seen);
    }

    pub fn take(&self, id: u32) -> Option<Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }
}

/// A server that runs until it is dropped.
pub struct Front {
    pub address: SocketAddr,
    accepting: AbortHandle,
}

impl Front {
    /// Listens there.
    pub async fn open(at: SocketAddr, served: Served) -> io::Result<Self> {
        let listener = TcpListener::bind(at).await?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(accept(listener, Arc::new(served))).abort_handle();
        Ok(Self { address, accepting })
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Its connections end with it.
async fn accept(listener: TcpListener, served: Arc<Served>) {
    let mut open = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => drop(open.spawn(connection(stream, peer, Arc::clone(&served)))),
            // No descriptors left, or a client that is gone again: others may do better later.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
        while open.try_join_next().is_some() {}
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, served: Arc<Served>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let served = Arc::clone(&served);
        async move { Ok::<_, Infallible>(served.respond(&request, peer).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(LONGEST_HEAD)
        .max_headers(MOST_FIELDS)
        .serve_connection(TokioIo::new(stream), service);
    // Who breaks the protocol, or goes away, has been told so by then.
    let _ = serving.await;
}

/// A request, as far as it is understood.
struct Asked {
    identity: String,
    cost: Cost,
    id: Option<u32>,
}

impl Asked {
    fn read(fields: &HeaderMap, peer: SocketAddr) -> Result<Self, String> {
        let text = |name: &str| -> Result<Option<&str>, String> {
            let mut values = fields.get_all(name).iter();
            let Some(value) = values.next() else { return Ok(None) };
            if values.next().is_some() {
                return Err(format!("the field {name} is there more than once"));
            }
            let text = std::str::from_utf8(value.as_bytes());
            text.map(Some).map_err(|_| format!("the field {name} is not UTF-8"))
        };
        let identity = match text(IDENTITY)? {
            Some("") => return Err(format!("the field {IDENTITY} is empty")),
            Some(told) if told.len() > LONGEST_IDENTITY => {
                return Err(format!("the field {IDENTITY} has more than {LONGEST_IDENTITY} bytes"));
            }
            Some(told) => told.to_owned(),
            None => peer.ip().to_string(),
        };
        let cost = match text(COST)? {
            None => Cost::ONE,
            Some(told) => {
                let number = whole(told).and_then(|n| u32::try_from(n).ok());
                let refused =
                    || format!("the field {COST} is no whole number from 1 to {}: {told:?}", u32::MAX);
                number.and_then(|n| Cost::new(n).ok()).ok_or_else(refused)?
            }
        };
        let id = text(REQUEST_ID).ok().flatten().and_then(whole).and_then(|id| u32::try_from(id).ok());
        Ok(Self { identity, cost, id })
    }
}

impl Served {
    async fn respond(&self, request: &Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
        if let Some(metrics) = &self.metrics
            && request.uri().path() == "/metrics"
        {
            let metrics = metrics.lock().unwrap_or_else(PoisonError::into_inner);
            let text = metrics::render(std::slice::from_ref(&*metrics));
            let response =
                Response::builder().header(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
            return response.body(Full::from(text)).unwrap_or_default();
        }
        let answer = match Asked::read(request.headers(), peer) {
            Ok(asked) => self.ask(asked, request.uri().path()).await,
            Err(what) => Says::mistake(&what, self.clock.wall_us()),
        };
        response(&answer)
    }

    async fn ask(&self, asked: Asked, path: &str) -> Answer {
        let Asked { identity, cost, id } = asked;
        let key = format!("{}{identity}", self.prefix);
        let number = id.unwrap_or(0);
        let began = self.clock.monotonic();
        let (decided, trace) = as_call(Call::new(number, number), self.limiter.acquire(&key, cost)).await;
        if let Some(metrics) = &self.metrics {
            let took = self.clock.monotonic().saturating_sub(began);
            let outcome = match &decided {
                Ok(decision) if decision.allowed => Outcome::Admitted,
                Ok(_) => Outcome::Denied,
                Err(error) => match error.completion(trace.sent) {
                    Completion::Fail(_) => Outcome::Failed,
                    _ => Outcome::Unknown,
                },
            };
            metrics.lock().unwrap_or_else(PoisonError::into_inner).count(&Ended {
                user: &identity,
                endpoint: path,
                outcome,
                source: decided.as_ref().ok().map(|d| d.source),
                waited: trace.note.contact.filter(|c| *c > Contact::NotAsked).map(|_| took),
                near: trace.note.near,
            });
        }
        let answer = match &decided {
            Ok(decision) => self.says.decided(decision, self.clock.wall_us()),
            Err(error) => Says::no_answer(&error.to_string(), self.clock.wall_us()),
        };
        if let (Some(watch), Some(id)) = (&self.watch, id) {
            watch.put(id, Seen { decision: decided.ok(), trace });
        }
        answer
    }
}

/// The answer in HTTP. What a field cannot hold is left out.
fn response(answer: &Answer) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(answer.status);
    let draft = DRAFT.into_iter().zip(answer.draft.fields());
    let fields = draft.chain(X.into_iter().zip(answer.x.fields())).chain([
        (DATE, answer.date.as_deref()),
        (RETRY_AFTER, answer.retry_after.as_deref()),
        (CONTENT_TYPE, answer.media_type.as_deref()),
    ]);
    for (name, value) in fields {
        if let Some(value) = value {
            response = response.header(name, value);
        }
    }
    let body = answer.problem.as_ref().map(|problem| serde_json::to_vec(problem).unwrap_or_default());
    response.body(Full::from(body.unwrap_or_default())).unwrap_or_default()
}
