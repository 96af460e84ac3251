#!/usr/bin/env bash
# client/docs/node.md is run as it is written.
. tests/stock/stock.sh
python
node_modules
with_servers bash "$here/docs.sh" node node worker.js
