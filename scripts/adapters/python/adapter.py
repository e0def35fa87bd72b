#!/usr/bin/env python3
"""An app server around a Python rate limiter: speaks docs/protocol.md on stdin and stdout.

    adapter.py VARIANT [OPTION]    run one of the variants in variants.py
    adapter.py --list              the variants that can run in this environment

A thread for each of the `connections` of the hello, and the library's own pool behind them.
"""

import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from math import ceil

import wire
from variants import VARIANTS, available


class Unfit(Exception):
    """What was asked for cannot be expressed with this library."""


class Hello:
    """The first line, checked. `seconds` is the window for a library that knows whole seconds only."""

    def __init__(self, line):
        try:
            said = json.loads(line)
            if said["hello"] != 1:
                raise Unfit(f"protocol {said['hello']} is not known, only 1")
            self.redis = said["redis"]
            self.limit = self._whole(said, "limit", 1)
            self.window_ms = self._whole(said, "window_ms", 1)
            self.connections = self._whole(said, "connections", 1)
        except (ValueError, TypeError, KeyError) as wrong:
            raise Unfit(f"the hello cannot be read: {wrong!r}") from None
        if not isinstance(self.redis, str):
            raise Unfit("the hello cannot be read: redis is no text")
        if said.get("clock_offset_ms"):
            raise Unfit("the library reads the clock of its machine: no offset can be set")
        self.warm = said.get("cold_pool") is not True

    @staticmethod
    def _whole(said, name, least):
        value = said[name]
        if type(value) is not int or value < least:
            raise ValueError(f"{name} is {value!r}")
        return value

    @property
    def seconds(self):
        if self.window_ms % 1000:
            raise Unfit(f"the library counts in seconds: a window of {self.window_ms} ms cannot be asked for")
        return self.window_ms // 1000


class Lines:
    """The protocol's stdout. Whatever else prints goes to stderr."""

    def __init__(self):
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def say(self, fields):
        text = json.dumps(fields, ensure_ascii=False)
        with self._lock:
            self._out.write(text + "\n")
            self._out.flush()


def tidy(decision):
    """Times are told in whole milliseconds, rounded up."""
    for name in ("retry_after_ms", "reset_ms"):
        if name in decision:
            decision[name] = max(0, ceil(decision[name]))
    return {name: value for name, value in decision.items() if value is not None}


def serve_one(lines, limiter, request):
    answer = {"id": request["id"]}
    wire.start_call()
    try:
        if request.get("op") != "acquire":
            raise Unfit(f"the op {request.get('op')!r} is not known")
        key, cost = request.get("key"), request.get("cost", 1)
        if not isinstance(key, str) or type(cost) is not int or cost < 1:
            raise Unfit("the key or the cost cannot be read")
        if cost != 1 and not limiter.knows_cost:
            raise Unfit("the library has no costs: every call counts 1")
        answer.update(tidy(limiter.decide(key, cost)))
        answer["round_trips"] = wire.sends()
    except Unfit as unfit:
        answer["error"] = {"kind": "unexpected", "text": str(unfit)}
    except Exception as error:  # whatever a library lets through is an answer too
        cause = f" ({error.__cause__})" if error.__cause__ else ""
        answer["error"] = {"kind": wire.kind_of(error), "text": f"{type(error).__name__}: {error}{cause}"}
    answer["sent"] = wire.sends() > 0
    lines.say(answer)


def warm_up(workers, limiter, connections):
    """Opens each worker's connection: nobody gives theirs back before all have one."""
    together = threading.Barrier(connections)

    def hold_one():
        try:
            pool = limiter.pool()
            connection = pool.get_connection()
        except Exception:
            together.abort()
            raise
        together.wait()
        pool.release(connection)

    opened = [workers.submit(hold_one) for _ in range(connections)]
    broken = [done.exception() for done in opened if done.exception()]
    for error in sorted(broken, key=lambda e: isinstance(e, threading.BrokenBarrierError)):
        raise error


def serve(lines, limiter, workers):
    for line in sys.stdin:
        try:
            request = json.loads(line)
            if type(request["id"]) is not int:
                raise ValueError("the id is no number")
        except (ValueError, TypeError, KeyError):
            print(f"adapter: no request: {line.strip()[:200]}", file=sys.stderr)
            os._exit(2)
        workers.submit(serve_one, lines, limiter, request)
    workers.shutdown(wait=True)


def main(arguments):
    if arguments == ["--list"]:
        print("\n".join(available()))
        return 0
    variant = VARIANTS.get(" ".join(arguments))
    if variant is None:
        print(f"adapter: no such variant: {' '.join(arguments)!r}; --list names them", file=sys.stderr)
        return 2
    lines = Lines()
    try:
        wire.watch()
        hello = Hello(sys.stdin.readline())
        limiter = variant.build(hello)
        workers = ThreadPoolExecutor(max_workers=hello.connections)
        if hello.warm:
            warm_up(workers, limiter, hello.connections)
    except Exception as error:
        lines.say({"ready": False, "error": str(error) or repr(error)})
        return 2
    lines.say({"ready": True, "name": variant.package, "version": variant.version,
               "capabilities": [], "now_us": time.time_ns() // 1000})
    serve(lines, limiter, workers)
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # a library's background thread keeps nothing open
