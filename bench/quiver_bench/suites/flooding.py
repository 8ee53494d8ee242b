"""A flood of SYNs beside established connections: who sends, and where all of it goes.

Clients on the left speak with a server on the right; each connection is one client's. The flood comes in by a third port and goes
out by one that forgets it, so that what is lost of the connections isn't lost by whoever receives the flood.
"""

from __future__ import annotations

from quiver_bench.suites.traffic import RIGHT4, Addresses

#: Networks around the port that the flood comes in by, and the one that it goes out by.
SIDES = Addresses("10.0.2.1", "10.0.2.2", "24.0.0.0", 24), Addresses("10.0.3.1", "10.0.3.2", "49.0.0.1", 24)

#: The device's Ethernet addresses there, and who floods.
MACS = "02:00:00:00:00:05", "02:00:00:00:00:06"
PEER_MAC = "02:00:00:00:00:07"

#: The server of the connections.
SERVER, SERVER_PORT, CLIENT_PORT = RIGHT4.peer, 80, 1024

#: Addresses that SYNs come from, drawn at random with any port: four thousand million endpoints.
SOURCES = "24.0.0.0", "24.0.255.255"
#: What they are sent to.
DESTINATIONS = "49.0.0.1/32"

#: Packets per second and direction of the connections together.
ESTABLISHED_PPS = 100_000.0
