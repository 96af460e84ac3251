"""A server that is told to stop (SIGTERM), as its clients see it: what waits is told, streams end, health says so first, nobody hangs."""
import os
import pathlib
import queue
import signal
import threading
import unittest

import grpc
import health_pb2
import health_pb2_grpc

import checks as c
from callers import PATIENCE, CallError, Connect, Grpc
from holdfast.v1 import lease_pb2

PID = int(os.environ["HOLDFAST_SERVER_PID"])


def is_gone():
    """It has ended: it is no more, or its parent has yet to look."""
    try:
        return ") Z" in pathlib.Path(f"/proc/{PID}/stat").read_text(encoding="ascii")
    except FileNotFoundError:
        return True


class Drain(unittest.TestCase):
    def follow(self, stream):
        """What comes by the stream, one by one, and in the end its status."""
        seen = queue.Queue()

        def read():
            try:
                for message in stream:
                    seen.put(message)
                seen.put(grpc.StatusCode.OK)
            except grpc.RpcError as error:
                seen.put(error.code())
        threading.Thread(target=read, daemon=True).start()
        return seen

    def told(self, result):
        """A waiting acquire is told that it is held, or that the server stops."""
        try:
            self.assertEqual(result().WhichOneof("outcome"), "held")
        except CallError as error:
            self.assertEqual((error.code, error.reason), ("UNAVAILABLE", "DRAINING"))

    def test_drain(self):
        caller, connect, idle = Grpc(), Connect(), Grpc()
        idle.call(c.acquire("idle"))
        c.grant(caller, "r")
        waits = [caller.start(c.acquire("r", wait_ms=60000), timeout=60), connect.start(c.acquire("r", wait_ms=60000), timeout=60)]
        c.waiters(caller, "r", 2)
        health = self.follow(health_pb2_grpc.HealthStub(caller.channel).Watch(health_pb2.HealthCheckRequest(), timeout=60))
        self.assertEqual(health.get(timeout=PATIENCE).status, health_pb2.HealthCheckResponse.SERVING)
        watch = self.follow(caller.stream(lease_pb2.WatchLeasesRequest(namespace="default"), timeout=60))

        os.kill(PID, signal.SIGTERM)
        for one in waits:
            self.told(one.result if not isinstance(one, grpc.Future) else lambda one=one: caller.result(one))
        said = health.get(timeout=PATIENCE)
        if not isinstance(said, grpc.StatusCode):
            self.assertEqual(said.status, health_pb2.HealthCheckResponse.NOT_SERVING)
            said = health.get(timeout=PATIENCE)
        self.assertEqual(said, grpc.StatusCode.UNAVAILABLE)
        ends = [watch.get(timeout=PATIENCE)]
        while not isinstance(ends[-1], grpc.StatusCode):
            ends.append(watch.get(timeout=PATIENCE))
        self.assertEqual(ends[-1], grpc.StatusCode.UNAVAILABLE)
        c.until(is_gone, "the server has ended")
        with self.assertRaises(CallError) as caught:
            idle.call(c.acquire("late"), timeout=5)
        self.assertIn(caught.exception.code, ("UNAVAILABLE", "DEADLINE_EXCEEDED"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
