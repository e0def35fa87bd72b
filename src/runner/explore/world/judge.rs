//! Which state it is, and what may be said of it once all calls have ended.

use super::*;

impl Inner {
    pub(super) async fn keys(&mut self) -> Result<Vec<Key>, Trouble> {
        if let Some(seen) = &self.seen {
            return Ok(seen.clone());
        }
        let print = print::exact(&self.applied);
        if let Some(known) = self.held.get(&print) {
            self.lookups += 1;
            let known = known.clone();
            if self.lookups.is_multiple_of(LOOK_AGAIN_EVERY) {
                let now = self.keyspace.keys(self.now_ms, self.age())?;
                self.in_time()?;
                if now != known {
                    let why = "the server applied the same commands and holds something else";
                    return Err(Trouble::Nondeterministic(why.to_owned()));
                }
            }
            self.seen = Some(known.clone());
            return Ok(known);
        }
        let keys = self.keyspace.keys(self.now_ms, self.age())?;
        self.in_time()?;
        if self.held.len() >= MOST_HELD {
            self.held.clear();
        }
        self.held.insert(print, keys.clone());
        self.seen = Some(keys.clone());
        Ok(keys)
    }

    pub(super) async fn state(&mut self) -> Result<Print, Trouble> {
        let keys = self.keys().await?;
        let clients: Vec<Vec<u8>> = self.clients.iter().map(|c| self.place(c)).collect();
        let left = self.left;
        let left = [left.crashes, left.ticks, left.losses, left.flushes, left.pauses];
        let rest = [&left[..], &[u8::from(self.flushed)], &self.now_ms.to_le_bytes()].concat();
        let rest = [rest, self.twice.join(";").into_bytes()].concat();
        Ok(print::canonical(&clients, &keys, self.now_ms, &rest))
    }

    /// Where a client is and how it got there: what it was told, how its calls ended, and what it may
    /// still do.
    pub(super) fn place(&self, c: &Client) -> Vec<u8> {
        let mut out = vec![c.at as u8, c.calls_left, u8::try_from(c.held.len()).unwrap_or(u8::MAX)];
        ended(c, &mut out);
        // What the server keeps for it, and no reply says: what was applied since it watches.
        if let Some(since) = c.watches_since {
            out.push(b'w');
            out.extend_from_slice(self.applied.get(since..).unwrap_or_default());
        }
        out.extend_from_slice(&c.told);
        for raw in self.lost.get(&c.id).into_iter().flatten() {
            out.push(b'~');
            out.extend_from_slice(raw);
        }
        out
    }

    pub(super) async fn end(&mut self) -> Result<Ending, Trouble> {
        let keys = self.keys().await?;
        let clients: Vec<Vec<u8>> = self
            .clients
            .iter()
            .map(|c| {
                let mut out = Vec::new();
                ended(c, &mut out);
                out
            })
            .collect();
        let rest = [self.now_ms.to_le_bytes().to_vec(), self.twice.join(";").into_bytes()].concat();
        let state = print::canonical(&clients, &keys, self.now_ms, &rest);
        if let Some(broken) = self.judged.get(&state) {
            return Ok(Ending { state, broken: broken.clone() });
        }
        let broken = self.judge(&keys).await?;
        self.in_time()?;
        self.judged.insert(state, broken.clone());
        Ok(Ending { state, broken })
    }

    /// Asks alone until refused, and once more when all must have been given back.
    pub(super) async fn judge(&mut self, keys: &[Key]) -> Result<Vec<Broken>, Trouble> {
        let calls = self.calls();
        let now_ms = self.now_ms;
        let alone = self.alone();
        let asked = self.drain(alone).await;
        self.rest();
        let Drained { drained, refused, again_ms, again } = asked?;
        let keys: Vec<KeySeen> = keys
            .iter()
            .map(|k| KeySeen {
                name: print::with_letters(&k.name),
                holds: print::with_letters(&k.holds()),
                left_ms: k.due_ms.map(|d| d - now_ms),
            })
            .collect();
        let evidence = Evidence {
            contract: &self.contract,
            epoch_ms: self.recipe.epoch_ms,
            calls: &calls,
            now_ms,
            keys: &keys,
            drained,
            refused,
            again_ms,
            again,
            twice: &self.twice,
            lost: self.losses,
        };
        let broken = ending::judge(&evidence).into_iter();
        Ok(broken.map(|(check, witness)| Broken { check, witness }).collect())
    }

