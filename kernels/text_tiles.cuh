// Tiles of texts. A warp has a strip of rows, one a lane, and goes through stages of columns. A row that
// the box of a stage does not rule out meets the columns of the stage, two a lane, by signatures; pairs that
// pass wait until there is one for every lane, and are compared. Matches of a unit gather in shared memory;
// at its end the warp reserves room for all of them. A unit that finds none gives and counts nothing, and is
// noted to be done again.
#pragma once

#include "answers.cuh"
#include "runs.cuh"
#include "text_band.cuh"
#include "warp.cuh"

constexpr u32 TEXT_WARPS = 4;
// Pairs of a warp that wait: what is left of a warp's, and another warp's.
constexpr u32 WAITING_TEXTS = 2 * WARP;
// Matches of a unit of one stage, at most.
constexpr u32 TEXT_ROOM = TEXT_STRIP * TEXT_STAGE;
// In place of the edits of a staged match: the host decides it.
constexpr u32 STAGED_UNDECIDED = 0x3f;

struct TextLimits {
    u32 word;

    __device__ __forceinline__ u32 edits() const { return word & 0xff; }
    __device__ __forceinline__ u32 beyond() const { return word >> 8 & 0xff; }
    __device__ __forceinline__ u32 lacking() const { return word >> 16 & 0xff; }
};

template <bool COUNTS>
struct TextWarp {
    const TextWork &work;
    // Shared memory of the warp: pairs that wait, and matches of the unit. Both begin with the place of
    // a pair: row, column and stage by 5, 6 and 7 bits.
    u32 *waiting_pairs;
    u32 *staged;
    u32 number = 0;
    TextUnit unit{};
    // Alike in all lanes; `settled`: the rows that need no further match.
    u32 waiting = 0;
    u32 found = 0;
    u32 settled = 0;
    // What the lane has counted: of the unit, and of all that were finished.
    Counters of_unit;
    Counters counters;
    u64 tests = 0;
    u64 compared = 0;

    __device__ __forceinline__ TextWarp(const TextWork &work, u32 *waiting_pairs, u32 *staged)
        : work(work), waiting_pairs(waiting_pairs), staged(staged) {}

    // Takes the next unit; false once there is none.
    __device__ __forceinline__ bool take() {
        if (lane_id() == 0) {
            while (true) {
                number = atomicAdd(&work.tally->next, 1u);
                if (number >= work.unit_count || atomicAdd(&work.tally->given, u64{0}) <= work.enough) {
                    break;
                }
                work.redo[atomicAdd(&work.tally->redone, 1u)] = number;
            }
        }
        number = __shfl_sync(ALL_LANES, number, 0);
        return number < work.unit_count;
    }

    // Tests the unit that was taken.
    __device__ __forceinline__ void test() {
        unit = work.units[number];
        waiting = 0;
        found = 0;
        settled = 0;
        of_unit = Counters();
        Row row(work, unit.first_row + lane_id());
        for (u32 stage = 0; stage < unit.stages; ++stage) {
            test_stage(row, stage);
        }
        compare(0, waiting);
        finish();
    }

private:
    // The row of a lane.
    struct Row {
        TextRun run{};
        u32 end = 0;
        u64 signature = 0;
        u32 bits = 0;

        __device__ __forceinline__ Row(const TextWork &work, u32 row) {
            if (row < work.first_row || row >= work.end_row ||
                (work.seen && atomicAdd(&work.seen[row - work.first_row], 0u) > 0)) {
                return;
            }
            run = run_before(work.runs, work.run_count, row);
            end = min(run.end, work.column_count);
            if (work.unordered) {
                end = min(end, row + work.first_probe + 1);
            }
            signature = __ldg(&work.rows.signatures[row - work.rows.first]);
            bits = static_cast<u32>(__popcll(signature));
        }
    };

    // The loosest limits of a row and the columns of a stage.
    __device__ __forceinline__ u32 loosest(const Row &row, u32 least, u32 greatest) const {
        constexpr u32 FEW = 8;
        least = max(least, row.run.first_class);
        greatest = min(greatest, row.run.end_class - 1);
        if (greatest - least >= FEW && greatest >= least) {
            return NO_EDITS | NO_BIT << 8 | NO_BIT << 16;
        }
        u32 beyond = 0;
        u32 lacking = 0;
        bool is_void = true;
        for (u32 of = least; of <= greatest; ++of) {
            const TextLimits limits{__ldg(&work.table[row.run.table + of])};
            if (limits.word == NO_MATCH) {
                continue;
            }
            if (least == greatest) {
                return limits.word;
            }
            is_void = false;
            beyond = max(beyond, limits.beyond());
            lacking = max(lacking, limits.lacking());
        }
        return is_void ? NO_MATCH : NO_EDITS | beyond << 8 | lacking << 16;
    }

