"""What the tests in Python share: short requests, waiting, and what they expect."""
import contextlib
import itertools
import time

from callers import PATIENCE, CallError
from holdfast.v1 import admin_pb2, lease_pb2, operation_pb2, resource_pb2

PRINT, ANOTHER = b"\1" * 32, b"\2" * 32
_numbers = itertools.count(1)


def fresh(word="r"):
    return f"{word}/{next(_numbers)}"


def acquire(resource, ttl_ms=60000, wait_ms=0, holder="test", request_id="", namespace="default"):
    return lease_pb2.AcquireRequest(namespace=namespace, resources=[resource], holder=holder, ttl_ms=ttl_ms, wait_ms=wait_ms,
                                    request_id=request_id)


def renew(resource, token, ttl_ms=60000):
    return lease_pb2.RenewRequest(namespace="default", items=[{"resource": resource, "token": token}], ttl_ms=ttl_ms)


def release(resource, token):
    return lease_pb2.ReleaseRequest(namespace="default", items=[{"resource": resource, "token": token}])


def write(resource, token, write_seq, value):
    return resource_pb2.WriteRequest(namespace="default", resource=resource, token=token, write_seq=write_seq, value=value)


def read(resource):
    return resource_pb2.ReadRequest(namespace="default", resource=resource)


def begin(key, fingerprint=PRINT, ttl_ms=60000, wait_ms=0, namespace="default", **more):
    return operation_pb2.BeginRequest(namespace=namespace, key=key, type="t", fingerprint=fingerprint, holder="test",
                                      ttl_ms=ttl_ms, wait_ms=wait_ms, **more)


def complete(key, token, result):
    return operation_pb2.CompleteRequest(namespace="default", key=key, token=token, result=result)


def record(key, result, fingerprint=PRINT, namespace="default"):
    return operation_pb2.RecordRequest(namespace=namespace, key=key, type="t", fingerprint=fingerprint, result=result)


def grant(caller, resource, **how):
    """The token of a lease that must be granted."""
    answer = caller.call(acquire(resource, **how))
    assert answer.WhichOneof("outcome") == "granted", answer
    return answer.granted.grants[0].token


def released(caller, resource, token):
    return caller.call(release(resource, token)).items[0].was_held


def held(caller, resource):
    answer = caller.call(acquire(resource))
    assert answer.WhichOneof("outcome") == "held", answer
    return answer.held


def until(condition, what, seconds=PATIENCE):
    """Asks until it is so; what it was then."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.01)


def waiters(caller, resource, n, seconds=PATIENCE):
    """So many wait for the resource, which is held."""
    until(lambda: held(caller, resource).waiters == n, f"{n} waiters for {resource}", seconds)


def calls_of(caller, method):
    """How many calls of this method the server has answered."""
    stats = caller.call(admin_pb2.StatsRequest())
    return sum(m.ok + sum(error.count for error in m.errors) for m in stats.methods if m.method == f"/holdfast.v1.{method}")


@contextlib.contextmanager
def refused(code, reason):
    """What is done within is refused so. The error, once it is over: a list of one."""
    errors = []
    try:
        yield errors
    except CallError as error:
        assert (error.code, error.reason) == (code, reason), f"{error.code} {error.reason}, not {code} {reason}"
        assert error.info.domain == "holdfast", error.info
        errors.append(error)
        return
    raise AssertionError(f"not refused as {code} {reason}")
