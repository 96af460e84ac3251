#!/usr/bin/env bash
# Node's grpc-js.
. tests/stock/stock.sh
node_modules
with_server -- node "$here/node_client.js"
