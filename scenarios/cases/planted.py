#!/usr/bin/env python3
"""App servers with one fault each, and the same without it: speaks docs/protocol.md on stdin and stdout.

    planted.py NAME     run one of the limiters below, by its name in limiters.toml

For what takes several commands; what is one script stands in limiters.toml itself.
"""

import json
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit


class ErrorReply(Exception):
    """The store answered with an error."""


class Store:
    """One connection, made when it is needed and again after it broke."""

    def __init__(self, url, patience):
        at = urlsplit(url)
        self.address, self.patience = (at.hostname, at.port or 6379), patience
        self.stream, self.sent, self.trips = None, False, 0

    def connect(self):
        if self.stream is None:
            link = socket.create_connection(self.address, self.patience)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.stream = link.makefile("rwb")
            link.close()  # the stream keeps it

    def exchange(self, *commands):
        """Sends commands together; every reply, errors among them as values."""
        try:
            self.connect()
            self.sent = True
            for command in commands:
                parts = [str(part).encode() for part in command]
                text = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
                self.stream.write(b"*%d\r\n%s" % (len(parts), text))
            self.stream.flush()
            replies = [self.reply() for _ in commands]
        except OSError:
            self.stream = None
            raise
        self.trips += 1
        return replies

    def reply(self):
        line = self.stream.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the store closed the connection")
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            return ErrorReply(rest)
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == "-1" else self.stream.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return rest

    def ask(self, *command):
        return told(self.exchange(command)[0])

    def multi(self, *commands):
        """A transaction; the replies of its commands, errors among them."""
        return told(self.exchange(("MULTI",), *commands, ("EXEC",))[-1])


def told(reply):
    """The reply, unless it is an error."""
    if isinstance(reply, ErrorReply):
        raise reply
    return reply


class App:
    """What the limiters are given: the limit, the clock, and what a process remembers."""

    def __init__(self, hello):
        self.limit, self.window = hello["limit"], hello["window_ms"]
        self.node, self.ahead_us, self.skipped_us = hello["node"], 1000 * hello.get("clock_offset_ms", 0), 0
        self.memory = {}

    def now_us(self):
        return time.time_ns() // 1000 + self.ahead_us + self.skipped_us

    def now(self):
        return self.now_us() // 1000


# Each decides one call: whether it is admitted, or that and fields of the answer.


