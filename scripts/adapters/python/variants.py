"""One function for each limiter: how its README says to use it.

Each takes the hello and returns a Limiter. `decide` gives the fields of an answer that the library
itself tells, and lets its errors through. Libraries are imported where they are used: the older
versions live in an environment of their own.
"""

from datetime import timedelta
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Lock, local
from time import time
from typing import Callable, NamedTuple

import wire


CELL_VERSION = Path(__file__).parent.parent / "cell" / "version"  # written when it was built


class Limiter(NamedTuple):
    decide: Callable  # (key, cost) -> fields of the answer
    pool: Callable  # () -> the connection pool that the calling thread uses
    knows_cost: bool = True


class Variant(NamedTuple):
    package: str
    major: int  # of the package: the environments hold different ones
    build: Callable  # (hello) -> Limiter

    @property
    def version(self):
        return CELL_VERSION.read_text().strip() if self.package == "redis-cell" else version(self.package)

    def is_installed(self):
        try:
            return int(self.version.split(".")[0]) == self.major
        except (PackageNotFoundError, FileNotFoundError):
            return False


def limits(strategy, stats, hello):
    from limits import RateLimitItemPerSecond, strategies
    from limits.storage import storage_from_string

    storage = storage_from_string(hello.redis)
    limiter = getattr(strategies, strategy)(storage)
    item = RateLimitItemPerSecond(hello.limit, hello.seconds)

    def decide(key, cost):
        answer = {"allowed": bool(limiter.hit(item, key, cost=cost))}
        if stats:
            reset_time, answer["remaining"] = limiter.get_window_stats(item, key)
            if not answer["allowed"]:
                answer["retry_after_ms"] = (reset_time - time()) * 1000
        return answer

    return Limiter(decide, lambda: storage.storage.connection_pool)


def throttled(algorithm, hello):
    from throttled import Throttled, rate_limiter, store

    backend = store.RedisStore(server=hello.redis)
    quota = rate_limiter.per_duration(timedelta(seconds=hello.seconds), limit=hello.limit)
    throttle = Throttled(using=algorithm, quota=quota, store=backend)

    def decide(key, cost):
        result = throttle.limit(key, cost)
        state = result.state
        answer = {"allowed": not result.limited, "remaining": state.remaining, "reset_ms": state.reset_after * 1000}
        if result.limited:
            answer["retry_after_ms"] = state.retry_after * 1000
        return answer

    return Limiter(decide, lambda: backend._backend.get_client().connection_pool)


