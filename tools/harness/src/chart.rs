//! A chart as SVG: a curve for each series over numbered axes. Colours are those of the page;
//! curves differ by dashes as well.

use crate::row::{Row, heading};
use std::fmt::Write;

/// The plot in SVG units: its left and right end, its top and bottom.
const LEFT: f64 = 90.0;
const RIGHT: f64 = 580.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 360.0;

/// Height of a line of the legend, and width of a letter at most.
const LINE: f64 = 24.0;
const LETTER: f64 = 8.0;

/// Where the largest number on the x axis is this many times the smallest one or more, the axis is
/// logarithmic: threads are doubled from row to row.
const LOGARITHMIC_FROM: f64 = 4.0;

/// Smallest distance of two numbers on the x axis.
const TICK_DISTANCE_MIN: f64 = 24.0;

/// Most steps of the y axis.
const STEPS_MAX: f64 = 6.0;

/// Colour and dashes of the curves in their order; more curves begin again.
const STROKES: [(&str, &str); 8] = [
    ("#0072b2", "none"),
    ("#d55e00", "8 4"),
    ("#009e73", "2 3"),
    ("#cc79a7", "12 4 2 4"),
    ("#e69f00", "4 4"),
    ("#56b4e9", "16 6"),
    ("#8c8c8c", "6 2 2 2"),
    ("#a05a2c", "10 3 2 3 2 3"),
];

/// The style of a chart. Text and axes have the colour of the page's text.
pub(crate) const STYLE: &str = "\
svg { font-size: 13px }
svg text { fill: currentColor }
.title { font-size: 16px; font-weight: bold }
.middle { text-anchor: middle }
.end { text-anchor: end }
.grid { stroke: #8884 }
.axis { stroke: currentColor; fill: none }
.curve { fill: none; stroke-width: 2 }
";

/// Text as the content of an element or of a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

/// What the curves of a table show: names of columns.
#[derive(Debug, Clone, Copy)]
pub struct Axes {
    /// Its values name the curves.
    pub series: &'static str,
    /// The numbers on the x axis.
    pub x: &'static str,
    /// The numbers on the y axis.
    pub y: &'static str,
}

/// The first chart of some rows in a file of its own, readable on light and dark pages: its text is
/// grey. None: there is nothing to draw.
pub fn file(axes: Axes, rows: &[Row]) -> Option<String> {
    let drawing = rows
        .chunk_by(|one, other| one.table() == other.table())
        .find_map(|rows| draw(axes, rows))?;
    let inner = drawing.replacen("<svg ", "", 1);
    let inner = inner.replacen('>', &format!(">\n<style>\n{STYLE}</style>"), 1);
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" color=\"#777\" font-family=\"system-ui, sans-serif\" {inner}"
    ))
}

/// A curve's points in the order of x.
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

/// The scale from numbers to coordinates.
struct Scale {
    /// The smallest number, where the axis is logarithmic.
    x_first: Option<f64>,
    x_max: f64,
    y_step: f64,
    y_max: f64,
}

impl Scale {
    fn new(points: &[(f64, f64)]) -> Self {
        let most = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).fold(0.0, f64::max);
        let (x_max, y_most) = (most(|point| point.0), most(|point| point.1));
        let x_min = points.iter().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let y_step = step(y_most);
        Self {
            x_first: Some(x_min).filter(|&min| min > 0.0 && x_max >= min * LOGARITHMIC_FROM),
            // It is divided by.
            x_max: if x_max > 0.0 { x_max } else { 1.0 },
            y_step,
            y_max: ((y_most / y_step).ceil() * y_step).max(y_step),
        }
    }

    fn x(&self, value: f64) -> f64 {
        let share = match self.x_first {
            Some(first) => (value / first).ln() / (self.x_max / first).ln(),
            None => value / self.x_max,
        };
        LEFT + share * (RIGHT - LEFT)
    }

    fn y(&self, value: f64) -> f64 {
        BOTTOM - value / self.y_max * (BOTTOM - TOP)
    }
}

/// Draws the rows of a table. Rows without both numbers, or with one below zero, are left out.
/// None: no curve has two points.
pub(crate) fn draw(axes: Axes, rows: &[Row]) -> Option<String> {
    let curves = series(axes, rows);
    if curves.iter().all(|series| series.points.len() < 2) {
        return None;
    }
    let points: Vec<(f64, f64)> = curves.iter().flat_map(|series| series.points.iter().copied()).collect();
    let scale = Scale::new(&points);
    let longest = curves
        .iter()
        .map(|series| series.name.chars().count())
        .max()
        .unwrap_or(0);
    let (width, height) = (RIGHT + 70.0 + LETTER * longest as f64, BOTTOM + 60.0);
    let title = escape(rows[0].table());
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"24\">{title}</text>\n"
    );
    draw_axes(&mut svg, axes, &scale, points.iter().map(|point| point.0).collect());
    for (number, series) in curves.iter().enumerate() {
        draw_series(&mut svg, &scale, number, series);
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

fn series(axes: Axes, rows: &[Row]) -> Vec<Series> {
    let mut curves: Vec<Series> = Vec::new();
    for row in rows {
        let (Some(x), Some(y)) = (row.number(axes.x), row.number(axes.y)) else {
            continue;
        };
        // The axes begin at zero.
        if x < 0.0 || y < 0.0 {
            continue;
        }
        // Curves keep the order of their first rows, and so their colours.
        let name = row.cell(axes.series);
        match curves.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push((x, y)),
            None => curves.push(Series {
                name,
                points: vec![(x, y)],
            }),
        }
    }
    for series in &mut curves {
        series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    curves
}

/// A round step (1, 2 or 5 times a power of ten) of which at most [`STEPS_MAX`] reach `value`.
fn step(value: f64) -> f64 {
    if !value.is_normal() || value <= 0.0 {
        return 1.0;
    }
    let rough = value / STEPS_MAX;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough);
    power * factor.unwrap_or(10.0)
}

