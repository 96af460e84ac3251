#!/usr/bin/env bash
# Cases 7, 11, 16 and 17 over gRPC.
. tests/stock/stock.sh
python
with_server -- /usr/bin/python3 "$here/cases.py" grpc
