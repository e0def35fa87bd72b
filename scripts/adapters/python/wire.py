"""What redis-py sent for the call that this thread serves, and what its errors mean.

redis-py tries again by itself, so the last error alone does not tell whether an earlier attempt
reached the store: "connection refused" may follow a command that was sent and cut off.
"""

import threading

from redis import exceptions
from redis.connection import AbstractConnection

CHANGES_NOTHING = {b"GET", b"EXISTS", b"TTL", b"LLEN", b"LRANGE", b"SCRIPT"}

_call = threading.local()


def start_call():
    _call.sends = _call.writes = 0


def sends():
    return getattr(_call, "sends", 0)


def _note(sends=0, writes=0):
    _call.sends = getattr(_call, "sends", 0) + sends
    _call.writes = getattr(_call, "writes", 0) + writes


def _name_of(packed):
    text = packed if isinstance(packed, bytes) else b"".join(packed)
    return text.split(b"\r\n", 3)[2].upper()


def watch():
    """Counts what is sent, less the handshake of a new connection, and the writes that were not refused."""
    send, read = AbstractConnection.send_packed_command, AbstractConnection.read_response
    connect = AbstractConnection.connect_check_health

    def counted_send(self, command, check_health=True):
        if not getattr(_call, "connecting", False):
            if not self._sock:
                self.connect_check_health(check_health=False)
            command = command if isinstance(command, bytes) else list(command)
            _note(sends=1, writes=_name_of(command) not in CHANGES_NOTHING)
        return send(self, command, check_health)

    def watched_read(self, *args, **kwargs):
        try:
            return read(self, *args, **kwargs)
        except exceptions.ResponseError:
            _note(writes=-1)
            raise

    def marked_connect(self, *args, **kwargs):
        before, _call.connecting = getattr(_call, "connecting", False), True
        try:
            return connect(self, *args, **kwargs)
        finally:
            _call.connecting = before

    AbstractConnection.send_packed_command = counted_send
    AbstractConnection.read_response = watched_read
    AbstractConnection.connect_check_health = marked_connect


def kind_of(error):
    while error.__cause__ is not None and not isinstance(error, exceptions.RedisError):
        error = error.__cause__
    # An error reply says that its own command was not applied; of those before it, it says nothing.
    if isinstance(error, (exceptions.ResponseError, exceptions.BusyLoadingError)):
        return "refused" if _call.writes <= 0 else "no-answer"
    if isinstance(error, (exceptions.ConnectionError, exceptions.TimeoutError, OSError)):
        return "no-answer" if sends() else "not-connected"
    return "unexpected"
