// The units of a work as blocks take them: which stages are worth a test, and where hits go.
//
// Hits of a unit gather in shared memory. At the unit's end the block reserves room for all of them
// at once; a unit that finds none writes nothing, and is noted to be done again, as are the units that
// follow once little room is left.
#pragma once

#include "tile_abi.cuh"
#include "warp.cuh"

struct BlockUnit {
    const TileWork &work;
    // Dynamic shared memory: room for the hits of a unit.
    u32 *hits;
    // Shared by the block.
    u32 *count;
    u32 *thresholds;
    u32 number;
    Unit unit;
    Strip strip;

    // `shared`: MAX_STAGES + 1 words.
    __device__ __forceinline__ BlockUnit(const TileWork &work, u32 *hits, u32 *shared)
        : work(work), hits(hits), count(shared + MAX_STAGES), thresholds(shared), number(0), unit{}, strip{} {}

    // Takes the next unit; false once there is none. By all threads.
    __device__ __forceinline__ bool take() {
        while (true) {
            __syncthreads();
            if (threadIdx.x == 0) {
                *count = atomicAdd(&work.tally->next, 1u);
                // Most of the room is taken: a test would be in vain.
                thresholds[0] = atomicAdd(&work.tally->hits, u64{0}) > work.capacity - work.capacity / 8;
            }
            __syncthreads();
            number = *count;
            const bool is_full = thresholds[0] != 0;
            __syncthreads();
            if (number >= work.unit_count) {
                return false;
            }
            if (!is_full) {
                break;
            }
            if (threadIdx.x == 0) {
                work.redo[atomicAdd(&work.tally->redone, 1u)] = number;
            }
        }
        unit = work.units[number];
        strip = work.strips[unit.strip];
        u32 tested = 0;
        for (u32 stage = threadIdx.x; stage < unit.stages; stage += blockDim.x) {
            const u32 *range = work.stage_classes + 2 * (unit.first_stage + stage);
            const u32 greatest = __ldg(range + 1);
            u32 least = NEVER;
            for (u32 of_set = __ldg(range); of_set <= greatest; ++of_set) {
                least = min(least, __ldg(&work.table[strip.table + of_set]));
            }
            thresholds[stage] = least;
            tested += least != NEVER;
        }
        if (threadIdx.x == 0) {
            *count = 0;
        }
        if (tested > 0) {
            const u64 pairs = u64{work.strip_rows} * work.stage_columns * work.members;
            atomicAdd(&work.tally->tests, pairs * tested);
        }
        __syncthreads();
        return true;
    }

    // The first stage from `stage` on in which some pair can match.
    __device__ __forceinline__ u32 next(u32 stage) const {
        while (stage < unit.stages && thresholds[stage] == NEVER) {
            ++stage;
        }
        return stage;
    }

    // The words of the columns of a stage.
    __device__ __forceinline__ const u32 *words(u32 stage) const {
        return work.unions + u64{unit.first_stage + stage} * work.stage_columns * work.width;
    }

    // What a row adds to its common bits before they are compared with a threshold: its hidden tokens,
    // or, where it does not count, less than any threshold needs.
    __device__ __forceinline__ int slack_of(u32 row) const {
        const bool counts = row >= work.first_row && row < work.end_row;
        return counts ? static_cast<int>(min(__ldg(&work.rows.hidden[row]), MOST_OVERLAP))
                      : -static_cast<int>(MOST_OVERLAP);
    }

    // The threshold of a stage in which some pair can match.
    __device__ __forceinline__ int threshold(u32 stage) const { return static_cast<int>(thresholds[stage]); }

    // Adds a hit: a row of the strip and a column of the unit. A set does not meet itself.
    __device__ __forceinline__ void push(u32 row, u32 column) {
        const u32 end = (unit.first_stage * work.stage_columns + column + 1) * work.members;
        if (work.same && end <= strip.first + row + 1) {
            return;
        }
        const u32 at = atomicAdd(count, 1u);
        if (at < work.room) {
            hits[at] = row << 16 | column;
        }
    }

    // Writes the hits, or notes that the unit must be done again. By all threads.
    __device__ __forceinline__ void finish() {
        __shared__ u64 reserved;
        __syncthreads();
        const u32 found = *count;
        if (found == 0) {
            return;
        }
        if (threadIdx.x == 0) {
            reserved = found <= work.room ? reserve(found) : ~u64{0};
            if (reserved == ~u64{0}) {
                const u32 place = atomicAdd(&work.tally->redone, 1u);
                work.redo[place] = number | (found > work.room ? TOO_MANY : 0);
            }
        }
        __syncthreads();
        const u64 place = reserved;
        if (place == ~u64{0}) {
            return;
        }
        for (u32 i = threadIdx.x; i < found; i += blockDim.x) {
            const u32 row = strip.first + (hits[i] >> 16);
            const u32 column = unit.first_stage * work.stage_columns + (hits[i] & 0xffff);
            work.hits[place + i] = Hit{row, column};
        }
    }

private:
    // Room for `found` hits; all ones where there is too little.
    __device__ __forceinline__ u64 reserve(u32 found) const {
        u64 place = atomicAdd(&work.tally->hits, u64{0});
        while (place + found <= work.capacity) {
            const u64 now = atomicCAS(&work.tally->hits, place, place + found);
            if (now == place) {
                return place;
            }
            place = now;
        }
        return ~u64{0};
    }
};
