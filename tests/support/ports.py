"""A port of loopback for a server that a test starts later, and again after each stop."""

import socket


class HeldPort:
    """Its socket is bound and does not listen. With SO_REUSEADDR on both sides, the server may listen there all the same.

    Meanwhile no other socket gets the port. A number alone would become that of any connection that begins before the server does.
    """

    def __init__(self):
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number = self._socket.getsockname()[1]

    def close(self):
        self._socket.close()
