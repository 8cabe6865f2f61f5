"""The network devices of a host: its loopback, and `lab0`, a TUN device whose other end is the relay."""

from __future__ import annotations

import fcntl
import os
import socket
import struct

from polyrhythm.tools.emulation.frames import address

NAME = "lab0"
MTU = 1500
_MASK = "255.255.255.0"
_QUEUE_LENGTH = 2000

# linux/if_tun.h
_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0
_IFF_TUN, _IFF_NO_PI, _IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
_TUN_F_CSUM, _TUN_F_TSO4 = 0x01, 0x02
# linux/sockios.h, net/if.h
_SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK, _SIOCSIFMTU, _SIOCSIFTXQLEN = 0x8914, 0x8916, 0x891C, 0x8922, 0x8943
_IFF_UP = 0x1


def open_device(host: int, together: bool) -> int:
    """The descriptor of a new `lab0` with the address of `host`, in the network namespace of this process; also brings loopback up.

    `together`: a frame may be many packets of one TCP stream (segmentation offload); else each frame is one packet.
    """
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", NAME.encode(), _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR))
    fcntl.ioctl(device, _TUNSETOFFLOAD, _TUN_F_CSUM | _TUN_F_TSO4 if together else 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        _set(control, _SIOCSIFFLAGS, "lo", struct.pack("=H", _IFF_UP))
        _set(control, _SIOCSIFADDR, NAME, _sockaddr(address(host)))
        _set(control, _SIOCSIFNETMASK, NAME, _sockaddr(_MASK))
        _set(control, _SIOCSIFMTU, NAME, struct.pack("=i", MTU))
        _set(control, _SIOCSIFTXQLEN, NAME, struct.pack("=i", _QUEUE_LENGTH))
        _set(control, _SIOCSIFFLAGS, NAME, struct.pack("=H", _IFF_UP))
    return device


def _set(control: socket.socket, request: int, name: str, value: bytes) -> None:
    fcntl.ioctl(control, request, struct.pack("16s24s", name.encode(), value))  # struct ifreq: a name and a union


def _sockaddr(ip: str) -> bytes:
    return struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(ip))
