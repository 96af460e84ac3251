#!/usr/bin/env bash
# client/docs/python.md is run as it is written.
. tests/stock/stock.sh
python
with_servers bash "$here/docs.sh" python /usr/bin/python3 worker.py
