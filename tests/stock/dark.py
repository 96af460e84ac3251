"""dark.py FILE: a proxy in front of HOLDFAST_HTTP, whose address is in FILE; after SIGUSR1 nothing passes, and nobody is told."""
import os
import signal
import sys

from faults import Proxy

proxy = Proxy(os.environ["HOLDFAST_HTTP"])
signal.signal(signal.SIGUSR1, lambda *_: proxy.set("up", "down"))
with open(sys.argv[1] + ".new", "w", encoding="ascii") as file:
    file.write(proxy.address)
os.rename(sys.argv[1] + ".new", sys.argv[1])
while True:
    signal.pause()
