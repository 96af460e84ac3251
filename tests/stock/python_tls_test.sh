#!/usr/bin/env bash
# TLS, client certificates and API keys, by Python and curl.
. tests/stock/stock.sh
python
certificates
with_server --tls-cert "$scratch/server.pem" --tls-key "$scratch/server.key" --tls-client-ca "$scratch/ca.pem" --auth keys -- \
    /usr/bin/python3 "$here/python_tls.py" "$scratch"
