"""Those of gRPC's interop tests that Ruby's client lacks, by grpcio: special_status_message, a server that sends more than is read, many
calls that are cancelled at once."""
import os
import threading
import unittest

import grpc
import interop_pb2
import interop_pb2_grpc

PATIENCE = 20


class Interop(unittest.TestCase):
    def setUp(self):
        self.channel = grpc.insecure_channel(os.environ["HOLDFAST_HTTP"], options=[("grpc.max_receive_message_length", -1)])
        self.stub = interop_pb2_grpc.TestServiceStub(self.channel)

    def tearDown(self):
        self.channel.close()

    def test_special_status_message(self):
        message = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"
        request = interop_pb2.SimpleRequest(response_status={"code": 2, "message": message})
        with self.assertRaises(grpc.RpcError) as caught:
            self.stub.UnaryCall(request, timeout=PATIENCE)
        self.assertEqual((caught.exception.code(), caught.exception.details()), (grpc.StatusCode.UNKNOWN, message))

    def test_every_status(self):
        for status in list(grpc.StatusCode)[1:]:
            with self.assertRaises(grpc.RpcError) as caught:
                self.stub.UnaryCall(interop_pb2.SimpleRequest(response_status={"code": status.value[0], "message": "m"}), timeout=PATIENCE)
            self.assertEqual(caught.exception.code(), status)

    def test_a_stream_that_is_read_late(self):
        """64 MiB, of which nobody reads anything until all other calls are done."""
        sizes = [1 << 20] * 64
        request = interop_pb2.StreamingOutputCallRequest(response_parameters=[{"size": size} for size in sizes])
        slow = self.stub.StreamingOutputCall(request, timeout=120)
        other = grpc.insecure_channel(os.environ["HOLDFAST_HTTP"], options=[("grpc.use_local_subchannel_pool", 1)])
        for stub in (self.stub, interop_pb2_grpc.TestServiceStub(other)):
            for _ in range(100):
                stub.EmptyCall(interop_pb2.Empty(), timeout=PATIENCE)
        self.assertEqual([len(one.payload.body) for one in slow], sizes)
        other.close()

    def test_streams_both_ways_at_once(self):
        def play(results, i):
            requests = [interop_pb2.StreamingOutputCallRequest(response_parameters=[{"size": i * 100 + k}], payload={"body": bytes(50000)})
                        for k in range(20)]
            results[i] = [len(one.payload.body) for one in self.stub.FullDuplexCall(iter(requests), timeout=60)]
        results = [None] * 16
        threads = [threading.Thread(target=play, args=(results, i)) for i in range(len(results))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(90)
        self.assertEqual(results, [[i * 100 + k for k in range(20)] for i in range(len(results))])

    def test_cancelled_in_every_state(self):
        """Calls of all kinds are cancelled after ever so many bytes, and the server is none the worse for it."""
        def output(size):
            return interop_pb2.StreamingOutputCallRequest(response_parameters=[{"size": size}] * 20)
        for i in range(60):
            calls = [self.stub.StreamingOutputCall(output(1 << (i % 20)), timeout=60),
                     self.stub.FullDuplexCall(iter([output(100 * i)] * 5), timeout=60),
                     self.stub.StreamingInputCall.future(iter([interop_pb2.StreamingInputCallRequest(payload={"body": bytes(i * 1000)})] * 5)),
                     self.stub.UnaryCall.future(interop_pb2.SimpleRequest(response_size=i * 5000))]
            if i % 3 == 0:
                next(calls[0])
            if i % 4 == 0:
                next(calls[1])
            for call in calls:
                call.cancel()
        self.stub.EmptyCall(interop_pb2.Empty(), timeout=PATIENCE)

    def test_large_both_ways(self):
        answer = self.stub.UnaryCall(interop_pb2.SimpleRequest(response_size=3 << 20, payload={"body": bytes(3 << 20)}), timeout=PATIENCE,
                                     compression=grpc.Compression.Gzip)
        self.assertEqual(len(answer.payload.body), 3 << 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
