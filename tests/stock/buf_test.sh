#!/usr/bin/env bash
# buf curl: gRPC and Connect, by the protos and by reflection.
. tests/stock/stock.sh
node_modules
with_server -- bash "$here/buf.sh" "$build"
