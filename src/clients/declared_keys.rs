//! A store whose user may touch the keys that each exchange declares, and no other.
//!
//! Before an exchange the server's access list is set to its declared keys: those of the command, of
//! the transaction's commands, or of a script's KEYS. What a script then does to a key whose name it
//! made itself is refused by the server (NOPERM). On a cluster such a script may be run where the key
//! is not; behind an access list of one's own it fails.
//!
//! For calls one after the other: the list is one for the whole node.

use std::sync::Arc;

use super::Access;
use super::patient::Patient;
use crate::ports::BoxFuture;
use crate::ports::store::{Command, Reply, Script, Session, Store, StoreError, Traffic, current_op};

/// Told what each exchange declared, and the server's refusal if there was one.
pub type Touched = Arc<dyn Fn(u32, Vec<String>, Option<String>) + Send + Sync>;

pub struct DeclaredKeys {
    inner: Arc<dyn Store>,
    admin: Patient,
    user: String,
    touched: Touched,
}

impl DeclaredKeys {
    /// Makes the user, and a store that talks as it. `connect` is the client profile's.
    ///
    /// # Errors
    /// If the server has no access lists (before 6.0).
    pub async fn connect(
        connect: fn(Access) -> Arc<dyn Store>,
        access: Access,
        admin: Patient,
        user: &str,
        touched: Touched,
    ) -> Result<Self, StoreError> {
        let store = Self { inner: connect(access.of_user(user)), admin, user: user.to_owned(), touched };
        store.acl(&["reset", "on", "nopass", "+@all"]).await?;
        Ok(store)
    }

    async fn acl(&self, rules: &[&str]) -> Result<(), StoreError> {
        let mut connection = self.admin.clone();
        let mut cmd = redis::cmd("ACL");
        cmd.arg("SETUSER").arg(&self.user).arg(rules);
        cmd.exec_async(&mut connection).await.map_err(|e| StoreError::Refused(format!("ACL SETUSER: {e}")))
    }

    /// The keys of a command, as the server itself finds them.
    async fn keys_of(&self, command: &Command) -> Vec<String> {
        let mut connection = self.admin.clone();
        let mut cmd = redis::cmd("COMMAND");
        cmd.arg("GETKEYS");
        for arg in &command.args {
            cmd.arg(arg.as_slice());
        }
        // A command without keys is answered with an error.
        cmd.query_async(&mut connection).await.unwrap_or_default()
    }

    async fn keys_of_all(&self, commands: &[Command]) -> Vec<String> {
        let mut keys = Vec::new();
        for command in commands {
            keys.extend(self.keys_of(command).await);
        }
        keys.sort();
        keys.dedup();
        keys
    }

    async fn allow(&self, keys: &[String]) -> Result<(), StoreError> {
        let patterns: Vec<String> = keys.iter().map(|key| format!("~{}", literal(key))).collect();
        let rules: Vec<&str> =
            std::iter::once("resetkeys").chain(patterns.iter().map(String::as_str)).collect();
        self.acl(&rules).await
    }

    fn tell<T>(&self, keys: Vec<String>, outcome: &Result<T, StoreError>) {
        let refused = match outcome {
            Err(StoreError::Refused(text)) if is_about_keys(text) => Some(text.clone()),
            _ => None,
        };
        (self.touched)(current_op(), keys, refused);
    }
}

/// NOPERM from the door; a script that is stopped inside says so in words of its own, others from 7.2 on than before.
fn is_about_keys(text: &str) -> bool {
    let inside = ["can't access at least one of the keys", "No permissions to access a key"];
    text.contains("NOPERM") || inside.iter().any(|words| text.contains(words))
}

/// A pattern that matches this key and nothing else.
fn literal(key: &str) -> String {
    key.chars().flat_map(|c| ("*?[]\\^".contains(c)).then_some('\\').into_iter().chain([c])).collect()
}

impl Store for DeclaredKeys {
    fn command(&self, command: Command) -> BoxFuture<'_, Result<Reply, StoreError>> {
        Box::pin(async move {
            let keys = self.keys_of(&command).await;
            self.allow(&keys).await?;
            let outcome = self.inner.command(command).await;
            self.tell(keys, &outcome);
            outcome
        })
    }

    fn transaction(&self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Reply>, StoreError>> {
        Box::pin(async move {
            let keys = self.keys_of_all(&commands).await;
            self.allow(&keys).await?;
            let outcome = self.inner.transaction(commands).await;
            self.tell(keys, &outcome);
            outcome
        })
    }

    /// A cluster's client sends each command of a pipeline where its keys are: each is told by itself.
    fn pipeline(&self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Reply>, StoreError>> {
        Box::pin(async move {
            let mut each = Vec::new();
            for command in &commands {
                each.push(self.keys_of(command).await);
            }
            let all: Vec<String> = each.iter().flatten().cloned().collect();
            self.allow(&all).await?;
            let outcome = self.inner.pipeline(commands).await;
            for keys in each {
                self.tell(keys, &outcome);
            }
            outcome
        })
    }

    fn eval<'a>(
        &'a self,
        script: &'a Script,
        keys: &'a [&'a str],
        args: Vec<String>,
    ) -> BoxFuture<'a, Result<Reply, StoreError>> {
        Box::pin(async move {
            let declared: Vec<String> = keys.iter().map(|k| (*k).to_owned()).collect();
            self.allow(&declared).await?;
            let outcome = self.inner.eval(script, keys, args).await;
            self.tell(declared, &outcome);
            outcome
        })
    }

    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session + '_>, StoreError>> {
        Box::pin(async move {
            let inner = self.inner.session().await?;
            Ok(Box::new(Watched { store: self, inner }) as Box<dyn Session + '_>)
        })
    }

    fn warm_up(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.warm_up()
    }

    fn traffic(&self) -> Traffic {
        self.inner.traffic()
    }
}

/// A session of the same user.
struct Watched<'a> {
    store: &'a DeclaredKeys,
    inner: Box<dyn Session + 'a>,
}

impl Session for Watched<'_> {
    fn command(&mut self, command: Command) -> BoxFuture<'_, Result<Reply, StoreError>> {
        Box::pin(async move {
            let keys = self.store.keys_of(&command).await;
            self.store.allow(&keys).await?;
            let outcome = self.inner.command(command).await;
            self.store.tell(keys, &outcome);
            outcome
        })
    }

    /// What is sent down one connection goes to one server: its keys belong together.
    fn pipeline(&mut self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Reply>, StoreError>> {
        Box::pin(async move {
            let keys = self.store.keys_of_all(&commands).await;
            self.store.allow(&keys).await?;
            let outcome = self.inner.pipeline(commands).await;
            self.store.tell(keys, &outcome);
            outcome
        })
    }

    fn transaction(
        &mut self,
        commands: Vec<Command>,
    ) -> BoxFuture<'_, Result<Option<Vec<Reply>>, StoreError>> {
        Box::pin(async move {
            let keys = self.store.keys_of_all(&commands).await;
            self.store.allow(&keys).await?;
            let outcome = self.inner.transaction(commands).await;
            self.store.tell(keys, &outcome);
            outcome
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_pattern_for_itself_alone() {
        assert_eq!(literal("rl:{user}:42"), "rl:{user}:42");
        assert_eq!(literal("a*b?[c]"), "a\\*b\\?\\[c\\]");
    }
}
