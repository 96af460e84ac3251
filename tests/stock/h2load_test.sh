#!/usr/bin/env bash
# h2load, with a framed body: no answer is lost on the way, and every call is well.
. tests/stock/stock.sh
python
with_server -- bash "$here/h2load.sh" "$build"