def gcra_read_write(app, store, key, cost):
    now, interval = app.now_us(), app.window * 1000 // app.limit
    tat = max(int(store.ask("GET", key) or 0), now) + interval * cost
    if tat - now > interval * app.limit:
        return False
    store.ask("SET", key, tat, "PX", (tat - now) // 1000 + 1000)
    return True


def leaky_four_commands(app, store, key, cost):
    now = app.now()
    level = float(store.ask("GET", key + ":level") or 0)
    at = int(store.ask("GET", key + ":at") or now)
    level = max(0.0, level - (now - at) * app.limit / app.window)
    if level + cost > app.limit:
        return False
    store.ask("SET", key + ":level", level + cost, "PX", 2 * app.window)
    store.ask("SET", key + ":at", now, "PX", 2 * app.window)
    return True


def multi_get_multi_set(app, store, key, cost):
    count, left = store.multi(("GET", key), ("PTTL", key))
    count = int(count or 0) + cost
    if count > app.limit:
        return False
    store.multi(("SET", key, count), ("PEXPIRE", key, left if left > 0 else app.window))
    return True


def get_then_decrby(app, store, key, cost):
    made, left = store.exchange(("SET", key, app.limit, "PX", app.window, "NX"), ("GET", key))
    told(made)
    if int(told(left)) < cost:
        return False
    store.ask("DECRBY", key, cost)  # what it comes to is not looked at
    return True


def counts(app, store, key, cost, heals):
    """INCRBY and PEXPIRE, and the first PEXPIRE of a key does not get through."""
    count, left = store.exchange(("INCRBY", key, cost), ("PTTL", key))
    if told(count) == cost and key not in app.memory:
        app.memory[key] = "lost"
    elif count == cost or (heals and left == -1):
        store.ask("PEXPIRE", key, app.window)
    return count <= app.limit


def expire_fails_once(app, store, key, cost):
    return counts(app, store, key, cost, heals=False)


def expire_fails_once_heals(app, store, key, cost):
    return counts(app, store, key, cost, heals=True)


def multi_error_swallowed(app, store, key, cost):
    now = app.now()
    ends = (now + app.window) // 1000 * 1000  # rounded down to the second, and may be over
    return store.multi(("SET", key, 0, "PX", ends - now, "NX"), ("INCRBY", key, cost))[1] <= app.limit


def multi_error_raised(app, store, key, cost):
    replies = store.multi(("SET", key, 0, "PX", app.window, "NX"), ("INCRBY", key, cost))
    return [told(reply) for reply in replies][1] <= app.limit


COUNT = """local count = redis.call('INCRBY', KEYS[1], ARGV[1])
if count == tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return count"""


def evalsha_only(app, store, key, cost):
    if "sha" not in app.memory:
        app.memory["sha"] = store.ask("SCRIPT", "LOAD", COUNT)
    return store.ask("EVALSHA", app.memory["sha"], 1, key, cost, app.window) <= app.limit


def evalsha_then_eval(app, store, key, cost):
    try:
        return evalsha_only(app, store, key, cost)
    except ErrorReply as error:
        if not str(error).startswith("NOSCRIPT"):
            raise
        return store.ask("EVAL", COUNT, 1, key, cost, app.window) <= app.limit


OPEN = {"allowed": True, "source": "fail-open"}


def fail_open_forgotten(app, store, key, cost):
    try:
        return store.ask("EVAL", COUNT, 1, key, cost, app.window) <= app.limit
    except ErrorReply:
        return OPEN


def fail_open_kept(app, store, key, cost):
    try:
        return store.ask("EVAL", COUNT, 1, key, cost, app.window) <= app.limit
    except (ErrorReply, OSError):
        return OPEN


def remembers(app, store, key, cost, errors):
    """Whoever is over the limit is refused from memory until the window ends."""
    if app.memory.get(key, 0) > app.now():
        return {"allowed": False, "source": "local"}
    if "sha" not in app.memory:
        app.memory["sha"] = store.ask("SCRIPT", "LOAD", COUNT)
    count, left = store.exchange(("EVALSHA", app.memory["sha"], 1, key, cost, app.window), ("PTTL", key))
    if isinstance(count, ErrorReply):
        del app.memory["sha"]
        if errors == "count":
            count = left = float("inf")  # what is no number is above every number
    if told(count) > app.limit:
        app.memory[key] = app.now() + left
    return count <= app.limit


def error_stored_as_count(app, store, key, cost):
    return remembers(app, store, key, cost, "count")


def error_raised(app, store, key, cost):
    return remembers(app, store, key, cost, "are raised")


KINDS = [
    gcra_read_write, leaky_four_commands, multi_get_multi_set, get_then_decrby,
    expire_fails_once, expire_fails_once_heals, multi_error_swallowed, multi_error_raised,
    evalsha_only, evalsha_then_eval,
    fail_open_forgotten, fail_open_kept, error_stored_as_count, error_raised,
]
PATIENCE = {fail_open_forgotten: 0.05, fail_open_kept: 0.05}


def answer(kind, app, store, request):
    said = {"id": request["id"]}
    if request.get("op") != "acquire":
        return said | {"error": {"kind": "unexpected", "text": f"{request.get('op')} is not known"}}
    app.skipped_us = max(app.skipped_us, request.get("skipped_us", 0))
    store.sent, store.trips = False, 0
    try:
        decided = kind(app, store, request["key"], request.get("cost", 1))
        said |= decided if isinstance(decided, dict) else {"allowed": decided}
    except ErrorReply as error:
        said["error"] = {"kind": "refused", "text": str(error)}
    except OSError as error:
        said["error"] = {"kind": "no-answer" if store.sent else "not-connected", "text": str(error) or "no answer"}
    return said | {"sent": store.sent, "round_trips": store.trips}


def main():
    kind = {"case-" + k.__name__.replace("_", "-"): k for k in KINDS}[sys.argv[1]]
    ours, lock = threading.local(), threading.Lock()

    def say(fields):
        with lock:
            print(json.dumps(fields), flush=True)

    try:
        hello = json.loads(sys.stdin.readline())
        app, connections = App(hello), int(hello["connections"])
    except (ValueError, TypeError, KeyError) as wrong:
        say({"ready": False, "error": f"the hello cannot be read: {wrong!r}"})
        return 2

    def serve(request):
        if not hasattr(ours, "store"):
            ours.store = Store(hello["redis"], PATIENCE.get(kind, 5))
        say(answer(kind, app, ours.store, request))

    with ThreadPoolExecutor(connections) as pool:
        say({"ready": True, "name": sys.argv[1], "version": "1", "capabilities": [], "now_us": app.now_us()})
        for line in sys.stdin:
            try:
                request = json.loads(line)
                request["id"]
            except (ValueError, TypeError, KeyError):
                return 2
            pool.submit(serve, request)
    return 0


if __name__ == "__main__":
    sys.exit(main())
