"""Cases 7, 11, 16 and 17 (failures that others had) over the transport that the first argument names: grpc, connect-json or
connect-proto. Over nng they are in tests/integration and tests/robustness."""
import os
import signal
import subprocess
import sys
import threading
import unittest

import checks as c
from callers import HTTP, PATIENCE, TRANSPORTS, CallError
from faults import Proxy
from holdfast.v1 import admin_pb2, lease_pb2, operation_pb2

open_caller = TRANSPORTS["grpc"]


class Case(unittest.TestCase):
    def setUp(self):
        self.caller = open_caller()
        self.name = c.fresh(self.id().rsplit(".", 1)[-1])

    def tearDown(self):
        self.caller.close()


class Case07(Case):
    """A waiter whose client died while the holder still holds."""

    def serve_the_living(self, die):
        token = c.grant(self.caller, self.name)
        living = open_caller()
        die_now = die()
        c.waiters(self.caller, self.name, 1)
        waits = living.start(c.acquire(self.name, wait_ms=60000, holder="lives"), timeout=60)
        c.waiters(self.caller, self.name, 2)
        die_now()
        c.waiters(self.caller, self.name, 1)
        c.released(self.caller, self.name, token)
        self.assertEqual(living.result(waits).granted.grants[0].token, token + 1)  # nobody else was granted it
        living.close()

    def test_killed_process(self):
        def die():
            process = subprocess.Popen([sys.executable, __file__, sys.argv[1], "wait-for", self.name])

            def now():
                process.send_signal(signal.SIGKILL)
                process.wait(PATIENCE)
            return now
        self.serve_the_living(die)

    def test_reset_connection(self):
        proxy = Proxy(HTTP)

        def die():
            caller = open_caller(proxy.address)
            self.addCleanup(caller.close)
            waits = caller.start(c.acquire(self.name, wait_ms=60000, request_id="dies"), timeout=60)

            def now():
                self.assertFalse(waits.done())  # kept until now: a future that is dropped is a call that is cancelled
                proxy.cut()
            return now
        self.serve_the_living(die)
        proxy.stop()

    def test_cancelled_call(self):
        def die():
            waits = self.caller.start(c.acquire(self.name, wait_ms=60000), timeout=60)
            return waits.cancel
        self.serve_the_living(die)

    def test_many_at_once(self):
        token = c.grant(self.caller, self.name)
        dead = [open_caller() for _ in range(10)]
        calls = [caller.start(c.acquire(self.name, wait_ms=60000), timeout=60) for caller in dead for _ in range(10)]
        c.waiters(self.caller, self.name, 100)
        for call in calls:
            call.cancel()
        c.waiters(self.caller, self.name, 0)
        c.released(self.caller, self.name, token)
        self.assertEqual(c.grant(self.caller, self.name), token + 1)
        for caller in dead:
            caller.close()


