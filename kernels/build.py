#!/usr/bin/env python3
"""Builds the kernel images that the crate embeds, or checks that they belong to the sources.

    build.py                    compile kernels/*.cu and write kernels/images/
    build.py --check            fail if a source or an image differs from images/SOURCES
    build.py --check --rebuild  also compile again, and fail if the bytes differ
    build.py --report           compile, and print registers, shared memory and spills

Compiling takes two packages of the Python package index, of fixed versions, which are installed
into target/ when they are not there yet; neither a CUDA toolkit nor a GPU is needed. A check alone
needs nothing but Python.
"""

import argparse
import ctypes
import hashlib
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

KERNELS = Path(__file__).resolve().parent
IMAGES = KERNELS / "images"
RECORD = IMAGES / "SOURCES"
TOOLCHAIN = KERNELS.parent / "target" / "cuda-12.4"

# CUDA 12.4 writes PTX 8.4, which drivers from 550 on load.
PACKAGES = ["nvidia-cuda-nvrtc-cu12==12.4.127", "nvidia-cuda-nvcc-cu12==12.4.131"]
# Each becomes an image of its own for each of its architectures.
PROGRAMS = {
    "indexed": ["80", "90"],
    "large": ["80", "90"],
    "nearest": ["80", "90a"],
    "published": ["80", "90"],
    "published_indexed": ["80", "90"],
    "published_intersection": ["80", "90"],
    "published_points": ["80", "90"],
    "texts": ["80", "90"],
    # 90a: with the matrix instructions of compute capability 9.0 alone.
    "tiles": ["80", "90a"],
    "vectors": ["80", "90a"],
    "verify": ["80", "90"],
}
# The PTX is for the cards without an image of their own: Turing and those to come.
PTX_ARCHITECTURE = "75"


class BuildError(Exception):
    """What went wrong, for whoever runs the script."""


def install(toolchain: Path) -> None:
    """Installs the compilers into `toolchain`, unless these very versions are there."""
    stamp = toolchain / "PACKAGES"
    wanted = "\n".join(PACKAGES)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    toolchain.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--upgrade", "--target", str(toolchain), *PACKAGES]
    if subprocess.run(command, check=False).returncode != 0:
        raise BuildError(f"pip could not install {' and '.join(PACKAGES)} (wheels exist for Linux on x86-64)")
    stamp.write_text(wanted)


class Nvrtc:
    """The run-time compiler, from CUDA C++ to PTX."""

    def __init__(self, toolchain: Path) -> None:
        path = toolchain / "nvidia" / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"
        try:
            self.library = ctypes.CDLL(str(path))
        except OSError as error:
            raise BuildError(f"cannot load {path}: {error}") from error
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(self, function: str, *arguments: object) -> None:
        status = getattr(self.library, function)(*arguments)
        if status != 0:
            raise BuildError(f"{function}: {self.library.nvrtcGetErrorString(status).decode()}")

    def text(self, program: ctypes.c_void_p, what: str) -> bytes:
        """The log or the PTX of a program, without the NUL at its end."""
        size = ctypes.c_size_t()
        self.call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.call(f"nvrtcGet{what}", program, buffer)
        return buffer.value

    def compile(self, name: str, architecture: str) -> bytes:
        """The PTX of a program. Headers are given by name, so that no path gets into it."""
        headers = sorted(KERNELS.glob("*.cuh"))
        texts = (ctypes.c_char_p * len(headers))(*(header.read_bytes() for header in headers))
        names = (ctypes.c_char_p * len(headers))(*(header.name.encode() for header in headers))
        source = (KERNELS / f"{name}.cu").read_bytes()
        program = ctypes.c_void_p()
        self.call(
            "nvrtcCreateProgram", ctypes.byref(program), source, f"{name}.cu".encode(), len(headers), texts, names
        )
        try:
            options = [f"--gpu-architecture=compute_{architecture}", "--std=c++17", "--no-source-include"]
            arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            try:
                self.call("nvrtcCompileProgram", program, len(options), arguments)
            except BuildError as error:
                log = self.text(program, "ProgramLog").decode()
                raise BuildError(f"{name}.cu for compute_{architecture}: {error}\n{log}") from error
            return self.text(program, "PTX")
        finally:
            self.call("nvrtcDestroyProgram", ctypes.byref(program))