def pyrate_limiter(per_thread, hello):
    from pyrate_limiter import BucketFactory, Limiter as Pyrate, Rate, RateItem, RedisBucket
    from redis import ConnectionPool, Redis
    from time import time_ns

    pool = ConnectionPool.from_url(hello.redis)
    client = Redis(connection_pool=pool)
    rates = [Rate(hello.limit, hello.window_ms)]

    class BucketPerKey(BucketFactory):
        def __init__(self):
            self.buckets, self.lock = {}, Lock()

        def wrap_item(self, name, weight=1):
            return RateItem(name, time_ns() // 1_000_000, weight=weight)

        def get(self, item):
            with self.lock:
                if item.name not in self.buckets:
                    bucket = RedisBucket.init(rates, client, item.name)
                    self.schedule_leak(bucket)
                    self.buckets[item.name] = bucket
                return self.buckets[item.name]

    shared, own = Pyrate(BucketPerKey()), local()

    def limiter():
        if not per_thread:
            return shared
        if not hasattr(own, "limiter"):
            own.limiter = Pyrate(BucketPerKey())
        return own.limiter

    def decide(key, cost):
        allowed = limiter().try_acquire(key, weight=cost, blocking=False)
        # Whoever finds the limiter's own lock taken is refused on the spot: no store was asked.
        return {"allowed": bool(allowed), "source": None if wire.sends() else "local"}

    return Limiter(decide, lambda: pool)


def pyrate_limiter_2(hello):
    from pyrate_limiter import BucketFullException, Limiter as Pyrate, RedisBucket, RequestRate
    from redis import ConnectionPool

    pool = ConnectionPool.from_url(hello.redis)
    limiter = Pyrate(
        RequestRate(hello.limit, hello.window_ms / 1000),
        bucket_class=RedisBucket,
        bucket_kwargs={"redis_pool": pool, "bucket_name": "pyrate"},
    )

    def decide(key, _cost):
        try:
            limiter.try_acquire(key)
            return {"allowed": True}
        except BucketFullException as full:
            return {"allowed": False, "retry_after_ms": full.meta_info["remaining_time"] * 1000}

    return Limiter(decide, lambda: pool, knows_cost=False)


def django_ratelimit(fail_open, hello):
    from django.conf import settings

    cache = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": hello.redis}
    settings.configure(CACHES={"default": cache}, RATELIMIT_FAIL_OPEN=fail_open)

    from django.core.cache import caches
    from django.http import HttpRequest
    from django_ratelimit.core import get_usage

    rate = f"{hello.limit}/{hello.seconds}s"

    def decide(key, _cost):
        request = HttpRequest()
        request.method, request.META["HTTP_X_USER"] = "GET", key
        usage = get_usage(request, group="calls", key="header:x-user", rate=rate, increment=True)
        if usage is None:
            return {"allowed": True, "source": "fail-open"}
        if usage["limit"] == 0:
            return {"allowed": False, "source": "fail-closed"}
        answer = {"allowed": not usage["should_limit"], "remaining": max(0, usage["limit"] - usage["count"])}
        answer["reset_ms" if answer["allowed"] else "retry_after_ms"] = usage["time_left"] * 1000
        return answer

    # Django keeps a cache object, and so a pool, for each thread.
    return Limiter(decide, lambda: caches["default"]._cache._get_connection_pool(True), knows_cost=False)


def redis_cell(hello):
    from redis import Redis

    client = Redis.from_url(hello.redis)
    if hello.warm and not any(module[b"name"] == b"redis-cell" for module in client.module_list()):
        raise RuntimeError("the server has not loaded redis-cell: let it be started by scripts/adapters/cell/redis-server")

    def decide(key, cost):
        limited, _, remaining, retry_after, reset_after = client.execute_command(
            "CL.THROTTLE", key, hello.limit - 1, hello.limit, hello.seconds, cost
        )
        answer = {"allowed": limited == 0, "remaining": remaining, "reset_ms": reset_after * 1000}
        if retry_after >= 0:  # -1: admitted, or never
            answer["retry_after_ms"] = retry_after * 1000
        return answer

    return Limiter(decide, lambda: client.connection_pool)


def _limits(name, strategy):
    return {
        f"limits-{name}": Variant("limits", 5, partial(limits, strategy, False)),
        f"limits-{name} --stats": Variant("limits", 5, partial(limits, strategy, True)),
    }


VARIANTS = {
    **_limits("fixed-window", "FixedWindowRateLimiter"),
    **_limits("moving-window", "MovingWindowRateLimiter"),
    **_limits("sliding-window-counter", "SlidingWindowCounterRateLimiter"),
    **{
        f"throttled-py-{name.replace('_', '-')}": Variant("throttled-py", 3, partial(throttled, name))
        for name in ("fixed_window", "sliding_window", "token_bucket", "leaking_bucket", "gcra")
    },
    "pyrate-limiter": Variant("pyrate-limiter", 4, partial(pyrate_limiter, False)),
    "pyrate-limiter --per-thread": Variant("pyrate-limiter", 4, partial(pyrate_limiter, True)),
    "django-ratelimit": Variant("django-ratelimit", 4, partial(django_ratelimit, False)),
    "django-ratelimit --fail-open": Variant("django-ratelimit", 4, partial(django_ratelimit, True)),
    "redis-cell": Variant("redis-cell", 0, redis_cell),
    "limits-2-fixed-window": Variant("limits", 2, partial(limits, "FixedWindowRateLimiter", False)),
    "limits-2-moving-window": Variant("limits", 2, partial(limits, "MovingWindowRateLimiter", False)),
    "pyrate-limiter-2": Variant("pyrate-limiter", 2, pyrate_limiter_2),
}


def available():
    return [name for name, variant in VARIANTS.items() if variant.is_installed()]
