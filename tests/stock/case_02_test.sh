#!/usr/bin/env bash
# Case 2 over gRPC and Connect, for the lease of client/docs/python.md.
. tests/stock/stock.sh
python
/usr/bin/python3 "$here/docs.py" client/docs/python.md "$scratch"
PYTHONPATH=$PYTHONPATH:$scratch with_server -- /usr/bin/python3 "$here/case_02.py"
