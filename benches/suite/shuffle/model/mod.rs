//! What a join of 10⁷ to 10⁹ sets would send, hold and take on a cluster: the tables of
//! docs/scale.md, printed as Markdown.
//!
//! Constants are measured on generated collections ([`measured`]), plans are predicted from the
//! distribution of sizes and a few such constants ([`predict`]), and predictions are held against
//! the simulation, which sends every row of a smaller collection.

mod measured;
mod predict;

use datafusion::common::Result;
use datafusion_simjoin::internals::set::{Bounds, Measure};

use super::grid::{Counts, Grid};
use super::load::Summary;
use super::postings::Lists;
use super::prefix::PrefixTokens;
use super::rows::Input;
use crate::data::{self, DataOptions};
use measured::Measured;
use predict::{Needs, Plan, Size, Strategy};

/// Small and skewed, broad, and concentrated sets.
const COLLECTIONS: &[&str] = &["kosarak@200000", "livejournal@100000", "dblp@64000"];
const THRESHOLDS: &[f64] = &[0.5, 0.8];
/// Numbers of sets, each with its number of tasks.
const SIZES: &[(f64, usize)] = &[(1e7, 64), (1e8, 1024), (1e9, 16_384)];
/// Tasks that the simulation is held against.
const TASKS: &[usize] = &[16, 64, 256];

/// Prints the tables.
pub fn run(options: &DataOptions, heavy: usize) -> Result<()> {
    let mut all = vec![];
    let mut checks = vec![];
    for name in options.names(COLLECTIONS) {
        let set = options.find(&name)?;
        let lists = set.read()?;
        let sent = measured::bytes(&lists)?;
        let sets = data::encode(&name, &lists, 1)?.sets;
        let whole = Input::self_join(&sets);
        // The first eighth predicts the whole.
        let rows = whole.all().0;
        let eighth = Input::first_rows(&sets, (rows / 8) as u32);
        for &threshold in THRESHOLDS {
            let bounds = Bounds::new(Measure::Jaccard, threshold);
            let constants = Measured::new(&name, &sets, &whole, bounds, heavy, sent);
            let part = Measured::new(&name, &sets, &eighth, bounds, heavy, sent);
            check(&part, &whole, bounds, heavy, &mut checks)?;
            all.push(constants);
        }
    }
    println!("### Constants\n");
    measured::print(&all);
    println!("\n### Predicted and simulated\n");
    print_checks(&checks);
    println!("\n### What a join needs\n");
    print_needs(&all)
}

/// A figure as predicted from the first eighth of the rows, and simulated with all.
struct Check {
    name: String,
    threshold: f64,
    figure: &'static str,
    predicted: f64,
    simulated: f64,
}

fn check(
    part: &Measured,
    input: &Input,
    bounds: Bounds,
    heavy: usize,
    checks: &mut Vec<Check>,
) -> Result<()> {
    let lists = Lists::new(input, bounds);
    let prefix = PrefixTokens::new(input, bounds, heavy);
    let counts = Counts::new(input);
    let size = |tasks| Size { rows: input.all().0 as f64, tasks };
    let (mut add_of, name) = (vec![], &part.name);
    for &tasks in TASKS {
        let mut add = |figure, predicted, simulated| {
            let (name, threshold) = (name.clone(), bounds.threshold);
            add_of.push(Check { name, threshold, figure, predicted, simulated });
        };
        let needs = predict::grid(part, size(tasks), Strategy::Prefixes)?;
        let (loads, _) = Grid::plan(input, &counts, bounds, tasks, false)?.loads(&lists);
        let summary = Summary::new(&loads, tasks);
        let bytes = loads.iter().map(|load| load.bytes()).max().unwrap_or(0);
        add("grid, copies", needs.copies, summary.sum.rows as f64 / input.all().0 as f64);
        add("grid, greatest bytes", needs.bytes, bytes as f64);
        add("grid, greatest pairs", needs.pairs, summary.pairs.max);
        add("grid, greatest postings", needs.postings, summary.postings.max);
        let needs = predict::prefix(part, size(tasks), Strategy::Prefixes);
        let loads = prefix.loads(tasks);
        let summary = Summary::new(&loads, tasks);
        let bytes = loads.iter().map(|load| load.bytes()).max().unwrap_or(0);
        add("prefix, copies", needs.copies, summary.sum.rows as f64 / input.all().0 as f64);
        add("prefix, greatest bytes", needs.bytes, bytes as f64);
        add("prefix, greatest postings", needs.postings, summary.postings.max);
    }
    checks.extend(add_of);
    Ok(())
}

