#!/usr/bin/env bash
# Python's grpcio.
. tests/stock/stock.sh
python
with_server -- /usr/bin/python3 "$here/python_grpc.py"
