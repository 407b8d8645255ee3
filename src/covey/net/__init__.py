"""The host on a real network: sockets, sealed packets, discovery."""
