//! Which of a command's arguments are keys.
//!
//! The table holds the key specs of Redis 7.0 (`COMMAND INFO`, <https://redis.io/docs/latest/develop/reference/key-specs/>)
//! and the few newer commands that limiters could use; a test asks a server for its own. Names of
//! channels are no keys. A command that is not in the table has none.

/// Where the keys are. Positions count from the command's name, which is 0.
#[derive(Clone, Copy)]
enum Keys {
    /// From the first to the last, counted from the end where negative, in steps.
    Range { first: usize, last: isize, step: usize },
    /// A number at this position, and as many keys after it.
    Counted { number: usize },
    /// As above, and the key at 1 they are stored to.
    StoredCounted,
    /// The key at 1, and the one after the last word STORE or STOREDIST.
    Stored,
    /// The first half of what follows the word STREAMS.
    Streams,
    /// The key at 3, or, if that is empty, what follows the word KEYS.
    Migrated,
}

const fn at(position: usize) -> Keys {
    Keys::Range { first: position, last: position.cast_signed(), step: 1 }
}

const fn range(first: usize, last: isize, step: usize) -> Keys {
    Keys::Range { first, last, step }
}

#[rustfmt::skip]
static TABLE: &[(Keys, &str)] = &[
    (at(1), "APPEND BITCOUNT BITFIELD BITFIELD_RO BITPOS DECR DECRBY DUMP EXPIRE EXPIREAT EXPIRETIME GET \
        GETBIT GETDEL GETEX GETRANGE GETSET INCR INCRBY INCRBYFLOAT MOVE PERSIST PEXPIRE PEXPIREAT \
        PEXPIRETIME PSETEX PTTL RESTORE SET SETBIT SETEX SETNX SETRANGE STRLEN SUBSTR TTL TYPE DELEX DIGEST"),
    (at(1), "HDEL HEXISTS HGET HGETALL HINCRBY HINCRBYFLOAT HKEYS HLEN HMGET HMSET HRANDFIELD HSCAN HSET \
        HSETNX HSTRLEN HVALS HEXPIRE HEXPIREAT HEXPIRETIME HPEXPIRE HPEXPIREAT HPEXPIRETIME HPERSIST HPTTL \
        HTTL HGETDEL HGETEX HSETEX"),
    (at(1), "ZADD ZCARD ZCOUNT ZINCRBY ZLEXCOUNT ZMSCORE ZPOPMAX ZPOPMIN ZRANDMEMBER ZRANGE ZRANGEBYLEX \
        ZRANGEBYSCORE ZRANK ZREM ZREMRANGEBYLEX ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREVRANGE ZREVRANGEBYLEX \
        ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE"),
    (at(1), "SADD SCARD SISMEMBER SMEMBERS SMISMEMBER SPOP SRANDMEMBER SREM SSCAN LINDEX LINSERT LLEN LPOP \
        LPOS LPUSH LPUSHX LRANGE LREM LSET LTRIM RPOP RPUSH RPUSHX PFADD GEOADD GEODIST GEOHASH GEOPOS \
        GEOSEARCH GEORADIUS_RO GEORADIUSBYMEMBER_RO XACK XADD XAUTOCLAIM XCLAIM XDEL XLEN XPENDING XRANGE \
        XREVRANGE XSETID XTRIM"),
    (range(1, -1, 1), "DEL EXISTS MGET PFCOUNT PFMERGE SDIFF SDIFFSTORE SINTER SINTERSTORE SUNION SUNIONSTORE \
        TOUCH UNLINK WATCH"),
    (range(1, -1, 2), "MSET MSETNX"),
    (range(1, -2, 1), "BLPOP BRPOP BZPOPMAX BZPOPMIN"),
    (range(1, 2, 1), "BLMOVE BRPOPLPUSH COPY GEOSEARCHSTORE LCS LMOVE RENAME RENAMENX RPOPLPUSH SMOVE ZRANGESTORE"),
    (range(2, -1, 1), "BITOP"),
    (at(2), "MEMORY|USAGE OBJECT|ENCODING OBJECT|FREQ OBJECT|IDLETIME OBJECT|REFCOUNT XGROUP|CREATE \
        XGROUP|CREATECONSUMER XGROUP|DELCONSUMER XGROUP|DESTROY XGROUP|SETID XINFO|CONSUMERS XINFO|GROUPS \
        XINFO|STREAM"),
    (Keys::Counted { number: 2 }, "EVAL EVALSHA EVAL_RO EVALSHA_RO FCALL FCALL_RO BLMPOP BZMPOP"),
    (Keys::Counted { number: 1 }, "LMPOP ZMPOP SINTERCARD ZINTERCARD ZDIFF ZINTER ZUNION"),
    (Keys::StoredCounted, "ZDIFFSTORE ZINTERSTORE ZUNIONSTORE"),
    (Keys::Stored, "SORT SORT_RO GEORADIUS GEORADIUSBYMEMBER"),
    (Keys::Streams, "XREAD XREADGROUP"),
    (Keys::Migrated, "MIGRATE"),
];