class Case11(Case):
    """Replies lost, repeats late. A's first request comes through a proxy that loses its reply, or keeps the request until after
    the next holder's calls; A repeats it with the same ids. Each request is played both ways."""

    def setUp(self):
        super().setUp()
        self.proxy = Proxy(HTTP)
        self.lossy = open_caller(self.proxy.address)
        self.lossy.call(admin_pb2.StatsRequest())  # connected

    def tearDown(self):
        self.lossy.close()
        self.proxy.stop()
        super().tearDown()

    def lose_reply(self, message, method):
        """The server does it, and nobody hears of that."""
        before = c.calls_of(self.caller, method)
        self.proxy.set("down")
        lost = self.lossy.start(message, timeout=60)
        c.until(lambda: c.calls_of(self.caller, method) == before + 1, f"{method} was done")
        self.proxy.cut()
        with self.assertRaises(Exception):
            self.lossy.result(lost)

    def delay(self, message, method):
        """What is returned lets the request arrive, which A gives up meanwhile."""
        self.proxy.set("up", "down")
        late = self.lossy.start(message, timeout=60)
        c.until(lambda: self.lossy.whole(self.proxy.kept("up")), "the request was sent")
        self.proxy.deafen("up")
        late.cancel()

        def arrive():
            done = c.calls_of(self.caller, method)
            self.proxy.open("up")
            c.until(lambda: c.calls_of(self.caller, method) == done + 1, f"the late {method} was done")
        return arrive

    def lease(self):
        return self.caller.call(lease_pb2.GetLeaseRequest(namespace="default", resource=self.name)).lease

    def assert_untouched(self, token):
        """The next holder has it, can write and gives it back."""
        lease = self.lease()
        self.assertEqual((lease.token, lease.state), (token, lease_pb2.Lease.LIVE))
        self.caller.call(c.write(self.name, token, 9, b"next was here"))
        self.assertTrue(c.released(self.caller, self.name, token))

    def test_acquire_reply_lost(self):
        request = c.acquire(self.name, request_id=self.name, holder="A")
        self.lose_reply(request, "LeaseService/Acquire")
        token = self.caller.call(request).granted.grants[0].token
        self.assertEqual(token, 1)
        c.released(self.caller, self.name, token)
        self.assertEqual(self.caller.call(request).ended.token, token)

    def test_acquire_late(self):
        request = c.acquire(self.name, request_id=self.name, holder="A")
        arrive = self.delay(request, "LeaseService/Acquire")
        token = self.caller.call(request).granted.grants[0].token
        c.released(self.caller, self.name, token)
        following = c.grant(self.caller, self.name, holder="B")
        arrive()
        self.assert_untouched(following)
        self.assertEqual(self.lease().token, following)

    def test_renew(self):
        token = c.grant(self.caller, self.name)
        self.lose_reply(c.renew(self.name, token, 90000), "LeaseService/Renew")
        self.assertGreater(self.lease().remaining_ms, 60000)
        self.assertEqual(self.caller.call(c.renew(self.name, token)).items[0].WhichOneof("outcome"), "renewed")

    def test_renew_late(self):
        token = c.grant(self.caller, self.name)
        arrive = self.delay(c.renew(self.name, token, 90000), "LeaseService/Renew")
        c.released(self.caller, self.name, token)
        following = c.grant(self.caller, self.name)
        arrive()
        self.assertLessEqual(self.lease().remaining_ms, 60000)
        self.assert_untouched(following)

    def test_release(self):
        token = c.grant(self.caller, self.name)
        self.lose_reply(c.release(self.name, token), "LeaseService/Release")
        self.assertTrue(c.released(self.caller, self.name, token))  # a repeat too says that it was held

    def test_release_late(self):
        token = c.grant(self.caller, self.name)
        arrive = self.delay(c.release(self.name, token), "LeaseService/Release")
        c.released(self.caller, self.name, token)
        following = c.grant(self.caller, self.name)
        arrive()
        self.assert_untouched(following)

    def test_write(self):
        token = c.grant(self.caller, self.name)
        request = c.write(self.name, token, 1, b"one")
        self.lose_reply(request, "ResourceService/Write")
        again = self.caller.call(request)
        self.assertEqual((again.version, again.replayed), (1, True))

    def test_write_late(self):
        token = c.grant(self.caller, self.name)
        request = c.write(self.name, token, 1, b"one")
        arrive = self.delay(request, "ResourceService/Write")
        self.assertEqual(self.caller.call(request).version, 1)
        self.assertEqual(self.caller.call(c.write(self.name, token, 2, b"two")).version, 2)
        arrive()
        now = self.caller.call(c.read(self.name))
        self.assertEqual((now.value, now.version), (b"two", 2))
        with c.refused("ABORTED", "SUPERSEDED"):
            self.caller.call(request)

    def test_break(self):
        token = c.grant(self.caller, self.name)
        request = lease_pb2.BreakRequest(namespace="default", resource=self.name, token_seen=token, actor="op", reason="stuck")
        arrive = self.delay(request, "LeaseService/Break")
        fence = self.caller.call(request).broken.fence
        self.assertGreater(fence, token)
        following = c.grant(self.caller, self.name)
        arrive()
        self.assertGreater(following, fence)
        self.assert_untouched(following)