fn print_checks(checks: &[Check]) {
    let mut figures: Vec<&str> = vec![];
    for check in checks {
        if !figures.contains(&check.figure) {
            figures.push(check.figure);
        }
    }
    let groups: Vec<(&str, f64)> = {
        let mut groups: Vec<(&str, f64)> = vec![];
        for check in checks {
            let group = (check.name.as_str(), check.threshold);
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    };
    println!(
        "| figure | {} | median error | greatest |",
        groups.iter().map(|(name, t)| format!("{name}, {t}")).collect::<Vec<_>>().join(" | ")
    );
    println!("|---|{}", "---|".repeat(groups.len() + 2));
    for figure in figures {
        let of_figure = || checks.iter().filter(|check| check.figure == figure);
        let cells = groups.iter().map(|(name, threshold)| {
            let of_group = of_figure().filter(|c| c.name == *name && c.threshold == *threshold);
            let ratios = of_group.map(|c| format!("{:.2}", c.predicted / c.simulated));
            ratios.collect::<Vec<_>>().join(", ")
        });
        let cells = cells.collect::<Vec<_>>().join(" | ");
        let mut errors: Vec<f64> =
            of_figure().map(|c| (c.predicted / c.simulated).ln().abs().exp() - 1.0).collect();
        errors.sort_by(f64::total_cmp);
        println!(
            "| {figure} | {cells} | {:.0}% | {:.0}% |",
            100.0 * errors[errors.len() / 2],
            100.0 * errors[errors.len() - 1]
        );
    }
}

fn print_needs(all: &[Measured]) -> Result<()> {
    println!(
        "| collection | threshold | sets | tasks | TB sent: broadcast | grid | prefix | copies: grid | \
         prefix | GB a task: broadcast | grid | prefix | time: broadcast | grid | prefix |"
    );
    println!("|---|{}", "---|".repeat(14));
    for constants in all {
        for &(rows, tasks) in SIZES {
            let size = Size { rows, tasks };
            let needs = |plan| predict::needs(constants, size, plan);
            let needs = [needs(Plan::Broadcast)?, needs(Plan::Grid)?, needs(Plan::Prefix)?];
            let [_, grid, prefix] = &needs;
            let cells = |of: &dyn Fn(&Needs) -> String| needs.each_ref().map(of).join(" | ");
            println!(
                "| {} | {} | {} | {} | {} | {:.1} | {:.1} | {} | {} |",
                constants.name,
                constants.bounds.threshold,
                power_of_ten(rows),
                thousands(tasks),
                cells(&|needs| three_digits(needs.sent / 1e12)),
                grid.copies,
                prefix.copies,
                cells(&|needs| three_digits(needs.memory / 1e9)),
                cells(&|needs| format!("{}, {}", time(needs.seconds), needs.strategy)),
            );
        }
    }
    Ok(())
}

/// 10⁷ for 1e7.
fn power_of_ten(value: f64) -> String {
    let digits = (value.log10().round() as u32).to_string();
    let raised = digits.chars().filter_map(|digit| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit as usize - 48));
    format!("10{}", raised.collect::<String>())
}

fn thousands(value: usize) -> String {
    match value {
        0..1000 => value.to_string(),
        _ => format!("{},{:03}", value / 1000, value % 1000),
    }
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{} s", three_digits(s)),
        s if s < 7200.0 => format!("{} min", three_digits(s / 60.0)),
        s => format!("{} h", three_digits(s / 3600.0)),
    }
}

/// A number in about three digits.
fn three_digits(value: f64) -> String {
    match value {
        v if v >= 99.5 => format!("{v:.0}"),
        v if v >= 9.95 => format!("{v:.1}"),
        v if v >= 0.0995 => format!("{v:.2}"),
        v if v >= 0.00995 => format!("{v:.3}"),
        v => format!("{v:.1e}"),
    }
}
