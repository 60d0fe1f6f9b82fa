// SPDX-License-Identifier: Apache-2.0
//! Charts: curves over an axis, as SVG. Results are drawn, not computed.

pub mod figures;
pub mod heat;
pub mod matrix;
pub mod run;
pub mod tuning;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use tierline_model::reproduce::figures::{Chart, Curve};

const SIZE: (u32, u32) = (760, 420);
/// Colours that colour-blind readers can distinguish (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 0, 0),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(128, 128, 128),
];
/// Space above the highest point.
const HEADROOM: f64 = 1.08;

/// A chart as SVG.
pub fn svg(chart: &Chart) -> Result<String> {
    let mut text = String::new();
    draw(chart, &mut text).map_err(|error| anyhow!("{}: {error}", chart.name))?;
    Ok(text)
}

/// Stacks pictures of equal width vertically.
fn stacked(drawn: &[String]) -> String {
    let (width, height) = SIZE;
    let all = height * u32::try_from(drawn.len()).unwrap_or(1);
    let mut text =
        format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{all}\">\n");
    for (svg, at) in drawn.iter().zip((0..).step_by(height as usize)) {
        text += &format!("<g transform=\"translate(0,{at})\">\n{svg}</g>\n");
    }
    text + "</svg>\n"
}

fn draw(chart: &Chart, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let points = || chart.curves.iter().flat_map(|curve| &curve.points);
    let left = points().map(|at| at.0).fold(f64::INFINITY, f64::min);
    let right = points().map(|at| at.0).fold(f64::NEG_INFINITY, f64::max);
    let top = points().map(|at| at.1).fold(0.0, f64::max) * HEADROOM;
    if !(left < right && top > 0.0) {
        return Err("there is nothing to draw".into());
    }
    let mut area = ChartBuilder::on(&root)
        .caption(&chart.title, ("sans-serif", 18))
        .margin(10)
        .margin_right(24)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(left..right, 0.0..top)?;
    area.configure_mesh()
        .x_desc(chart.axes[0])
        .y_desc(chart.axes[1])
        .light_line_style(WHITE)
        .x_label_formatter(&number)
        .y_label_formatter(&number)
        .draw()?;
    let mut colours = COLOURS.into_iter().cycle();
    let mut colour = BLACK;
    for curve in &chart.curves {
        if curve.published {
            // In the colour of the preceding curve.
            let drawn = area.draw_series(circles(curve, colour))?.label(&curve.name);
            drawn.legend(move |(x, y)| Circle::new((x + 7, y), 4, colour.filled()));
        } else {
            colour = colours.next().unwrap_or(BLACK);
            let line = LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2));
            let drawn = area.draw_series(line)?.label(&curve.name);
            drawn.legend(move |(x, y)| {
                Rectangle::new([(x, y - 1), (x + 14, y + 1)], colour.filled())
            });
        }
    }
    area.configure_series_labels()
        .position(emptiest(chart, [left, right], top))
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}

/// A number on an axis, without trailing zeros.
fn number(x: &f64) -> String {
    let text = format!("{x:.2}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// The place of the legend: of nine parts of the chart, the one that curves cross least.
fn emptiest(chart: &Chart, [left, right]: [f64; 2], top: f64) -> SeriesLabelPosition {
    use SeriesLabelPosition as At;
    // Nine places, in order of preference.
    let places = [
        (At::UpperRight, 2.0, 2.0),
        (At::UpperLeft, 0.0, 2.0),
        (At::MiddleRight, 2.0, 1.0),
        (At::MiddleLeft, 0.0, 1.0),
        (At::LowerLeft, 0.0, 0.0),
        (At::LowerRight, 2.0, 0.0),
        (At::UpperMiddle, 1.0, 2.0),
        (At::MiddleMiddle, 1.0, 1.0),
        (At::LowerMiddle, 1.0, 0.0),
    ];
    let steps = || (0..=8).map(|step| f64::from(step) / 8.0);
    let segments = chart.curves.iter().flat_map(|curve| curve.points.windows(2));
    let passed = segments.flat_map(|ends| {
        let (from, to) = (ends[0], ends[1]);
        steps().map(move |s| (from.0 + s * (to.0 - from.0), from.1 + s * (to.1 - from.1)))
    });
    let passed: Vec<(f64, f64)> =
        passed.map(|(x, y)| (3.0 * (x - left) / (right - left), 3.0 * y / top)).collect();
    let inside = |at: f64, third: f64| (third - 0.1..third + 1.1).contains(&at);
    let crossings = |&(_, across, up): &(At, f64, f64)| {
        passed.iter().filter(|(x, y)| inside(*x, across) && inside(*y, up)).count()
    };
    places.into_iter().min_by_key(crossings).map_or(At::UpperRight, |(place, ..)| place)
}

fn circles(curve: &Curve, colour: RGBColor) -> impl Iterator<Item = Circle<(f64, f64), i32>> {
    curve.points.iter().map(move |&at| Circle::new(at, 4, colour.filled()))
}
