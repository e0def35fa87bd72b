//! What may happen next, and doing it.

use super::wire::shown;
use super::*;

impl Inner {
    pub(super) fn enabled(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let (crash, lose) = (self.left.crashes > 0, self.left.losses > 0);
        for c in &self.clients {
            let id = c.id;
            match c.at {
                At::Dead => {}
                At::Idle if c.calls_left == 0 => {}
                At::Idle => {
                    steps.push(Step::Go(id));
                    steps.extend((self.left.pauses > 0).then_some(Step::Begin(id)));
                    steps.extend(crash.then_some(Step::DieAfter(id)));
                    steps.extend(lose.then_some(Step::LoseReply(id)));
                }
                At::Calling => {
                    let command = matches!(c.held.front(), Some(Held::Command { .. }));
                    steps.push(Step::Go(id));
                    // What was sent together with a command that has arrived arrives as well.
                    steps.extend((crash && !c.midway).then_some(Step::DieBefore(id)));
                    steps.extend((crash && command).then_some(Step::DieAfter(id)));
                    steps.extend((lose && command).then_some(Step::LoseReply(id)));
                }
            }
        }
        let going = !steps.is_empty();
        let begun = self.clients.iter().any(|c| !c.calls.is_empty());
        steps.extend((going && begun && self.left.ticks > 0).then_some(Step::Tick));
        steps.extend((going && self.left.flushes > 0 && !self.scripts.is_empty()).then_some(Step::Flush));
        steps
    }

    pub(super) async fn step(&mut self, step: Step) -> Result<(), Trouble> {
        self.in_time()?;
        self.seen = None;
        self.trace.extend_from_slice(&step.code());
        let (what, reply) = match step {
            Step::Tick => (self.tick().await?, String::new()),
            Step::Flush => {
                self.left.flushes -= 1;
                self.flushed = true;
                self.keyspace.ask(&["SCRIPT", "FLUSH"])?;
                ("the server forgets its scripts".to_owned(), String::new())
            }
            Step::Begin(c) => {
                self.left.pauses -= 1;
                self.begin(c).await?;
                ("begins its call".to_owned(), String::new())
            }
            Step::Go(c) => return self.go(c, step).await,
            Step::DieBefore(c) => {
                self.left.crashes -= 1;
                let what = self.client(c).held.front().map(held_in_words).unwrap_or_default();
                self.die(c);
                (format!("dies before {what}"), String::new())
            }
            Step::DieAfter(c) => return self.cut(c, step).await,
            Step::LoseReply(c) => return self.cut(c, step).await,
        };
        self.said(step, Vec::new(), what, reply, None).await
    }

    pub(super) fn die(&mut self, id: u8) {
        let now_ms = self.now_ms;
        let given_back = self.client(id).die(now_ms);
        self.keep(given_back);
    }

    pub(super) async fn begin(&mut self, id: u8) -> Result<(), Trouble> {
        let now_ms = self.now_ms;
        self.lost.remove(&id);
        self.absorb(id).await?;
        let recipe = &self.recipe;
        self.clients[usize::from(id)].begin(recipe, now_ms);
        self.settle(id).await
    }

    /// Lets the client's next command through.
    pub(super) async fn go(&mut self, id: u8, step: Step) -> Result<(), Trouble> {
        if self.client(id).at == At::Idle {
            self.begin(id).await?;
        }
        let before = self.client(id).calls.len();
        let (args, what, reply) = match self.client(id).held.pop_front() {
            None => (Vec::new(), "asks nobody".to_owned(), String::new()),
            Some(Held::Sleep { span, wake }) => {
                let _ = wake.send(());
                self.trace.extend_from_slice(b"woke;");
                self.hear(id, b"woke;");
                self.settle_if_free(id).await?;
                (Vec::new(), format!("works for {} ms", span.as_millis()), String::new())
            }
            Some(Held::Command { line, args, raw }) => {
                let (frame, reply) = self.apply(id, line, &args, &raw).await?;
                self.client(id).answer(line, &reply).await;
                self.settle_if_free(id).await?;
                (shown(&args), String::new(), text(&frame))
            }
        };
        let client = self.client(id);
        let over = client.at == At::Idle && client.calls.len() == before;
        let ended =
            over.then(|| ending::outcomes(client.calls.last().map(std::slice::from_ref).unwrap_or_default()));
        self.said(step, args, what, reply, ended).await
    }

