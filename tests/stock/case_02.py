"""Case 2 (renewal dead, nobody told) for the lease of client/docs/python.md, over gRPC and over Connect: its module `lease` is made from the
page. The network goes dark without a reset. At the last good renewal's send time + TTL - margin the lease is invalid, for good, and commits
are refused locally; the same if the renewals are answered by something unexpected."""
import time
import unittest

import grpc
import lease
from callers import HTTP, PATIENCE, CallError, Connect, Grpc
from faults import Proxy
from holdfast.v1 import lease_pb2, resource_pb2

import checks as c

TTL_MS, MARGIN_MS = 3000, 150


class Answered(grpc.RpcError):
    def __init__(self, code):
        super().__init__()
        self._code = code

    def code(self):
        return self._code

    def details(self):
        return "invented"


class OverConnect:
    """What grpc's stubs are to the page's program, over Connect."""

    def __init__(self, address):
        self.caller = Connect(address)

    def __getattr__(self, method):
        def call(message, timeout, metadata=()):
            try:
                return self.caller.call(message, timeout)
            except CallError as error:
                raise Answered(grpc.StatusCode[error.code]) from None
            except OSError:
                raise Answered(grpc.StatusCode.UNAVAILABLE) from None
        return call


class Case02(unittest.TestCase):
    def play(self, resource, make, strike):
        """`strike` makes renewals fail from some moment on; what it returns is the latest moment at which a good one was sent."""
        held = make()
        first = held.deadline_ms
        c.until(lambda: held.deadline_ms > first, "it was renewed")
        self.assertEqual(held.write(b"one"), 1)
        latest = strike(held) + TTL_MS - MARGIN_MS
        valid_at = lease.now_ms()
        while True:
            before = lease.now_ms()
            if not held.valid():
                break
            valid_at = before
            self.assertLess(before, latest + 1000 * PATIENCE)
            time.sleep(0.002)
        self.assertLessEqual(held.deadline_ms, latest)
        self.assertLess(valid_at, held.deadline_ms)  # it was never valid past it
        self.assertEqual(held.lost, "DEADLINE")
        with self.assertRaises(lease.Lost):
            held.write(b"late")
        other = Grpc(HTTP)
        token = c.grant(other, resource, wait_ms=int(PATIENCE * 1000))
        self.assertGreater(token, held.token)
        return held, other

    def in_the_dark(self, over_connect):
        resource, proxy = c.fresh("dark"), Proxy(HTTP)
        channel = grpc.insecure_channel(proxy.address)

        def make():
            if not over_connect:
                return lease.Lease(channel, resource, TTL_MS)
            stubs = lease.lease_pb2_grpc.LeaseServiceStub, lease.resource_pb2_grpc.ResourceServiceStub
            lease.lease_pb2_grpc.LeaseServiceStub = lease.resource_pb2_grpc.ResourceServiceStub = lambda _: OverConnect(proxy.address)
            try:
                return lease.Lease(None, resource, TTL_MS)
            finally:
                lease.lease_pb2_grpc.LeaseServiceStub, lease.resource_pb2_grpc.ResourceServiceStub = stubs

        def strike(_):
            proxy.set("up", "down")
            return lease.now_ms()

        held, other = self.play(resource, make, strike)
        proxy.open("up")  # the network is well again, and what was on its way arrives
        proxy.open("down")
        time.sleep(TTL_MS / 3000)  # a renewal that were still sent would be
        self.assertFalse(held.valid())
        with self.assertRaises(lease.Lost):
            held.write(b"later")
        stored = other.call(c.read(resource))
        self.assertEqual((stored.value, stored.version), (b"one", 1))
        channel.close()
        other.close()
        proxy.stop()

    def test_dark_grpc(self):
        self.in_the_dark(False)

    def test_dark_connect(self):
        self.in_the_dark(True)

    def answered(self, answer):
        resource = c.fresh("answered")
        channel = grpc.insecure_channel(HTTP)

        def strike(held):
            held.leases.Renew = lambda request, **how: answer(request)
            return lease.now_ms()  # whichever is on its way was sent before

        _, other = self.play(resource, lambda: lease.Lease(channel, resource, TTL_MS), strike)
        channel.close()
        other.close()

    def test_unexpected_statuses(self):
        def answer(_):
            codes = list(grpc.StatusCode)[1:]
            answer.n = getattr(answer, "n", 0) + 1
            raise Answered(codes[answer.n % len(codes)])
        self.answered(answer)

    def test_empty_answer(self):
        self.answered(lambda _: lease_pb2.RenewResponse(items=[lease_pb2.RenewResult()]))

    def test_lost_is_told_at_once(self):
        resource = c.fresh("lost")
        channel = grpc.insecure_channel(HTTP)
        held = lease.Lease(channel, resource, 60000)
        held.ttl_ms = 300  # renewed soon
        other = Grpc(HTTP)
        other.call(lease_pb2.BreakRequest(namespace="default", resource=resource, token_seen=held.token, actor="test", reason="test"))
        with self.assertRaises(lease.Lost):
            held.write(b"late")
        self.assertFalse(held.valid())
        with c.refused("NOT_FOUND", "NO_SUCH_RESOURCE"):
            other.call(resource_pb2.ReadRequest(namespace="default", resource=resource + "?"))
        channel.close()
        other.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
