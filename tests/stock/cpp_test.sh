#!/usr/bin/env bash
# C++'s libgrpc++.
. tests/stock/stock.sh
cpp
once cpp_client "$stock/cpp" "$here/cpp_client.cc" -- make_cpp_client
with_server -- "$stock/cpp_client/client"
