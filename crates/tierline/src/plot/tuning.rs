// SPDX-License-Identifier: Apache-2.0
//! Charts of a tuning: throughput of each trial, and the importance of each knob.

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde_json::{Map, Value};
use tierline_model::reproduce::figures::{Chart, Curve};

use super::{SIZE, stacked, svg};
use crate::cli::tune::Tuning;

/// Sizes in pixels: of a bar, of the names beside the bars, and of the title above them.
const BAR: i32 = 24;
const NAMES: i32 = 160;
const TITLE: i32 = 40;

/// The picture as SVG: throughput over trials, and importances below.
pub fn picture(tuning: &Tuning) -> Result<String> {
    let mut bars = String::new();
    draw(&tuning.importance, &mut bars).map_err(|error| anyhow!("importances: {error}"))?;
    Ok(stacked(&[svg(&history(&tuning.history))?, bars]))
}

/// Every trial, and the best so far, relative to the first, which uses the defaults.
fn history(history: &Map<String, Value>) -> Chart {
    let column = |name: &str| {
        let values = history.get(name).and_then(Value::as_array);
        values.into_iter().flatten().filter_map(Value::as_f64).collect::<Vec<_>>()
    };
    let (trials, speeds) = (column("trial"), column("throughput_per_second"));
    let default = speeds.first().copied().unwrap_or(1.0);
    let each = || trials.iter().copied().zip(speeds.iter().map(move |speed| speed / default));
    let mut best = 0.0_f64;
    let so_far = each().map(|(trial, gain)| {
        best = best.max(gain);
        (trial, best)
    });
    let curve = |name: &str, points, published| Curve { name: name.into(), points, published };
    let curves = vec![
        curve("best so far", so_far.collect(), false),
        curve("a trial", each().collect(), true),
    ];
    Chart {
        name: "tuning".into(),
        title: "Throughput over that of the defaults".into(),
        axes: ["trial", "times"],
        curves,
    }
}

fn draw(
    importance: &Map<String, Value>,
    text: &mut String,
) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let font = |size: i32| ("sans-serif", size).into_font().color(&BLACK);
    let title = match importance.is_empty() {
        true => "Importance of knobs: too few trials to compute",
        false => "Importance of knobs, in what makes a trial one of the best tenth",
    };
    root.draw(&Text::new(title, (10, 10), font(18)))?;
    let width = f64::from(SIZE.0) - f64::from(NAMES) - 60.0;
    let share = |(name, share): (&String, &Value)| (name.clone(), share.as_f64().unwrap_or(0.0));
    let mut bars: Vec<_> = importance.iter().map(share).collect();
    bars.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (top, (name, share)) in (TITLE..).step_by(BAR.unsigned_abs() as usize).zip(bars) {
        #[expect(clippy::cast_possible_truncation, reason = "pixels")]
        let right = NAMES + (share * width) as i32;
        let middle = top + BAR / 2;
        let end = Pos::new(HPos::Right, VPos::Center);
        root.draw(&Text::new(name, (NAMES - 8, middle), font(13).pos(end)))?;
        let bar = [(NAMES, top + 3), (right, top + BAR - 3)];
        root.draw(&Rectangle::new(bar, RGBColor(0, 114, 178).filled()))?;
        let start = Pos::new(HPos::Left, VPos::Center);
        root.draw(&Text::new(format!("{share:.2}"), (right + 6, middle), font(12).pos(start)))?;
    }
    root.present()?;
    Ok(())
}