class Case16(Case):
    """The check skipped on the fast path: another fingerprint is a conflict, whatever has become of the key."""

    def assert_conflicts(self, key):
        before = self.caller.call(operation_pb2.GetOperationRequest(namespace="default", key=key)).operation
        before.remaining_ms = 0
        execute = operation_pb2.ExecuteRequest(namespace="default", key=key, type="t", fingerprint=c.ANOTHER, action="none")
        requests = [c.begin(key, c.ANOTHER), c.begin(key, c.ANOTHER, wait_ms=int(PATIENCE * 1000)), c.record(key, b"other", c.ANOTHER), execute]
        for request in requests:
            with c.refused("ALREADY_EXISTS", "PARAMETER_CONFLICT") as errors:
                self.caller.call(request)
            for secret in (b"secret", c.PRINT):
                self.assertNotIn(secret, errors[0].whole)
        after = self.caller.call(operation_pb2.GetOperationRequest(namespace="default", key=key)).operation
        after.remaining_ms = 0
        self.assertEqual(after, before)

    def test_running_done(self):
        token = self.caller.call(c.begin(self.name)).started.token
        self.assert_conflicts(self.name)
        self.caller.call(c.complete(self.name, token, b"the secret result"))
        self.assert_conflicts(self.name)
        self.assertEqual(self.caller.call(c.begin(self.name)).replayed.result, b"the secret result")

    def test_taken_over(self):
        self.caller.call(admin_pb2.SetOperationPolicyRequest(
            namespace="default", type="t", policy={"on_lost": admin_pb2.OperationPolicy.RETRY}, actor="test"))
        first = self.caller.call(c.begin(self.name, ttl_ms=200)).started
        self.assert_conflicts(self.name)
        c.until(lambda: self.caller.call(c.begin(self.name)).started.token > first.token, "it was taken over")
        self.assert_conflicts(self.name)

    def test_race(self):
        n, outcomes, lock = 16, [], threading.Lock()
        callers = [open_caller() for _ in range(n)]

        def one(i):
            fingerprint = c.ANOTHER if i % 2 else c.PRINT
            try:
                what = callers[i].call(c.begin(self.name, fingerprint)).WhichOneof("outcome")
            except CallError as error:
                what = error.reason
            with lock:
                outcomes.append((i % 2, what))
        threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * PATIENCE)
        self.assertEqual(len(outcomes), n)
        self.assertEqual(sum(what == "started" for _, what in outcomes), 1)
        conflicts = [side for side, what in outcomes if what == "PARAMETER_CONFLICT"]
        self.assertEqual(len(conflicts), n // 2)
        self.assertEqual(len(set(conflicts)), 1)  # all of one side, whichever came first
        for caller in callers:
            caller.close()


class Case17(Case):
    """Leaks: two namespaces, one key."""

    def test_two_namespaces_one_key(self):
        self.caller.call(admin_pb2.CreateNamespaceRequest(name=f"tenant/{self.name}", actor="test"))
        ours, theirs = c.record(self.name, b"our secret"), c.record(self.name, b"their secret", c.ANOTHER, f"tenant/{self.name}")
        for request in (ours, theirs):
            self.assertFalse(self.caller.call(request).replayed)
        for request in (ours, theirs):
            again = self.caller.call(request)
            self.assertEqual((again.replayed, again.result), (True, request.result))
        ours.fingerprint = c.ANOTHER
        with c.refused("ALREADY_EXISTS", "PARAMETER_CONFLICT") as errors:
            self.caller.call(ours)
        for secret in (b"secret", c.PRINT, b"their"):
            self.assertNotIn(secret, errors[0].whole)
        listed = self.caller.call(operation_pb2.ListOperationsRequest(namespace="default", prefix=self.name)).operations
        self.assertEqual([operation.key for operation in listed], [self.name])


if __name__ == "__main__":
    open_caller = TRANSPORTS[sys.argv[1]]
    if len(sys.argv) == 4:  # wait-for RESOURCE: the process that is killed
        open_caller().call(c.acquire(sys.argv[3], wait_ms=60000), timeout=60)
        os._exit(0)
    unittest.main(argv=sys.argv[:1], verbosity=2)
