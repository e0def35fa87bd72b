//! The mutants: one limiter, one place, one change.

use rl_lab::ports::store::Command;

use super::store::What::{self, Command as Sends, Count, ReadFirst, Script, Split};

pub struct Mutant {
    pub limiter: &'static str,
    pub name: &'static str,
    pub what: What,
}

const fn mutant(limiter: &'static str, name: &'static str, what: What) -> Mutant {
    Mutant { limiter, name, what }
}

/// Those that no check here convicts, with the reason.
pub const SURVIVORS: &[(&str, &str, &str)] = &[(
    GCRA,
    "one too few",
    "a burst is used up to the very microsecond only by calls that read the same one, and no two here do",
)];

const MULTI: &str = "multi-incr-expire-nx";
const FIXED: &str = "fixed-window-lua";
const NUMBERED: &str = "fixed-window-numbered";
const LOG: &str = "sliding-log-lua";
const COUNTER: &str = "sliding-counter-lua";
const GCRA: &str = "gcra-lua";
const BUCKET: &str = "token-bucket-lua";
const COST: &str = "cost-based";

const SERVER_MS: &str =
    "(function() local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000) end)()";

pub const MUTANTS: &[Mutant] = &[
    mutant(MULTI, "reads before it counts", ReadFirst),
    mutant(MULTI, "no expiry", Sends(|c| (c.name() != "PEXPIRE").then_some(c))),
    mutant(MULTI, "expiry on every call", Sends(|c| Some(without(c, "NX")))),
    mutant(MULTI, "half the expiry", Sends(|c| Some(halved(c)))),
    mutant(MULTI, "one too many", Count(|n| n - 1)),
    mutant(MULTI, "one too few", Count(|n| n + 1)),
    mutant(
        FIXED,
        "split in two",
        Split("return {(tonumber(redis.call('GET', KEYS[1])) or 0) + ARGV[1], redis.call('PTTL', KEYS[1])}"),
    ),
    mutant(FIXED, "no expiry", Script(&[("redis.call('PEXPIRE', KEYS[1], ARGV[2])", "local none = 0")])),
    mutant(FIXED, "expiry on every call", Script(&[("count == tonumber(ARGV[1])", "true")])),
    mutant(FIXED, "expiry when the count is 1", Script(&[("count == tonumber(ARGV[1])", "count == 1")])),
    mutant(FIXED, "half the expiry", Script(&[("KEYS[1], ARGV[2])", "KEYS[1], math.floor(ARGV[2] / 2))")])),
    mutant(FIXED, "one too many", Script(&[("return {count,", "return {count - 1,")])),
    mutant(FIXED, "one too few", Script(&[("return {count,", "return {count + 1,")])),
    mutant(
        FIXED,
        "wait in whole seconds",
        Script(&[("redis.call('PTTL', KEYS[1])}", "math.floor(redis.call('PTTL', KEYS[1]) / 1000) * 1000}")]),
    ),
    mutant(NUMBERED, "reads before it counts", ReadFirst),
    mutant(NUMBERED, "no expiry", Sends(|c| (c.name() != "PEXPIRE").then_some(c))),
    mutant(NUMBERED, "half the expiry", Sends(|c| Some(halved(c)))),
    mutant(NUMBERED, "one too many", Count(|n| n - 1)),
    mutant(NUMBERED, "one too few", Count(|n| n + 1)),
    mutant(
        LOG,
        "split in two",
        Split(
            "local limit, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
             local from = string.format('(%.0f', ARGV[5] - window)
             local count = redis.call('ZCOUNT', KEYS[1], from, '+inf')
             if count + cost > limit then return {0, math.max(0, limit - count), -1} end
             return {1, limit - count - cost, 0}",
        ),
    ),
    mutant(
        LOG,
        "no expiry",
        Script(&[("redis.call('PEXPIRE', KEYS[1], ARGV[6])", "local none = 0")]),
    ),
    mutant(LOG, "one too many", Script(&[("count + cost > limit then", "count + cost > limit + 1 then")])),
    mutant(LOG, "one too few", Script(&[("count + cost > limit then", "count + cost >= limit then")])),
    mutant(
        LOG,
        "refusals are kept",
        Script(&[(
            "if count + cost > limit then",
            "if count + cost > limit then redis.call('ZADD', KEYS[1], score(now), ARGV[4])",
        )]),
    ),
    mutant(
        LOG,
        "nothing is ever dropped",
        Script(&[(
            "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', score(now - window))",
            "local none = 0",
        )]),
    ),
    mutant(LOG, "half the window", Script(&[("tonumber(ARGV[2])", "tonumber(ARGV[2]) / 2")])),
    mutant(LOG, "members named after the time", Script(&[("ARGV[4] .. ':' .. i", "score(now)")])),
    mutant(
        LOG,
        "wait in whole seconds",
        Script(&[("window - now) / 1000))", "window - now) / 1000000) * 1000)")]),
    ),
    mutant(LOG, "the server's clock", Script(&[("ARGV[5] == ''", "true")])),
    mutant(LOG, "remaining one too high", Script(&[("return {1, limit - count - cost,", "return {1, limit - count - cost + 1,")])),
    mutant(
        COUNTER,
        "split in two",
        Split(
            "local limit, window, cost, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
             local number = math.floor(now / window)
             local count = tonumber(redis.call('GET', KEYS[1] .. ':' .. string.format('%.0f', number))) or 0
             local last = tonumber(redis.call('GET', KEYS[1] .. ':' .. string.format('%.0f', number - 1))) or 0
             local weighted = count + last * (window - (now - number * window)) / window
             if weighted + cost > limit then return {0, math.max(0, math.floor(limit - weighted)), -1} end
             return {1, math.floor(limit - weighted - cost), 0}",
        ),
    ),
    mutant(COUNTER, "no expiry", Script(&[("redis.call('PEXPIRE', current, ARGV[5])", "local none = 0")])),
    mutant(COUNTER, "the expiry of one window", Script(&[("current, ARGV[5]", "current, window")])),
    mutant(COUNTER, "one too many", Script(&[("weighted + wanted > full then", "weighted + wanted > full + window then")])),
    mutant(COUNTER, "one too few", Script(&[("weighted + wanted > full then", "weighted + wanted >= full then")])),
    mutant(
        COUNTER,
        "refusals are counted",
        Script(&[(
            "if weighted + wanted > full then",
            "if weighted + wanted > full then redis.call('INCRBY', current, cost) redis.call('PEXPIRE', current, ARGV[5])",
        )]),
    ),
    mutant(COUNTER, "the window before is forgotten", Script(&[("count * window + last * (window - elapsed)", "count * window")])),
    mutant(COUNTER, "weighed the wrong way round", Script(&[("last * (window - elapsed)", "last * elapsed")])),
    mutant(
        COUNTER,
        "wait in whole seconds",
        Script(&[("return {0, math.max(0, math.floor((full - weighted) / window)), wait}", "return {0, math.max(0, math.floor((full - weighted) / window)), wait > 0 and math.floor(wait / 1000) * 1000 or wait}")]),
    ),
    mutant(COUNTER, "the server's clock", Script(&[("tonumber(ARGV[4])", SERVER_MS)])),
    mutant(
        GCRA,
        "split in two",
        Split(
            "local interval, burst, cost, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
             local tat = math.max(tonumber(redis.call('GET', KEYS[1])) or now, now)
             local ahead, depth = tat + interval * cost - now, interval * burst
             if ahead > depth then return {0, math.max(0, math.floor((depth - (tat - now)) / interval)), -1} end
             return {1, math.floor((depth - ahead) / interval), 0}",
        ),
    ),
    mutant(GCRA, "no expiry", Script(&[(", 'PX', math.ceil(ahead / 1000) + tonumber(ARGV[5]))", ")")])),
    mutant(GCRA, "one too many", Script(&[("ahead > depth then", "ahead > depth + interval then")])),
    mutant(GCRA, "one too few", Script(&[("ahead > depth then", "ahead >= depth then")])),
    mutant(GCRA, "what is idle is saved up", Script(&[("math.max(tonumber(redis.call('GET', KEYS[1])) or now, now)", "tonumber(redis.call('GET', KEYS[1])) or now")])),
    mutant(GCRA, "wait in whole seconds", Script(&[("math.ceil((ahead - depth) / 1000)", "math.floor((ahead - depth) / 1000000) * 1000")])),
    mutant(GCRA, "wait a millisecond short", Script(&[("math.ceil((ahead - depth) / 1000)", "math.max(0, math.ceil((ahead - depth) / 1000) - 1)")])),
    mutant(GCRA, "a tenth too fast", Script(&[("tonumber(ARGV[1])", "tonumber(ARGV[1]) * 0.9")])),
    mutant(GCRA, "the server's clock", Script(&[("ARGV[4] == ''", "true")])),
    mutant(
        GCRA,
        "refusals are charged",
        Script(&[("if ahead > depth then", "if ahead > depth then redis.call('SET', KEYS[1], string.format('%.0f', tat + interval), 'PX', 60000)")]),
    ),
    mutant(
        BUCKET,
        "split in two",
        Split(
            "local capacity, refill, window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
             local wanted, now, full = tonumber(ARGV[4]) * window, tonumber(ARGV[5]), capacity * window
             local state = redis.call('HMGET', KEYS[1], 'parts', 'at')
             local parts, at = tonumber(state[1]) or full, tonumber(state[2]) or now
             if now > at then parts = math.min(full, parts + (now - at) * refill) end
             if parts >= wanted then return {1, math.floor((parts - wanted) / window), 0} end
             return {0, math.floor(parts / window), -1}",
        ),
    ),
    mutant(
        BUCKET,
        "no expiry",
        Script(&[("redis.call('PEXPIRE', KEYS[1], math.max(1, math.ceil((full - parts) / refill) + tonumber(ARGV[6])))", "local none = 0")]),
    ),
    mutant(BUCKET, "one too many", Script(&[("parts >= wanted", "parts + window >= wanted")])),
    mutant(BUCKET, "one too few", Script(&[("parts >= wanted", "parts - window >= wanted")])),
    mutant(BUCKET, "refusals are charged", Script(&[("local allowed, wait = 0, 0", "local allowed, wait = 0, 0 if parts < wanted then parts = math.max(0, parts - window) end")])),
    mutant(BUCKET, "fractions of a token are lost", Script(&[("  at = now\nend", "  at = now parts = math.floor(parts / window) * window\nend")])),
    mutant(BUCKET, "what is idle is saved up", Script(&[("math.min(full, parts + (now - at) * refill)", "parts + (now - at) * refill")])),
    mutant(BUCKET, "never refilled", Script(&[("parts + (now - at) * refill", "parts")])),
    mutant(BUCKET, "wait in whole seconds", Script(&[("math.ceil((wanted - parts) / refill)\n", "math.floor((wanted - parts) / refill / 1000) * 1000\n")])),
    mutant(BUCKET, "the server's clock", Script(&[("ARGV[5] == ''", "true")])),
    mutant(
        COST,
        "split in two",
        Split(
            "local limit, cost = tonumber(ARGV[1]), tonumber(ARGV[3])
             local count = tonumber(redis.call('GET', KEYS[1])) or 0
             if count + cost > limit then return {0, math.max(0, limit - count), -1} end
             return {1, limit - count - cost, 0}",
        ),
    ),
    mutant(COST, "no expiry", Script(&[("redis.call('PTTL', KEYS[1]) == -1", "false")])),
    mutant(COST, "expiry when the count is 1", Script(&[("redis.call('PTTL', KEYS[1]) == -1", "count == 1")])),
    mutant(COST, "expiry on every call", Script(&[("redis.call('PTTL', KEYS[1]) == -1", "true")])),
    mutant(COST, "one too many", Script(&[("count + cost > limit then", "count + cost > limit + 1 then")])),
    mutant(COST, "one too few", Script(&[("count + cost > limit then", "count + cost >= limit then")])),
    mutant(COST, "every call costs 1", Script(&[("redis.call('INCRBY', KEYS[1], cost)", "redis.call('INCRBY', KEYS[1], 1)")])),
    mutant(
        COST,
        "refusals are counted",
        Script(&[("if count + cost > limit then", "if count + cost > limit then redis.call('INCRBY', KEYS[1], cost)")]),
    ),
    mutant(COST, "wait in whole seconds", Script(&[("wait = left + 1", "wait = math.floor(left / 1000) * 1000")])),
];

fn text(command: &Command, place: usize) -> String {
    String::from_utf8(command.args[place].clone()).unwrap()
}

/// PEXPIRE with half of its time.
fn halved(mut command: Command) -> Command {
    if command.name() == "PEXPIRE" {
        let ms: u64 = text(&command, 2).parse().unwrap();
        command.args[2] = (ms / 2).to_string().into_bytes();
    }
    command
}

fn without(mut command: Command, word: &str) -> Command {
    command.args.retain(|arg| arg != word.as_bytes());
    command
}
