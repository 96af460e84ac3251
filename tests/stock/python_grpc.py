"""Holdfast by grpcio, as a Python program has it: calls, errors and their details, cancelling, deadlines, streams, health,
reflection, compression, sizes."""
import threading
import time
import unittest

import grpc
import health_pb2
import health_pb2_grpc
import reflection_v1_pb2
import reflection_v1_pb2_grpc
import reflection_v1alpha_pb2
import reflection_v1alpha_pb2_grpc
from google.protobuf import descriptor_pb2, descriptor_pool

import checks as c
from callers import HTTP, PATIENCE, CallError, Grpc, error_of
from holdfast.v1 import admin_pb2, lease_pb2, lease_pb2_grpc, operation_pb2, resource_pb2

SERVICES = {"holdfast.v1.LeaseService", "holdfast.v1.ResourceService", "holdfast.v1.OperationService", "holdfast.v1.AdminService"}


class Base(unittest.TestCase):
    def setUp(self):
        self.caller = Grpc()
        self.name = c.fresh(self.id().rsplit(".", 1)[-1])

    def tearDown(self):
        self.caller.close()


class Leases(Base):
    def test_life_of_a_lease(self):
        token = c.grant(self.caller, self.name, holder="one")
        lease = self.caller.call(lease_pb2.GetLeaseRequest(namespace="default", resource=self.name)).lease
        self.assertEqual((lease.holder, lease.token, lease.state), ("one", token, lease_pb2.Lease.LIVE))
        held = c.held(self.caller, self.name)
        self.assertEqual((held.holder, held.token), ("one", token))
        renewed = self.caller.call(c.renew(self.name, token, 90000)).items[0].renewed
        self.assertGreater(renewed.ttl_ms, 60000)
        self.assertTrue(c.released(self.caller, self.name, token))
        lost = self.caller.call(c.renew(self.name, token)).items[0].lost
        self.assertEqual(lost.reason, lease_pb2.Lost.RELEASED)
        self.assertGreater(c.grant(self.caller, self.name), token)

    def test_generated_stub(self):
        """As a program would do it that was generated for it, with metadata that the server doesn't know."""
        stub = lease_pb2_grpc.LeaseServiceStub(self.caller.channel)
        answer = stub.Acquire(c.acquire(self.name), timeout=PATIENCE,
                              metadata=[("x-request-id", "17"), ("traceparent-bin", b"\0\1\2")])
        self.assertEqual(answer.granted.grants[0].resource, self.name)

    def test_guarded_write(self):
        token = c.grant(self.caller, self.name)
        one = self.caller.call(c.write(self.name, token, 1, b"one"))
        self.assertEqual((one.version, one.replayed), (1, False))
        again = self.caller.call(c.write(self.name, token, 1, b"one"))
        self.assertEqual((again.version, again.replayed), (1, True))
        self.assertEqual(self.caller.call(c.read(self.name)).value, b"one")

    def test_stale_token(self):
        old = c.grant(self.caller, self.name)
        c.released(self.caller, self.name, old)
        with c.refused("FAILED_PRECONDITION", "NOT_HELD"):
            self.caller.call(c.write(self.name, old, 1, b"late"))
        new = c.grant(self.caller, self.name)
        with c.refused("FAILED_PRECONDITION", "STALE_TOKEN") as errors:
            self.caller.call(c.write(self.name, old, 1, b"late"))
        self.assertEqual(errors[0].info.metadata["fence"], str(new))
        self.assertIsNone(errors[0].retry)

    def test_a_waiter_is_served(self):
        token = c.grant(self.caller, self.name)
        waiting = self.caller.start(c.acquire(self.name, wait_ms=int(PATIENCE * 1000), holder="next"))
        c.waiters(self.caller, self.name, 1)
        c.released(self.caller, self.name, token)
        self.assertGreater(self.caller.result(waiting).granted.grants[0].token, token)

    def test_a_cancelled_waiter_leaves_the_queue(self):
        token = c.grant(self.caller, self.name)
        waiting = [self.caller.start(c.acquire(self.name, wait_ms=60000), timeout=60) for _ in range(3)]
        c.waiters(self.caller, self.name, 3)
        waiting[1].cancel()
        c.waiters(self.caller, self.name, 2)
        waiting[0].cancel()
        waiting[2].cancel()
        c.waiters(self.caller, self.name, 0)
        c.released(self.caller, self.name, token)
        self.assertEqual(c.grant(self.caller, self.name), token + 1)  # nobody was granted it in between

    def test_cancel_wait(self):
        c.grant(self.caller, self.name)
        waiting = self.caller.start(c.acquire(self.name, wait_ms=60000, request_id=self.name), timeout=60)
        c.waiters(self.caller, self.name, 1)
        cancel = lease_pb2.CancelWaitRequest(namespace="default", request_id=self.name)
        self.assertTrue(self.caller.call(cancel).was_waiting)
        self.assertEqual(self.caller.result(waiting).WhichOneof("outcome"), "held")

    def test_who_waits_is_told_before_the_deadline(self):
        c.grant(self.caller, self.name)
        for seconds in (1, 2, 4, 8, 16):  # on a busy machine 50 ms may be too little for the way back
            try:
                answer = self.caller.call(c.acquire(self.name, wait_ms=600000), timeout=seconds)
                self.assertEqual(answer.WhichOneof("outcome"), "held")
                return
            except CallError as error:
                self.assertEqual(error.code, "DEADLINE_EXCEEDED")
                c.waiters(self.caller, self.name, 0)
        self.fail("never told in time")

    def test_many_calls_on_one_channel(self):
        names = [f"{self.name}/{i}" for i in range(500)]
        futures = [self.caller.start(c.acquire(name)) for name in names]
        tokens = [self.caller.result(future).granted.grants[0].token for future in futures]
        items = [{"resource": name, "token": token} for name, token in zip(names, tokens)]
        renewed = self.caller.call(lease_pb2.RenewRequest(namespace="default", items=items, ttl_ms=60000))
        self.assertEqual({item.WhichOneof("outcome") for item in renewed.items}, {"renewed"})


