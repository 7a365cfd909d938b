//! A chart as SVG: a curve per series over numbered axes. Colours are those of the page; curves
//! differ by dashes as well.

use crate::html::escape;
use crate::report::Chart;
use serde_json::Value;
use std::fmt::Write;

/// Size of the plot, and of the margins around it, in SVG units.
const PLOT_WIDTH: f64 = 490.0;
const PLOT_HEIGHT: f64 = 310.0;
const LEFT: f64 = 90.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;

/// Width of the legend without its names, and of a letter of them at most.
const LEGEND: f64 = 70.0;
const LETTER: f64 = 8.0;

/// Height of a line of the legend.
const LEGEND_LINE: f64 = 24.0;

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

/// A chart in a file of its own, readable on light and dark pages: its text is grey.
pub(crate) fn file(chart: &Chart, rows: &[Value]) -> String {
    let drawing = draw(chart, rows);
    let (width, height) = size(&series(chart, rows));
    let inner = drawing.strip_prefix("<svg ").unwrap_or(&drawing);
    let inner = inner.replacen('>', &format!(">\n<style>\n{STYLE}</style>"), 1);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" color=\"#777\" \
         font-family=\"system-ui, sans-serif\" {inner}"
    )
}

/// A curve's points in the order of x.
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

/// Width and height of a drawing, with room for the names of all curves.
fn size(curves: &[Series]) -> (f64, f64) {
    let names = curves.iter().map(|series| series.name.chars().count());
    let longest = names.max().unwrap_or(0) as f64;
    let plot = TOP + PLOT_HEIGHT + BOTTOM;
    let legend = TOP + LEGEND_LINE * curves.len() as f64;
    (LEFT + PLOT_WIDTH + LEGEND + LETTER * longest, plot.max(legend))
}

/// Whether there is something to draw.
pub(crate) fn has_points(chart: &Chart, rows: &[Value]) -> bool {
    series(chart, rows).iter().any(|series| !series.points.is_empty())
}

/// The scale from numbers to coordinates.
struct Scale {
    /// The smallest number, where the axis is logarithmic.
    x_first: Option<f64>,
    x_max: f64,
    y_max: f64,
}

impl Scale {
    fn x(&self, value: f64) -> f64 {
        let share = match self.x_first {
            Some(first) => (value / first).ln() / (self.x_max / first).ln(),
            None => value / self.x_max,
        };
        LEFT + share * PLOT_WIDTH
    }

    fn y(&self, value: f64) -> f64 {
        TOP + PLOT_HEIGHT - value / self.y_max * PLOT_HEIGHT
    }
}

/// Draws `chart` over `rows`. Rows without both numbers, or with one below zero, are left out.
pub(crate) fn draw(chart: &Chart, rows: &[Value]) -> String {
    let curves = series(chart, rows);
    let points = || curves.iter().flat_map(|series| &series.points);
    let step = step(points().map(|point| point.1).fold(0.0, f64::max));
    let y_max = points()
        .map(|point| (point.1 / step).ceil() * step)
        .fold(step, f64::max);
    let x_max = points().map(|point| point.0).fold(0.0, f64::max);
    let x_min = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let scale = Scale {
        x_first: Some(x_min).filter(|&min| min > 0.0 && x_max >= min * LOGARITHMIC_FROM),
        x_max: if x_max > 0.0 { x_max } else { 1.0 },
        y_max,
    };
    let (width, height) = size(&curves);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"24\">{title}</text>\n",
        title = escape(chart.title)
    );
    draw_axes(&mut svg, chart, &scale, step, points().map(|point| point.0).collect());
    for (number, series) in curves.iter().enumerate() {
        draw_series(&mut svg, &scale, number, series);
    }
    svg.push_str("</svg>\n");
    svg
}

