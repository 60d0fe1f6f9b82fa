// SPDX-License-Identifier: Apache-2.0
//! The matrix as a picture: one square per cell, green if the default policy is ahead, red if it is behind.

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use tierline_model::matrix::CellResult;

/// Sizes in pixels: of a square, and of the space for the names.
const SQUARE: (i32, i32) = (108, 22);
const NAMES: (i32, i32) = (240, 90);
/// Colours are fully saturated at this difference of the ratio from one.
const FULL: f64 = 0.25;

/// The picture as SVG: machines and ratios from top to bottom, workloads from left to right.
pub fn picture(held: &[CellResult]) -> Result<String> {
    let mut text = String::new();
    draw(held, &mut text).map_err(|error| anyhow!("the matrix: {error}"))?;
    Ok(text)
}

fn draw(held: &[CellResult], text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let mut rows: Vec<String> = Vec::new();
    let mut columns: Vec<&str> = Vec::new();
    for cell in held {
        let (row, column) = names(cell);
        if !rows.contains(&row) {
            rows.push(row);
        }
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let at = |index: usize, size: i32| i32::try_from(index).unwrap_or(0) * size;
    let size =
        (NAMES.0 + at(columns.len(), SQUARE.0) + 10, NAMES.1 + at(rows.len(), SQUARE.1) + 10);
    let root = SVGBackend::with_string(text, (size.0.unsigned_abs(), size.1.unsigned_abs()));
    let root = root.into_drawing_area();
    root.fill(&WHITE)?;
    let font = |size: i32| ("sans-serif", size).into_font().color(&BLACK);
    let title = "progress of the default policy over the best other policy's";
    root.draw(&Text::new(title, (10, 8), font(16)))?;
    let middle = Pos::new(HPos::Center, VPos::Center);
    for (index, column) in columns.iter().enumerate() {
        // The kind above, the knobs below, as far as they fit.
        let (kind, knobs) = column.split_once(':').unwrap_or((column, ""));
        let x = NAMES.0 + at(index, SQUARE.0) + SQUARE.0 / 2;
        root.draw(&Text::new(kind.to_string(), (x, 44), font(12).pos(middle)))?;
        for (line, part) in knobs.split('+').take(3).enumerate() {
            let short: String = part.chars().take(24).collect();
            root.draw(&Text::new(short, (x, 58 + at(line, 10)), font(8).pos(middle)))?;
        }
    }
    for (index, row) in rows.iter().enumerate() {
        let y = NAMES.1 + at(index, SQUARE.1) + SQUARE.1 / 2;
        let end = Pos::new(HPos::Right, VPos::Center);
        root.draw(&Text::new(row.clone(), (NAMES.0 - 8, y), font(11).pos(end)))?;
    }
    for cell in held {
        let (row, column) = names(cell);
        let x = columns.iter().position(|name| *name == column).unwrap_or(0);
        let y = rows.iter().position(|name| *name == row).unwrap_or(0);
        let (left, top) = (NAMES.0 + at(x, SQUARE.0), NAMES.1 + at(y, SQUARE.1));
        let square = [(left, top), (left + SQUARE.0 - 2, top + SQUARE.1 - 2)];
        root.draw(&Rectangle::new(square, colour(cell.of_rival).filled()))?;
        let words = format!("{:.2} {}", cell.of_rival, cell.rival);
        let centre = (left + SQUARE.0 / 2 - 1, top + SQUARE.1 / 2 - 1);
        root.draw(&Text::new(words, centre, font(9).pos(middle)))?;
    }
    root.present()?;
    Ok(())
}

/// The row and the column of a cell; the antagonist beside the workload belongs to the row.
fn names(cell: &CellResult) -> (String, &str) {
    let (workload, beside) = match cell.workload.split_once("+antagonist:") {
        Some((workload, beside)) => (workload, format!(" {beside}")),
        None => (cell.workload.as_str(), String::new()),
    };
    let ratio = cell.ratio.as_deref().unwrap_or("");
    (format!("{}{beside} {ratio}", cell.machine), workload)
}

/// White if equal, green above one, red below.
fn colour(ratio: f64) -> RGBColor {
    let far = ((ratio - 1.0).abs() / FULL).min(1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 255")]
    let pale = |full: f64| (255.0 - (255.0 - full) * far) as u8;
    match ratio >= 1.0 {
        true => RGBColor(pale(70.0), pale(170.0), pale(110.0)),
        false => RGBColor(pale(215.0), pale(80.0), pale(60.0)),
    }
}
