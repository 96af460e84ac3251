#!/usr/bin/env bash
# A server that is told to stop, as Python's clients see it.
. tests/stock/stock.sh
python
with_server -- /usr/bin/python3 "$here/drain.py"
