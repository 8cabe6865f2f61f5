"""The devices that have a name: how fast each computes, how much memory it has, and what it draws.

The `flops` are SUSTAINED figures for fp32 training, a stated part of the vendor's peak, and estimates: convolutions
and matrix products of training commonly reach 40 to 70 % of a GPU's fp32 peak, 20 to 30 % of a CPU's. Where it matters,
measure a step and use a `Profile`.

    name               peak fp32 (source)                                                        part    sustained
    cpu-core           96 GFLOPS (3 GHz x 32: two 8-wide AVX2 multiply-adds a cycle)             0.25    24 GFLOPS
    laptop             four such cores                                                           0.25    96 GFLOPS
    old-laptop         83 GFLOPS (Core i5-3320M, 2012: 2 x 2.6 GHz x 16, AVX without FMA)        0.25    20.8 GFLOPS
    desktop            973 GFLOPS (Ryzen 7 5800X: 8 x 3.8 GHz x 32; AMD's page, base clock)      0.25    243 GFLOPS
    raspberry-pi-4     48 GFLOPS (4 x 1.5 GHz x 8, Cortex-A72 NEON)                              0.20    9.6 GFLOPS
    raspberry-pi-5     154 GFLOPS (4 x 2.4 GHz x 16, Cortex-A76 with two NEON pipes)             0.20    30.7 GFLOPS
    jetson-nano        236 GFLOPS (128 CUDA cores x 2 x 0.92 GHz, Jetson Nano data sheet)        0.40    94.4 GFLOPS
    jetson-orin-nano   1.28 TFLOPS (1,024 CUDA cores x 2 x 625 MHz, Jetson Orin Nano data sheet) 0.45    576 GFLOPS
    apple-m1           2.6 TFLOPS (8-core GPU, Apple's announcement of M1, 2020)                 0.40    1.04 TFLOPS
    gtx-1080-ti        11.3 TFLOPS (3,584 cores x 2 x 1.58 GHz, NVIDIA's page)                   0.50    5.65 TFLOPS
    rtx-3060           12.7 TFLOPS (3,584 cores x 2 x 1.78 GHz, NVIDIA's page)                   0.45    5.72 TFLOPS
    rtx-4060-laptop    9.0 TFLOPS (3,072 cores x 2 x 1.47 GHz, the lowest boost clock)           0.45    4.05 TFLOPS
    rtx-3090           35.6 TFLOPS (GA102 white paper)                                           0.45    16 TFLOPS
    rtx-4090           82.6 TFLOPS (Ada white paper)                                             0.45    37.2 TFLOPS
    t4                 8.1 TFLOPS (NVIDIA T4 datasheet; power-limited in practice)               0.50    4.05 TFLOPS
    l4                 30.3 TFLOPS (NVIDIA L4 data sheet; 72 W limit it)                         0.40    12.1 TFLOPS
    a10                31.2 TFLOPS (NVIDIA A10 data sheet)                                       0.45    14 TFLOPS
    v100               15.7 TFLOPS (V100 SXM2 datasheet)                                         0.60    9.4 TFLOPS
    a100               19.5 TFLOPS (A100 datasheet, TF32 off)                                    0.65    12.7 TFLOPS
    h100               67 TFLOPS (H100 SXM datasheet, TF32 off)                                  0.55    36.9 TFLOPS

`overhead_seconds` is what a step costs however small the model: Python and, on GPUs, some hundred kernel launches of about
10 µs. Also an estimate: 0.5 ms on a CPU core, 2 ms on a GPU or a board.

Memory is that of the board or of the usual model; of one that the system shares a worker may use three quarters. Watts are the limit that
the same data sheets give (TDP or board power), which training reaches; of the Raspberry Pis what they draw at full load. `cpu-core` and
`laptop` are no machines in particular: a core has no memory of its own, so that is not limited.
"""

from __future__ import annotations

from polyrhythm.hardware.machine_terms import MachineTerms
from polyrhythm.hardware.machines import Device

_SHARED = 0.75
"""The part of a memory that the system shares which a worker may use."""

_FIGURES: tuple[tuple[str, float, float, float, float, float | None], ...] = (
    # name, peak operations a second, the part of them that is sustained, overhead in seconds, gigabytes (0: not limited), watts
    ("cpu-core", 96e9, 0.25, 0.5e-3, 0, 15),
    ("laptop", 4 * 96e9, 0.25, 0.5e-3, 0, 45),
    ("old-laptop", 83.2e9, 0.25, 1e-3, 8 * _SHARED, 35),
    ("desktop", 972.8e9, 0.25, 0.5e-3, 32 * _SHARED, 105),
    ("raspberry-pi-4", 48e9, 0.20, 2e-3, 4 * _SHARED, 7),
    ("raspberry-pi-5", 153.6e9, 0.20, 2e-3, 8 * _SHARED, 12),
    ("jetson-nano", 236e9, 0.40, 2e-3, 4 * _SHARED, 10),
    ("jetson-orin-nano", 1.28e12, 0.45, 2e-3, 8 * _SHARED, 15),
    ("apple-m1", 2.6e12, 0.40, 2e-3, 16 * _SHARED, 20),
    ("gtx-1080-ti", 11.3e12, 0.50, 2e-3, 11, 250),
    ("rtx-3060", 12.7e12, 0.45, 2e-3, 12, 170),
    ("rtx-4060-laptop", 9.0e12, 0.45, 2e-3, 8, 115),
    ("rtx-3090", 35.6e12, 0.45, 2e-3, 24, 350),
    ("rtx-4090", 82.6e12, 0.45, 2e-3, 24, 450),
    ("t4", 8.1e12, 0.50, 2e-3, 16, 70),
    ("l4", 30.3e12, 0.40, 2e-3, 24, 72),
    ("a10", 31.2e12, 0.45, 2e-3, 24, 150),
    ("v100", 15.7e12, 0.60, 2e-3, 16, 300),
    ("a100", 19.5e12, 0.65, 2e-3, 40, 400),
    ("h100", 67e12, 0.55, 2e-3, 80, 700),
)

DEVICES: dict[str, Device] = {name: Device(name, peak * part, overhead) for name, peak, part, overhead, _, _ in _FIGURES}
TERMS: dict[str, MachineTerms] = {
    name: MachineTerms(memory=gigabytes * 1e9 or float("inf"), watts=watts) for name, _, _, _, gigabytes, watts in _FIGURES
}
"""What each of them has besides its speed."""
