//! Between a client and the server: what is held, what passes, what is applied and answered.

use super::*;

impl Inner {
    /// Has the server apply a command, and takes down what it said.
    pub(super) async fn apply(
        &mut self,
        id: u8,
        line: u32,
        args: &[Vec<u8>],
        raw: &[u8],
    ) -> Result<(Frame, Vec<u8>), Trouble> {
        let name = name_of(args);
        let (frame, bytes) = if name == "TIME" {
            self.virtual_time = true;
            let us = (self.recipe.epoch_ms + self.now_ms) * 1000;
            let part = |n: i64| Frame::Bulk(n.to_string().into_bytes());
            let frame = Frame::Array(vec![part(us / 1_000_000), part(us % 1_000_000)]);
            let mut bytes = Vec::new();
            encode(&frame, &mut bytes);
            (frame, bytes)
        } else {
            self.exchange(id, line, raw)?
        };
        let had_effect = frame.error().is_none() && !matches!(frame, Frame::Nil(_)) && adds_up(&name);
        if had_effect && self.lost.get(&id).is_some_and(|l| l.iter().any(|c| c == raw)) {
            let text = crate::runner::explore::story::brief(&shown(args));
            self.twice.push(format!("for one call of {} the store applied `{text}` twice", letter(id)));
        }
        if let Some(upstream) = self.client(id).lines.get_mut(&line).and_then(|l| l.upstream.as_mut()) {
            match name.as_str() {
                "WATCH" => upstream.attached = true,
                "EXEC" => upstream.attached = false,
                _ => {}
            }
        }
        let mut heard = Vec::new();
        print::put(&frame, &mut heard);
        // What EXEC applies was queued, and the arguments here hold it.
        let applied = self.applied.len();
        match name.as_str() {
            // A second WATCH adds keys; the first ones stay watched.
            "WATCH" => {
                self.client(id).watches_since.get_or_insert(applied);
            }
            "EXEC" => self.client(id).watches_since = None,
            _ => {}
        }
        if !only_reads(&name) {
            for arg in args {
                self.applied.extend_from_slice(&arg.len().to_le_bytes());
                self.applied.extend_from_slice(arg);
            }
            // Whether it was: scripts that are not known, blocks that were aborted.
            self.applied.extend_from_slice(&heard);
        }
        if name == "EXEC"
            && let Some(l) = self.client(id).lines.get_mut(&line)
        {
            l.queued = None;
        }
        self.trace.extend_from_slice(&heard);
        self.hear(id, &heard);
        self.learn(&name, args, &frame)?;
        Ok((frame, bytes))
    }

    /// Takes down what a client is told and when: what it does next may depend on its clock as well.
    pub(super) fn hear(&mut self, id: u8, what: &[u8]) {
        let now_ms = self.now_ms;
        let told = &mut self.client(id).told;
        told.extend_from_slice(&now_ms.to_le_bytes());
        told.extend_from_slice(what);
    }

    /// A script that the server did not know when this schedule began makes it another schedule.
    pub(super) fn learn(&mut self, name: &str, args: &[Vec<u8>], reply: &Frame) -> Result<(), Trouble> {
        // One that does not even compile is not loaded.
        let compiled = reply.error().is_none_or(|e| !e.starts_with(b"ERR Error compiling"));
        if name != "EVAL" || !compiled {
            return Ok(());
        }
        let body = args.get(1).map(|b| String::from_utf8_lossy(b).into_owned()).unwrap_or_default();
        if self.scripts.contains(&body) {
            return Ok(());
        }
        self.scripts.push(body);
        Err(Trouble::Stalled("a script was loaded that was not known before".to_owned()))
    }

    pub(super) fn exchange(&mut self, id: u8, line: u32, raw: &[u8]) -> Result<(Frame, Vec<u8>), Trouble> {
        self.sent_anything = true;
        let lost = |e: std::io::Error| Trouble::Lost(format!("the server does not answer: {e}"));
        let index = usize::from(id);
        let Some(there) = self.clients[index].lines.get_mut(&line) else {
            return Err(Trouble::Nondeterministic(format!(
                "client {} sends on a line it closed",
                letter(id)
            )));
        };
        if there.upstream.is_none() {
            let upstream = match self.spare.pop() {
                Some(spare) => spare,
                None => Upstream::connect(self.recipe.address).map_err(lost)?,
            };
            there.upstream = Some(upstream);
        }
        match there.upstream.as_mut() {
            Some(upstream) => self.keyspace.behind(upstream, raw).map_err(lost),
            None => Err(Trouble::Lost("a line without a connection".to_owned())),
        }
    }