class Operations(Base):
    def test_begin_complete_replay(self):
        started = self.caller.call(c.begin(self.name)).started
        self.assertEqual(started.attempt, 1)
        self.assertEqual(self.caller.call(c.begin(self.name)).in_progress.holder, "test")
        waiting = self.caller.start(c.begin(self.name, wait_ms=int(PATIENCE * 1000)))
        done = self.caller.call(c.complete(self.name, started.token, b"receipt 17"))
        self.assertEqual((done.state, done.replayed), (operation_pb2.Operation.SUCCEEDED, False))
        self.assertEqual(self.caller.result(waiting).replayed.result, b"receipt 17")
        self.assertTrue(self.caller.call(c.complete(self.name, started.token, b"receipt 17")).replayed)

    def test_canonical_json(self):
        def request(text):
            return operation_pb2.RecordRequest(namespace="default", key=self.name, type="t", canonical_json=text, result=b"kept")
        self.assertFalse(self.caller.call(request('{"a": 1, "b": "ü"}')).replayed)
        self.assertTrue(self.caller.call(request('{"b":"\\u00fc","a":1.0}')).replayed)
        with c.refused("ALREADY_EXISTS", "PARAMETER_CONFLICT"):
            self.caller.call(request('{"a": 2, "b": "ü"}'))


class Errors(Base):
    def test_bad_request_names_the_field(self):
        with c.refused("INVALID_ARGUMENT", "LIMIT") as errors:
            self.caller.call(c.acquire(self.name, ttl_ms=1))
        self.assertEqual(errors[0].violations, ["ttl_ms"])
        self.assertEqual(errors[0].info.metadata["field"], "ttl_ms")
        with c.refused("INVALID_ARGUMENT", "LIMIT") as errors:
            self.caller.call(lease_pb2.RenewRequest(namespace="default", ttl_ms=1000, items=[
                {"resource": "a", "token": 1}, {"resource": "b", "token": 0}]))
        self.assertEqual(errors[0].violations, ["items[1].token"])

    def test_retry_info(self):
        """QUOTA comes with a time to try again; the code is that of gRPC."""
        policy = admin_pb2.NamespacePolicy(max_leases=1)
        self.caller.call(admin_pb2.CreateNamespaceRequest(name=self.name, policy=policy, actor="test"))
        self.caller.call(c.acquire("one", namespace=self.name))
        with c.refused("RESOURCE_EXHAUSTED", "QUOTA") as errors:
            self.caller.call(c.acquire("two", namespace=self.name))
        self.assertGreater(errors[0].retry, 0)

    def test_message_in_every_alphabet(self):
        """What the server says names what it was given, percent-encoded on the way; grpcio decodes it."""
        with c.refused("NOT_FOUND", "NO_SUCH_NAMESPACE") as errors:
            self.caller.call(c.acquire("x", namespace="zürich 100% 😀"))
        self.assertTrue(errors[0].message)

    def test_no_such_method(self):
        for path in ("/holdfast.v1.LeaseService/Nothing", "/nobody.Service/Get"):
            with self.assertRaises(CallError) as caught:
                self.caller.call(c.acquire(self.name), path=path)
            self.assertEqual(caught.exception.code, "UNIMPLEMENTED")

    def test_not_yet(self):
        with c.refused("UNIMPLEMENTED", "NOT_YET"):
            self.caller.call(operation_pb2.ClaimRequest(namespace="default", types=["t"], max=1, holder="h", ttl_ms=1000))

    def test_broken_message(self):
        send = self.caller.channel.unary_unary("/holdfast.v1.LeaseService/Acquire", bytes, bytes)
        for broken in (b"\xff\xff\xff", b"\x0a\x02\xc3\x28", b"\x0a\x03a\0b"):
            with self.assertRaises(grpc.RpcError) as caught:
                send(broken, timeout=PATIENCE)
            error = error_of(caught.exception)
            self.assertEqual((error.code, error.reason), ("INVALID_ARGUMENT", "MALFORMED"))
        c.grant(self.caller, self.name)


