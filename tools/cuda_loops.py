#!/usr/bin/env python3
"""Counts, in the machine code of the tensor-core kernels, the instructions that a kernel executes for a tile.

  tools/cuda_loops.py build/cuda/src/annulus/libannulus_kernels.a [sm_90]

It prints a line for each kernel, about its loop over tiles:
  products         matrix products
  instructions     on the shortest way through the loop (no key is masked, no maximum rises, no next tile is fetched)
  ldmatrix, loads  loads from shared memory, by ldmatrix and by other instructions
  shared           cycles for which one warp uses shared memory, which moves 128 bytes a cycle
  local            accesses to local memory (spilled registers)
Four warps use the shared memory of a multiprocessor in turn. If their cycles together exceed those of the products of
one warp (6 or 7 for each product of 16-bit numbers or TF32), shared memory limits the speed. If pairs of warps do
different things, both branches are counted. The exit status is 1 if a kernel has no such loop, or one without loads
from shared memory. Needs cuobjdump and nvdisasm of the CUDA toolkit.
"""
import collections
import re
import shutil
import subprocess
import sys

PRODUCTS = ("HMMA", "DMMA")


def functions(library, arch):
    """{symbol: [(address, operation, text)]}"""
    listed = subprocess.run(["cuobjdump", "-sass", "-arch", arch, library], capture_output=True, text=True)
    if listed.returncode != 0:
        sys.exit(f"cuda_loops: cuobjdump: {listed.stderr.strip()}")
    found, code = {}, []
    for line in listed.stdout.splitlines():
        if match := re.match(r"\s+Function : (\S+)", line):
            code = found.setdefault(match[1], [])
        elif match := re.match(r"\s+/\*([0-9a-f]{4,6})\*/\s+(?:@!?U?P\w+ )?([A-Z0-9]+)[^;]*;", line):
            code.append((int(match[1], 16), match[2], match[0]))
    return found


def target(text):
    """The address to which a branch goes; None if the instruction is no branch."""
    match = re.search(r"\bBRA\b.*?(0x[0-9a-f]+)", text)
    return int(match[1], 16) if match else None


def tile_loop(code):
    """The shortest of the loops that have the most products."""
    def products(loop):
        return sum(loop[0] <= address <= loop[1] and operation in PRODUCTS for address, operation, _ in code)

    loops = [(to, address) for address, _, text in code if (to := target(text)) is not None and to < address]
    most = max(map(products, loops), default=0)
    if most == 0:
        return []
    begin, end = min((loop for loop in loops if products(loop) == most), key=lambda loop: loop[1] - loop[0])
    return [each for each in code if begin <= each[0] <= end]


def shortest_way(loop):
    """Fewest instructions from the loop's first to its last."""
    if not loop:
        return 0
    fewest = {loop[0][0]: 1}
    for (address, _, text), after in zip(loop, loop[1:]):
        if address not in fewest:
            continue  # reached only by a branch from outside the loop
        ways = [target(text)] if target(text) is not None else []
        if target(text) is None or "@" in text or re.search(r"BRA !?U?P", text):
            ways.append(after[0])
        for way in ways:
            if way > address:
                fewest[way] = min(fewest.get(way, sys.maxsize), fewest[address] + 1)
    return fewest[loop[-1][0]]


def shared_cycles(loop):
    """Cycles that a warp's loads, stores and copies take of shared memory, which moves 128 bytes per cycle."""
    cycles = 0
    for _, operation, text in loop:
        if operation in ("LDSM", "LDGSTS"):  # four matrices of 128 bytes; or 16 bytes of each lane
            cycles += 4
        elif operation in ("LDS", "STS") and "@!PT" not in text:
            cycles += 4 if ".128" in text else 2 if ".64" in text else 1
    return cycles


def short_name(symbol):
    """The functor that Kokkos launches, without the parts that all names share: "Called<ForwardTeam<BFloat16, float>,
    0>"; or the program of a kernel of our own: "ForwardBlock<Engine16, Half, TileSizes{64, 4, 2, 64, true}>"."""
    found = (re.search(r"Parallel(?:For|Reduce|Scan)<(.*?), Kokkos::(?:Range|Team)Policy", symbol)
             or re.match(r"void annulus::kernels::cuda::\w+<(.*?\}(?:, \w+)?>) ?>\(", symbol))
    if found is None:
        return None
    name = found.group(1)
    for owner, word in enumerate(("rows", "queries", "keys")):
        name = name.replace(f"(annulus::kernels::device::Owner){owner}", word)
    for number, word in enumerate(("dq", "dk_and_dv", "all")):
        name = name.replace(f"(annulus::kernels::cuda::Adds){number}", word)
    name = name.replace("}, false>", "}>").replace("}, true>", "}, ordered>")  # of ForwardBlock
    name = re.sub(r"_INTERNAL_[^:]*::", "", name)  # an unnamed namespace
    rooms = r"annulus|\bkernels|\bcore|\bdevice|\bcuda|\blayer|\bcomm|\blibrary"
    name = re.sub(rf"({rooms}|\(anonymous namespace\))::", "", name)
    return name.replace("Kokkos::Cuda, GpuTuning, ", "")


def show(library, arch):
    """Prints a line for each tensor-core kernel; returns whether all have a loop with loads from shared memory."""
    print(f"{arch}: products instructions ldmatrix loads shared local kernel")
    kernels = right = 0
    for symbol, code in functions(library, arch).items():
        full = subprocess.run(["c++filt", symbol], capture_output=True, text=True).stdout
        if "cuda::run_blocks<" not in full or len(code) < 50:  # the kernel is empty where there are no matrix units
            continue
        kernels += 1
        loop = tile_loop(code)
        count = collections.Counter(operation for _, operation, _ in loop)
        # Before some copies there are instructions that do nothing: "@!PT LDS RZ, [RZ]".
        loads = sum(operation == "LDS" and "@!PT" not in text for _, operation, text in loop)
        local = count["LDL"] + count["STL"]
        products = sum(count[each] for each in PRODUCTS)
        print(f"{products:15} {shortest_way(loop):12} {count['LDSM']:8} {loads:5} {shared_cycles(loop):6} {local:5} "
              f"{short_name(full)}")
        right += bool(loop) and count["LDSM"] + loads > 0
    return right == kernels > 0


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    for tool in ("cuobjdump", "nvdisasm", "c++filt"):
        if shutil.which(tool) is None:
            sys.exit(f"cuda_loops: no {tool} on the PATH")
    if not show(sys.argv[1], (sys.argv[2:] or ["sm_90"])[0]):
        sys.exit("cuda_loops: a kernel has no loop over tiles that loads from shared memory")


if __name__ == "__main__":
    main()
