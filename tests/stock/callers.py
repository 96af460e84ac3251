"""Ways to call Holdfast with what Python programs have: gRPC by grpcio, the Connect protocol by http.client (JSON or proto).

All have call(message, …): the method is found by the request's type. An error is a CallError, whichever way it came."""
import base64
import http.client
import json
import os
import re
import ssl
import threading

import grpc
from google.protobuf import json_format
from google.rpc import error_details_pb2, status_pb2
from holdfast.v1 import admin_pb2, lease_pb2, operation_pb2, resource_pb2

HTTP = os.environ["HOLDFAST_HTTP"]
PATIENCE = 20.0  # seconds for what must happen


class CallError(Exception):
    """code as in gRPC ("NOT_FOUND"), and what the details say."""

    def __init__(self, code, message, details):
        self.code, self.message = code, message
        self.info, self.retry, self.violations = None, None, []
        for detail in details:
            kind = detail.type_url.rsplit("/", 1)[-1]
            if kind == "google.rpc.ErrorInfo":
                self.info = error_details_pb2.ErrorInfo.FromString(detail.value)
            elif kind == "google.rpc.RetryInfo":
                self.retry = error_details_pb2.RetryInfo.FromString(detail.value).retry_delay.ToMilliseconds()
            elif kind == "google.rpc.BadRequest":
                self.violations = [v.field for v in error_details_pb2.BadRequest.FromString(detail.value).field_violations]
        self.reason = self.info.reason if self.info else ""
        self.whole = b"\0".join([message.encode()] + [bytes(detail.value) for detail in details])
        super().__init__(f"{code} {self.reason}: {message}")


def _methods():
    services = [service for module in (lease_pb2, resource_pb2, operation_pb2, admin_pb2)
                for service in module.DESCRIPTOR.services_by_name.values()]
    return {method.input_type.full_name: method for service in services for method in service.methods}


METHODS = _methods()


def method_of(message):
    """The path and the answer's class; each method has a request type of its own."""
    method = METHODS[message.DESCRIPTOR.full_name]
    return f"/{method.containing_service.full_name}/{method.name}", method.output_type._concrete_class


class Grpc:
    """One channel, of its own."""

    def __init__(self, address=HTTP, credentials=None, options=(), metadata=()):
        options = [("grpc.use_local_subchannel_pool", 1), *options]
        self.channel = (grpc.secure_channel(address, credentials, options) if credentials else
                        grpc.insecure_channel(address, options))
        self.metadata = list(metadata)

    def start(self, message, timeout=PATIENCE, metadata=(), compression=None, path=None):
        """A grpc future."""
        method, answer = method_of(message)
        multi = self.channel.unary_unary(path or method, type(message).SerializeToString, answer.FromString)
        return multi.future(message, timeout=timeout, metadata=self.metadata + list(metadata), compression=compression)

    def stream(self, message, timeout=None):
        method, answer = method_of(message)
        multi = self.channel.unary_stream(method, type(message).SerializeToString, answer.FromString)
        return multi(message, timeout=timeout, metadata=self.metadata)

    @staticmethod
    def result(future):
        try:
            return future.result()
        except grpc.FutureCancelledError:
            raise CallError("CANCELLED", "by us", ()) from None
        except grpc.RpcError as error:
            raise error_of(error) from None

    def call(self, message, **how):
        return self.result(self.start(message, **how))

    @staticmethod
    def whole(sent):
        """These frames hold a request to its end: DATA with END_STREAM."""
        while len(sent) >= 9:
            end = 9 + int.from_bytes(sent[:3], "big")
            if sent[3] == 0 and sent[4] & 1 and len(sent) >= end:
                return True
            sent = sent[end:]
        return False

    def close(self):
        self.channel.close()


def error_of(error):
    """Of a grpc.RpcError; its details are those of grpc-status-details-bin, which must agree with the status."""
    details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
    if details is None:
        return CallError(error.code().name, error.details() or "", ())
    status = status_pb2.Status.FromString(details)
    if (status.code, status.message) != (error.code().value[0], error.details()):
        raise AssertionError(f"the details say {status.code} {status.message!r}, the status {error.code()} {error.details()!r}")
    return CallError(error.code().name, error.details(), status.details)


class Connect:
    """A connection for each call: requests of one are answered one after the other."""

    def __init__(self, address=HTTP, json_body=True, headers=(), tls=None):
        self.address, self.json_body, self.headers, self.tls = address, json_body, dict(headers), tls

    def connection(self, timeout=PATIENCE):
        if self.tls:
            return http.client.HTTPSConnection(self.address, timeout=timeout, context=self.tls)
        return http.client.HTTPConnection(self.address, timeout=timeout)

    def request(self, connection, message, timeout=PATIENCE):
        kind = "json" if self.json_body else "proto"
        body = json_format.MessageToJson(message).encode() if self.json_body else message.SerializeToString()
        connection.request("POST", method_of(message)[0], body, {
            "content-type": f"application/{kind}", "connect-protocol-version": "1",
            "connect-timeout-ms": str(int(timeout * 1000)), **self.headers})

    def answer(self, connection, message):
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            error = json.loads(body)
            details = [status_pb2.Status().details.add(type_url="/" + d["type"], value=base64.b64decode(d["value"] + "=="))
                       for d in error.get("details", ())]
            raise CallError(error["code"].upper(), error.get("message", ""), details)
        answer = method_of(message)[1]
        return json_format.Parse(body, answer()) if self.json_body else answer.FromString(body)

    def call(self, message, timeout=PATIENCE):
        connection = self.connection(timeout + 5)
        try:
            self.request(connection, message, timeout)
            return self.answer(connection, message)
        finally:
            connection.close()

    def start(self, message, timeout=PATIENCE):
        return Started(self, message, timeout)

    @staticmethod
    def result(started):
        return started.result()

    @staticmethod
    def whole(sent):
        """This is a request to its end."""
        head, end, body = sent.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *([0-9]+)", head)
        return bool(end and length and len(body) >= int(length[1]))

    def close(self):
        pass


class Started:
    """A Connect call in a thread of its own, with the little of a future that the cases need."""

    def __init__(self, caller, message, timeout):
        self.connection, self.value, self.error = caller.connection(timeout + 5), None, None
        self.connection.connect()
        self.thread = threading.Thread(target=self._run, args=(caller, message, timeout), daemon=True)
        self.thread.start()

    def _run(self, caller, message, timeout):
        try:
            caller.request(self.connection, message, timeout)
            self.value = caller.answer(self.connection, message)
        except Exception as error:  # pylint: disable=broad-except # handed on by result
            self.error = error

    def done(self):
        return not self.thread.is_alive()

    def cancel(self):
        """As a client that goes away: its connection is closed under the call."""
        if self.connection.sock:
            self.connection.sock.shutdown(2)

    def result(self):
        self.thread.join(2 * PATIENCE)
        if self.thread.is_alive():
            raise AssertionError("no answer")
        if self.error:
            raise self.error
        return self.value


def tls_context(ca, cert=None, key=None):
    context = ssl.create_default_context(cafile=ca)
    if cert:
        context.load_cert_chain(cert, key)
    return context


TRANSPORTS = {
    "grpc": Grpc,
    "connect-json": lambda address=HTTP: Connect(address, json_body=True),
    "connect-proto": lambda address=HTTP: Connect(address, json_body=False),
}
