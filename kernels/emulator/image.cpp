// What the driver makes of a module's image: PTX text or machine code in an ELF file.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>

#include "state.h"

namespace emulator {
namespace {

template <typename T>
T read(const unsigned char *at) {
    T value;
    memcpy(&value, at, sizeof(T));
    return value;
}

// The CUDA version that brought this version of PTX, as cuDriverGetVersion would tell it.
int driver_of_ptx(int major, int minor) {
    if (major < 7) return 10000;
    if (major == 7) return 11000 + 10 * minor;
    if (major == 8 && minor <= 5) return 12000 + 10 * minor;
    // 8.5 was CUDA 12.5 and 12.6, so that 8.6 came with 12.7.
    if (major == 8) return 12000 + 10 * (minor + 1);
    return 13000 + 1000 * (major - 9) + 10 * minor;
}

CUresult read_ptx(const char *image, std::string &text) {
    text = image;
    int major = 0;
    int minor = 0;
    const size_t version = text.find(".version");
    if (version == std::string::npos || sscanf(image + version, ".version %d.%d", &major, &minor) != 2) {
        return CUDA_ERROR_INVALID_PTX;
    }
    if (driver_of_ptx(major, minor) > machine().driver) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    int target = 0;
    char variant = 0;
    const size_t at = text.find(".target");
    if (at == std::string::npos || sscanf(image + at, ".target sm_%d%c", &target, &variant) < 1) {
        return CUDA_ERROR_INVALID_PTX;
    }
    const int capability = 10 * machine().major + machine().minor;
    const bool only_this_one = variant == 'a';
    if (target > capability || (only_this_one && target != capability)) return CUDA_ERROR_INVALID_PTX;
    return CUDA_SUCCESS;
}

constexpr uint16_t MACHINE_CUDA = 190;

CUresult read_cubin(const unsigned char *image, std::string &text) {
    constexpr unsigned char CLASS_64 = 2;
    if (image[4] != CLASS_64 || read<uint16_t>(image + 18) != MACHINE_CUDA) return CUDA_ERROR_INVALID_IMAGE;
    // From version 8 of the ABI (CUDA 13) on the architecture is the second byte of the flags.
    const auto flags = read<uint32_t>(image + 48);
    const uint32_t architecture = image[8] >= 8 ? flags >> 8 & 0xff : flags & 0xff;
    const int major = static_cast<int>(architecture / 10);
    const int minor = static_cast<int>(architecture % 10);
    if (major != machine().major || minor > machine().minor) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    // The file ends with its program headers or its section headers.
    const uint64_t sections = read<uint64_t>(image + 40) + uint64_t{read<uint16_t>(image + 58)} * read<uint16_t>(image + 60);
    const uint64_t programs = read<uint64_t>(image + 32) + uint64_t{read<uint16_t>(image + 54)} * read<uint16_t>(image + 56);
    text.assign(reinterpret_cast<const char *>(image), std::max(sections, programs));
    return CUDA_SUCCESS;
}

}  // namespace

CUresult read_image(const void *image, std::string &text) {
    const auto *bytes = static_cast<const unsigned char *>(image);
    if (memcmp(bytes, "\x7f" "ELF", 4) == 0) return read_cubin(bytes, text);
    const char *start = static_cast<const char *>(image);
    start += strspn(start, " \t\r\n");
    if (strncmp(start, "//", 2) == 0 || strncmp(start, ".version", 8) == 0) return read_ptx(start, text);
    return CUDA_ERROR_INVALID_IMAGE;
}

bool has_kernel(const std::string &text, const char *name) {
    const bool cubin = text.compare(0, 4, "\x7f" "ELF") == 0;
    if (cubin) {
        // The name of the section of its instructions.
        const std::string section = std::string(".text.") + name;
        return text.find(section.c_str(), 0, section.size() + 1) != std::string::npos;
    }
    const std::string entry = std::string(".entry ") + name;
    for (size_t at = text.find(entry); at != std::string::npos; at = text.find(entry, at + 1)) {
        const char next = text[at + entry.size()];
        if (!isalnum(static_cast<unsigned char>(next)) && next != '_' && next != '$') return true;
    }
    return false;
}

}  // namespace emulator
