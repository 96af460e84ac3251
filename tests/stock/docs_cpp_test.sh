#!/usr/bin/env bash
# client/docs/cpp.md is run as it is written.
. tests/stock/stock.sh
python
with_servers bash "$here/docs.sh" cpp ./worker