    __device__ __forceinline__ void test_stage(const Row &row, u32 stage) {
        const u32 of_all = unit.first_stage + stage;
        const u32 base = of_all * TEXT_STAGE;
        const u32 least = __ldg(&work.stage_classes[2 * of_all]);
        const u32 greatest = __ldg(&work.stage_classes[2 * of_all + 1]);
        TextLimits limits{NO_MATCH};
        bool is_open = row.run.start < base + TEXT_STAGE && row.end > base && (settled >> lane_id() & 1) == 0;
        if (is_open) {
            limits.word = loosest(row, least, greatest);
            const u64 all = __ldg(&work.boxes[2 * of_all]);
            const u64 common = __ldg(&work.boxes[2 * of_all + 1]);
            is_open = limits.word != NO_MATCH &&
                      static_cast<u32>(__popcll(row.signature & ~all)) <= limits.beyond() &&
                      static_cast<u32>(__popcll(common & ~row.signature)) <= limits.lacking();
        }
        u32 rows = __ballot_sync(ALL_LANES, is_open);
        if (rows == 0) {
            return;
        }
        tests += lane_id() == 0 ? u64{TEXT_STAGE} * static_cast<u32>(__popc(rows)) : 0;
        const bool is_alike = least == greatest;
        u64 signatures[2];
        u32 bits[2];
        u32 classes[2];
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            const u32 column = base + half * WARP + lane_id();
            const bool is_column = column < work.column_count;
            signatures[half] = is_column ? __ldg(&work.columns.signatures[column - work.columns.first]) : 0;
            bits[half] = static_cast<u32>(__popcll(signatures[half]));
            classes[half] = !is_alike && is_column ? __ldg(&work.classes[column]) : 0;
        }
        while (rows != 0) {
            const u32 lane = static_cast<u32>(__ffs(static_cast<int>(rows))) - 1;
            rows &= rows - 1;
            const u64 signature = __shfl_sync(ALL_LANES, row.signature, lane);
            const u32 of_row = __shfl_sync(ALL_LANES, row.bits, lane);
            const u32 start = __shfl_sync(ALL_LANES, row.run.start, lane);
            const u32 end = __shfl_sync(ALL_LANES, row.end, lane);
            const u32 table = __shfl_sync(ALL_LANES, row.run.table, lane);
            const u32 alike = __shfl_sync(ALL_LANES, limits.word, lane);
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                const u32 column = base + half * WARP + lane_id();
                bool passes = column >= start && column < end;
                TextLimits of{alike};
                if (!is_alike && passes) {
                    of.word = __ldg(&work.table[table + classes[half]]);
                    passes = of.word != NO_MATCH;
                }
                const u32 common = static_cast<u32>(__popcll(signature & signatures[half]));
                passes = passes && of_row - common <= of.beyond() && bits[half] - common <= of.lacking();
                const u32 place = lane | (half * WARP + lane_id()) << 5 | stage << 11;
                wait(passes, place | of.edits() << 18);
            }
        }
    }

    // Has a pair a lane wait, where there is one. By all lanes.
    __device__ __forceinline__ void wait(bool passes, u32 pair) {
        const u32 mask = __ballot_sync(ALL_LANES, passes);
        if (mask == 0) {
            return;
        }
        if (passes) {
            waiting_pairs[waiting + static_cast<u32>(__popc(mask & lanes_below()))] = pair;
        }
        waiting += static_cast<u32>(__popc(mask));
        __syncwarp();
        if (waiting >= WARP) {
            waiting -= WARP;
            compare(waiting, WARP);
        }
    }

    __device__ __forceinline__ u32 row_of(u32 place) const { return unit.first_row + (place & 31); }

    __device__ __forceinline__ u32 column_of(u32 place) const {
        return (unit.first_stage + (place >> 11 & 0x7f)) * TEXT_STAGE + (place >> 5 & 63);
    }

    // Compares `count` pairs, a lane each, from place `first` on. By all lanes.
    __device__ __forceinline__ void compare(u32 first, u32 count) {
        u32 pair = 0;
        if (lane_id() < count) {
            pair = waiting_pairs[first + lane_id()];
        }
        // The places may be taken again.
        __syncwarp();
        const u32 place = pair & 0x3ffff;
        const bool is_open = lane_id() < count && (settled >> (place & 31) & 1) == 0;
        const u32 most = is_open ? pair >> 18 & 0xff : 0;
        const bool is_counted = is_open && most != NO_EDITS;
        compared += is_counted;
        TextCodes a{nullptr, 0};
        TextCodes b{nullptr, 0};
        bool is_told = false;
        if (is_counted) {
            const u32 row = row_of(place) - work.rows.first;
            const u32 column = column_of(place) - work.columns.first;
            is_told = codes_tell(__ldg(&work.rows.pages[row]), __ldg(&work.columns.pages[column]));
            a = TextCodes{work.rows.words + __ldg(&work.rows.starts[row]), __ldg(&work.rows.lens[row])};
            b = TextCodes{work.columns.words + __ldg(&work.columns.starts[column]),
                          __ldg(&work.columns.lens[column])};
        }
        // The band is as wide as the pair of most edits needs.
        u32 distance = NO_EDITS;
        const u32 widest = is_counted ? most : 0;
        if (__any_sync(ALL_LANES, widest > 15)) {
            distance = is_counted ? distance_within<8>(a, b, most) : NO_EDITS;
        } else if (__any_sync(ALL_LANES, widest > 7)) {
            distance = is_counted ? distance_within<4>(a, b, most) : NO_EDITS;
        } else if (__any_sync(ALL_LANES, widest > 3)) {
            distance = is_counted ? distance_within<2>(a, b, most) : NO_EDITS;
        } else {
            distance = is_counted ? distance_within<1>(a, b, most) : NO_EDITS;
        }
        const bool matches = is_open && (!is_counted || distance <= most);
        const bool is_decided = is_counted && work.decides && is_told;
        give(matches, is_decided, place, distance);
    }

    // Stages a match or an undecided pair a lane, or counts it. By all lanes.
    __device__ __forceinline__ void give(bool matches, bool is_decided, u32 place, u32 distance) {
        const u32 mask = __ballot_sync(ALL_LANES, matches);
        if (mask == 0) {
            return;
        }
        if (work.seen) {
            settled |= settle(matches && is_decided ? 1u << (place & 31) : 0);
        }
        if (COUNTS && matches && is_decided) {
            count(row_of(place), column_of(place));
        }
        const bool is_given = matches && !(COUNTS && is_decided);
        const u32 given = __ballot_sync(ALL_LANES, is_given);
        const u32 at = found + static_cast<u32>(__popc(given & lanes_below()));
        if (is_given && at < TEXT_ROOM) {
            staged[at] = place | (is_decided ? distance : STAGED_UNDECIDED) << 18;
        }
        found += static_cast<u32>(__popc(given));
    }

    // The rows that any lane has settled.
    __device__ __forceinline__ static u32 settle(u32 row) {
#pragma unroll
        for (int distance = WARP / 2; distance > 0; distance /= 2) {
            row |= __shfl_xor_sync(ALL_LANES, row, distance);
        }
        return row;
    }

    __device__ __forceinline__ void count(u32 row, u32 column) {
        const u64 build_rows =
            work.columns.row_counts ? __ldg(&work.columns.row_counts[column - work.columns.first]) : 1;
        of_unit.matches += 1;
        if (work.unordered && row + work.first_probe == column) {
            of_unit.squares += build_rows * build_rows;
            of_unit.rows += build_rows;
        } else {
            const u64 probe_rows = work.rows.row_counts ? __ldg(&work.rows.row_counts[row - work.rows.first]) : 1;
            of_unit.cross += probe_rows * build_rows;
        }
    }

    // Gives the matches of the unit, or notes that it must be done again.
    __device__ __forceinline__ void finish() {
        u64 place = ~u64{0};
        __syncwarp();
        if (lane_id() == 0) {
            if (found <= work.room) {
                place = found == 0 ? 0 : reserve();
            }
            if (place == ~u64{0}) {
                const u32 redone = atomicAdd(&work.tally->redone, 1u);
                work.redo[redone] = number | (found > work.room ? TEXT_TOO_MANY : 0);
            }
        }
        place = __shfl_sync(ALL_LANES, place, 0);
        if (place == ~u64{0}) {
            return;
        }
        for (u32 at = lane_id(); at < found; at += WARP) {
            const u32 of_staged = staged[at] >> 18;
            const bool is_decided = of_staged != STAGED_UNDECIDED;
            const u32 row = row_of(staged[at]);
            work.matches[place + at] =
                Match{work.first_probe + row, column_of(staged[at]), is_decided ? of_staged : TEXT_UNDECIDED};
            if (work.seen && is_decided) {
                atomicAdd(&work.seen[row - work.first_row], 1u);
            }
        }
        // What is staged has been read.
        __syncwarp();
        counters.matches += of_unit.matches;
        counters.cross += of_unit.cross;
        counters.squares += of_unit.squares;
        counters.rows += of_unit.rows;
        if (!COUNTS && lane_id() == 0) {
            counters.matches += found;
        }
    }

    // Room for the matches of the unit; all ones where there is too little. By one lane.
    __device__ __forceinline__ u64 reserve() const {
        u64 place = atomicAdd(&work.tally->given, u64{0});
        while (place + found <= work.capacity) {
            const u64 now = atomicCAS(&work.tally->given, place, place + found);
            if (now == place) {
                return place;
            }
            place = now;
        }
        return ~u64{0};
    }
};

// By blocks of TEXT_WARPS warps.
template <bool COUNTS>
__device__ __forceinline__ void test_texts(const TextWork &work) {
    __shared__ u32 waiting[TEXT_WARPS * WAITING_TEXTS];
    __shared__ u32 staged[TEXT_WARPS * TEXT_ROOM];
    TextWarp<COUNTS> warp(work, waiting + warp_id() * WAITING_TEXTS, staged + warp_id() * TEXT_ROOM);
    while (warp.take()) {
        warp.test();
    }
    const u64 tests = sum_of_lanes<WARP>(warp.tests);
    const u64 compared = sum_of_lanes<WARP>(warp.compared);
    if (lane_id() == 0 && tests > 0) {
        atomicAdd(&work.tally->tests, tests);
        atomicAdd(&work.tally->compared, compared);
    }
    warp.counters.add_to(work.tally->found);
}