/// The keys of a command, in the order in which they stand; as many as are there if it is cut short.
pub fn keys_of(args: &[Vec<u8>]) -> Vec<&[u8]> {
    match find(args) {
        None => Vec::new(),
        Some(Keys::Range { first, last, step }) => {
            let end = match usize::try_from(last) {
                Ok(last) => last + 1,
                Err(_) => args.len().saturating_sub(last.unsigned_abs() - 1),
            };
            between(args, first, end).step_by(step).collect()
        }
        Some(Keys::Counted { number }) => counted(args, number).collect(),
        Some(Keys::StoredCounted) => between(args, 1, 2).chain(counted(args, 2)).collect(),
        Some(Keys::Stored) => {
            let store = last_word(args, 2, &["STORE", "STOREDIST"]);
            let to = store.map_or(args.len(), |at| at + 1);
            between(args, 1, 2).chain(between(args, to, to + 1)).collect()
        }
        Some(Keys::Streams) => {
            let from = first_word(args, 1, "STREAMS").map_or(args.len(), |at| at + 1);
            between(args, from, from + (args.len() - from) / 2).collect()
        }
        Some(Keys::Migrated) => match args.get(3) {
            Some(key) if !key.is_empty() => vec![key],
            _ => {
                let from = first_word(args, 4, "KEYS").map_or(args.len(), |at| at + 1);
                between(args, from, args.len()).collect()
            }
        },
    }
}

fn find(args: &[Vec<u8>]) -> Option<Keys> {
    let name = args.first()?;
    let is = |entry: &str| match entry.split_once('|') {
        None => name.eq_ignore_ascii_case(entry.as_bytes()),
        Some((container, sub)) => {
            name.eq_ignore_ascii_case(container.as_bytes())
                && args.get(1).is_some_and(|arg| arg.eq_ignore_ascii_case(sub.as_bytes()))
        }
    };
    TABLE.iter().find(|(_, names)| names.split_ascii_whitespace().any(is)).map(|(keys, _)| *keys)
}

/// Those of these positions that exist.
fn between(args: &[Vec<u8>], from: usize, to: usize) -> impl Iterator<Item = &[u8]> {
    let to = to.min(args.len());
    args[from.min(to)..to].iter().map(Vec::as_slice)
}

fn counted(args: &[Vec<u8>], number: usize) -> impl Iterator<Item = &[u8]> {
    let text = args.get(number).and_then(|n| std::str::from_utf8(n).ok());
    let n: usize = text.and_then(|t| t.parse().ok()).unwrap_or(0);
    between(args, number + 1, (number + 1).saturating_add(n))
}

fn first_word(args: &[Vec<u8>], from: usize, word: &str) -> Option<usize> {
    (from..args.len()).find(|&at| args[at].eq_ignore_ascii_case(word.as_bytes()))
}

/// A destination that is given twice is the last one.
fn last_word(args: &[Vec<u8>], from: usize, words: &[&str]) -> Option<usize> {
    (from..args.len()).rev().find(|&at| words.iter().any(|w| args[at].eq_ignore_ascii_case(w.as_bytes())))
}

/// Every name in the table, `CONTAINER|SUBCOMMAND` where it is one.
pub fn known() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|(_, names)| names.split_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::keys_of;

    fn keys(line: &str) -> String {
        let args: Vec<Vec<u8>> = line.split(' ').map(|a| a.as_bytes().to_vec()).collect();
        keys_of(&args).iter().map(|k| String::from_utf8_lossy(k)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_keys_of_what_limiters_send() {
        for (line, expected) in [
            ("INCR k", "k"),
            ("incrby k 5", "k"),
            ("SET k v PX 100 NX", "k"),
            ("EXPIRE k 60 NX", "k"),
            ("BITFIELD k INCRBY u8 0 1", "k"),
            ("HMGET k tokens ts", "k"),
            ("ZREMRANGEBYSCORE k 0 100", "k"),
            ("MGET a b c", "a b c"),
            ("MSET a 1 b 2", "a b"),
            ("DEL a b", "a b"),
            ("EXISTS a a", "a a"),
            ("WATCH a b", "a b"),
            ("UNLINK a", "a"),
            ("EVAL script 2 a b 1 2", "a b"),
            ("EVALSHA 0123 1 a 10", "a"),
            ("FCALL f 0 a", ""),
            ("BLPOP a b 0", "a b"),
            ("BITOP AND d a b", "d a b"),
            ("SORT a BY w_* GET d_* STORE b", "a b"),
            ("GEORADIUS a 0 0 1 m STORE b STOREDIST c", "a c"),
            ("XREAD COUNT 2 STREAMS a b 0 0", "a b"),
            ("ZUNIONSTORE d 2 a b WEIGHTS 1 2", "d a b"),
            ("OBJECT ENCODING k", "k"),
            ("OBJECT HELP", ""),
            ("MIGRATE h 1 k 0 9", "k"),
            ("MIGRATE h 1  0 9 KEYS a b", "a b"),
            ("PING", ""),
            ("MULTI", ""),
            ("CLIENT KILL k", ""),
            ("SUBSCRIBE channel", ""),
        ] {
            assert_eq!(keys(line), expected, "{line}");
        }
    }

    #[test]
    fn a_command_cut_short_has_the_keys_that_are_there() {
        for (line, expected) in [
            ("GET", ""),
            ("EVAL script", ""),
            ("EVAL script 5 a", "a"),
            ("EVAL script -1 a", ""),
            ("EVAL script 18446744073709551615 a", "a"),
            ("EVAL script x a", ""),
            ("SORT a STORE", "a"),
            ("XREAD STREAMS", ""),
            ("BLPOP a", ""),
            ("BLPOP", ""),
            ("MSET", ""),
            ("MIGRATE h 1", ""),
        ] {
            assert_eq!(keys(line), expected, "{line}");
        }
        assert_eq!(keys_of(&[]), Vec::<&[u8]>::new());
    }
}