fn series(chart: &Chart, rows: &[Value]) -> Vec<Series> {
    let mut curves: Vec<Series> = Vec::new();
    let drawn = |row: &&Value| chart.within.is_none_or(|(key, value)| row[key] == value);
    for row in rows.iter().filter(drawn) {
        let (Some(x), Some(y)) = (row[chart.x].as_f64(), row[chart.y].as_f64()) else {
            continue;
        };
        if x < 0.0 || y < 0.0 {
            continue;
        }
        let name = match &row[chart.series] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
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
    let factors = [1.0, 2.0, 5.0, 10.0];
    let factor = factors.into_iter().find(|factor| factor * power >= rough);
    power * factor.unwrap_or(10.0)
}

fn draw_axes(svg: &mut String, chart: &Chart, scale: &Scale, step: f64, mut x_values: Vec<f64>) {
    let (right, bottom) = (LEFT + PLOT_WIDTH, TOP + PLOT_HEIGHT);
    let mut line = |text: String| {
        svg.push_str(&text);
        svg.push('\n');
    };
    for number in 0..=(scale.y_max / step).round() as u32 {
        let value = f64::from(number) * step;
        let y = scale.y(value);
        line(format!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>"));
        let (x, y) = (LEFT - 8.0, y + 4.0);
        line(format!(
            "<text class=\"end\" x=\"{x}\" y=\"{y:.1}\">{}</text>",
            tick(value)
        ));
    }
    line(format!("<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>"));
    x_values.sort_by(f64::total_cmp);
    x_values.dedup();
    let mut free_from = f64::MIN;
    for value in x_values {
        let x = scale.x(value);
        if x < free_from {
            continue;
        }
        free_from = x + TICK_DISTANCE_MIN;
        line(format!("<path class=\"axis\" d=\"M{x:.1} {bottom}v5\"/>"));
        let y = bottom + 20.0;
        line(format!(
            "<text class=\"middle\" x=\"{x:.1}\" y=\"{y}\">{}</text>",
            tick(value)
        ));
    }
    let (x, y) = (f64::midpoint(LEFT, right), bottom + BOTTOM - 16.0);
    line(format!(
        "<text class=\"middle\" x=\"{x}\" y=\"{y}\">{}</text>",
        escape(chart.x_label)
    ));
    let y = f64::midpoint(TOP, bottom);
    line(format!(
        "<text class=\"middle\" transform=\"rotate(-90 18 {y})\" x=\"18\" y=\"{y}\">{}</text>",
        escape(chart.y_label)
    ));
}

/// A number at an axis: whole from 100 on, otherwise rounded to hide the error of adding steps.
fn tick(value: f64) -> String {
    if value >= 100.0 {
        return format!("{value:.0}");
    }
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn draw_series(svg: &mut String, scale: &Scale, number: usize, series: &Series) {
    let (colour, dashes) = STROKES[number % STROKES.len()];
    let name = escape(&series.name);
    let points: Vec<String> = series
        .points
        .iter()
        .map(|&(x, y)| format!("{:.1},{:.1}", scale.x(x), scale.y(y)))
        .collect();
    let stroke = format!("class=\"curve\" stroke=\"{colour}\" stroke-dasharray=\"{dashes}\"");
    // Writing to a string does not fail.
    let _ = writeln!(svg, "<polyline {stroke} points=\"{}\"/>", points.join(" "));
    for &(x, y) in &series.points {
        let (left, top) = (scale.x(x), scale.y(y));
        let words = format!("{name}: {} at {}", tick(y), tick(x));
        let _ = writeln!(
            svg,
            "<circle fill=\"{colour}\" cx=\"{left:.1}\" cy=\"{top:.1}\" r=\"4\"><title>{words}</title></circle>"
        );
    }
    let (left, top) = (LEFT + PLOT_WIDTH + 20.0, TOP + 10.0 + LEGEND_LINE * number as f64);
    let _ = writeln!(svg, "<path {stroke} d=\"M{left} {top}h30\"/>");
    let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{name}</text>", left + 38.0, top + 4.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;
    use serde_json::json;

    fn chart() -> Chart {
        example().charts[0]
    }

    #[test]
    fn a_file_is_whole() {
        let report = example();
        let file = file(&chart(), &report.rows);
        assert!(
            file.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\""),
            "{file}"
        );
        assert_eq!(file.matches("<svg").count(), 1);
        assert_eq!(
            (file.matches("<style>").count(), file.matches("</svg>").count()),
            (1, 1)
        );
        assert!(file.contains("polyline") && file.ends_with("</svg>\n"), "{file}");
    }

    #[test]
    fn steps_are_round_and_few() {
        for (value, expected) in [
            (6.0, 1.0),
            (6.1, 2.0),
            (12_345.0, 5_000.0),
            (0.3, 0.05),
            (0.0, 1.0),
            (f64::INFINITY, 1.0),
        ] {
            assert!(
                (step(value) - expected).abs() < expected * 1e-9,
                "{value}: {}",
                step(value)
            );
        }
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [(0.0, "0"), (0.1 + 0.2, "0.3"), (20.0, "20"), (12_345.678, "12346")] {
            assert_eq!(tick(value), text);
        }
    }

    #[test]
    fn a_curve_for_each_series() {
        let report = example();
        let svg = draw(&chart(), &report.rows);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 4);
        assert!(svg.contains("&lt;b&gt;&amp;&quot;their&#39;s&quot;") && !svg.contains("<b>"));
        assert!(svg.contains(">inputs per second</text>") && svg.contains(">threads</text>"));
        // The largest number of threads is at the right end.
        assert!(svg.contains("cx=\"580.0\""), "{svg}");
    }

    #[test]
    fn threads_that_double_are_as_far_apart() {
        let rows: Vec<Value> = [1, 2, 4, 64]
            .map(|threads| json!({"engine": "ours", "threads": threads, "inputs_per_second": 5}))
            .to_vec();
        let svg = draw(&chart(), &rows);
        let step = PLOT_WIDTH / 6.0;
        for (doublings, threads) in [(0.0, "1"), (1.0, "2"), (2.0, "4"), (6.0, "64")] {
            let x = LEFT + doublings * step;
            assert!(
                svg.contains(&format!("x=\"{x:.1}\" y=\"380\">{threads}</text>")),
                "{threads}: {svg}"
            );
        }
    }

    #[test]
    fn the_legend_has_room() {
        let rows: Vec<Value> = (0..30)
            .map(|number| json!({"engine": format!("{number:040}"), "threads": 1, "inputs_per_second": 5}))
            .collect();
        let (width, height) = size(&series(&chart(), &rows));
        assert!(width >= LEFT + PLOT_WIDTH + 58.0 + 40.0 * 7.0 && height >= TOP + 30.0 * LEGEND_LINE);
        assert!(has_points(&chart(), &rows) && !has_points(&chart(), &[]));
    }

    #[test]
    fn a_chart_can_be_within_a_table() {
        let report = example();
        let within = Chart {
            within: Some(("engine", "ours")),
            ..chart()
        };
        let svg = draw(&within, &report.rows);
        assert_eq!(svg.matches("<polyline").count(), 1);
        assert!(svg.contains(">ours</text>"), "{svg}");
    }

    #[test]
    fn rows_without_numbers_are_left_out() {
        let rows = [
            json!({"engine": "ours", "threads": 1}),
            json!({"engine": "ours", "threads": 1, "inputs_per_second": -1}),
            json!({"engine": 5, "threads": 0, "inputs_per_second": 0}),
        ];
        let svg = draw(&chart(), &rows);
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(!draw(&chart(), &[]).contains("NaN"));
    }
}