def assemble(toolchain: Path, name: str, ptx: bytes, architecture: str) -> tuple[bytes, str]:
    """The image of a PTX text, and what the assembler says of each kernel."""
    ptxas = toolchain / "nvidia" / "cuda_nvcc" / "bin" / "ptxas"
    # Installing by pip loses the execute permission where the wheel does not state it.
    ptxas.chmod(0o755)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{name}.ptx").write_bytes(ptx)
        command = [str(ptxas), "-v", "-O3", f"-arch=sm_{architecture}", "-o", f"{name}.cubin", f"{name}.ptx"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(f"ptxas of {name} for sm_{architecture}: {done.stderr}")
        return (Path(folder) / f"{name}.cubin").read_bytes(), done.stderr


def compile_program(toolchain: Path, name: str) -> tuple[dict[str, bytes], dict[str, str]]:
    """The images of one program by file name, and the assembler's words by architecture."""
    nvrtc = Nvrtc(toolchain)
    images = {f"{name}.ptx": nvrtc.compile(name, PTX_ARCHITECTURE)}
    words = {}
    for architecture in PROGRAMS[name]:
        ptx = nvrtc.compile(name, architecture)
        images[f"{name}.sm_{architecture}.cubin"], words[architecture] = assemble(toolchain, name, ptx, architecture)
    return images, words


def compile_images(toolchain: Path) -> tuple[dict[str, bytes], dict[str, str]]:
    """The images by file name, and the assembler's words by architecture.

    Each program is compiled by a process of its own: the run-time compiler numbers calls from the
    start of its process, and its comments in the PTX would tell which program it compiled before.
    """
    install(toolchain)
    images = {}
    words = {architecture: "" for architectures in PROGRAMS.values() for architecture in architectures}
    with multiprocessing.get_context("spawn").Pool(maxtasksperchild=1) as pool:
        tasks = [(toolchain, name) for name in PROGRAMS]
        for built, said in pool.starmap(compile_program, tasks, chunksize=1):
            images.update(built)
            for architecture, text in said.items():
                words[architecture] += text
    return images, words


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sources() -> dict[str, bytes]:
    """What images are made of: this script too, as it holds the options."""
    paths = [*KERNELS.glob("*.cu"), *KERNELS.glob("*.cuh"), Path(__file__).resolve()]
    return {path.name: path.read_bytes() for path in paths}


def record(images: dict[str, bytes]) -> str:
    """The text of images/SOURCES."""
    lines = [f"compiler {package}" for package in PACKAGES]
    lines += [f"source {name} {digest(data)}" for name, data in sorted(sources().items())]
    lines += [f"image {name} {digest(data)}" for name, data in sorted(images.items())]
    return "\n".join(lines) + "\n"


def write(images: dict[str, bytes]) -> None:
    IMAGES.mkdir(exist_ok=True)
    for old in [*IMAGES.glob("*.ptx"), *IMAGES.glob("*.cubin")]:
        old.unlink()
    for name, data in images.items():
        (IMAGES / name).write_bytes(data)
        print(f"{name}: {len(data)} bytes")
    RECORD.write_text(record(images))


def check(rebuilt: dict[str, bytes] | None) -> list[str]:
    """What differs from the record, one line a file."""
    if not RECORD.exists():
        return [f"{RECORD} is missing"]
    kept = {path.name: path.read_bytes() for path in [*IMAGES.glob("*.ptx"), *IMAGES.glob("*.cubin")]}
    recorded = set(RECORD.read_text().splitlines())
    now = set(record(kept).splitlines())
    differing = sorted({" ".join(line.split()[:2]) for line in recorded ^ now})
    faults = [f"{line}: not as when the images were built" for line in differing]
    if rebuilt is not None:
        for name in sorted(rebuilt.keys() | kept.keys()):
            if rebuilt.get(name) != kept.get(name):
                faults.append(f"image {name}: the sources give another one")
    return faults


def report(words: dict[str, str]) -> None:
    for architecture, text in words.items():
        print(f"sm_{architecture}")
        kernel = spills = ""
        for line in text.splitlines():
            if found := re.search(r"Compiling entry function '(\w+)'", line):
                kernel = found[1]
            elif "spill" in line:
                spills = ", ".join(part.strip() for part in line.split(","))
            elif found := re.search(r"Used (.*)", line):
                print(f"  {kernel:29} {found[1]}; {spills}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if anything differs")
    parser.add_argument("--rebuild", action="store_true", help="with --check: compile and compare too")
    parser.add_argument("--report", action="store_true", help="change nothing; print what kernels take")
    parser.add_argument("--toolchain", type=Path, default=TOOLCHAIN, help="where the compilers are installed")
    arguments = parser.parse_args()
    if arguments.rebuild and not arguments.check:
        parser.error("--rebuild goes with --check; without options the images are built anyway")
    toolchain = Path(os.path.abspath(arguments.toolchain))
    if arguments.report:
        report(compile_images(toolchain)[1])
    elif arguments.check:
        faults = check(compile_images(toolchain)[0] if arguments.rebuild else None)
        if faults:
            print(*faults, sep="\n", file=sys.stderr)
            print("run kernels/build.py and commit kernels/images", file=sys.stderr)
            return 1
    else:
        write(compile_images(toolchain)[0])
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BuildError as error:
        sys.exit(f"build.py: {error}")
