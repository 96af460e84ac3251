#!/usr/bin/env bash
# client/docs/curl.md is run as it is written.
. tests/stock/stock.sh
python
with_servers bash "$here/docs.sh" curl bash worker.sh