/// Text at a point. Writing to a string does not fail.
fn label(svg: &mut String, how: &str, x: f64, y: f64, text: &str) {
    let _ = writeln!(svg, "<text {how} x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text));
}

fn draw_axes(svg: &mut String, axes: Axes, scale: &Scale, mut x_values: Vec<f64>) {
    for number in 0..=(scale.y_max / scale.y_step).round() as u32 {
        let value = f64::from(number) * scale.y_step;
        let y = scale.y(value);
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
        label(svg, "class=\"end\"", LEFT - 8.0, y + 4.0, &tick(value));
    }
    let _ = writeln!(svg, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\"/>");
    x_values.sort_by(f64::total_cmp);
    x_values.dedup();
    let mut free_from = f64::MIN;
    for value in x_values {
        let x = scale.x(value);
        // A number too close to the last label gets none.
        if x >= free_from {
            free_from = x + TICK_DISTANCE_MIN;
            label(svg, "class=\"middle\"", x, BOTTOM + 20.0, &tick(value));
        }
    }
    label(
        svg,
        "class=\"middle\"",
        f64::midpoint(LEFT, RIGHT),
        BOTTOM + 44.0,
        &heading(axes.x),
    );
    let y = f64::midpoint(TOP, BOTTOM);
    let turned = format!("class=\"middle\" transform=\"rotate(-90 18 {y})\"");
    label(svg, &turned, 18.0, y, &heading(axes.y));
}

/// A number at an axis: whole from 100 on, otherwise rounded to hide the error of adding steps.
fn tick(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn draw_series(svg: &mut String, scale: &Scale, number: usize, series: &Series) {
    let (colour, dashes) = STROKES[number % STROKES.len()];
    let stroke = format!("class=\"curve\" stroke=\"{colour}\" stroke-dasharray=\"{dashes}\"");
    let mut line = String::new();
    for &(x, y) in &series.points {
        let (left, top) = (scale.x(x), scale.y(y));
        let _ = write!(line, "{left:.1},{top:.1} ");
        let words = format!("{}: {} at {}", escape(&series.name), tick(y), tick(x));
        let _ = writeln!(
            svg,
            "<circle fill=\"{colour}\" cx=\"{left:.1}\" cy=\"{top:.1}\" r=\"4\"><title>{words}</title></circle>"
        );
    }
    let top = TOP + 10.0 + LINE * number as f64;
    let _ = writeln!(
        svg,
        "<polyline {stroke} points=\"{line}\"/>\n<path {stroke} d=\"M{} {top}h30\"/>",
        RIGHT + 20.0
    );
    label(svg, "", RIGHT + 58.0, top + 4.0, &series.name);
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXES: Axes = Axes {
        series: "who",
        x: "threads",
        y: "per_second",
    };

    fn rows() -> Vec<Row> {
        let row = |who: &str, threads, speed: f64| {
            let row = Row::new("t").with("who", who).with("threads", threads);
            row.with("per_second", speed)
        };
        let mut rows = vec![
            row("ours", 1, 12_000.0),
            row("<b>", 1, 9_000.0),
            row("ours", 2, 24_000.0),
        ];
        rows.push(Row::new("other").with("who", "ours"));
        rows
    }

    #[test]
    fn curves_have_their_points() {
        let svg = draw(AXES, &rows()[..3]).unwrap();
        assert_eq!(
            (svg.matches("<polyline").count(), svg.matches("<circle").count()),
            (2, 3)
        );
        assert!(svg.contains("ours: 24000 at 2") && !svg.contains("<b>"), "{svg}");
        let file = file(AXES, &rows()).unwrap();
        assert!(file.starts_with("<svg xmlns") && file.contains("<style>"), "{file}");
        assert!(draw(AXES, &rows()[..2]).is_none() && draw(AXES, &rows()[3..]).is_none());
    }

    #[test]
    fn threads_are_doubled_along_the_axis_and_steps_are_round() {
        let scale = Scale::new(&[(1.0, 12.0), (4.0, 24.0), (16.0, 1.0)]);
        assert_eq!((scale.y_step, scale.y_max), (5.0, 25.0));
        assert_eq!((scale.x(4.0), scale.x(16.0)), (f64::midpoint(LEFT, RIGHT), RIGHT));
        for (value, expected) in [
            (0.0, 1.0),
            (6.0, 1.0),
            (6.1, 2.0),
            (30.0, 5.0),
            (31.0, 10.0),
            (0.07, 0.02),
        ] {
            assert!((step(value) - expected).abs() < 1e-12, "{value}");
        }
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
    }
}