    pub(super) async fn drain(&mut self, alone: u8) -> Result<Drained, Trouble> {
        let (now_ms, window_ms) = (self.now_ms, self.recipe.settings.window.millis());
        let burst = self.contract.bound.burst().unwrap_or(1);
        let (mut drained, mut refused) = (0, false);
        while drained <= burst && !refused {
            match self.ask(alone).await? {
                Outcome::Admitted => drained += 1,
                Outcome::Denied => refused = true,
                Outcome::Failed | Outcome::Unknown => break,
            }
        }
        let back_ms = self.contract.gives_back_within_ns().unwrap_or(0) / 1_000_000;
        let kept_ms = self.contract.key_ttl_at_most.map_or(window_ms, |w| w.millis());
        let quiet = (2 * back_ms).max(i64::try_from(kept_ms).unwrap_or(i64::MAX)) + 1;
        let again_ms = now_ms.saturating_add(quiet);
        let left = self.keyspace.keys(now_ms, Age::Any)?;
        self.keyspace.pass(&left, again_ms)?;
        self.set_time(again_ms);
        let again = self.ask(alone).await? == Outcome::Admitted;
        Ok(Drained { drained, refused, again_ms, again })
    }

    /// A client that comes when nobody else is there. It stays the same client for all it asks.
    pub(super) fn alone(&mut self) -> u8 {
        let id = u8::try_from(self.clients.len()).unwrap_or(MOST_CLIENTS);
        let node = NodeId(FIRST_NODE + u16::from(MOST_CLIENTS));
        match self.resting.take() {
            Some(mut client) => {
                client.id = id;
                let given_back = client.renew(0, &self.recipe);
                self.keep(given_back);
                self.clients.push(client);
            }
            None => self.clients.push(Client::new(id, node, &self.recipe)),
        }
        id
    }

    /// Whoever came alone goes, and its app server stays for the next time.
    pub(super) fn rest(&mut self) {
        let mut client = self.clients.pop().expect("who comes alone came last");
        if client.has_app() {
            self.resting = Some(client);
        } else {
            let given_back = client.drop_all();
            self.keep(given_back);
        }
    }

    pub(super) async fn ask(&mut self, id: u8) -> Result<Outcome, Trouble> {
        self.introduce(id).await?;
        self.complete(id).await?;
        Ok(self.client(id).calls.last().map_or(Outcome::Failed, |c| c.outcome))
    }

    pub(super) async fn complete(&mut self, id: u8) -> Result<(), Trouble> {
        self.begin(id).await?;
        while self.client(id).at == At::Calling {
            match self.client(id).held.pop_front() {
                Some(Held::Command { line, args, raw }) => {
                    let trace = self.trace.len();
                    let (_, reply) = self.apply(id, line, &args, &raw).await?;
                    self.trace.truncate(trace);
                    self.client(id).answer(line, &reply).await;
                }
                Some(Held::Sleep { wake, .. }) => {
                    let _ = wake.send(());
                }
                None => {}
            }
            self.settle_if_free(id).await?;
        }
        Ok(())
    }
}

fn ended(c: &Client, out: &mut Vec<u8>) {
    for call in &c.calls {
        let outcome = match call.outcome {
            Outcome::Admitted => b'+',
            Outcome::Denied => b'-',
            Outcome::Failed => b'!',
            Outcome::Unknown => b'?',
        };
        out.push(outcome);
        out.extend_from_slice(&call.begun_ms.to_le_bytes());
        out.extend_from_slice(&call.ended_ms.to_le_bytes());
    }
    out.push(b'|');
}
