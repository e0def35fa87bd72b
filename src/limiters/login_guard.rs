//! Guards a login: each call is a failed attempt that asks to be let through to the password check.
//!
//! An account gets `limit` failures per window and is then locked for `lockout`; an address, shared by
//! all accounts behind it, gets `address` failures per four windows. What the caller must ask of the
//! person rises with the failures ([`Stage`]). All in one script over three keys in one slot.
//!
//! Attempts during a lockout do not prolong it, and every key has an expiry: nobody is locked out for
//! ever. A refusal looks the same whether the account or the address is out, so it does not tell which
//! accounts exist. A success clears the account ([`LoginGuard::reset`]) and not the address.

use std::sync::{Arc, LazyLock};

use super::common;
use crate::model::contract::{Bound, Contract, Denials};
use crate::model::op::Decision;
use crate::model::units::{Cost, Limit, Window};
use crate::ports::BoxFuture;
use crate::ports::limiter::{Build, Limiter, Param, ParamKind, Settings, Spec};
use crate::ports::store::{Command, Reply, Script, Store, StoreError};

pub static SPEC: Spec = Spec {
    id: "L28",
    name: "login-guard",
    summary: "failed logins per account and address: captcha, delay, then a lockout that ends",
    sends: "EVALSHA; 1 round trip",
    known: "exact, denials free; locks out for a time, never for good",
    params: &[
        Param {
            name: "lockout",
            default: "",
            kind: ParamKind::Span,
            help: "how long an account that used up its failures stays locked; two windows if not given",
        },
        common::count_param(
            "address",
            "failures of an address in four windows; three times the limit if not given",
        ),
    ],
    foreign: None,
    needs_server: None,
    check,
    contract,
    build: |build| Arc::new(LoginGuard::new(build)),
};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("login_guard.lua")));

/// What the caller asks of the person before the password is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The password alone.
    Password,
    /// A captcha, from half of the limit on.
    Captcha,
    /// To wait a moment as well, from three quarters of the limit on.
    Delay,
    /// Nothing helps: come back later.
    Lockout,
}

fn lockout(settings: &Settings) -> Result<Window, String> {
    let window = settings.window;
    let given = settings.span_if_given("lockout");
    let ms = given.map_or(window.millis() * 2, |span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
    if ms < window.millis() {
        return Err(format!(
            "a lockout shorter than the window of {window} ends before its failures are forgotten"
        ));
    }
    Window::from_millis(ms).map_err(|_| "the lockout is longer than 366 days".to_owned())
}

fn address_window(settings: &Settings) -> Result<Window, String> {
    Window::from_millis(settings.window.millis() * 4)
        .map_err(|_| format!("four times the window of {} is longer than 366 days", settings.window))
}

fn address_limit(settings: &Settings) -> Limit {
    settings.count_or_times("address", 3)
}

fn check(settings: &Settings) -> Result<(), String> {
    address_window(settings)?;
    lockout(settings).map(|_| ())
}

/// No algorithm: whether an account's attempt is let through hangs on all others behind its address.
fn contract(settings: &Settings) -> Contract {
    let shared = address_window(settings).unwrap_or(settings.window);
    let lockout = lockout(settings).unwrap_or(settings.window);
    Contract {
        key_ttl_at_most: Some(lockout.max(shared)),
        lockout: Some(lockout),
        across_keys: Some(Bound::FixedWindow { limit: address_limit(settings), window: shared }),
        round_trips_at_most: Some(1),
        ..common::counter_contract(settings, Denials::Free)
    }
}

pub struct LoginGuard {
    settings: Settings,
    store: Arc<dyn Store>,
}

struct Keys {
    failures: String,
    lock: String,
    address: String,
}

impl Keys {
    fn of(account: &str) -> Self {
        let (prefix, account) = common::shared_prefix(account);
        Self {
            failures: common::tagged(prefix, &format!("{account}:failures")),
            lock: common::tagged(prefix, &format!("{account}:lock")),
            address: common::tagged(prefix, "address"),
        }
    }
}

impl LoginGuard {
    pub fn new(build: Build) -> Self {
        Self { settings: build.settings, store: build.store }
    }

    /// Counts a failed attempt if there is room for it, and says what to ask of the person.
    pub async fn attempt(&self, account: &str, cost: Cost) -> Result<(Decision, Stage), StoreError> {
        let contract = contract(&self.settings);
        let lockout = contract.lockout.unwrap_or(self.settings.window);
        let shared = contract.across_keys.and_then(|b| b.window()).unwrap_or(self.settings.window);
        let args = vec![
            cost.get().to_string(),
            self.settings.limit.to_string(),
            self.settings.window.millis().to_string(),
            lockout.millis().to_string(),
            address_limit(&self.settings).to_string(),
            shared.millis().to_string(),
        ];
        let keys = Keys::of(account);
        let keys = [keys.failures.as_str(), keys.lock.as_str(), keys.address.as_str()];
        let mut reply = self.store.eval(&SCRIPT, &keys, args).await?.expect_list(4)?;
        let stage = match reply.pop().as_ref().and_then(Reply::int) {
            Some(0) => Stage::Password,
            Some(1) => Stage::Captcha,
            Some(2) => Stage::Delay,
            Some(3) => Stage::Lockout,
            other => return Err(StoreError::Unexpected(format!("{other:?} instead of a stage"))),
        };
        Ok((common::scripted(&self.settings, Reply::List(reply))?, stage))
    }

    /// After a login that succeeded: the account's failures and its lock are gone. What its address
    /// has failed at elsewhere is not.
    pub async fn reset(&self, account: &str) -> Result<(), StoreError> {
        let keys = Keys::of(account);
        self.store.command(Command::new("DEL").arg(keys.failures).arg(keys.lock)).await.map(|_| ())
    }

    async fn after(&self, account: &str, used: u64) -> Result<(), StoreError> {
        let keys = Keys::of(account);
        let contract = contract(&self.settings);
        let shared = contract.across_keys.and_then(|b| b.window()).unwrap_or(self.settings.window);
        for (key, window) in [(&keys.failures, self.settings.window), (&keys.address, shared)] {
            common::preset_shared(&*self.store, window, key, used).await?;
        }
        if let Some(lockout) = contract.lockout.filter(|_| used >= self.settings.limit.get()) {
            let lock = Command::new("SET").arg(&keys.lock).arg(1).arg("PX").arg(lockout.millis());
            self.store.command(lock).await?;
        }
        Ok(())
    }
}

impl Limiter for LoginGuard {
    fn acquire<'a>(&'a self, key: &'a str, cost: Cost) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(async move { Ok(self.attempt(key, cost).await?.0) })
    }

    fn preset<'a>(&'a self, key: &'a str, used: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.after(key, used))
    }
}
