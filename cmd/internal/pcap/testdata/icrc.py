# SPDX-License-Identifier: Apache-2.0
"""Prints, for each packet of a capture, the four bytes that its ICRC should be.

A line is "annex HEX" or "scapy HEX HEX": the first is computed here, from IBTA annex A17.3.3
and volume 1, 7.8.1; the second by scapy, which does it for IPv4 only. The capture is classic
pcap, little endian, of raw IP packets that carry UDP on RoCEv2's port.
"""
import logging
import struct
import sys
import zlib

logging.getLogger("scapy.runtime").setLevel(logging.ERROR)
import scapy.contrib.roce as roce  # noqa: E402
from scapy.layers.inet import IP  # noqa: E402


def packets(capture):
    at = 24  # after the file's header
    while at < len(capture):
        (length,) = struct.unpack_from("<I", capture, at + 8)
        yield capture[at + 16 : at + 16 + length]
        at += 16 + length


def annex(packet):
    """The ICRC with every field that may change on the way replaced by ones."""
    masked = bytearray(packet[:-4])
    if packet[0] >> 4 == 4:
        masked[1] = 0xFF  # type of service
        masked[8] = 0xFF  # time to live
        masked[10:12] = b"\xff\xff"  # header checksum
        udp = 20
    else:
        masked[0:4] = b"\x6f\xff\xff\xff"  # traffic class and flow label
        masked[7] = 0xFF  # hop limit
        udp = 40
    masked[udp + 6 : udp + 8] = b"\xff\xff"  # UDP checksum
    masked[udp + 12] = 0xFF  # BTH: FECN, BECN and the reserved bits beside them
    crc = zlib.crc32(b"\xff" * 8 + bytes(masked))  # a local route header of ones comes first
    return struct.pack("<I", crc)


def by_scapy(packet):
    p = IP(packet)
    p[roce.BTH].icrc = None
    return bytes(p)[-4:]


with open(sys.argv[1], "rb") as f:
    for packet in packets(f.read()):
        if packet[0] >> 4 == 4:
            print("scapy", annex(packet).hex(), by_scapy(packet).hex())
        else:
            print("annex", annex(packet).hex())