    /// Starts the client's app server, if it needs one and has none. What that sends before it is ready is no step.
    pub(super) async fn introduce(&mut self, id: u8) -> Result<(), Trouble> {
        let place = usize::from(id);
        let Some(mut starting) = self.clients[place].starts_app(&self.recipe) else { return Ok(()) };
        let app = loop {
            tokio::select! {
                app = &mut starting => break app.map_err(Trouble::Unfit)?,
                event = self.clients[place].events.recv() => {
                    if let Some(event) = event {
                        self.pass(id, event).await?;
                    }
                }
            }
        };
        self.client(id).serve(app);
        self.quiet(id).await
    }

    /// Lets through what an app server sends of itself: a service listens before it has connected, and libraries load
    /// their scripts without waiting for it. In its first call, and in no other, those would be steps.
    async fn quiet(&mut self, id: u8) -> Result<(), Trouble> {
        const CONNECTS: Duration = Duration::from_millis(500);
        const STILL: Duration = Duration::from_millis(50);
        let place = usize::from(id);
        let service = self.recipe.spec.foreign.is_some_and(|f| f.http.is_some());
        loop {
            let unconnected = service && self.clients[place].lines.is_empty();
            let within = if unconnected { CONNECTS } else { STILL };
            match tokio::time::timeout(within, self.clients[place].events.recv()).await {
                Ok(Some(event)) => self.pass(id, event).await?,
                _ => return Ok(()),
            }
        }
    }

    /// Lets through what a client has sent between two calls.
    pub(super) async fn absorb(&mut self, id: u8) -> Result<(), Trouble> {
        while self.client(id).has_app()
            && let Ok(event) = self.client(id).events.try_recv()
        {
            self.pass(id, event).await?;
        }
        Ok(())
    }

    async fn pass(&mut self, id: u8, event: Event) -> Result<(), Trouble> {
        match event {
            Event::Opened { line, write, pump } => self.client(id).opened(line, write, pump),
            Event::Closed { line } => {
                let gone = self.client(id).lines.remove(&line).and_then(|mut l| l.upstream.take());
                self.keep(gone.into_iter().collect());
            }
            Event::Bytes { line, bytes } => {
                if let Some(line) = self.client(id).lines.get_mut(&line) {
                    line.commands.feed(&bytes);
                }
                self.sort(id, line).await?;
                while let Some(held) = self.client(id).held.pop_front() {
                    if let Held::Command { line, raw, .. } = held {
                        let (_, reply) = self.exchange(id, line, &raw)?;
                        self.client(id).answer(line, &reply).await;
                    }
                }
            }
            Event::Sleeping { .. } | Event::Done(_) => {}
        }
        Ok(())
    }

    pub(super) async fn settle_if_free(&mut self, id: u8) -> Result<(), Trouble> {
        let client = self.client(id);
        client.midway = !client.held.is_empty();
        if client.midway { Ok(()) } else { self.settle(id).await }
    }

    /// Lets the client run until it is held at its next command or its call has ended.
    pub(super) async fn settle(&mut self, id: u8) -> Result<(), Trouble> {
        loop {
            let client = self.client(id);
            if !client.held.is_empty() || client.at != At::Calling {
                return Ok(());
            }
            let Some(event) = next_event(client).await else {
                return Err(Trouble::Stalled(format!(
                    "client {} neither sent a command nor ended its call within {} s",
                    letter(id),
                    WATCHDOG.as_secs()
                )));
            };
            let now_ms = self.now_ms;
            let client = self.client(id);
            match event {
                Event::Opened { line, write, pump } => client.opened(line, write, pump),
                Event::Closed { line } => {
                    let gone = client.lines.remove(&line).and_then(|mut l| l.upstream.take());
                    self.keep(gone.into_iter().collect());
                }
                Event::Sleeping { span, wake } => client.held.push_back(Held::Sleep { span, wake }),
                Event::Done(completion) => client.finish(&completion, now_ms),
                Event::Bytes { line, bytes } => {
                    if let Some(line) = client.lines.get_mut(&line) {
                        line.commands.feed(&bytes);
                    }
                    self.sort(id, line).await?;
                }
            }
        }
    }

