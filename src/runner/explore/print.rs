//! Fingerprints of states, the same whichever client is called what.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::keyspace::{Key, to_grain};
use crate::explorer::Print;
use crate::wire::resp::Frame;

/// The node number of the first client; limiters put it into names they make. Five digits, of which windows in
/// whole half seconds are none.
pub const FIRST_NODE: u16 = 61_001;

/// Above so many clients only those in the same place are not told apart by their names.
const MOST_PERMUTED: usize = 4;

pub fn print(of: impl Hash) -> Print {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, &of).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

/// The fingerprint of clients, each with its own state, and of the keys, that does not depend on who is
/// client a: the smallest way to write it down, over all ways to name them.
pub fn canonical(clients: &[Vec<u8>], keys: &[Key], now_ms: i64, rest: &[u8]) -> Print {
    let named = clients.iter().any(|c| names_a_node(c))
        || keys
            .iter()
            .any(|k| names_a_node(k.name.as_bytes()) || k.entries.iter().any(|e| names_a_node(e.as_bytes())));
    if !named {
        let mut sorted: Vec<&Vec<u8>> = clients.iter().collect();
        sorted.sort_unstable();
        return print((sorted, written(keys, now_ms, None), rest));
    }
    let orders =
        if clients.len() <= MOST_PERMUTED { permutations(clients.len()) } else { vec![by_place(clients)] };
    let forms = orders.into_iter().map(|order| {
        // `order[i]` is the client that is called i.
        let mut names = vec![0u8; clients.len()];
        for (name, client) in (0u8..).zip(&order) {
            names[*client] = name;
        }
        let told: Vec<Vec<u8>> = order.iter().map(|c| renamed(&clients[*c], &names)).collect();
        (told, written(keys, now_ms, Some(&names)))
    });
    print((forms.min(), rest))
}

/// Every exact reading: of a trace.
pub fn exact(bytes: &[u8]) -> Print {
    print(bytes)
}

type Written = Vec<(Vec<u8>, String, Vec<Vec<u8>>, Option<i64>)>;

fn written(keys: &[Key], now_ms: i64, names: Option<&[u8]>) -> Written {
    let name = |text: &str| names.map_or_else(|| text.as_bytes().to_vec(), |n| renamed(text.as_bytes(), n));
    let mut written: Written = keys
        .iter()
        .map(|k| {
            let mut entries: Vec<Vec<u8>> = k.entries.iter().map(|e| name(e)).collect();
            if k.kind != "list" {
                entries.sort_unstable();
            }
            (name(&k.name), k.kind.clone(), entries, k.due_ms.map(|d| d - now_ms))
        })
        .collect();
    written.sort_unstable();
    written
}

/// Where a node's number stands in a text: between characters that are no digits.
fn nodes_in(text: &[u8]) -> impl Iterator<Item = (usize, u16)> + '_ {
    let digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    let begins = |pair: &[u8]| pair == b"61";
    let places = text.windows(2).enumerate().filter(move |(_, pair)| begins(pair)).map(|(at, _)| at);
    places.filter(|at| at + 5 <= text.len()).filter_map(move |at| {
        let alone = (at == 0 || !digit(at - 1)) && !digit(at + 5);
        let number = std::str::from_utf8(&text[at..at + 5]).ok()?.parse::<u16>().ok()?;
        let last = FIRST_NODE + u16::from(crate::model::schedule::MOST_CLIENTS);
        (alone && (FIRST_NODE..last).contains(&number)).then_some((at, number))
    })
}

fn names_a_node(text: &[u8]) -> bool {
    nodes_in(text).next().is_some()
}

fn renamed(text: &[u8], names: &[u8]) -> Vec<u8> {
    let mut out = text.to_vec();
    for (at, number) in nodes_in(text) {
        if let Some(name) = names.get(usize::from(number - FIRST_NODE)) {
            out[at..at + 5].copy_from_slice(&[b'<', b'c', b':', b'a' + name, b'>']);
        }
    }
    out
}

