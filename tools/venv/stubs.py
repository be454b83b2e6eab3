"""Stand-ins for the GPU libraries that PyTorch's default wheel is linked against.

The wheel is the GPU build: its libtorch_cpu and libtorch_cuda name libcudart, libcublas, libcudnn, ... as needed, some
2.5 GB of further packages, and a library loads only if all that it needs is found. On a CPU these libraries are never
called. So each is replaced by a few kilobytes in which every function returns "no device".
"""
import re
import subprocess
from collections import defaultdict
from pathlib import Path

# libcu* (but not libcurl), libnv*, libnccl*: everything else that PyTorch needs is the compiler's or the C library's.
GPU_LIBRARY = re.compile(r"lib(cu(?!rl)|nv|nccl)")
NO_DEVICE = 100  # cudaErrorNoDevice and CUDA_ERROR_NO_DEVICE; no success code of any of the libraries


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def needs(library):
    """(names of needed libraries, {needed library: its symbol version}, {symbol version: symbols}) of one library."""
    names = re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-dW", str(library)))
    versions = {}
    needed = None
    for file, version in re.findall(r"File: (\S+)|Name: (\S+)", output_of("readelf", "-VW", str(library))):
        if file:
            needed = file
        elif needed:
            versions[needed] = version
    symbols = defaultdict(set)
    for line in output_of("readelf", "-W", "--dyn-syms", str(library)).splitlines():
        found = re.search(r"\bUND (\w+)@(\S+)", line)
        if found:
            symbols[found[2]].add(found[1])
    return names, versions, symbols


def build(folder, name, version, symbols):
    """folder/name with one function per symbol, all under the symbol version that the users ask for."""
    source = "\n".join(f"long {symbol}(void) {{ return {NO_DEVICE}; }}" for symbol in sorted(symbols))
    version_script = folder / "annulus_stub.map"
    version_script.write_text(f"{version} {{ global: *; }};\n")
    subprocess.run(
        ["cc", "-w", "-shared", "-fPIC", "-fno-builtin", "-nostdlib", "-x", "c", "-", "-o", str(folder / name),
         f"-Wl,-soname,{name}", f"-Wl,--version-script={version_script}"],
        input=source or "int nothing;", text=True, check=True, capture_output=True)
    version_script.unlink()


def unresolved(libraries):
    """Symbols that nothing provides once all needed libraries are found (those with no version of their own)."""
    missing = set()
    for library in libraries:
        missing |= set(re.findall(r"undefined symbol: (\w+)", output_of("ldd", "-r", str(library))))
    return {symbol for symbol in missing if not symbol.startswith(("Py", "_Py"))}


def provide(folder):
    """Puts a stand-in for every GPU library needed by the libraries in `folder` beside them; returns the names.

    Beside them, because their search path ends with their own folder: no environment variable is needed, and a GPU
    toolkit that the system happens to have, of whatever version, is not touched.
    """
    folder = Path(folder)
    libraries = sorted(library for library in folder.glob("*.so*") if not GPU_LIBRARY.match(library.name))
    versions, symbols = {}, defaultdict(set)
    for library in libraries:
        names, its_versions, its_symbols = needs(library)
        for name in names:
            if GPU_LIBRARY.match(name):
                versions.setdefault(name, its_versions.get(name, name))
                symbols[name] |= its_symbols.get(its_versions.get(name), set())
    for name, version in versions.items():
        build(folder, name, version, symbols[name])
    # Symbols without a version may come from any library: one stand-in has all of them.
    plain = unresolved(libraries) if versions else set()
    if plain:
        name = sorted(versions)[0]
        build(folder, name, versions[name], symbols[name] | plain)
    return sorted(versions)