class Sizes(Base):
    def test_gzip(self):
        token = c.grant(self.caller, self.name)
        value = b"compress me " * 80000
        self.caller.call(c.write(self.name, token, 1, value), compression=grpc.Compression.Gzip)
        self.assertEqual(self.caller.call(c.read(self.name), compression=grpc.Compression.Gzip).value, value)

    def test_encoding_that_the_server_has_not(self):
        with self.assertRaises(CallError) as caught:
            self.caller.call(c.read(self.name), compression=grpc.Compression.Deflate)
        self.assertEqual(caught.exception.code, "UNIMPLEMENTED")

    def test_the_largest_value(self):
        token = c.grant(self.caller, self.name)
        largest = bytes(range(256)) * 4096  # 1 MiB
        self.caller.call(c.write(self.name, token, 1, largest))
        self.assertEqual(self.caller.call(c.read(self.name)).value, largest)
        with c.refused("INVALID_ARGUMENT", "LIMIT") as errors:
            self.caller.call(c.write(self.name, token, 2, largest + b"x"))
        self.assertEqual(errors[0].violations, ["value"])

    def test_too_large_a_message(self):
        """Beyond 4 MiB it is refused, and beyond 16 MiB too, while the channel goes on serving others."""
        for mib in (5, 20):
            with self.assertRaises(CallError) as caught:
                self.caller.call(c.write(self.name, 1, 1, b"x" * (mib << 20)))
            self.assertIn(caught.exception.code, ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"), f"{mib} MiB")
            c.grant(self.caller, f"{self.name}/{mib}")

    def test_bomb(self):
        """Some kB that become 64 MiB are refused like a message of that size."""
        with self.assertRaises(CallError) as caught:
            self.caller.call(c.write(self.name, 1, 1, bytes(64 << 20)), compression=grpc.Compression.Gzip)
        self.assertIn(caught.exception.code, ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"))
        c.grant(self.caller, self.name)


class Streams(Base):
    def test_watch(self):
        stream = self.caller.stream(lease_pb2.WatchLeasesRequest(namespace="default", prefix=self.name), timeout=60)
        seen, arrived = [], threading.Condition()

        def read():
            try:
                for message in stream:
                    with arrived:
                        if message.kind == lease_pb2.WatchLeasesResponse.WATCHING:
                            continue
                        seen.append((message.kind, message.lease.resource, message.lease.token))
                        arrived.notify_all()
            except grpc.RpcError:
                pass

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        # The stream has begun when something is told; what came before it need not be.
        probe = f"{self.name}/probe"

        def told():
            c.released(self.caller, probe, c.grant(self.caller, probe))
            with arrived:
                return arrived.wait_for(lambda: seen, 1)

        c.until(told, "the watch has begun")
        kinds = lease_pb2.WatchLeasesResponse
        token = c.grant(self.caller, f"{self.name}/a")
        c.grant(self.caller, f"elsewhere/{self.name}")
        c.released(self.caller, f"{self.name}/a", token)
        broken = c.grant(self.caller, f"{self.name}/b")
        self.caller.call(lease_pb2.BreakRequest(namespace="default", resource=f"{self.name}/b", token_seen=broken, actor="t", reason="t"))
        wanted = [(kinds.GRANTED, f"{self.name}/a", token), (kinds.RELEASED, f"{self.name}/a", token),
                  (kinds.GRANTED, f"{self.name}/b", broken), (kinds.BROKEN, f"{self.name}/b", broken)]

        def without_probe():
            return [event for event in seen if event[1] != probe]

        with arrived:
            self.assertTrue(arrived.wait_for(lambda: len(without_probe()) >= len(wanted), PATIENCE), seen)
        self.assertEqual(without_probe(), wanted)
        stream.cancel()
        reader.join(PATIENCE)
        self.assertFalse(reader.is_alive())

    def test_health(self):
        stub = health_pb2_grpc.HealthStub(self.caller.channel)
        serving = health_pb2.HealthCheckResponse.SERVING
        for service in ["", *SERVICES]:
            self.assertEqual(stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE).status, serving)
        with self.assertRaises(grpc.RpcError) as caught:
            stub.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=PATIENCE)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
        watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=60)
        self.assertEqual(next(watch).status, serving)
        watch.cancel()
        unknown = stub.Watch(health_pb2.HealthCheckRequest(service="nobody"), timeout=60)
        self.assertEqual(next(unknown).status, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
        unknown.cancel()

    def reflect(self, pb2, pb2_grpc):
        """What a client learns by reflection is enough to know all services and messages."""
        stub = pb2_grpc.ServerReflectionStub(self.caller.channel)

        def ask(*requests):
            return list(stub.ServerReflectionInfo(iter(requests), timeout=PATIENCE))

        [answer] = ask(pb2.ServerReflectionRequest(list_services=""))
        services = {service.name for service in answer.list_services_response.service}
        self.assertLessEqual(SERVICES | {"grpc.health.v1.Health"}, services)
        answers = ask(*[pb2.ServerReflectionRequest(file_containing_symbol=name) for name in sorted(services)],
                      pb2.ServerReflectionRequest(file_by_filename="holdfast/v1/lease.proto"),
                      pb2.ServerReflectionRequest(file_containing_symbol="nobody.Knows"))
        self.assertEqual(answers[-1].error_response.error_code, grpc.StatusCode.NOT_FOUND.value[0])
        files = {}
        for one in answers[:-1]:
            self.assertTrue(one.file_descriptor_response.file_descriptor_proto, one)
            for blob in one.file_descriptor_response.file_descriptor_proto:
                file = descriptor_pb2.FileDescriptorProto.FromString(blob)
                files[file.name] = file
        missing = {name for file in files.values() for name in file.dependency} - set(files)
        while missing:
            name = missing.pop()
            [one] = ask(pb2.ServerReflectionRequest(file_by_filename=name))
            for blob in one.file_descriptor_response.file_descriptor_proto:
                file = descriptor_pb2.FileDescriptorProto.FromString(blob)
                files[file.name] = file
            self.assertIn(name, files)
            missing |= {name for file in files.values() for name in file.dependency} - set(files)
        pool, left = descriptor_pool.DescriptorPool(), dict(files)
        while left:
            ready = [name for name, file in left.items() if not any(needed in left for needed in file.dependency)]
            for name in ready:
                pool.Add(left.pop(name))
        acquire = pool.FindServiceByName("holdfast.v1.LeaseService").FindMethodByName("Acquire")
        self.assertEqual(acquire.input_type.fields_by_name["ttl_ms"].number, 5)
        self.assertEqual([m.name for m in lease_pb2.DESCRIPTOR.services_by_name["LeaseService"].methods],
                         [m.name for m in acquire.containing_service.methods])

    def test_reflection_v1(self):
        self.reflect(reflection_v1_pb2, reflection_v1_pb2_grpc)

    def test_reflection_v1alpha(self):
        self.reflect(reflection_v1alpha_pb2, reflection_v1alpha_pb2_grpc)


class Ends(Base):
    def test_a_client_that_keeps_asking(self):
        """Pings as impatient clients send them don't end a channel on which a call waits."""
        impatient = Grpc(options=[("grpc.keepalive_time_ms", 1000), ("grpc.keepalive_timeout_ms", 20000),
                                  ("grpc.http2.max_pings_without_data", 0), ("grpc.keepalive_permit_without_calls", 1)])
        token = c.grant(self.caller, self.name)
        waiting = impatient.start(c.acquire(self.name, wait_ms=int(PATIENCE * 1000)), timeout=PATIENCE + 5)
        end = time.monotonic() + 3.5
        while time.monotonic() < end:
            self.assertFalse(waiting.done())
            time.sleep(0.1)
        c.released(self.caller, self.name, token)
        self.assertGreater(impatient.result(waiting).granted.grants[0].token, token)
        impatient.close()

    def test_address(self):
        """As dns:/// too, and by name."""
        host, port = HTTP.rsplit(":", 1)
        for address in (f"dns:///{host}:{port}", f"ipv4:{host}:{port}"):
            caller = Grpc(address)
            caller.call(admin_pb2.StatsRequest())
            caller.close()
        with self.assertRaises(CallError) as caught:
            self.caller.call(resource_pb2.ReadRequest(namespace="default", resource=c.fresh()))
        self.assertEqual(caught.exception.code, "NOT_FOUND")


if __name__ == "__main__":
    unittest.main(verbosity=2)
