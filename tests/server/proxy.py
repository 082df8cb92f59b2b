"""A link that can be cut, or held back in one direction: what stands between a primary and its replica in a test."""

import socket
import threading


class Proxy:
    """Passes bytes on between who connects to its port and `port`, both on this machine."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.is_down = False
        # Bytes to who connected, and whether each direction passes.
        self.passed = 0
        self.to_target, self.to_client = threading.Event(), threading.Event()
        self.release()
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_error) -> None:
        self.listener.close()
        self.release()
        self.cut()

    def release(self) -> None:
        self.to_target.set()
        self.to_client.set()

    def cut(self) -> None:
        """Ends all links there are, as a machine that crashes in between does."""
        pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for end in pair:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                try:
                    # A thread that waits for it wakes up by this, not by the close alone.
                    end.shutdown(socket.SHUT_RD)
                except OSError:
                    pass
                end.close()

    def forget(self) -> list[socket.socket]:
        """Ends the links there are for who connected, and leaves the other ends open, which hear nothing of it."""
        pairs, self.pairs = self.pairs, []
        for client, _ in pairs:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            client.shutdown(socket.SHUT_RD)
            client.close()
        return [target for _, target in pairs]

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.is_down:
                client.close()
                continue
            try:
                target = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            for end in (client, target):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.pairs.append((client, target))
            for source, sink, gate in [(client, target, self.to_target), (target, client, self.to_client)]:
                threading.Thread(target=self._pass, args=(source, sink, gate), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, gate: threading.Event) -> None:
        try:
            while data := source.recv(1 << 16):
                gate.wait()
                sink.sendall(data)
                if gate is self.to_client:
                    self.passed += len(data)
            if sink in {end for pair in self.pairs for end in pair}:
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass
