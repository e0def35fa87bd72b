"""What redis-py sent for the call that this thread serves, and what its errors mean.

redis-py tries again by itself, so the last error alone does not tell whether an earlier attempt
reached the store: "connection refused" may follow a command that was sent and cut off.
"""

import threading

from redis import exceptions
from redis.connection import AbstractConnection

_call = threading.local()


def start_call():
    _call.sends = 0


def sends():
    return getattr(_call, "sends", 0)


def watch():
    """Counts what is sent, less the handshake of a new connection."""
    send, connect = AbstractConnection.send_packed_command, AbstractConnection.connect_check_health

    def counted_send(self, command, check_health=True):
        if not getattr(_call, "connecting", False):
            if not self._sock:
                self.connect_check_health(check_health=False)
            _call.sends = sends() + 1
        return send(self, command, check_health)

    def marked_connect(self, *args, **kwargs):
        before, _call.connecting = getattr(_call, "connecting", False), True
        try:
            return connect(self, *args, **kwargs)
        finally:
            _call.connecting = before

    AbstractConnection.send_packed_command = counted_send
    AbstractConnection.connect_check_health = marked_connect


def kind_of(error):
    # An error reply says that its own command was not applied; of those before it, it says nothing.
    if isinstance(error, (exceptions.ResponseError, exceptions.BusyLoadingError)):
        return "refused" if sends() <= 1 else "no-answer"
    if isinstance(error, (exceptions.ConnectionError, exceptions.TimeoutError, OSError)):
        return "no-answer" if sends() else "not-connected"
    return "unexpected"
