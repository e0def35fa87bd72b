"""A rate limiter behind the lines that rl-lab speaks (docs/protocol.md), with the standard library alone.

Put your own limiter into `decide`. Everything below it is the connection to Redis and the protocol.
"""

import json
import queue
import socket
import sys
import threading
from urllib.parse import urlparse

# A fixed window that the first admitted call opens; refused calls cost nothing. One script is one step.
SCRIPT = """
local cost = tonumber(ARGV[3])
local count = tonumber(redis.call('GET', KEYS[1]) or '0')
if count + cost > tonumber(ARGV[1]) then
  return {0, count, redis.call('PTTL', KEYS[1])}
end
redis.call('INCRBY', KEYS[1], cost)
if redis.call('PTTL', KEYS[1]) < 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {1, count + cost, 0}
"""


def decide(redis, key, cost, limit, window_ms):
    """Whether the call is admitted: what the lab is told of it."""
    allowed, count, left = redis.call("EVAL", SCRIPT, 1, key, limit, window_ms, cost)
    # Read-then-write: two callers read the same count before either writes. Put this in place of the line above,
    # and `rl-lab gate` says what comes of it.
    #   count, left = int(redis.call("GET", key) or 0), redis.call("PTTL", key)
    #   allowed = count + cost <= limit
    #   if allowed:
    #       count = redis.call("INCRBY", key, cost)
    #       if redis.call("PTTL", key) < 0:
    #           redis.call("PEXPIRE", key, window_ms)
    answer = {"allowed": bool(allowed), "remaining": max(0, limit - count)}
    if not allowed and left > 0:
        answer["retry_after_ms"] = left
    return answer


class Refused(Exception):
    """An error reply of the store."""


class Redis:
    """One connection. Made when it is needed, and again after it broke."""

    def __init__(self, url):
        self.address = (url.hostname, url.port or 6379)
        self.reader = None
        self.sent = 0

    def connect(self):
        if self.reader is None:
            self.socket = socket.create_connection(self.address, timeout=5)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.reader = self.socket.makefile("rb")

    def call(self, *words):
        self.connect()
        parts = [str(word).encode() for word in words]
        text = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        try:
            self.sent += 1
            self.socket.sendall(b"*%d\r\n%s" % (len(parts), text))
            return self.reply()
        except OSError:
            self.close()
            raise

    def close(self):
        self.reader.close()
        self.socket.close()
        self.reader = None

    def reply(self):
        line = self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the store hung up")
        kind, rest = line[:1], line[1:-2]
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest.decode()
        if kind == b"$":
            return None if rest == b"-1" else self.reader.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        raise Refused(rest.decode(errors="replace"))


def answer_to(request, redis, limit, window_ms):
    answer = {"id": request["id"]}
    redis.sent = 0
    if request.get("op") != "acquire":
        text = f"the op {request.get('op')!r} is not known"
        return answer | {"error": {"kind": "unexpected", "text": text}, "sent": False}
    try:
        answer |= decide(redis, request["key"], request.get("cost", 1), limit, window_ms)
    except Refused as error:
        # Of what came before the command that was refused, nobody says whether it was undone.
        kind = "refused" if redis.sent <= 1 else "no-answer"
        answer["error"] = {"kind": kind, "text": str(error)}
    except OSError as error:
        kind = "no-answer" if redis.sent else "not-connected"
        answer["error"] = {"kind": kind, "text": str(error) or type(error).__name__}
    return answer | {"sent": redis.sent > 0, "round_trips": redis.sent}


def main():
    out, lock = sys.stdout, threading.Lock()

    def say(fields):
        with lock:
            out.write(json.dumps(fields) + "\n")
            out.flush()

    try:
        hello = json.loads(sys.stdin.readline())
        if hello.get("hello") != 1:
            raise ValueError("no hello of protocol 1")
        if hello.get("clock_offset_ms"):
            raise ValueError("it goes by the clock of the store: no offset can be set")
        connections = [Redis(urlparse(hello["redis"])) for _ in range(hello["connections"])]
        if not hello.get("cold_pool"):
            for connection in connections:
                connection.connect()
        limit, window_ms = hello["limit"], hello["window_ms"]
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as wrong:
        say({"ready": False, "error": f"{type(wrong).__name__}: {wrong}"})
        return 2
    say({"ready": True, "name": "limiter.py", "version": "1", "capabilities": []})

    requests = queue.SimpleQueue()

    def serve(redis):
        for request in iter(requests.get, None):
            say(answer_to(request, redis, limit, window_ms))

    workers = [threading.Thread(target=serve, args=(connection,)) for connection in connections]
    for worker in workers:
        worker.start()
    code = 0
    for line in sys.stdin:
        try:
            request = json.loads(line)
            request["id"] + 0
        except (ValueError, KeyError, TypeError):
            print(f"limiter: no request: {line.strip()[:200]}", file=sys.stderr)
            code = 2
            break
        requests.put(request)
    for _ in workers:
        requests.put(None)
    for worker in workers:
        worker.join()
    return code


if __name__ == "__main__":
    sys.exit(main())
