#!/usr/bin/env bash
# curl: JSON over HTTP/1.1 and HTTP/2, and the plain pages.
. tests/stock/stock.sh
python
with_server -- bash "$here/curl.sh" "$build"
