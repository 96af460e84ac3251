"""A network that misbehaves, for any protocol: bytes between a client and a server on 127.0.0.1, in threads."""
import socket
import threading


class Way:
    """One direction of one connection. While shut, what comes is kept; `deaf` then throws away what comes from that moment on."""

    def __init__(self, source, target, shut):
        self.source, self.target = source, target
        self.lock = threading.Lock()
        self.shut, self.deaf, self.kept = shut, False, b""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        try:
            while data := self.source.recv(65536):
                with self.lock:
                    if self.shut:
                        self.kept += b"" if self.deaf else data
                        continue
                self.target.sendall(data)
        except OSError:
            pass
        with self.lock:
            if self.shut:
                return  # nobody is told
        try:
            self.target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def open(self):
        """What was kept goes on."""
        with self.lock:
            data, self.kept, self.shut = self.kept, b"", False
            try:
                self.target.sendall(data)
            except OSError:
                pass


class Proxy:
    """Listens at `address` and forwards to `server`; what is set holds for the connections there are and those that come."""

    def __init__(self, server):
        host, port = server.rsplit(":", 1)
        self.server, self.lock, self.pairs = (host, int(port)), threading.Lock(), []
        self.shut = {"up": False, "down": False}
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.server)
            except OSError:
                return
            with self.lock:
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.pairs.append((client, server, {"up": Way(client, server, self.shut["up"]),
                                                    "down": Way(server, client, self.shut["down"])}))

    def ways(self, direction):
        with self.lock:
            return [ways[direction] for _, _, ways in self.pairs]

    def set(self, *directions):
        """From now on these directions (of "up", "down") are shut: nothing passes, and nobody is told."""
        with self.lock:
            for direction in directions:
                self.shut[direction] = True
                for _, _, ways in self.pairs:
                    with ways[direction].lock:
                        ways[direction].shut = True

    def kept(self, direction):
        return b"".join(way.kept for way in self.ways(direction))

    def deafen(self, direction):
        """What is kept stays so, and what comes after it is thrown away."""
        for way in self.ways(direction):
            with way.lock:
                way.deaf = True

    def open(self, direction):
        with self.lock:
            self.shut[direction] = False
        for way in self.ways(direction):
            way.open()

    def cut(self):
        """All connections are reset."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for client, server, _ in pairs:
            for end in (client, server):
                try:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                end.close()

    def stop(self):
        self.listener.close()
        self.cut()
