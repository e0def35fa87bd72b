//! A store that changes what a limiter sends, or what it is answered.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use rl_lab::clients::{self, Access, Profile};
use rl_lab::ports::BoxFuture;
use rl_lab::ports::store::{Command, Reply, Script, Session, Store, StoreError, Traffic};

/// What is changed.
pub enum What {
    /// In a script's text: each first text becomes the second.
    Script(&'static [(&'static str, &'static str)]),
    /// A first script decides and writes nothing; the whole one follows, and nobody listens to it.
    Split(&'static str),
    /// In the commands of a limiter that sends commands: what is sent instead, if anything.
    Command(fn(Command) -> Option<Command>),
    /// The counter is read first, and the decision made on what was read.
    ReadFirst,
    /// The first number of the answer to INCRBY.
    Count(fn(i64) -> i64),
}

static CURRENT: Mutex<Option<&'static What>> = Mutex::new(None);
static STRUCK: AtomicBool = AtomicBool::new(false);
static FRESH: AtomicU32 = AtomicU32::new(0);

pub static PROFILE: Profile = Profile {
    rows: None,
    name: "mutated",
    summary: "changes what is sent",
    connect: |access| Arc::new(Mutated::new(access)),
};

pub fn mutate(what: Option<&'static What>) {
    *CURRENT.lock().unwrap() = what;
    STRUCK.store(false, Ordering::SeqCst);
}

/// Whether the change was ever made.
pub fn struck() -> bool {
    STRUCK.load(Ordering::SeqCst)
}

pub fn fresh() -> u32 {
    FRESH.fetch_add(1, Ordering::SeqCst)
}

struct Mutated {
    inner: Arc<dyn Store>,
    what: Option<&'static What>,
    scripts: Mutex<Vec<(String, &'static Script)>>,
}

impl Mutated {
    fn new(access: Access) -> Self {
        let inner = (clients::find(clients::DEFAULT).unwrap().connect)(access);
        Self { inner, what: *CURRENT.lock().unwrap(), scripts: Mutex::default() }
    }

    /// The script of this text, made once.
    fn script(&self, body: String) -> &'static Script {
        let mut scripts = self.scripts.lock().unwrap();
        if let Some((_, script)) = scripts.iter().find(|(text, _)| *text == body) {
            return script;
        }
        let text: &'static str = Box::leak(body.clone().into_boxed_str());
        let script: &'static Script = Box::leak(Box::new(Script::new(text)));
        scripts.push((body, script));
        script
    }

    fn changed(command: Command, change: fn(Command) -> Option<Command>) -> Option<Command> {
        let changed = change(command.clone());
        if changed.as_ref() != Some(&command) {
            STRUCK.store(true, Ordering::SeqCst);
        }
        changed
    }

    fn counted(command: &Command, reply: Reply, change: fn(i64) -> i64) -> Reply {
        match reply {
            Reply::Int(n) if command.name() == "INCRBY" => {
                STRUCK.store(true, Ordering::SeqCst);
                Reply::Int(change(n))
            }
            other => other,
        }
    }

    /// What INCRBY would answer, by what is read now.
    async fn read(&self, command: &Command) -> Result<Option<i64>, StoreError> {
        if command.name() != "INCRBY" {
            return Ok(None);
        }
        STRUCK.store(true, Ordering::SeqCst);
        let text = |i: usize| String::from_utf8(command.args[i].clone()).unwrap();
        let seen = self.inner.command(Command::new("GET").arg(text(1))).await?.int().unwrap_or(0);
        Ok(Some(seen + text(2).parse::<i64>().unwrap()))
    }

    async fn batch(&self, commands: Vec<Command>, atomic: bool) -> Result<Vec<Reply>, StoreError> {
        let (mut sent, mut places) = (Vec::new(), Vec::new());
        for command in commands {
            let kept = match self.what {
                Some(What::Command(change)) => Self::changed(command, *change),
                _ => Some(command),
            };
            places.push(kept.is_some());
            sent.extend(kept);
        }
        let read = match (self.what, sent.first()) {
            (Some(What::ReadFirst), Some(first)) => self.read(first).await?,
            _ => None,
        };
        let replies = if atomic {
            self.inner.transaction(sent.clone()).await?
        } else {
            self.inner.pipeline(sent.clone()).await?
        };
        let mut replies = replies.into_iter().zip(&sent).map(|(reply, command)| match self.what {
            Some(What::Count(change)) => Self::counted(command, reply, *change),
            _ => reply,
        });
        let mut all: Vec<Reply> =
            places.iter().map(|kept| if *kept { replies.next().unwrap() } else { Reply::Int(1) }).collect();
        if let (Some(read), Some(first)) = (read, all.first_mut()) {
            *first = Reply::Int(read);
        }
        Ok(all)
    }
}

impl Store for Mutated {
    fn command(&self, command: Command) -> BoxFuture<'_, Result<Reply, StoreError>> {
        Box::pin(async move {
            Ok(match self.what {
                Some(What::Command(change)) => match Self::changed(command, *change) {
                    Some(command) => self.inner.command(command).await?,
                    None => Reply::Int(1),
                },
                Some(What::Count(change)) => {
                    let reply = self.inner.command(command.clone()).await?;
                    Self::counted(&command, reply, *change)
                }
                Some(What::ReadFirst) => {
                    let read = self.read(&command).await?;
                    let reply = self.inner.command(command).await?;
                    read.map_or(reply, Reply::Int)
                }
                _ => self.inner.command(command).await?,
            })
        })
    }

    fn transaction(&self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Reply>, StoreError>> {
        Box::pin(self.batch(commands, true))
    }

    fn pipeline(&self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Reply>, StoreError>> {
        Box::pin(self.batch(commands, false))
    }

    fn eval<'a>(
        &'a self,
        script: &'a Script,
        keys: &'a [&'a str],
        args: Vec<String>,
    ) -> BoxFuture<'a, Result<Reply, StoreError>> {
        Box::pin(async move {
            match self.what {
                Some(What::Script(pairs)) => {
                    let mut body = script.body.to_owned();
                    for (from, to) in *pairs {
                        assert!(body.contains(from), "the script has no `{from}`:\n{body}");
                        body = body.replace(from, to);
                    }
                    STRUCK.store(true, Ordering::SeqCst);
                    self.inner.eval(self.script(body), keys, args).await
                }
                Some(What::Split(decides)) => {
                    STRUCK.store(true, Ordering::SeqCst);
                    let script_of = self.script((*decides).to_owned());
                    let answer = self.inner.eval(script_of, keys, args.clone()).await?;
                    self.inner.eval(script, keys, args).await?;
                    Ok(answer)
                }
                _ => self.inner.eval(script, keys, args).await,
            }
        })
    }

    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session + '_>, StoreError>> {
        self.inner.session()
    }

    fn warm_up(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.warm_up()
    }

    fn traffic(&self) -> Traffic {
        self.inner.traffic()
    }
}
