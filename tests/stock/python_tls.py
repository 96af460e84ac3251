"""TLS, client certificates and API keys, by grpcio, http.client and ssl. The folder with the certificates is the first argument."""
import http.client
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import time
import unittest

import grpc

import checks as c
from callers import HTTP, PATIENCE, CallError, Connect, Grpc, tls_context
from holdfast.v1 import admin_pb2

FOLDER = pathlib.Path(sys.argv[1])
HOST, PORT = HTTP.rsplit(":", 1)[0], int(HTTP.rsplit(":", 1)[1])
ADMIN = [("authorization", "Bearer " + os.environ["HOLDFAST_KEY"])]
CERTIFICATE = "spiffe://example.org/worker"  # the name in the client's


def file(name):
    return (FOLDER / name).read_bytes()


def credentials(ca="ca.pem", client=False):
    return grpc.ssl_channel_credentials(file(ca), *((file("client.key"), file("client.pem")) if client else ()))


class Tls(unittest.TestCase):
    def open(self, caller):
        self.addCleanup(caller.close)
        return caller

    def grpc(self, *args, metadata=(), options=(), **how):
        return self.open(Grpc(HTTP, credentials(*args, **how), options, metadata))

    def connect(self, headers=(), client=False):
        context = tls_context(FOLDER / "ca.pem", *((FOLDER / "client.pem", FOLDER / "client.key") if client else ()))
        return Connect(HTTP, headers=headers, tls=context)

    def refused_everywhere(self, code, reason, metadata=(), client=False):
        for caller in (self.grpc(metadata=metadata, client=client), self.connect(metadata, client)):
            with c.refused(code, reason):
                caller.call(c.acquire(c.fresh()))

    # ---- who is who ----

    def test_keys(self):
        self.refused_everywhere("UNAUTHENTICATED", "NO_KEY")
        self.refused_everywhere("UNAUTHENTICATED", "BAD_KEY", [("authorization", "Bearer hfk_no_such_key")])
        for caller in (self.grpc(metadata=ADMIN), self.connect(ADMIN)):
            c.grant(caller, c.fresh())

    def make(self, role, **grant):
        request = admin_pb2.CreateKeyRequest(name=c.fresh("key"), actor="test", grants=[dict(role=role, **grant)])
        made = self.grpc(metadata=ADMIN).call(request)
        return made.info.id, [("authorization", "Bearer " + made.key)]

    def test_roles_and_scopes(self):
        _, reader = self.make(admin_pb2.KeyGrant.READER, all_namespaces=True)
        _, worker = self.make(admin_pb2.KeyGrant.WORKER, namespace="default", resource_prefix="mine/")
        self.refused_everywhere("PERMISSION_DENIED", "ROLE", reader)
        self.refused_everywhere("PERMISSION_DENIED", "SCOPE", worker)
        c.grant(self.grpc(metadata=worker), "mine/1")
        with c.refused("FAILED_PRECONDITION", "NOT_HELD"):
            self.connect(worker).call(c.write("mine/1", 17, 1, b"x"))

    def test_revoked(self):
        key, worker = self.make(admin_pb2.KeyGrant.WORKER, namespace="default")
        c.grant(self.grpc(metadata=worker), "revoked")
        caller = self.grpc(metadata=worker)
        waits = caller.start(c.acquire("revoked", wait_ms=60000), timeout=60)
        c.waiters(self.grpc(metadata=ADMIN), "revoked", 1)
        self.grpc(metadata=ADMIN).call(admin_pb2.RevokeKeyRequest(id=key, actor="test"))
        self.refused_everywhere("UNAUTHENTICATED", "BAD_KEY", worker)
        with self.assertRaises(CallError) as caught:
            caller.result(waits)
        self.assertEqual(caught.exception.code, "UNAUTHENTICATED")

    def test_client_certificate(self):
        for caller in (self.grpc(client=True), self.connect(client=True)):
            with self.assertRaises(CallError) as caught:
                caller.call(c.acquire(c.fresh()))
            self.assertIn(caught.exception.code, ("UNAUTHENTICATED", "PERMISSION_DENIED"))
        self.grpc(metadata=ADMIN).call(admin_pb2.CreateKeyRequest(
            name="the worker", actor="test", certificate=CERTIFICATE, grants=[{"role": admin_pb2.KeyGrant.WORKER, "namespace": "default"}]))

        def may():
            try:
                return c.grant(self.grpc(client=True), c.fresh())
            except CallError:
                return False
        c.until(may, "the certificate is known")
        c.grant(self.connect(client=True), c.fresh())
        with c.refused("PERMISSION_DENIED", "ROLE"):
            self.grpc(client=True).call(admin_pb2.CreateNamespaceRequest(name="n", actor="test"))

    # ---- whom one talks to ----

    def fails(self, caller):
        with self.assertRaises(CallError) as caught:
            caller.call(c.acquire(c.fresh()), timeout=5)
        self.assertIn(caught.exception.code, ("UNAVAILABLE", "DEADLINE_EXCEEDED"))

    def test_server_is_verified(self):
        self.fails(self.grpc("other.pem", metadata=ADMIN))
        self.fails(self.grpc(metadata=ADMIN, options=[("grpc.ssl_target_name_override", "elsewhere.example")]))
        by_name = Grpc(f"localhost:{PORT}", credentials(), metadata=ADMIN)
        c.grant(self.open(by_name), c.fresh())

    def test_clear_text_is_refused(self):
        self.fails(self.open(Grpc(HTTP, metadata=ADMIN)))
        with self.assertRaises((OSError, http.client.HTTPException)):
            Connect(HTTP, headers=ADMIN).call(c.acquire(c.fresh()), timeout=5)

    def handshake(self, alpn, low, high):
        context = tls_context(FOLDER / "ca.pem")
        context.minimum_version, context.maximum_version = low, high
        context.set_alpn_protocols(alpn)
        with socket.create_connection((HOST, PORT), PATIENCE) as plain, context.wrap_socket(plain, server_hostname="localhost") as tls:
            return tls.version(), tls.selected_alpn_protocol()

    def test_versions_and_alpn(self):
        old, new = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
        self.assertEqual(self.handshake(["h2", "http/1.1"], new, new), ("TLSv1.3", "h2"))
        self.assertEqual(self.handshake(["http/1.1"], old, old), ("TLSv1.2", "http/1.1"))
        with self.assertRaises(OSError):
            self.handshake(["h2"], ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1)

    def test_resumption(self):
        context = tls_context(FOLDER / "ca.pem")
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # whose session is there when the handshake is over
        session, reused = None, []
        for _ in range(3):
            with socket.create_connection((HOST, PORT), PATIENCE) as plain, \
                    context.wrap_socket(plain, server_hostname="localhost", session=session) as tls:
                session = tls.session
                reused.append(tls.session_reused)
        self.assertEqual(reused, [False, True, True])

    def test_reload(self):
        """A new certificate is used after SIGHUP, and what is open goes on."""
        name = c.fresh()
        caller = self.grpc(metadata=ADMIN)
        token = c.grant(caller, name)
        waits = caller.start(c.acquire(name, wait_ms=60000), timeout=60)
        c.waiters(caller, name, 1)
        before = ssl.get_server_certificate((HOST, PORT))
        for kind in ("key", "pem"):
            os.replace(FOLDER / f"next.{kind}", FOLDER / f"server.{kind}")
        os.kill(int(os.environ["HOLDFAST_SERVER_PID"]), signal.SIGHUP)
        c.until(lambda: ssl.get_server_certificate((HOST, PORT)) != before, "the new certificate is shown")
        c.grant(self.grpc(metadata=ADMIN), c.fresh())
        self.assertFalse(waits.done())
        c.released(caller, name, token)
        self.assertEqual(caller.result(waits).granted.grants[0].token, token + 1)

    # ---- programs ----

    def test_curl(self):
        for version, shown in (("--http1.1", "1.1 200"), ("--http2", "2 200")):
            out = subprocess.run(["curl", "-sS", "-m", "20", version, "--cacert", FOLDER / "ca.pem", "-H", "content-type: application/json",
                                  "-H", "authorization: " + ADMIN[0][1], "-d", '{"namespace":"default","resources":["curl"],"holder":"h","ttlMs":1000}',
                                  "-w", "\n%{http_version} %{http_code}", f"https://localhost:{PORT}/holdfast.v1.LeaseService/Acquire"],
                                 check=True, capture_output=True, text=True).stdout
            self.assertTrue(out.endswith(shown), out)

    def test_many_connections(self):
        start = time.monotonic()
        callers = [self.grpc(metadata=ADMIN) for _ in range(50)]
        calls = [caller.start(c.acquire(c.fresh())) for caller in callers]
        for caller, call in zip(callers, calls):
            caller.result(call)
        print(f"50 connections in {time.monotonic() - start:.2f} s", end=" ", flush=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
