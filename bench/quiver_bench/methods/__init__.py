"""How a figure comes about. Each method takes a stand (a device with a generator, or a simulation) and returns a payload.

* :mod:`~quiver_bench.methods.mrr`: maximum receive rate.
* :mod:`~quiver_bench.methods.ndrpdr`: no-drop and partial-drop rate by MLRsearch (RFC 9971), with latency.
* :mod:`~quiver_bench.methods.soak`: critical load by PLRsearch, with :mod:`~quiver_bench.methods.plr`.
* :mod:`~quiver_bench.methods.change`: a change of what is done with sessions.
* :mod:`~quiver_bench.methods.flood`: what established connections lose beside a flood.
* :mod:`~quiver_bench.methods.idle`: what a device takes that has nothing to do, and what its first packet waits.
* :mod:`~quiver_bench.methods.reconf`: standstill while the configuration grows.
"""