    /// Applies the client's command and lets it never hear of it.
    pub(super) async fn cut(&mut self, id: u8, step: Step) -> Result<(), Trouble> {
        if self.client(id).at == At::Idle {
            self.begin(id).await?;
        }
        let dies = matches!(step, Step::DieAfter(_));
        if dies {
            self.left.crashes -= 1
        } else {
            self.left.losses -= 1
        }
        let (mut args, mut reply) = (Vec::new(), String::new());
        if let Some(Held::Command { .. }) = self.client(id).held.front()
            && let Some(Held::Command { line, args: sent, raw }) = self.client(id).held.pop_front()
        {
            let (frame, _) = self.apply(id, line, &sent, &raw).await?;
            (args, reply) = (shown(&sent), text(&frame));
            self.lost.entry(id).or_default().push(raw);
            self.losses += 1;
            if !dies {
                // What was sent together with it has arrived as well.
                while let Some(at) = self
                    .client(id)
                    .held
                    .iter()
                    .position(|h| matches!(h, Held::Command { line: l, .. } if *l == line))
                {
                    let Some(Held::Command { args: sent, raw, .. }) = self.client(id).held.remove(at) else {
                        break;
                    };
                    self.apply(id, line, &sent, &raw).await?;
                    self.lost.entry(id).or_default().push(raw);
                    args.push(";".to_owned());
                    args.extend(shown(&sent));
                }
                let client = self.client(id);
                let gone = client.lines.remove(&line).and_then(|mut l| l.upstream.take());
                client.held.retain(|h| !matches!(h, Held::Command { line: l, .. } if *l == line));
                self.keep(gone.into_iter().collect());
                self.settle(id).await?;
            }
        }
        if dies {
            while let Some(Held::Command { line, args: sent, raw }) = self.client(id).held.pop_front() {
                self.apply(id, line, &sent, &raw).await?;
                args.push(";".to_owned());
                args.extend(shown(&sent));
            }
            self.die(id);
        }
        let what = if dies { "dies before it hears" } else { "reply and connection are lost" };
        let client = self.client(id);
        let over = (!dies && client.at == At::Idle)
            .then(|| ending::outcomes(client.calls.last().map(std::slice::from_ref).unwrap_or_default()));
        self.said(step, args, what.to_owned(), reply, over).await
    }

    /// Lets time pass until the next key is due; by a window where none ever is.
    pub(super) async fn tick(&mut self) -> Result<String, Trouble> {
        self.left.ticks -= 1;
        let keys = self.keyspace.keys(self.now_ms, self.age())?;
        let window = i64::try_from(self.recipe.settings.window.millis()).unwrap_or(i64::MAX);
        let due = keys.iter().filter_map(|k| k.due_ms).min();
        let until = due.unwrap_or(self.now_ms + window) + 1;
        let gone = |k: &&Key| k.due_ms.is_some_and(|d| d <= until);
        let gone: Vec<&str> = keys.iter().filter(gone).map(|k| k.name.as_str()).collect();
        let what = format!(
            "{} ms pass{}",
            until - self.now_ms,
            if gone.is_empty() { String::new() } else { format!(": {} expires", gone.join(", ")) }
        );
        self.keyspace.pass(&keys, until)?;
        self.set_time(until);
        self.applied.extend_from_slice(format!("|{until}|").as_bytes());
        Ok(what)
    }

    pub(super) async fn said(
        &mut self,
        step: Step,
        args: Vec<String>,
        what: String,
        reply: String,
        ended: Option<String>,
    ) -> Result<(), Trouble> {
        if self.telling.is_none() {
            return Ok(());
        }
        let keys = self.keys().await?;
        if let Some(said) = &mut self.telling {
            said.push(Said { step, args, what, reply, keys, ended });
        }
        Ok(())
    }
}

fn held_in_words(held: &Held) -> String {
    match held {
        Held::Command { args, .. } => crate::runner::explore::story::brief(&shown(args)),
        Held::Sleep { span, .. } => format!("its {} ms of work are over", span.as_millis()),
    }
}