/// The text with nodes called by the letters of their clients.
pub fn with_letters(text: &str) -> String {
    let names: Vec<u8> = (0..crate::model::schedule::MOST_CLIENTS).collect();
    let marked = String::from_utf8_lossy(&renamed(text.as_bytes(), &names)).into_owned();
    let mut out = String::new();
    let mut rest = marked.as_str();
    while let Some(at) = rest.find("<c:") {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        match tail.as_bytes() {
            [_, _, _, letter, b'>', ..] => {
                out.push(char::from(*letter));
                rest = &tail[5..];
            }
            _ => {
                out.push_str(&tail[..3]);
                rest = &tail[3..];
            }
        }
    }
    out + rest
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..n {
        all = all
            .into_iter()
            .flat_map(|p: Vec<usize>| {
                (0..n).filter(|i| !p.contains(i)).map(|i| [p.clone(), vec![i]].concat()).collect::<Vec<_>>()
            })
            .collect();
    }
    all
}

/// Clients in the order of their state with all names taken out.
fn by_place(clients: &[Vec<u8>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..clients.len()).collect();
    order.sort_by_cached_key(|c| {
        let mut text = clients[*c].clone();
        for (at, _) in nodes_in(&clients[*c]) {
            text[at..at + 5].copy_from_slice(b"<c:?>");
        }
        text
    });
    order
}

/// Appends what was told, with what depends on how fast this machine is taken out: a number that may be
/// a time to live in ms is rounded up as expiries are.
pub fn put(frame: &Frame, out: &mut Vec<u8>) {
    match frame {
        Frame::Int(n) => number(*n, out),
        Frame::Bulk(b) | Frame::Simple(b) => {
            match std::str::from_utf8(b).ok().and_then(|t| t.parse::<i64>().ok()) {
                Some(n) => number(n, out),
                None => out.extend_from_slice(b),
            }
        }
        Frame::Error(b) => out.extend_from_slice(b),
        Frame::Nil(_) => out.extend_from_slice(b"(nil)"),
        Frame::Array(items) => {
            out.push(b'[');
            for item in items {
                put(item, out);
                out.push(b',');
            }
            out.push(b']');
        }
        other => out.extend_from_slice(format!("{other:?}").as_bytes()),
    }
    out.push(b';');
}

fn number(n: i64, out: &mut Vec<u8>) {
    // Shorter times are not kept by keys here, and longer ones are moments.
    let may_be_left = (1000..1_000_000_000).contains(&n);
    let told = if may_be_left { to_grain(n) } else { n };
    out.extend_from_slice(told.to_string().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(entries: &[&str]) -> Key {
        let entries = entries.iter().map(|e| (*e).to_owned()).collect();
        Key { name: "k".to_owned(), kind: "zset".to_owned(), entries, due_ms: Some(60_000) }
    }

    #[test]
    fn clients_that_changed_places_are_the_same_state() {
        let (x, y) = (b"admitted".to_vec(), b"refused".to_vec());
        let one = canonical(&[x.clone(), y.clone()], &[key(&["61001-0 at 5"])], 0, b"");
        let other = canonical(&[y.clone(), x.clone()], &[key(&["61002-0 at 5"])], 0, b"");
        let third = canonical(&[y, x], &[key(&["61001-0 at 5"])], 0, b"");
        assert_eq!(one, other);
        assert_ne!(one, third, "the entry is the refused one's");
    }

    #[test]
    fn a_moment_that_holds_a_nodes_number_is_left_alone() {
        assert!(!names_a_node(b"1800000061001000") && !names_a_node(b"161001") && names_a_node(b"61001-3"));
        assert_eq!(with_letters("61001-0, 61003-1 at 161001"), "a-0, c-1 at 161001");
    }

    #[test]
    fn time_is_told_from_now_and_what_is_left_of_it_matters() {
        let at = |now, due| {
            let key = Key { due_ms: due, ..key(&["1"]) };
            canonical(&[], &[key], now, b"")
        };
        assert_eq!(at(0, Some(60_000)), at(500, Some(60_500)));
        assert_ne!(at(0, Some(60_000)), at(0, None));
    }

    #[test]
    fn a_few_ms_of_the_machine_do_not_show_in_what_was_told() {
        let told = |n| {
            let mut out = Vec::new();
            put(&Frame::Array(vec![Frame::Int(1), Frame::Int(n)]), &mut out);
            out
        };
        assert_eq!(told(59_700), told(60_000));
        assert_eq!(told(60_001), told(60_000), "some add one to what is left");
        assert_ne!(told(3), told(4));
        assert_ne!(told(1_800_000_000_000), told(1_800_000_000_001));
    }
}
