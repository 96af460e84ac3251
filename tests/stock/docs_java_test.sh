#!/usr/bin/env bash
# client/docs/java.md is run as it is written, but in the clear: Debian's netty cannot negotiate HTTP/2 over TLS (ALPN).
. tests/stock/stock.sh
python
CLASSPATH=classes:$(printf '/usr/share/java/%s.jar:' grpc-{api,core,context,netty,protobuf,protobuf-lite,stub} protobuf guava \
    netty-{buffer,codec,codec-http,codec-http2,common,handler,resolver,transport} perfmark-{api,impl} gson opencensus-api)
export CLASSPATH HOLDFAST_DOCS_CLEAR_ONLY=1
with_servers bash "$here/docs.sh" java java Worker
