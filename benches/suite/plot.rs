//! Line plots as SVG, with logarithmic axes where asked.

use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 68.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 52.0;

/// Colours that colour-blind readers tell apart (Okabe and Ito).
const COLOURS: &[&str] =
    &["#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"];

/// One line of a plot.
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// Drawn thick: the subject of the plot.
    pub main: bool,
}

/// An axis.
#[derive(Clone, Copy)]
pub struct Axis<'a> {
    pub title: &'a str,
    pub logarithmic: bool,
    /// Whether a linear axis starts at 0.
    pub from_zero: bool,
}

impl<'a> Axis<'a> {
    pub fn linear(title: &'a str) -> Self {
        Self { title, logarithmic: false, from_zero: false }
    }

    pub fn from_zero(title: &'a str) -> Self {
        Self { title, logarithmic: false, from_zero: true }
    }

    pub fn logarithmic(title: &'a str) -> Self {
        Self { title, logarithmic: true, from_zero: false }
    }
}

/// A plot of lines over common axes.
pub struct Plot<'a> {
    pub title: &'a str,
    pub x: Axis<'a>,
    pub y: Axis<'a>,
    pub series: Vec<Series>,
}

/// A scale from data to pixels.
struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64> + Clone, axis: Axis<'_>) -> Self {
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = match axis.logarithmic {
            true => (10f64.powf(low.log10().floor()), 10f64.powf(high.log10().ceil())),
            false => (low, high),
        };
        let low = if axis.from_zero { low.min(0.0) } else { low };
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, logarithmic: axis.logarithmic }
    }

    /// The place of a value, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        match self.logarithmic {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        }
    }

    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let (first, last) = (self.low.log10().round() as i32, self.high.log10().round() as i32);
            return (first..=last).map(|power| 10f64.powi(power)).collect();
        }
        let rough = (self.high - self.low) / 6.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|f| f * power).into_iter().find(|s| *s >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }
}

impl Plot<'_> {
    /// The SVG document; `None` where there is no point.
    pub fn to_svg(&self) -> Option<String> {
        let usable =
            |axis: Axis<'_>, value: f64| value.is_finite() && (!axis.logarithmic || value > 0.0);
        let drawn = |p: &&(f64, f64)| usable(self.x, p.0) && usable(self.y, p.1);
        let points = || self.series.iter().flat_map(|s| &s.points).filter(drawn);
        points().next()?;
        let x = Scale::of(points().map(|p| p.0), self.x);
        let y = Scale::of(points().map(|p| p.1), self.y);
        let at_x = |v: f64| LEFT + x.place(v) * (WIDTH - LEFT - RIGHT);
        let at_y = |v: f64| HEIGHT - BOTTOM - y.place(v) * (HEIGHT - TOP - BOTTOM);

        let mut svg = Svg(String::new());
        svg.line(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">"
        ));
        svg.line("<rect width=\"100%\" height=\"100%\" fill=\"white\"/>");
        svg.text(LEFT, 22.0, "start", "font-size=\"14\" font-weight=\"bold\"", self.title);
        for tick in x.ticks() {
            let at = at_x(tick);
            svg.rule(at, TOP, at, HEIGHT - BOTTOM);
            svg.text(at, HEIGHT - BOTTOM + 16.0, "middle", "", &label(tick));
        }
        for tick in y.ticks() {
            let at = at_y(tick);
            svg.rule(LEFT, at, WIDTH - RIGHT, at);
            svg.text(LEFT - 6.0, at + 4.0, "end", "", &label(tick));
        }
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        svg.text(middle, HEIGHT - 14.0, "middle", "", self.x.title);
        let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
        let turned = format!("transform=\"rotate(-90 16 {middle})\"");
        svg.text(16.0, middle, "middle", &turned, self.y.title);
        for (number, series) in self.series.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let width = if series.main { 3.0 } else { 1.5 };
            let dashes = match number < COLOURS.len() {
                true => "",
                false => " stroke-dasharray=\"5 3\"",
            };
            let places: Vec<(f64, f64)> =
                series.points.iter().filter(drawn).map(|p| (at_x(p.0), at_y(p.1))).collect();
            let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            svg.line(&format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dashes}/>",
                path.join(" ")
            ));
            for (x, y) in places {
                svg.line(&format!(
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{width}\" fill=\"{colour}\"/>"
                ));
            }
            let (left, at) = (WIDTH - RIGHT + 12.0, TOP + 8.0 + 18.0 * number as f64);
            svg.line(&format!(
                "<line x1=\"{left}\" y1=\"{at}\" x2=\"{}\" y2=\"{at}\" stroke=\"{colour}\" \
                 stroke-width=\"{width}\"{dashes}/>",
                left + 18.0
            ));
            svg.text(left + 24.0, at + 4.0, "start", "", &series.name);
        }
        svg.line("</svg>");
        Some(svg.0)
    }
}

struct Svg(String);

impl Svg {
    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn rule(&mut self, x1: f64, y1: f64, x2: f64, y2: f64) {
        self.line(&format!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#ddd\"/>"
        ));
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, attributes: &str, text: &str) {
        let mut escaped = String::new();
        for letter in text.chars() {
            match letter {
                '&' => escaped.push_str("&amp;"),
                '<' => escaped.push_str("&lt;"),
                _ => escaped.push(letter),
            }
        }
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {attributes}>{escaped}</text>"
        );
    }
}

/// A number in few characters.
fn label(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_string(),
        v if v >= 1e6 => format!("{}M", value / 1e6),
        v if v >= 1e4 => format!("{}k", value / 1e3),
        v if v >= 1e-3 => format!("{}", (value * 1e6).round() / 1e6),
        _ => format!("{value:.0e}"),
    }
}
