// SPDX-License-Identifier: Apache-2.0
//! Charts: curves over an axis, as SVG. Nothing is computed here.

pub mod colloid;
pub mod heat;
pub mod run;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use tierline_model::reproduce::figures::{Chart, Curve};

const SIZE: (u32, u32) = (760, 420);
/// Colours that are told apart also by those who see few of them (Okabe and Ito).
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
/// Room above the highest point.
const HEADROOM: f64 = 1.08;

/// A chart as SVG.
pub fn svg(chart: &Chart) -> Result<String> {
    let mut text = String::new();
    draw(chart, &mut text).map_err(|error| anyhow!("{}: {error}", chart.name))?;
    Ok(text)
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
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(left..right, 0.0..top)?;
    area.configure_mesh()
        .x_desc(chart.axes[0])
        .y_desc(chart.axes[1])
        .light_line_style(WHITE)
        .draw()?;
    let mut ours = 0;
    for curve in &chart.curves {
        // Published points have the colour of the curve before them.
        let colour = COLOURS[(ours + usize::from(!curve.published)) % COLOURS.len()];
        ours += usize::from(!curve.published);
        let drawn = match curve.published {
            true => area.draw_series(circles(curve, colour))?,
            false => area.draw_series(LineSeries::new(curve.points.iter().copied(), colour))?,
        };
        drawn
            .label(&curve.name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 2), (x + 14, y + 2)], colour.filled()));
    }
    area.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}

fn circles(curve: &Curve, colour: RGBColor) -> impl Iterator<Item = Circle<(f64, f64), i32>> {
    curve.points.iter().map(move |&at| Circle::new(at, 4, colour.filled()))
}
