//! The door of the answer: what a cursor has found becomes marks, counts, a total or pairs of rows.

use datafusion::common::{Result, internal_err};

use crate::engine::{ItemId, Match, MatchBuffer, MatchNeed, MatchOrder, MatchRun};
use crate::exec::answer::Answer;
use crate::exec::answer::blocks::ExpansionInput;
use crate::exec::answer::marks::note_items;
use crate::exec::answer::totals;
use crate::exec::sink::PairSink;

/// The progress through a run of matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Taken {
    /// The whole run was taken. Otherwise the output has a full batch, and the answer takes the run
    /// again.
    done: bool,
    /// A probe item of which no further match is needed.
    settled: Option<ItemId>,
}

impl Answer {
    /// Takes from a buffer the next run of matches, or a part of it; once all runs are taken, a unit
    /// that is complete. Returns `false` where nothing is left. Calls `retire` with a probe item of
    /// a unit of which no further match is needed.
    pub(crate) fn take(
        &mut self,
        found: &mut MatchBuffer,
        mut retire: impl FnMut(u32, ItemId),
    ) -> Result<bool> {
        if let Some(run) = found.run(self.next_run) {
            let Taken { done, settled } = self.take_run(run)?;
            if let Some(item) = settled {
                retire(run.unit, item);
            }
            self.next_run += usize::from(done);
            self.is_amid_run = !done;
            return Ok(true);
        }
        self.total += totals::of_counts(&self.layout, found.counts());
        found.clear_matches();
        self.next_run = 0;
        match found.pop_completed() {
            Some(unit) => self.close(unit).map(|()| true),
            None => Ok(false),
        }
    }

    /// Takes a run of matches of an open batch: as matches of items where they tell everything,
    /// otherwise as pairs of rows.
    fn take_run(&mut self, run: MatchRun<'_>) -> Result<Taken> {
        let output_time = self.output_time.clone();
        let _timer = output_time.timer();
        let Some(place) = self.batches.iter().position(|batch| batch.number == run.unit) else {
            return internal_err!("matches of probe unit {}, which is not open", run.unit);
        };
        if self.layout.items_decide() && !self.is_amid_run {
            self.note_items(place, run.matches);
        }
        if self.connects(place) {
            let done = self.take_links(place, run)?;
            return Ok(Taken { done, settled: None });
        }
        // A row order tells the orders of two items apart.
        let all_orders = run.order == MatchOrder::All || self.layout.row_order.is_none();
        if !self.batches[place].items_suffice || !all_orders {
            return self.take_rows(place, run);
        }
        if self.layout.sink.pairs == PairSink::Total {
            self.total += totals::of_run(&self.layout, &self.batches[place], &self.build, run);
        }
        let last = run.matches.last().map(|found| found.probe);
        let settled = last.filter(|_| self.layout.spec.need == MatchNeed::Exists);
        Ok(Taken { done: true, settled })
    }

    /// Notes the counts and marks that matches of items give for all of their rows.
    fn note_items(&mut self, place: usize, matches: &[Match]) {
        let batch = &mut self.batches[place];
        if batch.is_counted() {
            note_items(&self.build, matches, batch.range.start, &mut batch.counted);
        }
        if let Some(visited) = &self.build.visited {
            for found in matches {
                visited.mark(found.build as usize);
            }
        }
    }

    /// Gathers the pairs of rows of a run of matches, and stops at a full batch of output.
    fn take_rows(&mut self, place: usize, run: MatchRun<'_>) -> Result<Taken> {
        let MatchRun { order, matches, .. } = run;
        let expands_twice = self.expands_twice();
        if expands_twice && order == MatchOrder::Exchanged {
            self.mirrored = true;
        }
        self.gather_for(place, order)?;
        let batch = &self.batches[place];
        let rows_at_once = batch.rows_at_once;
        let to_output = self.layout.sink.pairs.is_output();
        let makes_columns = self.makes_columns();
        let limit = match (makes_columns, to_output) {
            (false, _) => usize::MAX,
            (true, true) => rows_at_once.min(self.output.rows_to_full()),
            (true, false) => rows_at_once,
        };
        let input = ExpansionInput::new(&self.layout, batch, &self.build, (order, self.mirrored));
        let all = self.expansion.fill(&input, matches, limit, &mut self.pairs);
        if all {
            self.expansion.restart();
            if expands_twice {
                // Pairs of one order at a time: their columns come from different collections.
                self.flush()?;
                self.mirrored = !self.mirrored && order == MatchOrder::All;
            }
        }
        let done = all && !self.mirrored;
        // A semi join with a residual may stop looking at an item once all its rows have a match.
        let one_will_do = self.layout.sink.needs_one_match_of(self.layout.probe);
        if self.pairs.len() < limit && makes_columns && !(all && one_will_do) {
            return Ok(Taken { done, settled: None });
        }
        self.flush()?;
        if to_output {
            self.output.cut_after(rows_at_once)?;
        }
        let last = matches.last().map(|found| found.probe).filter(|_| one_will_do);
        let settled = last.filter(|&item| self.batches[place].has_matched(item));
        Ok(Taken { done, settled })
    }
}