    /// Holds the commands that arrived, but for those that touch no key: they are answered at once.
    pub(super) async fn sort(&mut self, id: u8, line: u32) -> Result<(), Trouble> {
        loop {
            let Some(there) = self.client(id).lines.get_mut(&line) else { return Ok(()) };
            let next = there.commands.next().map_err(|e| Trouble::Lost(format!("the client's wire: {e}")))?;
            let Some((args, raw)) = next else { return Ok(()) };
            let (raw, name) = (raw.to_vec(), name_of(&args));
            let passes = match (name.as_str(), &mut there.queued) {
                ("MULTI", queued) => {
                    *queued = Some(Vec::new());
                    true
                }
                ("DISCARD", queued) => {
                    *queued = None;
                    true
                }
                ("EXEC", _) => false,
                (_, Some(queued)) => {
                    queued.push(args.clone());
                    true
                }
                (name, None) => PASS.contains(&name),
            };
            if passes {
                let (_, reply) = self.exchange(id, line, &raw)?;
                if let Some(u) = self.client(id).lines.get_mut(&line).and_then(|l| l.upstream.as_mut()) {
                    match name.as_str() {
                        "MULTI" => u.attached = true,
                        "DISCARD" | "UNWATCH" => u.attached = false,
                        _ => {}
                    }
                }
                if matches!(name.as_str(), "DISCARD" | "UNWATCH") {
                    self.client(id).watches_since = None;
                }
                self.client(id).answer(line, &reply).await;
                continue;
            }
            let args = match there_queued(self.client(id), line, &name) {
                Some(queued) => queued,
                None => args,
            };
            self.client(id).held.push_back(Held::Command { line, args, raw });
        }
    }
}

/// What the client does next. Nobody else runs and nothing is waited for outside, so it mostly is
/// there after the tasks of the client had their turn.
async fn next_event(client: &mut Client) -> Option<Event> {
    const TURNS: u32 = 100;
    for _ in 0..TURNS {
        if let Ok(event) = client.events.try_recv() {
            return Some(event);
        }
        tokio::task::yield_now().await;
    }
    tokio::time::timeout(WATCHDOG, client.events.recv()).await.ok().flatten()
}

/// Commands that touch no key and no script: they pass and are no step. Of what INFO says, something is new each time.
const PASS: [&str; 10] =
    ["HELLO", "AUTH", "CLIENT", "SELECT", "PING", "INFO", "COMMAND", "READONLY", "UNWATCH", "ECHO"];

fn only_reads(name: &str) -> bool {
    const READ: [&str; 18] = [
        "GET", "MGET", "HGET", "HMGET", "HGETALL", "EXISTS", "TTL", "PTTL", "TIME", "ZCARD", "ZCOUNT",
        "ZRANGE", "LLEN", "SCARD", "STRLEN", "TYPE", "WATCH", "EVAL_RO",
    ];
    READ.contains(&name)
}

/// Commands that do twice as much when they are applied twice.
fn adds_up(name: &str) -> bool {
    const ADD: [&str; 16] = [
        "INCR",
        "INCRBY",
        "INCRBYFLOAT",
        "DECR",
        "DECRBY",
        "HINCRBY",
        "HINCRBYFLOAT",
        "ZINCRBY",
        "APPEND",
        "LPUSH",
        "RPUSH",
        "XADD",
        "EVAL",
        "EVALSHA",
        "FCALL",
        "EXEC",
    ];
    ADD.contains(&name)
}

fn name_of(args: &[Vec<u8>]) -> String {
    args.first().map(|n| String::from_utf8_lossy(n).to_uppercase()).unwrap_or_default()
}

/// What EXEC stands for: the commands of its transaction.
fn there_queued(client: &mut Client, line: u32, name: &str) -> Option<Vec<Vec<u8>>> {
    if name != "EXEC" {
        return None;
    }
    let queued = client.lines.get(&line)?.queued.as_ref()?;
    let mut args = vec![b"EXEC".to_vec()];
    for command in queued {
        args.push(b";".to_vec());
        args.extend(command.iter().cloned());
    }
    Some(args)
}

/// Arguments as text, nodes by the letters of their clients.
pub(super) fn shown(args: &[Vec<u8>]) -> Vec<String> {
    args.iter().map(|arg| print::with_letters(&String::from_utf8_lossy(arg))).collect()
}
